"""Read files that hold arrays: NPZ and NPY."""

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

from tombola.datasets.base import DataError, as_csr, in_words, no_such
from tombola.datasets.checks import (
    check_names,
    column_number,
    left_out,
    refuse_infinite,
    refuse_missing,
)
from tombola.datasets.reading import Reading, as_number
from tombola.datasets.sources import DEFLATED, Source

__all__ = ["read_archive", "read_arrays", "rows_of"]

MOST_NAMED = 2**22  # columns of a sparse matrix that can be named one by one
FEW_ROWS = 2**20  # of a sparse matrix by columns, whatever the file holds

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


def rows_of(source: Source, reading: Reading) -> tuple[Any, dict[str, NDArray[Any]], list[str]]:
    """Return X, all arrays of the file, and notes."""
    with source.unpacked() as path:
        arrays = read_archive(path, source.name, source.kind)
    name, notes = source.name, []
    key = reading.features or "X"
    if key in arrays:
        X: Any = arrays[key]
        if X.dtype.kind not in "fiub" or X.ndim == 0:
            raise DataError(f"{key} in {name} must be a table of numbers, but is {_shown(X)}")
        if X.ndim != 2 and X.size:
            width = X.size // len(X)
            notes.append(f"{key}, of shape {X.shape}, was taken as {len(X):,} x {width:,}.")
            X = X.reshape(len(X), width)
        X = np.ascontiguousarray(X, dtype=np.float64)
    elif reading.features is not None:
        raise no_such("key", reading.features, arrays)
    elif {"indices", "indptr", "shape"} <= set(arrays):
        X = _csr(name, arrays)
    else:
        raise DataError(
            f"{name} has neither X nor indices, indptr and shape, but {in_words(arrays)}: choose "
            "one with --features"
        )
    if 0 in X.shape:
        shape = " x ".join(map(str, X.shape))
        raise DataError(f"{key} in {name} is empty: its shape is {shape}")
    return X, arrays, notes


def read_arrays(source: Source, reading: Reading) -> dict[str, Any]:
    """Return X, y, columns and notes of an NPZ or NPY file; see `tombola.datasets.read`."""
    name, target = source.name, reading.target
    X, arrays, notes = rows_of(source, reading)
    named = not hasattr(X, "tocsr") or bool(reading.drop or reading.keep)
    if named and hasattr(X, "tocsr") and X.shape[1] > MOST_NAMED:
        raise DataError(f"{name} has {X.shape[1]:,} columns, too many for --drop and --keep")
    names = tuple(map(str, range(X.shape[1]))) if named else ()
    check_names(names, reading)
    key = "y" if target is None else target
    y, label, dropped = arrays.get(key), repr(key), [int(it) for it in reading.drop]
    if (
        y is None
        and target is not None
        and not hasattr(X, "tocsr")
        and as_number(target).is_integer()
    ):
        held = column_number(names, target)
        y, label = X[:, held].copy(), f"column {held}"
        dropped.append(held)
    if y is None and target is not None:
        raise no_such("key", target, arrays)
    if y is None and reading.task != "clustering":
        others = " (or the number of a column)" if source.kind == "npy" else ""
        raise DataError(
            f"{name} has no y: choose the target with --target among {in_words(arrays)}{others} "
            "(--task clustering needs none)"
        )
    if target is None and reading.task == "clustering":
        y = None
    if dropped:
        used = [j for j in range(X.shape[1]) if j not in dropped]
        if not used:
            raise DataError(f"{name} has no column besides the target")
        X, names = X[:, used], tuple(names[j] for j in used)
    if y is not None:
        y = _shaped(name, y, label, X.shape[0])
    if reading.skip_bad_rows:
        rows = left_out(X.shape[0], _bad_rows(X, y, label, reading.impute), _place, notes)
        X, y = X[rows], None if y is None else y[rows]
    wrong = np.flatnonzero(_odd_targets(y))
    if wrong.size:
        raise DataError(
            f"the target {label} is missing or infinite in {wrong.size:,} rows, first in "
            f"{_place(int(wrong[0]))} (--skip-bad-rows leaves such rows out)"
        )
    _check_values(X, reading.impute)
    columns = names if not hasattr(X, "tocsr") or reading.drop else ()
    return {"X": X, "y": y, "columns": columns, "notes": tuple(notes), "label": label}


