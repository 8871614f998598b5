"""Prepare dense columns for solvers: impute, scale, and drop constant ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, count, in_words

__all__ = ["IMPUTE", "Preparation", "fit_preparation", "prepare", "split"]

IMPUTE = ("median", "mean")


@dataclass(frozen=True, eq=False)
class Preparation:
    """A transformation of the columns of a dense X, fitted to training rows.

    Attributes
    ----------
    kept : ndarray of int
        The columns that are used; constant ones are left out.
    columns : tuple of str
        Their names.
    fill, mean, scale : ndarray of float64
        For each kept column: the value that replaces NaN, and the offset and divisor applied.
    notes : tuple of str
        What was done, in one sentence each.
    """

    kept: NDArray[np.int64]
    columns: tuple[str, ...]
    fill: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    notes: tuple[str, ...]

    def apply(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return transformed rows: a copy, in C order and with the type of X."""
        return self.apply_columns((X[:, j] for j in range(X.shape[1])), len(X), X.dtype)

    def apply_columns(
        self, columns: Iterable[NDArray[Any]], n: int, dtype: Any = np.float64
    ) -> NDArray[Any]:
        """Return transformed rows, given their columns one at a time."""
        out = np.empty((n, self.kept.size), dtype=dtype)
        places = {int(j): k for k, j in enumerate(self.kept)}
        for j, given in enumerate(columns):
            if (k := places.get(j)) is not None:
                column = given.astype(np.float64)
                column[np.isnan(column)] = self.fill[k]
                column -= self.mean[k]
                out[:, k] = column / self.scale[k]
        return out


def prepare(
    X: NDArray[Any],
    columns: Sequence[str] = (),
    *,
    impute: str | None = None,
    scale: bool = True,
) -> Preparation:
    """Fit the preparation of columns to training rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        NaN is a missing value.
    columns : sequence of str
        Names; by default numbers from 0.
    impute : {"median", "mean"}, optional
        The statistic of a column that replaces its missing values.
    scale : bool, default=True
        Whether to scale each column to mean 0 and standard deviation 1.

    Returns
    -------
    Preparation

    Examples
    --------
    >>> X = np.array([[1.0, 7.0], [3.0, 7.0], [np.nan, 7.0]])
    >>> ready = prepare(X, ["age", "year"], impute="mean", scale=False)
    >>> ready.apply(X).ravel()
    array([1., 3., 2.])
    >>> print(*ready.notes)
    1 missing value became the mean of its column. The column 'year' is constant and was left out.
    """
    names = tuple(columns) or tuple(map(str, range(X.shape[1])))
    return fit_preparation((X[:, j] for j in range(X.shape[1])), names, impute=impute, scale=scale)


def fit_preparation(
    columns: Iterable[NDArray[Any]],
    names: Sequence[str],
    *,
    impute: str | None = None,
    scale: bool = True,
) -> Preparation:
    """Fit the preparation to the columns of training rows, one at a time; see `prepare`."""
    kept, dropped, fill, mean, spread, holes = [], [], [], [], [], 0
    for j, (name, given) in enumerate(zip(names, columns, strict=True)):
        column = given.astype(np.float64)
        missing = np.isnan(column)
        known = column[~missing]
        if not known.size or known.min() == known.max():
            dropped.append(repr(name))
            continue
        lost = int(missing.sum())
        if lost and impute is None:
            raise DataError(f"{count(lost, 'value')} of {name!r} missing, but impute is None")
        holes += lost
        kept.append(j)
        fill.append(float(np.mean(known) if impute == "mean" else np.median(known)))
        column[missing] = fill[-1]
        centre, width = _mean_and_spread(column) if scale else (0.0, 1.0)
        mean.append(centre)
        spread.append(width)
    if not kept:
        raise DataError(f"{in_words(dropped)}: constant, so there is nothing to learn from")
    notes = []
    if holes:
        whose = "its" if holes == 1 else "their"
        notes.append(f"{count(holes, 'missing value')} became the {impute} of {whose} column.")
    if dropped:
        notes.append(
            f"The column {dropped[0]} is constant and was left out."
            if len(dropped) == 1
            else f"The columns {in_words(dropped)} are constant and were left out."
        )
    if scale:
        notes.append("Columns were scaled to mean 0 and standard deviation 1.")
    return Preparation(
        kept=np.array(kept, dtype=np.int64),
        columns=tuple(names[j] for j in kept),
        fill=np.array(fill),
        mean=np.array(mean),
        scale=np.array(spread),
        notes=tuple(notes),
    )


def _mean_and_spread(column: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and standard deviation, even if squares overflow."""
    unit = float(np.abs(column).max())
    relative = column / unit
    spread = float(relative.std()) * unit
    return float(relative.mean()) * unit, spread if spread > 0 else 1.0


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
