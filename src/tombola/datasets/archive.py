"""The arrays of NPZ and NPY files, without pickle and without more memory than they hold."""

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tombola.datasets.base import DataError
from tombola.datasets.sources import DEFLATED

__all__ = ["read_archive"]

# what zipfile, its unpacking, and numpy for the header of an array raise for malformed files
_ODD = (ValueError, OSError, EOFError, LookupError, ArithmeticError, TypeError, AttributeError,
        RuntimeError, SyntaxError, struct.error, tokenize.TokenError, zipfile.BadZipFile,
        zlib.error, lzma.LZMAError)  # fmt: skip


def read_archive(path: Path, name: str | None = None, kind: str = "npz") -> dict[str, NDArray[Any]]:
    """Return the arrays of an NPZ file, or that of an NPY file as X; Python objects are refused.

    They could run code. So are headers that ask for more than the file can hold.
    """
    size = path.stat().st_size
    try:
        if kind == "npy":
            with path.open("rb") as file:
                _check_header(file, size)
            return {"X": np.load(path, allow_pickle=False)}
        with zipfile.ZipFile(path) as packed:
            for member in packed.infolist():
                if member.file_size > DEFLATED * min(member.compress_size, size):
                    raise ValueError(f"{member.filename!r} cannot have {member.file_size:,} bytes")
                if not member.filename.endswith(".npy"):
                    raise ValueError(f"{member.filename!r} is no array")
                with packed.open(member) as stream:
                    _check_header(stream, member.file_size)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _ODD as error:
        pickled = "pickle" in str(error)
        reason = "damaged, no archive, or with Python objects" if pickled else str(error)
        what = "npz archive" if kind == "npz" else "npy file"
        raise DataError(f"{name or path} is not a readable {what}: {reason}") from None


def _check_header(stream: Any, size: int) -> None:
    """Refuse an npy file of `size` bytes whose header cannot be read, or asks for more."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the npy format is not supported")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    try:
        shape, _, dtype = read(stream)
    except (MemoryError, RecursionError):  # of Python's parser
        raise ValueError("the header of an array is nested too deeply") from None
    rest = size - stream.tell()
    wanted = max(dtype.itemsize, 1) * math.prod(shape)
    if any(length < 0 for length in shape) or (wanted > rest and not dtype.hasobject):
        raise ValueError(f"an array of shape {shape} and type {dtype} has only {rest:,} bytes")
