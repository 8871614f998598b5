"""Estimates over repetitions of a game, with Student's confidence intervals."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tombola.ledger.accounting import Ledger

__all__ = ["Estimate", "mean_estimate", "pseudo_regret", "student"]


class Estimate(NamedTuple):
    """A value estimated from repetitions, and its confidence interval."""

    value: float
    low: float
    high: float


def mean_estimate(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the mean over repetitions with Student's interval.

    The interval is infinite if there is only one repetition.

    Examples
    --------
    >>> [round(number, 3) for number in mean_estimate([1.0, 2.0, 3.0])]
    [2.0, -0.484, 4.484]
    """
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if len(array) < 2:
        return Estimate(mean, -math.inf, math.inf)
    margin = student(confidence, len(array) - 1) * float(array.std(ddof=1)) / math.sqrt(len(array))
    return Estimate(mean, mean - margin, mean + margin)


def pseudo_regret(ledgers: Sequence[Ledger], confidence: float = 0.95) -> Estimate:
    """Estimate the pseudo-regret from repetitions of the same game.

        (1/n^2) (E sum_t f_t(p_t) - min_p E sum_t f_t(p))

    Both expectations are means over the ledgers. The minimum is not linear in these means, so
    the interval uses the jackknife variance with Student's quantile. If all repetitions have
    the same losses, the estimate is the mean of their regrets.

    Parameters
    ----------
    ledgers : sequence of Ledger
        Played with different seeds, over the same number of items and rounds.
    confidence : float, default=0.95

    Returns
    -------
    Estimate

    Examples
    --------
    >>> first, second = Ledger(2), Ledger(2)
    >>> first.record([0.5, 0.5], [1.0, 0.0])
    >>> second.record([0.5, 0.5], [0.0, 1.0])
    >>> first.regret, second.regret, abs(pseudo_regret([first, second]).value) < 1e-12
    (0.25, 0.25, True)

    References
    ----------
    Borsos, Krause, Levy (2018), equation before Theorem 7.
    """
    shapes = {(ledger.n, ledger.rounds) for ledger in ledgers}
    if len(shapes) != 1:
        raise ValueError(f"ledgers must share n and rounds, got {sorted(shapes)}")
    n, count = ledgers[0].n, len(ledgers)
    costs = np.array([ledger.cost for ledger in ledgers])
    squares = np.array([ledger.squares for ledger in ledgers])

    def value(cost: Any, square: Any) -> Any:
        return (cost - np.sqrt(square).sum(axis=-1) ** 2) / n**2

    centre = float(value(costs.mean(), squares.mean(axis=0)))
    if count < 2:
        return Estimate(centre, -math.inf, math.inf)
    left_out = value(
        (costs.sum() - costs) / (count - 1),
        np.maximum(squares.sum(axis=0) - squares, 0.0) / (count - 1),
    )
    error = math.sqrt((count - 1) * float(left_out.var()))
    margin = student(confidence, count - 1) * error
    return Estimate(centre, centre - margin, centre + margin)


def student(confidence: float, freedom: int) -> float:
    """Return t such that P(|T| <= t) = confidence, for Student's distribution.

    Examples
    --------
    >>> round(student(0.95, 2), 3), round(student(0.95, 9), 3)
    (4.303, 2.262)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if _within(angle, freedom) < confidence:
            low = angle
        else:
            high = angle
    return math.tan(low) * math.sqrt(freedom)


def _within(angle: float, freedom: int) -> float:
    """P(|T| <= tan(angle) sqrt(freedom)): Abramowitz, Stegun (1964), 26.7.3 and 26.7.4."""
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(freedom // 2):
        total += term
        term *= cosine**2 * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total
