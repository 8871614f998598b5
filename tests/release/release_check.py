"""Build wheel and sdist, and try them as a user would, away from this checkout.

    python tests/release/release_check.py --python python3.13

The interpreter that runs this has build, hatchling, mypy, pyright and twine (`make release-check`
sets it up); the one of --python is only used to make an empty environment. `--borrow` names a
folder of installed packages, PyTorch and scikit-learn among them, for the type checkers to read.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHES = re.compile(r"(^|/)(__pycache__|\.\w+_cache|\.venv[^/]*|out)/|\.(pyc|nbi|nbc)$")
WRONG = re.compile(r"# wrong$")
REPORTED = re.compile(r"misuse\.py:(\d+):.* error: ")


def check(dist: Path, python: str, borrow: Path) -> None:
    """Go through all steps; the first one that fails ends the program."""
    step("build the sdist, a wheel from it, and one from the checkout")
    built = build(dist)
    step("contents")
    wheel_names = names_in_wheel(built.wheel)
    fail_if(faults_of_wheel(wheel_names, source_files(ROOT / "src")))
    fail_if(faults_of_sdist(names_in_sdist(built.sdist)))
    if contents(built.wheel) != contents(built.direct):
        fail_if(["the wheel built from the sdist differs from the one built from the checkout"])
    print(f"   {len(wheel_names)} files in {built.wheel.name}, {size(built.wheel)};", end=" ")
    print(f"{built.sdist.name}, {size(built.sdist)}")
    step("metadata")
    run(sys.executable, "-m", "twine", "check", "--strict", built.wheel, built.sdist)
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        empty = Path(folder) / "empty"
        step(f"install the wheel in an empty environment of {python}")
        run(python, "-m", "venv", empty)
        pip = (empty / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", built.wheel)
        run(*pip, "check")
        step("smoke test there")
        run(empty / "bin" / "python", "-I", HERE / "smoke.py", cwd=Path(folder))
        step("types, as a user of the wheel sees them")
        check_types(empty / "bin" / "python", borrow, Path(folder))


class Built(NamedTuple):
    """The files of a release, and a second wheel to compare with."""

    sdist: Path
    wheel: Path  # built from the sdist
    direct: Path  # built from the checkout


def build(dist: Path) -> Built:
    """Build into a folder, in place of what was built there before."""
    shutil.rmtree(dist, ignore_errors=True)
    command = (sys.executable, "-m", "build", "--no-isolation", ROOT, "--outdir")
    run(*command, dist, quiet=True)
    run(*command, dist / "direct", "--wheel", quiet=True)
    (sdist,), (wheel,), (direct,) = map(dist.glob, ("*.tar.gz", "*.whl", "direct/*.whl"))
    return Built(sdist, wheel, direct)


# --- contents ------------------------------------------------------------------------------------


def faults_of_wheel(names: Iterable[str], sources: Iterable[str]) -> list[str]:
    """Return what is wrong with the files of a wheel, of which `sources` belong in it.

    >>> faults_of_wheel(["us/a.py", "tests/b.py", "us-1.dist-info/METADATA"], ["us/a.py"])
    ['tests/b.py does not belong in the wheel', 'the wheel has no licenses/LICENSE']
    """
    names, sources = set(names), set(sources)
    about = {name.partition(".dist-info/")[2] for name in names if ".dist-info/" in name}
    code = {name for name in names if ".dist-info/" not in name}
    faults = [f"{name} does not belong in the wheel" for name in sorted(code - sources)]
    faults += [f"the wheel has no {name}" for name in sorted(sources - code)]
    if "licenses/LICENSE" not in about:
        faults.append("the wheel has no licenses/LICENSE")
    return faults


def faults_of_sdist(names: Iterable[str]) -> list[str]:
    """Return what is wrong with the files of an sdist, named from its top folder."""
    names = set(names)
    needed = ["CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"]
    needed += ["experiments/reproduce.py", "src/tombola/py.typed", "tests/conftest.py"]
    faults = [f"the sdist has no {name}" for name in needed if name not in names]
    return faults + [f"{name} is a cache" for name in sorted(names) if CACHES.search(name)]


def source_files(folder: Path) -> list[str]:
    """Return the files of a folder as a wheel names them, without caches."""
    files = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix() for path in files)
    return [name for name in names if not CACHES.search(name)]


def names_in_wheel(wheel: Path) -> list[str]:
    """Return the names of the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def names_in_sdist(sdist: Path) -> list[str]:
    """Return the names of the files of an sdist, from its top folder."""
    with tarfile.open(sdist) as archive:
        return [member.name.partition("/")[2] for member in archive if member.isfile()]


