"""New rows for a fitted preparation: a file that is read as the training rows were, by pieces."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tombola.datasets.arrays import rows_of
from tombola.datasets.arrow_files import ArrowFile
from tombola.datasets.base import DataError, Progress, about, count, in_words, no_such
from tombola.datasets.cells import infinite_in, kind_of, missing_in, words_of
from tombola.datasets.checks import refuse_infinite
from tombola.datasets.csv_files import CsvFile
from tombola.datasets.dates import moments
from tombola.datasets.libsvm import LibsvmFile
from tombola.datasets.preparer import Preparer
from tombola.datasets.reading import Reading
from tombola.datasets.sources import Source, opened
from tombola.datasets.table import Table
from tombola.datasets.table_files import TableFile

__all__ = ["new_rows"]

PIECE = 2**14  # rows of an array at a time
STYLE = ("features", "missing", "decimal", "thousands", "encoding", "types")  # as in training


def new_rows(
    path: str | os.PathLike[str],
    prepare: Preparer,
    read_as: dict[str, Any],
    *,
    notes: list[str] | None = None,
    skip_bad_rows: bool = False,
    progress: Progress | None = None,
) -> Iterator[Any]:
    """Yield the rows of a file, some at a time, as `prepare.transform` takes them.

    The file needs the columns that were used in training, by name and in any order; it may be of
    another format than the training file. Other columns are ignored.

    `read_as` is that of the training rows. What is ignored is appended to `notes`. With
    `skip_bad_rows`, rows of a table that cannot be used are left out, and `place` of what is
    yielded says where its rows are in the file; else they are a DataError.
    """
    trained = Reading.of(**read_as.get("reading", {}))
    same = {name: getattr(trained, name) for name in STYLE}
    reading = Reading.of(**same, skip_bad_rows=skip_bad_rows)
    notes = [] if notes is None else notes
    with opened(path) as source:
        if skip_bad_rows and source.kind in ("libsvm", "npz", "npy"):
            raise DataError(f"--skip-bad-rows is for tables, and {source.name} is not one")
        if source.kind == "libsvm":
            yield from _sparse_rows(source, prepare, reading, read_as, progress)
        elif source.kind in ("npz", "npy"):
            yield from _array_rows(source, prepare, reading, progress)
        else:
            yield from _table_rows(source, prepare, reading, trained, notes, progress)


def _table_rows(
    source: Source,
    prepare: Preparer,
    reading: Reading,
    trained: Reading,
    notes: list[str],
    progress: Progress | None,
) -> Iterator[Table]:
    if prepare.kept_ is None:
        raise DataError(
            f"{source.name} is a table, but the model was trained on sparse rows: use LIBSVM or NPZ"
        )
    file: TableFile = (CsvFile if source.kind == "csv" else ArrowFile)(source, reading)
    kinds = prepare.kinds
    _check_columns(source.name, file.names, list(kinds), file.headed)
    known = {*kinds, *trained.drop, trained.target}
    others = [name for name in file.names if name not in known]
    if others:
        unused = "not used in training: ignored."
        notes.append(about(others, f"was {unused}", f"were {unused}"))
    rows, left = False, 0
    for table, odd in file.pieces(kinds, progress):
        rows = True
        if reading.skip_bad_rows:
            good = _good_rows(table, odd, prepare)
            left += len(table) - len(good)
            table = _chosen(table, good)
        refuse_infinite(
            ((name, infinite_in(it)) for name, it in table.columns.items()), table.place,
            ": every row gets a prediction, so correct or remove it",
        )  # fmt: skip
        yield table
    if not rows:
        raise DataError(f"{source.name} has a header but no rows")
    left += len(file.skipped)
    if left:
        notes.append(
            f"{count(left, 'row')} {'was' if left == 1 else 'were'} left out: the first column of "
            "the answer says which rows are there."
        )


def _good_rows(table: Table, odd: Sequence[int], prepare: Preparer) -> Any:
    """Return the rows that `prepare.transform` takes."""
    bad = np.zeros(len(table), dtype=bool)
    bad[list(odd)] = True
    forms = {rule.column: rule.form for rule in prepare.rules_ or ()}
    for name, column in table.columns.items():
        if prepare.impute is None:
            bad |= missing_in(column)
        form = forms.get(name) if kind_of(column) == "text" else None
        if form is not None:
            codes, words = words_of(column)
            bad |= np.isin(codes, moments(words, form)[1])
        bad |= infinite_in(column)
    return np.flatnonzero(~bad)


def _chosen(table: Table, rows: Any) -> Table:
    chosen = table[rows]
    chosen.place = lambda row: table.place(int(rows[row]))
    return chosen


def _check_columns(file: str, names: Sequence[str], wanted: Sequence[str], headed: bool) -> None:
    """Refuse a file that lacks columns."""
    lost = [name for name in wanted if name not in names]
    if not lost:
        return
    if not headed:
        raise DataError(
            f"{file} has no header, so its columns must be those of the training file, the target "
            f"included: it has {len(names)}, and column {lost[-1]} is needed"
        )
    if len(lost) == 1:
        raise no_such("column", lost[0], names)
    raise DataError(
        f"{file} lacks {len(lost):,} columns of the training rows: {in_words(map(repr, lost))} "
        f"(its first line names {in_words(map(repr, names))})"
    )


def _array_rows(
    source: Source, prepare: Preparer, reading: Reading, progress: Progress | None
) -> Iterator[Any]:
    X, _, _ = rows_of(source, reading)
    names, width = list(prepare.kinds), prepare.n_features_in_
    if hasattr(X, "tocsr") != (prepare.kept_ is None):
        kind = ("dense", "sparse")[hasattr(X, "tocsr")]
        raise DataError(f"{source.name} holds {kind} rows, the model was trained on others")
    if not all(name.isdecimal() for name in names):
        raise DataError(
            f"{source.name} has no names of columns, and the model needs {in_words(names)}"
        )
    if X.shape[1] != width:
        numbers = [int(name) for name in names]
        if not numbers or max(numbers) >= X.shape[1]:
            raise DataError(
                f"{source.name} has {X.shape[1]:,} columns, but the training rows had {width:,}"
            )
        X = X[:, numbers]  # without the target
    for start in range(0, X.shape[0], PIECE):
        rows = X[start : start + PIECE]
        values = rows.data if hasattr(rows, "tocsr") else rows
        if np.isinf(values).any():
            raise DataError(f"{source.name} holds infinite values, from row {start + 1} on")
        yield rows
        if progress is not None:
            progress(min(start + PIECE, X.shape[0]), X.shape[0])


def _sparse_rows(
    source: Source,
    prepare: Preparer,
    reading: Reading,
    read_as: dict[str, Any],
    progress: Progress | None,
) -> Iterator[Any]:
    if prepare.kept_ is not None:
        raise DataError(f"{source.name} holds sparse rows, but the model was trained on dense ones")
    file = LibsvmFile(source, Reading(**{**vars(reading), "features": None}))
    yield from file.pieces(prepare.n_features_in_, read_as.get("first", 1), progress)
