"""Rows of measurements: as CSV, and as curves over repetitions with means and intervals."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.ledger import Estimate, mean_estimate

__all__ = [
    "Curves", "Row", "arrival", "as_csv", "band", "collect", "column", "select", "shown", "speed",
]  # fmt: skip

Row = dict[str, Any]
Curves = dict[Any, NDArray[np.float64]]  # values at the marks, by repetition
RESAMPLES = 2000


def as_csv(rows: Iterable[Row]) -> str:
    r"""Return rows as CSV text, with a column for each name that occurs.

    >>> as_csv([{"run": 0, "cost": 2.5}, {"run": 1}])
    'run,cost\n0,2.5\n1,\n'
    """
    lines = list(rows)
    names = list(dict.fromkeys(name for row in lines for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def select(rows: Iterable[Row], **which: Any) -> list[Row]:
    """Return the rows that have these values.

    >>> select([{"seed": 0, "cost": 2.0}, {"seed": 1, "cost": 3.0}], seed=1)
    [{'seed': 1, 'cost': 3.0}]
    """
    return [row for row in rows if all(row[name] == it for name, it in which.items())]


def column(rows: Iterable[Row], name: str, **which: Any) -> list[Any]:
    """Return a column of the rows that have these values.

    >>> column([{"seed": 0, "cost": 2.0}, {"seed": 1, "cost": 3.0}], "cost", seed=1)
    [3.0]
    """
    return [row[name] for row in select(rows, **which)]


def collect(
    rows: Sequence[Row], x: str, y: str, unit: Sequence[str]
) -> tuple[NDArray[np.float64], Curves]:
    """Return the marks, and the curve of y over them for each repetition.

    >>> rows = [{"seed": 0, "t": 1, "v": 5.0}, {"seed": 0, "t": 2, "v": 4.0}]
    >>> collect(rows, "t", "v", ["seed"])
    (array([1., 2.]), {(0,): array([5., 4.])})
    """
    marks = np.array(sorted({row[x] for row in rows}), dtype=np.float64)
    place = {mark: k for k, mark in enumerate(marks.tolist())}
    curves: Curves = {}
    for row in rows:
        key = tuple(row[name] for name in unit)
        curve = curves.setdefault(key, np.full(len(marks), np.nan))
        curve[place[float(row[x])]] = row[y]
    return marks, curves


def band(curves: Curves) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the mean curve and its 95% interval (Student) at each mark."""
    values = np.array(list(curves.values()))
    estimates = [mean_estimate(at_mark) for at_mark in values.T]
    mean, low, high = np.array(estimates, dtype=np.float64).T
    return mean, low, high


def arrival(
    marks: NDArray[np.float64],
    curves: NDArray[np.float64],
    level: float | NDArray[np.float64],
    upwards: bool,
) -> NDArray[np.float64]:
    """Return the first mark where each curve reaches a level, infinity if it never does.

    >>> arrival(np.array([1.0, 2.0, 3.0]), np.array([[9.0, 4.0, 3.0]]), 5.0, upwards=False)
    array([2.])
    """
    good = curves >= level if upwards else curves <= level
    return np.where(good.any(axis=-1), marks[good.argmax(axis=-1)], np.inf)


def speed(
    marks: NDArray[np.float64], ours: Curves, theirs: Curves, upwards: bool
) -> tuple[float, Estimate]:
    """Return how soon the mean of our curves reaches the final mean of theirs.

    The result is the mark, and the speed-up, which is the last mark divided by this one, with a
    95% bootstrap interval. The bootstrap resamples groups of repetitions that share the first
    part of their key (the start or the run), since these are not independent.
    """
    keys = [key for key in ours if key in theirs]
    mine, other = (np.array([curves[key] for key in keys]) for curves in (ours, theirs))
    first = [key[0] for key in keys]
    groups = list(dict.fromkeys(first))
    member = np.array([[f == g for f in first] for g in groups], dtype=np.float64)

    def sooner(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return when our mean curve arrives, for each row of weights over repetitions."""
        weights = weights / weights.sum(axis=1, keepdims=True)
        return arrival(marks, weights @ mine, (weights @ other)[:, -1:], upwards)

    came = float(sooner(np.ones((1, len(keys))))[0])
    ratios = np.empty(0)
    if len(groups) > 1:
        picked = np.random.default_rng(0).multinomial(
            len(groups), np.full(len(groups), 1 / len(groups)), size=RESAMPLES
        )
        ratios = marks[-1] / sooner(picked @ member)
    low, high = np.quantile(ratios, [0.025, 0.975]) if ratios.size else (np.nan, np.nan)
    return came, Estimate(float(marks[-1] / came), float(low), float(high))


def shown(estimate: Estimate, digits: int = 1, zero: str | None = None) -> str:
    """Return an estimate as text, with its interval if it is finite; `zero` replaces 0.

    >>> shown(Estimate(2.0, 1.5, 2.5))
    '2.0 [1.5, 2.5]'
    >>> shown(Estimate(0.0, float("nan"), float("nan")), zero="never")
    'never'
    """
    value, low, high = (
        zero if zero is not None and number == 0 else f"{number:.{digits}f}" for number in estimate
    )
    known = np.isfinite(estimate.low) and np.isfinite(estimate.high)
    return f"{value} [{low}, {high}]" if known and value != zero else value
