"""Atomic file writes: a crash at any time leaves the old file or the new one, never a part.

And JSON files, which may hold anything when they are read.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

__all__ = ["read_json", "replaced_file", "write_text"]

DEEPEST = 50  # levels of a JSON file


@contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing; it replaces `path` once its content is safely on disk.

    The content goes to a temporary file in the same folder, which is flushed and then renamed. A
    file that is replaced keeps its permissions. A symbolic link is followed: the file that it
    points to is replaced. An error of the file system names `path`, which then holds the old
    content (the new one if only the flush of the folder failed), and the temporary file is removed.

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
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tombola-", suffix=".part")
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        os.replace(name, path)
        name = None
        _flush_folder(path.parent)
    except OSError as error:
        if error.errno is None or not _is_ours(error.filename, path.parent):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        if name is not None:
            with suppress(OSError):  # it cannot be removed where nothing can be written
                os.unlink(name)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically, in UTF-8."""
    with replaced_file(path) as file:
        file.write(text.encode())


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the object in a JSON file; raise a ValueError if it does not hold one."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__}, not an object")
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        inside = [it.values() if isinstance(it, dict) else it for it in level]
        level = [it for inner in inside for it in inner if isinstance(it, (dict, list))]
    if level:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    json.dumps(found, ensure_ascii=False).encode()  # an error for half a surrogate pair
    return found


def _is_ours(name: Any, folder: Path) -> bool:
    """Return whether an error names no file, the temporary file or its folder."""
    if not isinstance(name, str):
        return name is None
    return Path(name) == folder or Path(name).name.startswith(".tombola-")


def _umask() -> int:
    """Return the umask of this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _flush_folder(folder: Any) -> None:
    """Make the rename durable, on systems that can flush a folder."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
