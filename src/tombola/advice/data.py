"""The rows that are fitted, and those that are held out."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.advice.models import Penalty
from tombola.datasets import split
from tombola.problems.rows import as_rows
from tombola.validation import checked_array

__all__ = ["HELD_OUT", "Data", "open_data", "too_few"]

TASKS = ("classification", "regression", "clustering")
HELD_OUT = 0.2  # share of rows to score on, where none are given
FEWEST = 10  # rows of a class, and rows held out, below which nothing is judged
SCALES = 100.0  # columns differ in scale: the longest is this many times as long as the median


@dataclass
class Data:
    """The rows that are fitted, and those that are held out."""

    X: Any
    y: NDArray[Any] | None
    X_test: Any
    y_test: NDArray[Any] | None
    groups: NDArray[Any] | None
    task: str
    n_clusters: int
    penalty: Penalty
    given: NDArray[np.int64]  # the number of each row of X, as it was given
    kept: NDArray[np.int64]  # the rows of X that are raced on
    dropped: list[Any] = field(default_factory=list)  # classes too small to judge
    notes: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        """The number of rows that are raced on."""
        return len(self.kept)

    @property
    def labels(self) -> NDArray[Any]:
        """The classes, sorted; those of the rows that are fitted."""
        return np.unique(np.asarray(self.y))

    @property
    def positive(self) -> Any:
        """The rarer one of two classes; None if there are more, or none."""
        if self.task != "classification" or len(self.labels) != 2:
            return None
        labels, counts = np.unique(np.asarray(self.y), return_counts=True)
        return labels[counts.argmin()]

    def rows(self) -> tuple[Any, Any]:
        """Return X and y of the rows that are raced on."""
        if self.n == self.X.shape[0]:
            return self.X, self.y
        return self.X[self.kept], None if self.y is None else self.y[self.kept]

    def keep(self, size: int, seed: int) -> None:
        """Race on `size` rows at random; of each class the same share, and at least `FEWEST`."""
        order = np.random.default_rng(seed).permutation(self.X.shape[0])
        first = order[:0]
        if self.task == "classification":
            _, numbers = np.unique(np.asarray(self.y), return_inverse=True)
            order = order[np.argsort(numbers[order], kind="stable")]
            starts = np.unique(numbers[order], return_index=True)[1]
            first = np.concatenate([order[start : start + FEWEST] for start in starts])
        places = order[np.linspace(0, len(order) - 1, size).astype(np.int64)]
        self.kept = np.union1d(places, first)


def open_data(
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    task: str,
    groups: Any,
    n_clusters: int,
    penalty: Penalty,
    seed: int,
) -> Data:
    """Check the arguments, hold rows out, and leave small classes out."""
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    X = _checked_rows(X, "X")
    n = X.shape[0]
    targets = None
    if task != "clustering":
        if y is None:
            raise ValueError(f"{task} needs y, what is to be predicted")
        targets = _column("y", y, n)
        if task == "regression":
            targets = _numbers("y", targets)
        else:
            _check_classes(targets)
    elif n_clusters > n:
        raise ValueError(f"n_clusters must be from 1 to the {n} rows, got {n_clusters}")
    names = None if groups is None else _column("groups", groups, n)
    given, notes = np.arange(n), []
    if X_test is None:
        labels = targets if task == "classification" else None
        train, test = split(n, HELD_OUT, seed, labels)
        X, X_test, given = X[train], X[test], train
        if targets is not None:
            targets, y_test = targets[train], targets[test]
        names = None if names is None else names[train]
        notes.append(f"{len(test):,} of {n:,} rows were held out for the score.")
    else:
        X_test = _checked_rows(X_test, "X_test")
        if X_test.shape[1] != X.shape[1]:
            raise ValueError(f"X_test has {X_test.shape[1]} columns, X has {X.shape[1]}")
        if targets is not None:
            y_test = _column("y_test", y_test, X_test.shape[0])
            y_test = _numbers("y_test", y_test) if task == "regression" else y_test
    data = Data(
        X, targets, X_test, y_test, names, task, n_clusters, penalty, given,
        np.arange(X.shape[0]), notes=notes,
    )  # fmt: skip
    if task == "classification":
        _leave_out_small_classes(data)
    if task != "clustering" and data.X.shape[0]:
        _note_scales(data)
    return data


def too_few(data: Data) -> str | None:
    """Return why nothing can be judged, None if it can."""
    held = data.X_test.shape[0]
    if data.task == "classification" and len(data.labels) < 2:
        names = ", ".join(map(str, data.dropped))
        return (
            f"too few rows: classes with fewer than {FEWEST} rows to fit, or none held out, are "
            f"not judged ({names}), and fewer than two are left."
        )
    if min(data.X.shape[0], held) < FEWEST:
        return (
            f"too few rows: {data.X.shape[0]:,} to fit and {held:,} to score on, and it takes "
            f"{FEWEST} of each."
        )
    return None


def _checked_rows(X: Any, name: str) -> Any:
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        as_rows(X)  # raises an error that names the fault
        return X
    X = checked_array(X, name, dimensions=2)
    return X if X.dtype in (np.float64, np.float32) else X.astype(np.float64)


def _column(name: str, values: Any, n: int) -> NDArray[Any]:
    """Return a value for each row, or raise an error that names the fault."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one for each row of X, got {array.shape}")
    if array.dtype.kind in "fO":
        for place in np.flatnonzero(array != array)[:1]:
            raise ValueError(f"{name}[{place}] is missing: {array[place]}")
    if array.dtype.kind == "O":
        for place, value in enumerate(array):
            if value is None:
                raise ValueError(f"{name}[{place}] is missing: None")
        array = array.astype(str)
    return array


