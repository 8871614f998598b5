"""Read files of tables and arrays, or refuse them with a reason."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.archive import read_archive
from tombola.datasets.base import (
    DataError,
    Dataset,
    Progress,
    check_encode,
    checksum_of_file,
    count,
)
from tombola.datasets.reading import Reading
from tombola.datasets.sources import Source, opened
from tombola.datasets.sparse_files import CsrFile, LibsvmFile

__all__ = ["open_file", "read", "read_table"]

FEW_CLASSES = 20  # at most this many different integers are taken for classes
EXACT = 2.0**53  # integers up to here are exact in float64


def read(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    task: str | None = None,
    features: str | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    missing: Sequence[str] = (),
    decimal: str = ".",
    thousands: str = "",
    encoding: str | None = None,
    dates: str | None = None,
    types: Mapping[str, str] | None = None,
    impute: bool = False,
    skip_bad_rows: bool = False,
    rows: int | None = None,
    encode: str = "auto",
    progress: Progress | None = None,
) -> Dataset:
    r"""Read a file into rows of numbers, targets and column names.

    Numbers are kept, booleans become 0 and 1, and a text column becomes one column of 0 and 1 for
    each of its values. A column is text if fewer than half of its values are numbers. Dates become
    year, month, day of the week and elapsed days. Columns that only number the rows are left out.
    All guesses are in the notes.

    Parameters
    ----------
    path : path
        A table: CSV, TSV or other text (separated by commas, semicolons, tabs, bars or blanks; with
        or without a header), Parquet, Arrow or Feather. Or arrays: NPZ (keys X and y, or indices,
        indptr, shape, and data unless all values are 1), NPY, or LIBSVM. Any of them may be packed
        by gzip or zstd (.gz, .zst). "-" is standard input.
    target : str, optional
        The column to predict: its name, or its number from 0 (-1 is the last one). In an NPZ file
        a key, by default y. In a LIBSVM file the target is the first number of each line.
    task : {"classification", "regression", "clustering"}, optional
        By default regression if the target has non-integer numbers or more than 20 different
        integers, and classification otherwise.
    features : str, optional
        In an NPZ file, the key of the rows; by default X.
    drop : sequence of str
        Columns to leave out.
    keep : sequence of str
        Columns to use though they look like row numbers or identifiers.
    missing : sequence of str
        Words for missing values, besides nothing, NA, N/A, NaN, null and none in any case.
    decimal, thousands : str
        How numbers are written: the decimal point, and the mark between thousands.
    encoding : str, optional
        Of a text file; by default UTF-8, or UTF-16 if a byte order mark says so.
    dates : {"day-first", "month-first"}, optional
        The order in dates like 1/2/2024 where the file does not show it; by default the month, and
        the day in 1.2.2024.
    types : dict of str to {"number", "text", "date"}, optional
        What columns hold, by name, where that is not to be guessed: text keeps 01234 as it is.
    impute : bool, default=False
        Whether values may be missing; X then holds NaN. Missing text is a value of its own.
    skip_bad_rows : bool, default=False
        Whether rows that would be refused are left out instead: with another number of fields,
        with text among numbers, without a target, with infinite values, and, unless `impute`, with
        missing values.
    rows : int, optional
        The size of a sample of the rows of a table, drawn at random in one pass; by default all, or
        as many as memory can hold.
    encode : {"auto", "one-hot", "hash", "frequency", "drop"}, default="auto"
        What becomes of text with many values, as in `Preparer`.
    progress : callable, optional
        Called from time to time with the amount read and the total.

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
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pets.csv"
    ...     _ = path.write_text("kind,kilos,happy\ncat,4,yes\ndog,20.5,no\ncat,3,yes\ncat,4,no\n")
    ...     data = read(path, "happy")
    >>> data, data.columns
    (Dataset('pets', 4 x 3, dense, classification), ('kind=cat', 'kind=dog', 'kilos'))
    >>> data.X[1], data.y
    (array([ 0. ,  1. , 20.5]), array(['yes', 'no', 'yes', 'no'], dtype='<U3'))
    """
    check_encode(encode)
    data = read_table(
        path, target, task=task, features=features, drop=drop, keep=keep, missing=missing,
        decimal=decimal, thousands=thousands, encoding=encoding, dates=dates, types=types or {},
        impute=impute, skip_bad_rows=skip_bad_rows, rows=rows, progress=progress,
    )  # fmt: skip
    if not hasattr(data.X, "kinds"):
        return data
    from tombola.datasets.encode import fit_rules, numbers_of

    rules, notes = fit_rules(data.X, encode, keep)
    return replace(
        data,
        X=np.column_stack(list(numbers_of(rules, data.X))),
        columns=tuple(name for rule in rules for name in rule.names),
        notes=data.notes + notes,
    )


def read_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Dataset:
    r"""Read a file as `read` does, but leave text and dates as they are.

    X is a `Table`, which `Preparer` turns into numbers; or an array or a CSR matrix, if the file
    holds one. All arguments but `encode` are those of `read`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pets.csv"
    ...     _ = path.write_text("kind,kilos,happy\ncat,4,yes\ndog,20.5,no\ncat,3,yes\ncat,4,no\n")
    ...     data = read_table(path, "happy")
    >>> data.X
    Table(4 x 2: kind text, kilos number)
    """
    reading = Reading.of(target=target, **options)
    with opened(path) as source:
        file = open_file(source, reading)
        parts = file.load(progress)
        checksum = checksum_of_file(source.path)
    chosen, why = _chosen_task(parts, reading.task)
    parts["notes"] += why
    if chosen == "clustering":
        parts["y"] = None
    elif chosen == "regression":
        parts["y"] = parts["y"].astype(np.float64)
    elif parts["y"].dtype.kind == "f":
        parts["y"] = _as_classes(parts["y"])
    del parts["label"]
    read_as = {"reading": reading.record()}
    if source.kind == "libsvm":
        read_as["first"] = file.first
    return Dataset(
        name=source.stem, task=chosen, source=source.name, checksum=checksum, read_as=read_as,
        **parts,
    )  # fmt: skip


def open_file(source: Source, reading: Reading) -> Any:
    """Return a file to be read: a `TableFile`, or a `SparseFile`."""
    if source.kind == "libsvm":
        return LibsvmFile(source, reading)
    if source.kind in ("npz", "npy"):
        from tombola.datasets.arrays import ArrayFile

        with source.unpacked() as path:
            arrays = read_archive(path, source.name, source.kind)
        dense = reading.features is not None or "X" in arrays
        sparse = not dense and {"indices", "indptr", "shape"} <= set(arrays)
        return (CsrFile if sparse else ArrayFile)(source, reading, arrays)
    if source.kind == "csv":
        from tombola.datasets.csv_files import CsvFile

        return CsvFile(source, reading)
    from tombola.datasets.arrow_files import ArrowFile

    return ArrowFile(source, reading)


def _as_classes(y: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as labels: integers where they are, else text."""
    if (y != np.floor(y)).any():
        return np.array([f"{value:.15g}" for value in y])
    return y.astype(np.int64) if np.abs(y).max() < EXACT else y


def _chosen_task(parts: dict[str, Any], task: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the task, given or guessed, with a note; refuse a target that does not fit it."""
    y, label = parts["y"], parts["label"]
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
        if different > FEW_CLASSES or 2 * different > len(y):
            raise DataError(
                f"classification needs labels, and the target {label} has numbers that are not "
                f"integers, {different:,} different ones in {count(len(y), 'row')}"
            )
        return task, (f"The numbers in the target {label} were taken as labels.",)
    if task is not None:
        return task, ()
    task = "classification" if text or (whole and different <= FEW_CLASSES) else "regression"
    kind = "values" if text else "integers" if whole else "numbers, not all of them integers"
    note = f"Taken as {task}, since the target {label} has {different:,} different {kind}."
    return task, (note,)
