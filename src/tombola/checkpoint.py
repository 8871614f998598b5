"""Save and load state in one file: no pickle, a checksum, and never half a file.

The file is an ordinary npz archive (arrays, and one JSON text for everything else), followed
by the SHA-256 of the archive and a mark. It is written under another name in the same folder,
flushed to the disk and then renamed, so a crash at any instant leaves the old file or the new.
"""

import hashlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tombola import samplers
from tombola.draws import Draw

__all__ = ["CheckpointError", "load", "read", "save", "write"]

MARK = b"tombola1"
_TEXT = "json"  # the archive member that holds all that is not an array


class CheckpointError(ValueError):
    """The file is not a whole, undamaged checkpoint of this library."""


def save(path: str | os.PathLike[str], thing: samplers.Sampler | Draw) -> None:
    """Save a sampler or a draw; a file of that name is replaced only once all is written.

    Examples
    --------
    >>> import tempfile, tombola
    >>> sampler = tombola.VRB(1000, seed=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tombola.save(f"{folder}/sampler.npz", sampler)
    ...     copy = tombola.load(f"{folder}/sampler.npz")
    >>> bool((copy.draw(5).indices == sampler.draw(5).indices).all())
    True
    """
    if isinstance(thing, Draw):
        write(path, {"class": "Draw", "format": 1, "arrays": thing.to_arrays()})
    elif isinstance(thing, samplers.Sampler):
        write(path, thing.state_dict())
    else:
        raise TypeError(f"can save a sampler or a draw, got {type(thing).__name__}")


def load(path: str | os.PathLike[str]) -> Any:
    """Load what `save` saved: a sampler that goes on where it was, or a draw.

    A sampler of your own class: ``sampler.load_state_dict(tombola.checkpoint.read(path))``.
    """
    state = read(path)
    if state.get("class") == "Draw":
        return Draw.from_arrays(state["arrays"])
    sampler = restored(state)
    if sampler is None:
        raise CheckpointError(
            f"{path} holds a {state.get('class')!r}, which is not a sampler of tombola"
        )
    return sampler


def restored(state: dict[str, Any]) -> samplers.Sampler | None:
    """Return the sampler that `state_dict` was called on; None where it is not one of ours."""
    name = str(state.get("class"))
    if name not in samplers.__all__:
        return None
    sampler: samplers.Sampler = getattr(samplers, name)(**state["parameters"])
    sampler.load_state_dict(state)
    return sampler


def write(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write a state (nested dicts of arrays, str, int, float, bool, None, lists) to a file."""
    path = Path(path)
    arrays: dict[str, Any] = {}
    text = json.dumps(_without_arrays(state, "", arrays))
    arrays[_TEXT] = np.frombuffer(text.encode(), dtype=np.uint8)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w+b") as file:
            np.savez(file, **arrays)
            digest = _digest(file)
            file.write(digest + MARK)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a state, checking every byte of the file first."""
    path = Path(path)
    tail = hashlib.sha256().digest_size + len(MARK)
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - tail))
        end = file.read()
        if size < tail or not end.endswith(MARK):
            raise CheckpointError(
                f"{path} is not a whole checkpoint: it is truncated, or no tombola file at all"
            )
        if _digest(file, size - tail) != end[: -len(MARK)]:
            raise CheckpointError(f"{path} is damaged: its checksum does not fit its content")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    state: dict[str, Any] = _with_arrays(json.loads(arrays[_TEXT].tobytes()), arrays)
    return state


def _digest(file: Any, size: int = -1) -> bytes:
    """Return the SHA-256 of the first `size` bytes (default: all), leaving the file at the end."""
    file.seek(0)
    digest = hashlib.sha256()
    while size and (block := file.read(2**20 if size < 0 else min(2**20, size))):
        digest.update(block)
        size -= len(block) if size > 0 else 0
    return digest.digest()


def _without_arrays(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Move the arrays of a nested state into `arrays`, leaving their names behind."""
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"{name} holds Python objects, which a checkpoint cannot keep")
        name = f"{len(arrays)}{name}"  # unique, whatever dots the keys contain
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{name or 'the state'} has a key {key!r}, which is not a string")
        return {
            "dict": {
                key: _without_arrays(inner, f"{name}.{key}", arrays) for key, inner in value.items()
            }
        }
    if isinstance(value, (list, tuple)):
        return {
            "list": [_without_arrays(inner, f"{name}.{k}", arrays) for k, inner in enumerate(value)]
        }
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{name} is of type {type(value).__name__}, which a checkpoint cannot keep")


def _with_arrays(value: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "list" in value:
        return [_with_arrays(inner, arrays) for inner in value["list"]]
    return {key: _with_arrays(inner, arrays) for key, inner in value["dict"].items()}


def _umask() -> int:
    """Return the mode bits that new files of this process do not get."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _flush_folder(folder: Path) -> None:
    """Make the new name durable, where the system lets a folder be flushed."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
