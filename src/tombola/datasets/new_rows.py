"""New rows for a fitted preparation: a file that is read as the training rows were, by pieces."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from tombola.datasets.arrays import ArrayFile
from tombola.datasets.base import DataError, Progress, about, count, in_words, no_such
from tombola.datasets.files import open_file
from tombola.datasets.preparer import Preparer
from tombola.datasets.reading import Reading
from tombola.datasets.sources import opened
from tombola.datasets.sparse_files import SparseFile

__all__ = ["new_rows"]

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
    notes = [] if notes is None else notes
    with opened(path) as source:
        name, file = source.name, open_file(source, Reading.of(**same, skip_bad_rows=skip_bad_rows))
        sparse = isinstance(file, SparseFile)
        if sparse and prepare.kept_ is not None:
            raise DataError(f"{name} holds sparse rows, but the model was trained on dense ones")
        if prepare.kept_ is None and not sparse:
            raise DataError(
                f"{name} is a table, but the model was trained on sparse rows: use LIBSVM or NPZ"
            )
        if sparse and skip_bad_rows:
            raise DataError(f"--skip-bad-rows is for tables, and {name} is not one")
        if sparse:
            yield from file.pieces(prepare.n_features_in_, read_as.get("first", 1), progress)
            return
        if isinstance(file, ArrayFile) and file.width == prepare.n_features_in_:
            trained_on = getattr(prepare, "feature_names_in_", file.names[: file.width])
            if all(it.isdecimal() for it in trained_on):  # numbers that skip the target's
                file.names[: file.width] = trained_on
        kinds = prepare.kinds
        _check_columns(name, file.names, list(kinds), file.headed)
        known = {*kinds, *trained.drop, trained.target}
        others = [it for it in file.names if it not in known]
        if others:
            unused = "not used in training: ignored."
            notes.append(about(others, f"was {unused}", f"were {unused}"))
        forms, table = {rule.column: rule.form for rule in prepare.rules_ or ()}, None
        for table in file.pieces(kinds, forms, prepare.impute is not None, progress):
            yield table
        if table is None:
            raise DataError(f"{name} has a header but no rows")
        if file.left:
            notes.append(
                f"{count(file.left, 'row')} {'was' if file.left == 1 else 'were'} left out: the "
                "first column of the answer says which rows are there."
            )


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
