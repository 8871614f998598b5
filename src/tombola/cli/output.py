"""What commands write to and print: one gate for folders, for files, and for text from data."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tombola.cli.errors import CommandError
from tombola.validation import legible

__all__ = ["as_cell", "check_folder", "check_new_file", "owned", "say"]

FORMULA = "=+-@\t\r"  # what a spreadsheet takes for a formula, at the beginning of a cell


def check_folder(folder: Path, *, resume: bool = False, resumable: bool = True) -> None:
    """Refuse a file, and a folder that is not empty unless a run is resumed in it."""
    if folder.is_symlink() and not folder.exists():
        raise CommandError(f"{folder} is a link to {os.readlink(folder)}, which does not exist")
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is a file, not a folder")
    if not resume and folder.is_dir() and any(folder.iterdir()):
        ways = "choose another folder with --out, remove it, or continue with --resume"
        if not resumable:
            ways = "choose another folder with --out, or remove it"
        raise CommandError(f"{folder} exists and is not empty: {ways}")


@contextmanager
def owned(folder: Path, *, resume: bool = False, resumable: bool = True) -> Iterator[None]:
    """Make a folder, and be the only process that writes to it.

    The lock is on the folder itself, and is gone with the process that has it. On systems without
    such locks nothing is locked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = _locked(folder)
    try:
        check_folder(folder, resume=resume, resumable=resumable)  # nobody has been here meanwhile
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """Lock a folder, and return the handle that has the lock."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise CommandError(
            f"another process is writing to {folder}: wait for it, or choose another folder with "
            "--out"
        ) from None
    except OSError:  # a file system without locks
        pass
    return handle


def check_new_file(path: Path, option: str) -> None:
    """Refuse a path that exists already, or that cannot be written to for lack of a folder."""
    if os.path.lexists(path):
        raise CommandError(f"{path} exists already: name another with {option}, or remove it")
    if not path.parent.is_dir():
        raise CommandError(f"there is no folder {path.parent} to write {path.name} into")


def say(*lines: str, error: bool = False) -> None:
    """Print lines that may quote anything: each is one line that a terminal only shows."""
    for line in lines:
        print(legible(line), file=sys.stderr if error else sys.stdout, flush=error)


def as_cell(value: Any) -> Any:
    """Return a value for a cell of a CSV file: text that begins like a formula gets a quote.

    Examples
    --------
    >>> as_cell("=1+1"), as_cell("-1.5"), as_cell("+"), as_cell(-2)
    ("'=1+1", '-1.5', '+', -2)
    """
    if not isinstance(value, str) or len(value) < 2 or value[0] not in FORMULA:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
