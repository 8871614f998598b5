"""Choose the target of a data set, and hold rows out for testing."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, Dataset, in_words, no_such

__all__ = ["HELD_OUT", "for_task", "hold_out", "split"]

HELD_OUT = 0.2  # default share of rows to test on


def split(
    n: int, share: float, seed: int, labels: NDArray[Any] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows for training and those for testing, each in increasing order.

    With labels, the split is stratified: the same share of each class is held out, rounded to
    whole rows, and at least one row of each class is kept for training.

    Examples
    --------
    >>> train, test = split(10, 0.2, seed=0, labels=np.array([0] * 5 + [1] * 5))
    >>> len(train), test < 5
    (8, array([ True, False]))
    """
    order = np.random.default_rng(seed).permutation(n)
    numbers = np.zeros(n, dtype=np.int64)
    if labels is not None:
        _, numbers = np.unique(labels, return_inverse=True)
    held = np.zeros(n, dtype=bool)
    for number, size in enumerate(np.bincount(numbers)):
        members = order[numbers[order] == number]
        held[members[: min(round(share * int(size)), int(size) - 1)]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def hold_out(data: Dataset, share: float | None = None, seed: int = 0) -> Dataset:
    """Hold rows out for testing: they become `X_test` and `y_test`.

    Parameters
    ----------
    data : Dataset
    share : float, optional
        The share of rows, stratified by class; 0 holds none out. By default the test rows of the
        data set or, if it has none, a fifth of the rows.
    seed : int, default=0

    Examples
    --------
    >>> from tombola.datasets import load
    >>> hold_out(load("iris"))
    Dataset('iris', 120 x 4, dense, classification, 30 test rows)
    """
    X, y, notes = data.X, data.y, data.notes
    if share is None and data.X_test is not None:
        note = f"The {data.X_test.shape[0]:,} test rows of {data.name} were held out."
        return replace(data, notes=(*notes, note))
    share = HELD_OUT if share is None else share
    if share == 0:
        return replace(data, X_test=None, y_test=None)
    train, test = split(X.shape[0], share, seed, y if data.task == "classification" else None)
    if not len(test):
        raise DataError(f"{X.shape[0]} rows are too few to hold out {share:g} of them")
    note = f"{len(test):,} of {len(train) + len(test):,} rows were held out for testing."
    return replace(
        data, X=X[train], y=None if y is None else y[train], X_test=X[test],
        y_test=None if y is None else y[test], notes=(*notes, note),
    )  # fmt: skip


def for_task(data: Dataset, task: str | None = None, target: str | None = None) -> Dataset:
    """Return a data set with the target of a task; without any for clustering.

    Parameters
    ----------
    data : Dataset
    task : {"classification", "regression", "clustering"}, optional
        By default that of the data set.
    target : str, optional
        One of the targets of the data set, if it has several: it becomes 1 and -1, without the
        rows that are ambiguous.
    """
    task = task or data.task
    if target is not None and not (data.targets and task == "classification"):
        raise DataError(f"{data.name} needs no --target for {task}: leave it out")
    if task == "clustering":
        return replace(data, task=task, y=None, y_test=None)
    if data.targets and task == "classification":
        return _one_class(data, target)
    numbers = data.y is not None and data.y.dtype.kind in "fiu" and data.y.ndim == 1
    if data.y is None or (task == "regression" and not numbers):
        raise DataError(f"{data.name} is for {data.task}: it has no target for {task}")
    if task == "classification" and data.y.dtype.kind == "f":
        raise DataError(f"{data.name} is for {data.task}: its target has no classes")
    if task == "regression":
        tested = None if data.y_test is None else data.y_test.astype(np.float64)
        return replace(data, task=task, y=data.y.astype(np.float64), y_test=tested)
    return replace(data, task=task)


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
