"""Write files so that a crash at any instant leaves the old one or the new one, never a part."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

__all__ = ["replaced_file", "write_text"]


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file to write to; it takes its name once everything is written and on the disk.

    It is written beside its destination under another name, flushed and then renamed. A symbolic
    link is followed: the file that it points to is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replaced_file(f"{folder}/notes.txt") as file:
    ...         _ = file.write(b"all or nothing")
    ...     Path(f"{folder}/notes.txt").read_text()
    'all or nothing'
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tombola-", suffix=".part")
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file by `replaced_file`, in UTF-8."""
    with replaced_file(path) as file:
        file.write(text.encode())


def _umask() -> int:
    """Return the mode bits that new files of this process do not get."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _flush_folder(folder: Any) -> None:
    """Make the new name durable, where the system lets a folder be flushed."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