def contents(wheel: Path) -> dict[str, int]:
    """Return the checksum of each file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def size(path: Path) -> str:
    """Return the size of a file, to be read."""
    return f"{path.stat().st_size / 1e6:.1f} MB"


# --- types ---------------------------------------------------------------------------------------


def check_types(python: Path, borrow: Path, folder: Path) -> None:
    """Check consumer.py and misuse.py against what is installed for `python`."""
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", quiet=True)
    (Path(site.strip()) / "borrowed.pth").write_text(f"{borrow}\n")  # after the wheel on the path
    for name in ("consumer.py", "misuse.py"):
        (folder / name).write_text((HERE / name).read_text())
    own_settings = ("--config-file", "", "--cache-dir", ROOT / ".mypy_cache" / "release")
    mypy = ("mypy", "--strict", "--no-error-summary", *own_settings, "--python-executable", python)
    for checker in (mypy, ("pyright", "--pythonpath", python)):
        command = (sys.executable, "-m", *checker, "consumer.py", "misuse.py")
        output = run(*command, cwd=folder, code=1, quiet=True)
        fail_if(faults_of_checker(checker[0], output, (folder / "misuse.py").read_text()))
        print(f"   {checker[0]}: the consumer passes, all mistakes are reported", flush=True)


def faults_of_checker(checker: str, output: str, misuse: str) -> list[str]:
    """Return errors outside of the lines marked as wrong, and the marked lines without one.

    >>> faults_of_checker("mypy", "misuse.py:2: error: No", "good\\nbad  # wrong\\nbad  # wrong")
    ['mypy does not report misuse.py:3: bad  # wrong']
    """
    lines = misuse.splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if WRONG.search(line)}
    reported = set()
    faults = []
    for line in output.splitlines():
        if not re.search(r":\d+(:\d+)?( -|:) error", line):
            continue
        found = REPORTED.search(line.replace(" - error: ", ": error: "))
        if found and int(found[1]) in wrong:
            reported.add(int(found[1]))
        else:
            faults.append(f"{checker}: {line.strip()}")
    missed = (f"misuse.py:{k}: {lines[k - 1].strip()}" for k in sorted(wrong - reported))
    return faults + [f"{checker} does not report {line}" for line in missed]


# --- steps ---------------------------------------------------------------------------------------

STARTED = time.monotonic()


def step(what: str) -> None:
    """Print a line of progress."""
    print(f"== {time.monotonic() - STARTED:4.0f} s  {what}", flush=True)


def fail_if(faults: list[str]) -> None:
    """End the program if there are faults."""
    if faults:
        more = [f"... and {len(faults) - 20} more"] if len(faults) > 20 else []
        sys.exit("\n".join(["release-check failed:", *faults[:20], *more]))


def run(*command: str | Path, cwd: Path | None = None, code: int = 0, quiet: bool = False) -> str:
    """Run a command that must end with an exit code; return what it printed if `quiet`."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
    done = subprocess.run([str(word) for word in command], cwd=cwd, text=True, **streams)
    if done.returncode != code:
        words = " ".join(str(word) for word in command)
        fail_if([f"exit code {done.returncode}, not {code}, of: {words}", done.stdout or ""])
    return done.stdout or ""


def main() -> None:
    """Read the arguments, and check."""
    parser = argparse.ArgumentParser(description="Build wheel and sdist, and try them.")
    parser.add_argument("--python", default=sys.executable, help="makes the empty environment")
    parser.add_argument("--borrow", type=Path, required=True, help="site-packages with PyTorch")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where wheel and sdist go")
    options = parser.parse_args()
    check(options.dist, options.python, options.borrow.resolve())
    step("done: dist/ can be released")


if __name__ == "__main__":
    main()
