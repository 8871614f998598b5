"""Read CSV, Parquet, NPZ and LIBSVM files, or refuse them with a reason."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.arrays import read_libsvm, read_npz
from tombola.datasets.base import TASKS, DataError, Dataset, Progress, checksum_of_file
from tombola.datasets.encode import fit_encoding
from tombola.datasets.table import Table
from tombola.datasets.tables import read_csv, read_parquet

__all__ = ["read", "read_table"]

FEW_CLASSES = 20  # at most this many different integers are taken for classes
EXACT = 2.0**53  # integers up to here are exact in float64
KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
}


def read(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    task: str | None = None,
    impute: bool = False,
    encode: str = "auto",
    progress: Progress | None = None,
) -> Dataset:
    r"""Read a file into rows, targets and column names.

    Numbers are kept, booleans become 0 and 1, and a text column becomes one column of 0 and 1 for
    each of its values. A column is text if fewer than half of its values are numbers.

    Parameters
    ----------
    path : path
        CSV (comma, semicolon or tab; with or without a header), Parquet, NPZ (keys X and y, or
        indices, indptr, shape, and data unless all values are 1) or LIBSVM.
    target : str, optional
        The column to predict: its name, or its number from 0 (-1 is the last one). In an NPZ file
        a key, by default y. In a LIBSVM file the target is the first number of each line.
    task : {"classification", "regression", "clustering"}, optional
        By default regression if the target has non-integer numbers or more than 20 different
        integers, and classification otherwise.
    impute : bool, default=False
        Whether values may be missing; X then holds NaN. Missing text is a value of its own.
    encode : {"auto", "one-hot", "hash", "frequency", "drop"}, default="auto"
        What becomes of text with many values, as in `Preparer`.
    progress : callable, optional
        Called from time to time with the number of bytes read and the total.

    Returns
    -------
    Dataset
        With X of float64, dense or CSR.

    Raises
    ------
    DataError
        What is wrong, and in which line and column.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "pets.csv"
    ...     _ = path.write_text("kind,kilos,happy\ncat,4,yes\ndog,20.5,no\ncat,3,yes\ncat,4,no\n")
    ...     data = read(path, "happy")
    >>> data, data.columns
    (Dataset('pets', 4 x 3, dense, classification), ('kind=cat', 'kind=dog', 'kilos'))
    >>> data.X[1], data.y
    (array([ 0. ,  1. , 20.5]), array(['yes', 'no', 'yes', 'no'], dtype='<U3'))
    """
    data = read_table(path, target, task=task, impute=impute, progress=progress)
    if not isinstance(data.X, Table):
        return data
    encoding = fit_encoding(data.X, encode)
    return replace(
        data,
        X=np.column_stack(list(encoding.columns(data.X))),
        columns=encoding.names,
        notes=data.notes + encoding.notes,
    )


def read_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    task: str | None = None,
    impute: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    r"""Read a file as `read` does, but leave text as it is: X is a `Table`, or sparse.

    `Preparer` turns the table into numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "pets.csv"
    ...     _ = path.write_text("kind,kilos,happy\ncat,4,yes\ndog,20.5,no\ncat,3,yes\ncat,4,no\n")
    ...     data = read_table(path, "happy")
    >>> data.X
    Table(4 x 2: kind text, kilos number)
    """
    path = Path(path)
    if task is not None and task not in TASKS:
        raise DataError(f"task must be {', '.join(TASKS[:-1])} or {TASKS[-1]}, got {task!r}")
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file")
    if not path.exists():
        raise DataError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty")
    try:
        parts = _parts(path, target, task, impute, progress)
        checksum = checksum_of_file(path)
    except PermissionError:
        raise DataError(f"{path} cannot be read: permission denied") from None
    chosen, why = _chosen_task(parts.pop("label"), parts["y"], task)
    if chosen == "clustering":
        parts["y"] = None
    if chosen == "regression":
        parts["y"] = parts["y"].astype(np.float64)
    elif chosen == "classification" and parts["y"].dtype.kind == "f":
        whole = np.abs(parts["y"]).max() < EXACT
        parts["y"] = parts["y"].astype(np.int64) if whole else parts["y"]
    parts["notes"] += why
    return Dataset(name=path.stem, task=chosen, source=path.name, checksum=checksum, **parts)


def _parts(
    path: Path, target: str | None, task: str | None, impute: bool, progress: Progress | None
) -> dict[str, Any]:
    """Return X, y, columns and notes, and the name of the target."""
    kind = KINDS.get(path.suffix.lower()) or _guessed_kind(path)
    if kind == "csv":
        return read_csv(path, target, task, impute, progress)
    if kind == "parquet":
        return read_parquet(path, target, task, impute)
    if kind == "npz":
        return read_npz(path, target, task, impute)
    return read_libsvm(path, target)


def _guessed_kind(path: Path) -> str:
    """Return "libsvm" if the first line looks like it, since such files often have no suffix."""
    with path.open("rb") as file:
        words = file.readline(2**20).split()
    if len(words) > 1 and all(word.count(b":") == 1 for word in words[1:]):
        return "libsvm"
    raise DataError(f"{path.name} has no known format: use .csv, .tsv, .parquet, .npz or .libsvm")


def _chosen_task(
    label: str, y: NDArray[Any] | None, task: str | None
) -> tuple[str, tuple[str, ...]]:
    """Return the task, given or guessed, with a note; refuse a target that does not fit it."""
    if y is None or task == "clustering":
        return "clustering", ()
    text = y.dtype.kind == "U"
    whole = text or bool((y == np.floor(y)).all())
    different = len(np.unique(y))
    if different == 1:
        raise DataError(
            f"the target {label} has one value only, {y[0] if text else f'{y[0]:g}'}: there is "
            "nothing to predict"
        )
    if text and (different == len(y) or (different > FEW_CLASSES and 2 * different > len(y))):
        raise DataError(
            f"the target {label} is text with {different:,} different values in {len(y):,} rows: "
            "too many for classes"
        )
    if task == "regression" and text:
        raise DataError(
            f"regression needs numbers, and the target {label} holds text: {str(y[0])!r}"
        )
    if task == "classification" and not whole:
        raise DataError(
            f"classification needs labels, and the target {label} has numbers that are not integers"
        )
    if task is not None:
        return task, ()
    task = "classification" if text or (whole and different <= FEW_CLASSES) else "regression"
    kind = "values" if text else "integers" if whole else "numbers, not all of them integers"
    note = f"Taken as {task}, since the target {label} has {different:,} different {kind}."
    return task, (note,)
