"""Store nested state in one file, without pickle, with a checksum, and atomically.

The file is an ordinary npz archive (arrays, and one JSON text for everything else), followed
by the SHA-256 of the archive and a mark. A crash at any time leaves the old file or the new one.

The checksum detects accidental damage. To be safe against crafted files, `read` checks the
structure and all sizes before it unpacks anything; the consumer of the state validates the rest.
"""

import hashlib
import io
import json
import math
import os
import struct
import tokenize
import zipfile
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.lib import format as npy

from tombola.state.documents import Versioned
from tombola.state.fields import CheckpointError
from tombola.state.files import replaced_file

__all__ = ["File", "read", "write"]

MARK = b"tombola2"
_OLD_MARK = b"tombola1"
_TEXT = "json"  # the archive member that holds everything but the arrays
BLOCK = 2**20  # bytes that are read at a time
LARGEST = 2**36  # bytes: by default, larger files are refused
HEADER = 1000  # bytes: the longest header of an array
DEEPEST = 64  # dicts and lists within one another


def write(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write a state: nested dicts and lists of arrays, tensors, str, int, float, bool and None.

    Tensors are read back as arrays.
    """
    arrays: dict[str, Any] = {}
    text = json.dumps(_without_arrays(state, "", arrays))
    arrays[_TEXT] = np.frombuffer(text.encode(), dtype=np.uint8)
    with replaced_file(path) as file:
        np.savez(file, **arrays)
        file.write(_digest(file, file.seek(0, io.SEEK_END)) + MARK)


def read(path: str | os.PathLike[str], *, largest: int = LARGEST) -> dict[str, Any]:
    """Read a state, after checking every byte of the file.

    Parameters
    ----------
    path : path-like
    largest : int, default=2**36
        Maximum size in bytes; larger files are refused. The arrays of a state take no more memory
        than the file, what is stored as text up to 30 times its bytes.

    Raises
    ------
    CheckpointError
        If the file is not a complete and valid archive of this library.
    """
    path = Path(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device or a pipe may not end
        raise CheckpointError(f"{path} is not a file")
    tail = hashlib.sha256().digest_size + len(MARK)
    with path.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        if size > largest:
            raise CheckpointError(
                f"{path} has {size:,} bytes, more than the limit of {largest:,}; "
                "pass largest= to read it"
            )
        file.seek(max(0, size - tail))
        end = file.read(tail)
        if end.endswith(_OLD_MARK):
            raise CheckpointError(
                f"{path} is a checkpoint of an earlier format, which this version does not read"
            )
        if size < tail or not end.endswith(MARK):
            raise CheckpointError(
                f"{path} is not a complete checkpoint: it is truncated, or not a tombola file"
            )
        if _digest(file, size - tail) != end[: -len(MARK)]:
            raise CheckpointError(f"{path} is damaged: its checksum does not match its content")
        try:
            arrays = _unpacked(file, size)
            if _TEXT not in arrays:
                raise ValueError("it has no description")
            state = _with_arrays(json.loads(arrays.pop(_TEXT).tobytes()), arrays)
            if not isinstance(state, dict):
                raise ValueError("it does not describe a state")
        except (*_ODD, ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{path} is not a valid checkpoint: {error}") from None
    return state


class File(Versioned):
    """A document in a file of its own."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, atomically."""
        write(path, self.state_dict())

    @classmethod
    def load(cls, path: str | os.PathLike[str], **known: Any) -> Self:
        """Return what a file holds, or raise a CheckpointError that names the file.

        `known` is that of `Document.read`.
        """
        saved = read(path)
        try:
            return cls.from_state_dict(saved, **known)
        except CheckpointError as error:
            raise CheckpointError(f"{os.fspath(path)}: {error}") from None


# what zipfile, and numpy for the header of an array, raise for malformed archives
_ODD = (zipfile.BadZipFile, EOFError, OverflowError, NotImplementedError, RuntimeError, OSError,
        IndexError, AttributeError, struct.error, SyntaxError, tokenize.TokenError)  # fmt: skip


def _unpacked(file: Any, size: int) -> dict[str, Any]:
    """Return the arrays of an archive, without allocating more memory than the file holds."""
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > size:
            raise ValueError("its members are larger than the file")
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(".npy"):
                raise ValueError(f"{member.filename!r} is not a stored array")
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"{name!r} occurs twice")
            with archive.open(member) as stream:
                arrays[name] = _array(stream, member.file_size)
    return arrays


