import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import tombola
from tombola.cli import progress as progress_module
from tombola.cli.errors import CommandError
from tombola.cli.main import COMMANDS, main
from tombola.cli.progress import Progress


def test_help_lists_the_commands_and_loads_nothing_heavy():
    script = (
        "import sys, numba; before = set(sys.modules); from tombola.cli.main import main; "
        "code = main(['--help']); loaded = set(sys.modules) - before; "
        "heavy = {'sklearn', 'scipy', 'matplotlib', 'rich', 'pyarrow', 'pandas'} & loaded; "
        "sys.exit(repr(heavy) if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, what in COMMANDS.items():
        assert name in done.stdout
        assert what.split()[0] in done.stdout


def test_without_a_command_help_is_printed(capsys):
    assert main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tombola {tombola.__version__}\n"


def test_an_unknown_command_is_named(capsys):
    assert main(["trian"]) == 2
    error = capsys.readouterr().err
    assert "'trian'" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command, capsys):
    assert main([command, "--help"]) == 0
    assert f"tombola {command}" in capsys.readouterr().out


@pytest.mark.parametrize(("package", "name"), [("sklearn", "scikit-learn"), ("pyarrow", "pyarrow")])
def test_a_missing_extra_is_named(package, name, tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    script = (
        f"import sys; sys.modules[{package!r}] = None; from tombola.cli.main import main; "
        "sys.exit(main(['train', sys.argv[1], '--target', 'y']))"
    )
    file = "iris" if package == "sklearn" else str(tmp_path / "t.parquet")
    done = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True)
    assert done.returncode == 2
    wanted = f"tombola: this needs {name}, which is not installed: pip install tombola[cli]\n"
    assert done.stderr == wanted


def test_other_import_errors_are_not_hidden(monkeypatch):
    def broken(options):
        raise ImportError("a fault of ours")

    monkeypatch.setattr("tombola.cli.datasets.run", broken)
    with pytest.raises(ImportError, match="a fault of ours"):
        main(["datasets"])


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (KeyboardInterrupt("stopped; go on later"), 130, "stopped; go on later"),
        (OSError(28, "No space left on device", "model.npz"), 2, "model.npz: No space left"),
        (MemoryError("Unable to allocate 9 TiB"), 2, "not enough memory: Unable to allocate 9 TiB"),
        (ImportError("a.so: failed to map segment from shared object"), 2, "not enough memory"),
        (CommandError("no"), 2, "tombola: no"),
    ],
)
def test_exit_codes(error, code, said, monkeypatch, capsys):
    def fail(options):
        raise error

    monkeypatch.setattr("tombola.cli.datasets.run", fail)
    assert main(["datasets"]) == code
    assert said in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("seconds", [0.2, 0.6, 1.2, 2.0, 3.5])
def test_ctrl_c_at_any_instant_is_one_line(seconds, tmp_path):
    """From the first import on: the child says when its own first line runs."""
    code = "print(flush=True); import sys; from tombola_command import main; sys.exit(main())"
    wanted = ["train", "digits", "--solver", "saga", "--epochs", "10000000", "--tol", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *wanted, "--out", tmp_path / "run"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        child.stdout.readline()
        time.sleep(seconds)
        child.send_signal(signal.SIGINT)
        _, error = child.communicate(timeout=120)
    assert child.returncode == 130
    lines = [line for line in error.splitlines() if line and not line.endswith("%")]
    assert lines == ["tombola: interrupted; the same command with --resume continues"]


def test_ctrl_c_within_the_first_import_is_one_line():
    code = """
import sys
class Stop:
    def find_spec(self, name, *more):
        if name == "signal":
            raise KeyboardInterrupt
sys.modules.pop("signal", None)
sys.meta_path.insert(0, Stop())
import tombola_command
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (130, "tombola: interrupted")


def test_datasets_says_what_was_found(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("TOMBOLA_DATA", raising=False)
    np.savez(tmp_path / "adbench_34_smtp.npz", X=np.eye(2), y=[0, 1])
    assert main(["datasets", "--data", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "built in" in lines["digits"]
    assert "generated" in lines["imbalanced"]
    assert " found " in lines["smtp"]
    assert "not found" in lines["kdd"]


# --- progress -----------------------------------------------------------------------------------


def test_short_work_shows_nothing(capsys):
    with Progress("counting") as progress:
        for k in range(1000):
            progress(k, 1000)
    assert capsys.readouterr().err == ""


def test_outside_a_terminal_lines_are_printed(monkeypatch, capsys):
    clock = iter(range(1000))
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(clock))
    with Progress("counting") as progress:
        for k in range(50):
            progress(k, 50)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3  # after 2, 22 and 42 seconds
    assert all(line.startswith("counting: ") and line.endswith("%") for line in lines)


def test_in_a_terminal_there_is_a_bar_even_before_the_first_call(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(Progress, "FIRST", 0.01)
    with Progress("compiling") as progress:
        deadline = time.monotonic() + 20
        while progress._bar is None and time.monotonic() < deadline:
            time.sleep(0.01)
        progress(1, 2)
        assert progress._bar is not None
        assert progress._bar.tasks[0].percentage == 50.0
    assert progress._bar.finished is False
    assert "compiling" in capsys.readouterr().err
