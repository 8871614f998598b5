"""Open the data that the arguments of a command ask for."""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.cli.progress import Progress
from tombola.datasets import (
    DataError,
    Dataset,
    Preparation,
    catalogue,
    load,
    prepare,
    read,
    split,
)
from tombola.datasets.base import in_words, nearest_name, no_such

__all__ = ["OpenData", "check_clusters", "open_data", "wants_scale"]

HELD_OUT = 0.2  # default share of rows to test on


@dataclass(frozen=True, eq=False)
class OpenData:
    """Data that are ready for training.

    Attributes
    ----------
    name, task, source, checksum, notes
        As in `tombola.datasets.Dataset`.
    X, X_test : ndarray or scipy CSR matrix
        X_test is None if no rows are held out.
    y, y_test : ndarray or None
        Labels of any type for classification, float64 for regression, None for clustering.
    columns : tuple of str
        Names of the columns of X; empty if they have none.
    preparation : Preparation or None
        How the columns of X were transformed; None if X is sparse, which is never transformed.
    """

    name: str
    task: str
    X: Any
    y: NDArray[Any] | None
    X_test: Any
    y_test: NDArray[Any] | None
    columns: tuple[str, ...]
    source: str
    checksum: str
    notes: tuple[str, ...]
    preparation: Preparation | None

    def record(self) -> dict[str, Any]:
        """Return the description of the data for the record of a run."""
        rows, columns = self.X.shape
        return {
            "name": self.name,
            "source": self.source,
            "checksum": self.checksum,
            "rows": rows,
            "columns": columns,
        }


def open_data(options: argparse.Namespace, *, hold_out: bool = False) -> OpenData:
    """Return the data that the arguments ask for, checked and prepared.

    Parameters
    ----------
    options : Namespace
        With the arguments of `tombola.cli.arguments.add_data_arguments`, and with `test` (a share
        or None) and `seed` if `hold_out` is True.
    hold_out : bool, default=False
        Whether to hold out rows for testing. If `test` is None, these are the test rows of the
        data set or, if it has none, a fifth of the rows, stratified by class. The preparation of
        columns is fitted to the remaining rows.

    Raises
    ------
    DataError
    """
    data = _find(options)
    X, y, X_test, y_test = data.X, data.y, None, None
    notes = list(data.notes)
    if data.task == "clustering":
        y = None
    if hold_out and options.test is None and data.X_test is not None:
        X_test, y_test = data.X_test, data.y_test
        notes.append(f"The {X_test.shape[0]:,} test rows of {data.name} were held out.")
    elif hold_out and (share := HELD_OUT if options.test is None else options.test) > 0:
        labels = y if data.task == "classification" else None
        train, test = split(X.shape[0], share, options.seed, labels)
        if not len(test):
            raise DataError(f"{X.shape[0]} rows are too few to hold out {share:g} of them")
        X, X_test = X[train], X[test]
        if y is not None:
            y, y_test = y[train], y[test]
        notes.append(f"{len(test):,} of {len(train) + len(test):,} rows were held out for testing.")
    preparation, columns = None, data.columns
    if not hasattr(X, "tocsr"):
        preparation = prepare(
            X, columns, impute=options.impute, scale=wants_scale(options, data.task)
        )
        X = preparation.apply(X)
        X_test = None if X_test is None else preparation.apply(X_test)
        columns = preparation.columns
        notes += preparation.notes
    return OpenData(
        data.name, data.task, X, y, X_test, y_test if data.task != "clustering" else None,
        columns, data.source, data.checksum, tuple(notes), preparation,
    )  # fmt: skip


def wants_scale(options: argparse.Namespace, task: str) -> bool:
    """Return whether to standardise dense columns."""
    return task != "clustering" if options.scale is None else bool(options.scale)


def check_clusters(clusters: int, data: OpenData) -> None:
    """Refuse more clusters than rows."""
    n = data.X.shape[0]
    if not 1 <= clusters <= n:
        raise DataError(
            f"--n-clusters must be from 1 to {n:,}, the number of rows, got {clusters:,}"
        )


def _find(options: argparse.Namespace) -> Dataset:
    """Return the data set of that name, or the content of the file."""
    known = [entry.name for entry in catalogue()]
    if options.file in known:
        return _for_task(load(options.file, options.data, download=options.download), options)
    if not Path(options.file).exists():
        raise DataError(
            f"there is no file {options.file!r}, and no data set of that name: "
            f"{nearest_name(options.file, known)}`tombola datasets` lists them"
        )
    with Progress(f"reading {Path(options.file).name}") as progress:
        return read(
            options.file,
            options.target,
            task=options.task,
            impute=options.impute is not None,
            progress=progress,
        )


def _for_task(data: Dataset, options: argparse.Namespace) -> Dataset:
    """Return a named data set with the target of the task."""
    task = options.task or data.task
    if options.target is not None and not (data.targets and task == "classification"):
        raise DataError(f"{data.name} needs no --target for {task}: leave it out")
    if task == "clustering":
        return replace(data, task=task)
    if data.targets and task == "classification":
        return _one_class(data, options.target)
    numbers = data.y is not None and data.y.dtype.kind in "fiu" and data.y.ndim == 1
    if data.y is None or (task == "regression" and not numbers):
        raise DataError(f"{data.name} is for {data.task}: it has no target for {task}")
    if task == "classification" and data.y.dtype.kind == "f":
        raise DataError(f"{data.name} is for {data.task}: its target has no classes")
    y = data.y.astype(np.float64) if task == "regression" else data.y
    return replace(data, task=task, y=y)


def _one_class(data: Dataset, target: str | None) -> Dataset:
    """Return the data set with one of its targets, 1 or -1, and without ambiguous rows."""
    if target is None:
        raise DataError(f"choose the target with --target: {in_words(data.targets)}")
    if target not in data.targets:
        raise no_such("target", target, data.targets)
    assert data.y is not None
    assert data.y_test is not None
    y, y_test = (part[:, data.targets.index(target)] for part in (data.y, data.y_test))
    note = f"{(y == 0).sum() + (y_test == 0).sum():,} rows marked as difficult were left out."
    return replace(
        data, X=data.X[y != 0], y=y[y != 0], X_test=data.X_test[y_test != 0],
        y_test=y_test[y_test != 0], targets=(), notes=(*data.notes, note),
    )  # fmt: skip