def _array(stream: Any, size: int) -> Any:
    """Return the array of an npy file; its header must describe exactly what follows it."""
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("an array has an unsupported version of the npy format")
    shape, fortran, dtype = npy.read_array_header_1_0(stream, max_header_size=HEADER)
    if dtype.kind not in "biufUS" or dtype.itemsize == 0:  # numpy makes one byte of none
        raise ValueError(f"an array has the unsupported dtype {dtype}")
    rest = size - stream.tell()
    if dtype.itemsize * math.prod(shape) != rest or any(length < 0 for length in shape):
        raise ValueError("the size of an array does not match its header")
    array = np.frombuffer(_filled(stream, rest), dtype=dtype)
    return array.reshape(shape, order="F" if fortran else "C")


def _filled(stream: Any, size: int) -> bytearray:
    """Return the rest of a stream, which has `size` bytes, without a second copy of it."""
    data = bytearray(size)
    view, done = memoryview(data), 0
    while block := stream.read(BLOCK):
        view[done : done + len(block)] = block  # an error where there are more
        done += len(block)
    if done < size:
        raise ValueError("an array is shorter than its header says")
    return data


def _digest(file: Any, size: int) -> bytes:
    """Return the SHA-256 of the first `size` bytes, leaving the file after them."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(min(BLOCK, size)):
        digest.update(block)
        size -= len(block)
    return digest.digest()


def _without_arrays(value: Any, name: str, arrays: dict[str, Any], depth: int = 0) -> Any:
    """Move the arrays of a nested state into `arrays`, and put their names in their place."""
    if depth > DEEPEST and isinstance(value, (dict, list, tuple)):
        raise TypeError(f"{name} is nested more than {DEEPEST} deep, which is too deep to be read")
    if hasattr(value, "detach"):  # a tensor of PyTorch, which need not be installed
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError(f"{name} holds Python objects, which a checkpoint cannot keep")
        own = name[1:]  # the key, at the top
        name = own if own.isidentifier() and own != _TEXT else f"{len(arrays)}{name}"  # unique
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{name or 'the state'} has a key {key!r}, which is not a string")
        return {
            "dict": {
                key: _without_arrays(inner, f"{name}.{key}", arrays, depth + 1)
                for key, inner in value.items()
            }
        }
    if isinstance(value, (list, tuple)):
        return {
            "list": [
                _without_arrays(inner, f"{name}.{k}", arrays, depth + 1)
                for k, inner in enumerate(value)
            ]
        }
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{name} is of type {type(value).__name__}, which a checkpoint cannot keep")


def _with_arrays(value: Any, arrays: dict[str, Any], depth: int = 0) -> Any:
    """Put the arrays back where `_without_arrays` took them from, each in one place."""
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise ValueError("its description does not have the structure of a saved state")
    kind, inner = next(iter(value.items()))
    if kind == "array":
        return arrays.pop(inner)
    if depth > DEEPEST:
        raise ValueError(f"its description is nested more than {DEEPEST} deep")
    if kind == "list" and isinstance(inner, list):
        return [_with_arrays(part, arrays, depth + 1) for part in inner]
    if kind == "dict" and isinstance(inner, dict):
        return {key: _with_arrays(part, arrays, depth + 1) for key, part in inner.items()}
    raise ValueError("its description does not have the structure of a saved state")
