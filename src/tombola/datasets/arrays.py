"""Read files that hold arrays: NPZ and LIBSVM."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, as_csr, in_words, no_such
from tombola.datasets.tables import as_number, column_number, refuse_infinite, refuse_missing

__all__ = ["read_archive", "read_libsvm", "read_npz"]


# --- NPZ ----------------------------------------------------------------------------------------


def read_archive(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an NPZ file; refuse Python objects, which could run code."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, AttributeError) as error:
        pickled = "pickle" in str(error)
        reason = "damaged, no archive, or with Python objects" if pickled else str(error)
        raise DataError(f"{path} is not a readable npz archive: {reason}") from None


def read_npz(path: Path, target: str | None, task: str | None, impute: bool) -> dict[str, Any]:
    """Return X, y and columns of an NPZ file; see `tombola.datasets.read`."""
    arrays = read_archive(path)
    if "X" in arrays:
        X: Any = arrays["X"]
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise DataError(f"X in {path.name} must be a table of numbers, but is {_shown(X)}")
        X = np.ascontiguousarray(X, dtype=np.float64)
    elif {"indices", "indptr", "shape"} <= set(arrays):
        X = _csr(path, arrays)
    else:
        raise DataError(
            f"{path.name} has neither X nor indices, indptr and shape, but {in_words(arrays)}"
        )
    if 0 in X.shape:
        raise DataError(f"X in {path.name} is empty: its shape is {X.shape[0]} x {X.shape[1]}")
    names = tuple(map(str, range(X.shape[1])))
    key = "y" if target is None else target
    y, label = arrays.get(key), repr(key)
    if y is None and target is not None and not hasattr(X, "tocsr") and _is_whole(target):
        held = column_number(names, target)
        y, label = X[:, held].copy(), f"column {held}"
        X, names = np.delete(X, held, axis=1), names[:held] + names[held + 1 :]
    if y is None and target is not None:
        raise no_such("key", target, arrays)
    if y is None and task != "clustering":
        raise DataError(
            f"{path.name} has no y: choose the target with --target among {in_words(arrays)} "
            "(--task clustering needs none)"
        )
    if target is None and task == "clustering":
        y = None
    if y is not None:
        y = _checked_target(path, y, label, X.shape[0])
    _check_values(X, impute)
    return {"X": X, "y": y, "columns": names, "notes": (), "label": label}


def _is_whole(target: str) -> bool:
    return as_number(target).is_integer()


def _csr(path: Path, arrays: dict[str, NDArray[Any]]) -> Any:
    indices, indptr, shape = arrays["indices"], arrays["indptr"], arrays["shape"]
    values = arrays.get("data", np.ones(indices.shape))
    fits = (
        shape.shape == (2,)
        and indices.ndim == indptr.ndim == 1
        and values.shape == indices.shape
        and len(indptr) == shape[0] + 1
        and indptr[0] == 0
        and indptr[-1] == len(indices)
        and bool((indptr[1:] >= indptr[:-1]).all())
        and (not len(indices) or 0 <= indices.min() <= indices.max() < shape[1])
    )
    if not fits:
        raise DataError(
            f"indices, indptr, shape (and data) in {path.name} are not a valid CSR matrix"
        )
    return as_csr(values, indices, indptr, shape)


def _checked_target(path: Path, y: NDArray[Any], label: str, n: int) -> NDArray[Any]:
    if y.shape != (n,):
        raise DataError(f"{label} in {path.name} must have {n:,} entries, but is {_shown(y)}")
    if y.dtype.kind == "U":
        return y
    if y.dtype.kind not in "fiub":
        raise DataError(f"{label} in {path.name} must hold numbers or text, but is {_shown(y)}")
    numbers = y.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        raise DataError(
            f"the target {label} is missing or infinite in {wrong.size:,} rows, first in "
            f"{_place(int(wrong[0]))}"
        )
    return numbers


def _check_values(X: Any, impute: bool) -> None:
    if hasattr(X, "tocsr"):
        wrong = np.flatnonzero(~np.isfinite(X.data))
        if wrong.size:
            row = int(np.searchsorted(X.indptr, wrong[0], side="right")) - 1
            raise DataError(
                f"column {X.indices[wrong[0]]} of sparse data is {X.data[wrong[0]]} in "
                f"{_place(row)}: values must be finite"
            )
    elif not np.isfinite(X).all():
        names, columns = [f"column {j}" for j in range(X.shape[1])], list(X.T)
        refuse_infinite(names, columns, _place)
        if not impute:
            refuse_missing(names, columns, _place)


def _place(row: int) -> str:
    return f"row {row + 1}"


def _shown(values: NDArray[Any]) -> str:
    return f"of shape {values.shape} and type {values.dtype}"


# --- LIBSVM -------------------------------------------------------------------------------------


def read_libsvm(path: Path, target: str | None) -> dict[str, Any]:
    """Return X and y of a LIBSVM file; see `tombola.datasets.read`."""
    from sklearn.datasets import load_svmlight_file

    if target is not None:
        raise DataError(
            f"the target of a LIBSVM file is the first number of each line: leave out --target "
            f"{target}"
        )
    try:
        X, y = load_svmlight_file(path)
    except (ValueError, OverflowError) as error:
        raise DataError(_first_fault(path) or f"{path.name} cannot be read: {error}") from None
    if 0 in X.shape:
        raise DataError(f"{path.name} has no rows or no columns")
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise DataError(_first_fault(path) or f"{path.name} holds a value that is not finite")
    X = as_csr(X.data, X.indices, X.indptr, X.shape)
    return {"X": X, "y": y, "columns": (), "notes": (), "label": f"of {path.name}"}


def _first_fault(path: Path) -> str | None:
    """Return what is wrong with the first line that cannot be read."""
    with path.open("rb") as file:
        for line, raw in enumerate(file, 1):
            words = raw.decode(errors="replace").split("#")[0].split()
            here, before = f"line {line} of {path.name}", -1
            if words and not np.isfinite(as_number(words[0])):
                return f"{here} begins with {words[0]!r}, which is not a finite number"
            for word in words[1:]:
                column, _, value = word.partition(":")
                if not (column.isdecimal() and np.isfinite(as_number(value))):
                    return f"{here} has {word!r}, which is not column:number"
                if int(column) <= before:
                    return f"{here} has column {column} after column {before}: they must increase"
                before = int(column)
    return None