def _csr(name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    indices, indptr = arrays["indices"], arrays["indptr"]
    values = arrays.get("data", np.ones(indices.shape))
    by_columns = "format" in arrays and arrays["format"].tolist() in (b"csc", "csc")
    whole = all(arrays[part].dtype.kind in "iu" for part in ("indices", "indptr", "shape"))
    shape = arrays["shape"].tolist() if whole and arrays["shape"].shape == (2,) else [-1, -1]
    shape = shape[::-1] if by_columns else shape
    fits = (
        whole
        and min(shape) >= 0
        and values.dtype.kind in "fiub"
        and indices.ndim == indptr.ndim == 1
        and values.shape == indices.shape
        and len(indptr) == shape[0] + 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and bool((indptr[1:] >= indptr[:-1]).all())
        and (not len(indices) or 0 <= indices.min() <= indices.max() < shape[1])
    )
    if not fits:
        raise DataError(f"indices, indptr, shape (and data) in {name} are not a valid CSR matrix")
    X = as_csr(values, indices, indptr, shape)
    if by_columns:
        if shape[1] > max(FEW_ROWS, *(array.size for array in arrays.values())):
            raise DataError(f"{name} has {shape[1]:,} rows, but far fewer numbers")
        X = X.T.tocsr()
        X = as_csr(X.data, X.indices, X.indptr, X.shape)
    return X


def _shaped(name: str, y: NDArray[Any], label: str, n: int) -> NDArray[Any]:
    """Return the target as float64 or text."""
    if y.shape == (n, 1):
        y = y[:, 0]
    if y.shape != (n,):
        raise DataError(f"{label} in {name} must have {n:,} entries, but is {_shown(y)}")
    if y.dtype.kind == "S":
        y = np.char.decode(y, "utf-8", "replace")
    if y.dtype.kind == "U":
        return y
    if y.dtype.kind not in "fiub":
        raise DataError(f"{label} in {name} must hold numbers or text, but is {_shown(y)}")
    return y.astype(np.float64)


def _odd_targets(y: NDArray[Any] | None) -> NDArray[np.bool_]:
    return ~np.isfinite(y) if y is not None and y.dtype.kind == "f" else np.zeros(0, dtype=bool)


def _bad_rows(X: Any, y: Any, label: str, impute: bool) -> dict[str, Any]:
    """Return the rows that would be refused, by reason."""
    bad = {f"{label} is missing or infinite": np.flatnonzero(_odd_targets(y))}
    if hasattr(X, "tocsr"):
        wrong = np.flatnonzero(~np.isfinite(X.data))
        bad["X is not finite"] = np.unique(np.searchsorted(X.indptr, wrong, side="right") - 1)
    else:
        odd = np.isinf(X) if impute else ~np.isfinite(X)
        bad["X is not finite"] = np.flatnonzero(odd.any(axis=1))
    return bad


def _check_values(X: Any, impute: bool) -> None:
    if hasattr(X, "tocsr"):
        wrong = np.flatnonzero(~np.isfinite(X.data))
        if wrong.size:
            row = int(np.searchsorted(X.indptr, wrong[0], side="right")) - 1
            raise DataError(
                f"column {X.indices[wrong[0]]} of sparse data is {X.data[wrong[0]]} in "
                f"{_place(row)}: values must be finite (--skip-bad-rows leaves such rows out)"
            )
    elif not np.isfinite(X).all():
        named = [(f"column {j}", column) for j, column in enumerate(X.T)]
        refuse_infinite(((name, np.isinf(it)) for name, it in named), _place)
        if not impute:
            refuse_missing(((name, np.isnan(it)) for name, it in named), _place)


def _place(row: int) -> str:
    return f"row {row + 1}"


def _shown(values: NDArray[Any]) -> str:
    return f"of shape {values.shape} and type {values.dtype}"