def _numbers(name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    y: NDArray[np.float64] = checked_array(values, name, dimensions=1).astype(np.float64)
    if name == "y" and y.min() == y.max():
        raise ValueError(f"y is {y[0]:g} in every row: there is nothing to predict")
    return y


def _check_classes(y: NDArray[Any]) -> None:
    labels = np.unique(y)
    if len(labels) < 2:
        raise ValueError(f"y has one class only, {labels[0]!s}: there is nothing to learn")
    if len(labels) > max(2, len(y) // 2):
        raise ValueError(
            f"y has {len(labels):,} classes in {len(y):,} rows: is it a number, to be predicted "
            'with task="regression"?'
        )


def _leave_out_small_classes(data: Data) -> None:
    """Leave out classes that are too small, and choose those of the race of draws."""
    y, held = np.asarray(data.y), np.asarray(data.y_test)
    labels, counts = np.unique(y, return_counts=True)
    judged = (counts >= FEWEST) & np.isin(labels, held)
    small = labels[~judged]
    unknown = np.setdiff1d(held, labels)
    data.dropped = [*small, *unknown]
    if data.dropped:
        inside, outside = np.isin(y, labels[judged]), np.isin(held, labels[judged])
        data.X, data.y, data.given = data.X[inside], y[inside], data.given[inside]
        data.X_test, data.y_test = data.X_test[outside], held[outside]
        data.groups = None if data.groups is None else data.groups[inside]
        data.kept = np.arange(data.X.shape[0])
        sizes = dict(zip(labels, counts, strict=True))
        shown = [f"{label} ({sizes.get(label, 0)})" for label in data.dropped[:10]]
        more = f" and {len(data.dropped) - 10} more" if len(data.dropped) > 10 else ""
        data.notes.append(
            f"Classes with fewer than {FEWEST} rows to fit, or none held out, are too small to "
            f"judge and were left out: {', '.join(shown)}{more}; in brackets the rows to fit."
        )


def _note_scales(data: Data) -> None:
    """Note columns that differ in scale."""
    X = data.X
    with np.errstate(over="ignore"):
        if hasattr(X, "tocsr"):
            squares = np.bincount(X.indices, weights=X.data.astype(np.float64) ** 2)
        else:
            squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
    if not np.isfinite(squares).all():
        raise ValueError("X holds numbers that are too large: their squares overflow")
    lengths = np.sqrt(squares)
    lengths = lengths[lengths > 0]
    if len(lengths) and lengths.max() > SCALES * np.median(lengths):
        data.notes.append(
            f"The longest column of X is {lengths.max() / np.median(lengths):.0f} times as long as "
            "the median one: standardise the columns, and ask again."
        )
