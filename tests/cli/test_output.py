"""Folders have one owner, and whatever data hold is only text: in a terminal, a page, a table."""

import csv
import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tombola.cli import train
from tombola.cli.main import main
from tombola.cli.output import as_cell, check_folder, owned
from tombola.datasets import csv_files
from tombola.report import Page

HOSTILE = ["\x1b[2J\x1b]0;owned\x07", "a\u202egnp.exe", "=cmd|'/c calc'!A0", "line\nbreak",
           "<script>alert(1)</script>", "w" * 20_000]  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# --- one owner ----------------------------------------------------------------------------------


def test_a_folder_has_one_owner(capsys):
    with owned(Path("run")):
        assert main(["train", "iris", "--epochs", "1", "--out", "run"]) == 2
        assert "another process is writing to run: wait for it" in capsys.readouterr().err
        assert not os.listdir("run")
    assert main(["train", "iris", "--epochs", "1", "--out", "run"]) == 0


def test_a_run_that_comes_second_finds_the_folder_in_use(monkeypatch, capsys):
    """It has looked at the folder before the first run wrote into it."""
    opened = train.open_data

    def slow(*arguments, **more):
        Path("run").mkdir()
        Path("run/other").touch()
        return opened(*arguments, **more)

    monkeypatch.setattr(train, "open_data", slow)
    assert main(["train", "iris", "--epochs", "1", "--out", "run"]) == 2
    assert "run exists and is not empty" in capsys.readouterr().err
    assert os.listdir("run") == ["other"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no lock on a folder")
def test_a_dead_process_keeps_no_lock():
    code = (
        "import pathlib, time; from tombola.cli.output import owned\n"
        "with owned(pathlib.Path('run')): print('owned', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"owned\n"
        with pytest.raises(Exception, match="another process is writing"), owned(Path("run")):
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
    with owned(Path("run")):
        pass


def test_a_link_to_nowhere_is_refused(capsys):
    Path("link").symlink_to("nowhere")
    with pytest.raises(Exception, match="link is a link to nowhere, which does not exist"):
        check_folder(Path("link"), resume=True)
    for command in (["train", "iris", "--out", "link"], ["demo", "--out", "link"]):
        assert main(command) == 2
        assert "link is a link to nowhere" in capsys.readouterr().err
    assert main(["train", "iris", "--epochs", "1", "--out", "run"]) == 0
    Path("link.csv").symlink_to("nowhere/p.csv")
    Path("t.csv").write_text("a,b\n1,2\n")
    for command in (["predict", "run", "t.csv"], ["report", "run"]):
        assert main([*command, "--out", "link.csv"]) == 2
        assert "link.csv exists already: name another with --out" in capsys.readouterr().err


def test_ctrl_c_after_the_fit_says_how_to_continue(monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(train, "_save", interrupted)
        assert main(["train", "iris", "--epochs", "1", "--out", "run"]) == 130
    said = capsys.readouterr().err
    assert said == "\ntombola: interrupted; the same command with --resume continues\n"
    assert main(["train", "iris", "--epochs", "1", "--out", "run", "--resume"]) == 0


def test_paths_with_blanks_are_quoted(capsys):
    assert main(["train", "iris", "--epochs", "1", "--out", "my run"]) == 0
    assert "new rows: tombola predict 'my run' FILE" in capsys.readouterr().out
    Path("t.csv").write_text("row id,a,y\n" + "".join(f"{k},{k * k},{k % 2}\n" for k in range(30)))
    assert main(["train", "t.csv", "--target", "y", "--epochs", "1"]) == 0
    said = capsys.readouterr().out
    assert "(--keep 'row id' uses it)" in said
    assert "24 rows x 1 column\n" in said


# --- text from data -----------------------------------------------------------------------------


def written(path, labels, names=("a", "label")):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([k * k % 11, labels[k % len(labels)]] for k in range(24))


def harmless(text):
    return all(line.isprintable() and len(line) < 6000 for line in text.splitlines())


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_are_only_text(label, capsys):
    written("t.csv", [label, "plain"])
    target = ["--target", "label"]
    assert main(["train", "t.csv", *target, "--epochs", "1", "--out", "run"]) == 0
    assert main(["predict", "run", "t.csv", "--out", "p.csv"]) == 0
    assert main(["advise", "t.csv", *target, "--budget", "1"]) == 0
    out, err = capsys.readouterr()
    assert harmless(out)
    assert harmless(err)
    page = Path("run/report.html").read_text()
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    for file in ("p.csv", "run/trace.csv"):
        with open(file, newline="") as rows:
            cells = [cell for row in csv.reader(rows) for cell in row]
        assert not any(as_cell(cell) != cell for cell in cells)
    assert main(["report", "run"]) == 0


@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_columns_are_only_text(name, capsys):
    written("t.csv", ["u", "v"], [name, "label"])
    assert main(["train", "t.csv", "--epochs", "1"]) == 2
    assert main(["train", "t.csv", "--target", "nix", "--epochs", "1"]) == 2
    assert main(["train", "t.csv", "--target", "label", "--epochs", "1", "--out", "run"]) == 0
    assert main(["predict", "run", "t.csv", "--out", "p.csv"]) == 0
    out, err = capsys.readouterr()
    assert harmless(out)
    assert harmless(err)


def test_a_page_shows_text_and_nothing_else():
    page = Page("a\u202eb", "`c\x1b[2J`")
    page.code("d\n\u2066e")
    text = page.html()
    assert "a b" in text
    assert "<code>c [2J</code>" in text
    assert "<pre><code>d\n e</code></pre>" in text


# --- lack of memory -----------------------------------------------------------------------------


def test_lack_of_memory_is_a_whole_sentence(monkeypatch, capsys):
    def fail(*arguments, **more):
        raise MemoryError

    monkeypatch.setattr(train, "open_data", fail)
    assert main(["train", "iris"]) == 2
    assert capsys.readouterr().err == "tombola: there is not enough memory\n"


BOMB = """
import resource, sys
import pyarrow.csv, sklearn.base
from tombola.cli.main import main
from tombola.datasets import sample
sample._available = lambda: 10**7
lines = open("/proc/self/status").read().splitlines()
size = next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (size + 1000 * 2**20,) * 2)
sys.exit(main(["train", "t.csv.gz", "--target", "y", "--epochs", "1"]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_bomb_ends_in_a_sample():
    """A file of 100 kB with 20 million rows."""
    Path("t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1,0\n2,1\n3,1\n4,0\n" * (5 * 10**6)))
    done = subprocess.run(
        [sys.executable, "-c", BOMB], capture_output=True, text=True, check=False,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "78,000 of 20,000,000 rows were drawn at random" in done.stdout


@pytest.mark.parametrize("content", [b"\0" * 2**22, b"a,y\n" + b"1" * 2**22])
def test_a_line_that_never_ends_is_refused(content, monkeypatch, capsys):
    monkeypatch.setattr(csv_files, "LONGEST_LINE", 2**20)
    Path("t.csv.gz").write_bytes(gzip.compress(content))
    assert main(["train", "t.csv.gz", "--target", "y"]) == 2
    said = capsys.readouterr().err
    assert "t.csv.gz has a line of 1,048,576 characters or more: that is no table" in said
