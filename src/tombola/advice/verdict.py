"""The verdict: what an interval says about a threshold. There is no other rule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from tombola.validation import checked_values, number, positive

__all__ = ["LEVEL", "THRESHOLD", "Verdict", "decide", "interval", "judge"]

THRESHOLD = 0.9  # a change pays if it takes less than this share of the time
LIMIT = 1.0  # and surely does not if it takes more; in between, more steps may show a gain
LEVEL = 0.9  # confidence of intervals


@dataclass(frozen=True)
class Verdict:
    """Whether a change pays: a ratio with its interval, against a threshold.

    Attributes
    ----------
    pays : bool or None
        True if the whole interval is below the threshold, False if it is above the limit; None, too
        close to call, in between.
    ratio, low, high : float
        What was measured, and its interval; below 1 is better.
    threshold, limit : float
        Less than the threshold pays, more than the limit does not.
    runs : int
        The number of ratios that it comes from.
    settle : str
        What would settle it, if it is too close to call.
    veto : str
        Why it does not pay, or is too close to call, whatever the times: another interval says so.
    """

    pays: bool | None
    ratio: float
    low: float
    high: float
    threshold: float = THRESHOLD
    limit: float = LIMIT
    runs: int = 1
    settle: str = ""
    veto: str = ""

    @property
    def word(self) -> str:
        """The verdict in words: "pays", "does not pay" or "too close to call"."""
        return {True: "pays", False: "does not pay", None: "too close to call"}[self.pays]

    def __str__(self) -> str:
        more = f", and {self.veto}" if self.veto else ""
        more += f"; {self.settle}" if self.pays is None and self.settle else ""
        if not self.runs:
            return f"{self.word}: nothing was measured{more}"
        return (
            f"{self.word}: {self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}] times as long, "
            f"where less than {self.threshold:.2g} pays and more than {self.limit:.2g} does not"
            f"{more}"
        )


def judge(
    interval: tuple[float, float], threshold: float, limit: float | None = None
) -> bool | None:
    """Return True if an interval is at or below a threshold, False if above a limit, else None.

    The limit is the threshold unless it is given.

    Examples
    --------
    >>> judge((0.5, 0.7), 0.9), judge((0.95, 1.2), 0.9), judge((0.8, 1.0), 0.9)
    (True, False, None)
    >>> judge((0.95, 1.2), 0.9, limit=1.0)
    """
    low, high = interval
    if high <= threshold:
        return True
    return False if low > (threshold if limit is None else limit) else None


def interval(values: ArrayLike, level: float = LEVEL) -> tuple[float, float, float]:
    """Return the mean of values, and its interval by Student's t.

    A single value has no interval: it is from minus infinity to infinity.
    """
    given = np.asarray(values, dtype=np.float64)
    if not len(given) or not np.isfinite(given).all():
        return math.nan, -math.inf, math.inf
    middle, margin = float(given.mean()), math.inf
    if len(given) > 1:
        error = float(given.std(ddof=1)) / math.sqrt(len(given))
        margin = float(stdtrit(len(given) - 1, (1.0 + level) / 2.0)) * error
    return middle, middle - margin, middle + margin


def decide(
    ratios: Sequence[float],
    *,
    threshold: float = THRESHOLD,
    level: float = LEVEL,
    settle: str = "more seeds",
) -> Verdict:
    """Return the verdict on paired ratios of times, one for each seed: below 1 is better.

    Parameters
    ----------
    ratios : sequence of float
        Positive: the time with a change over the time without, from the same seed.
    threshold : float, default=0.9
        A change pays if the interval of the geometric mean is below it, and does not pay if the
        interval is above 1, where nothing is saved.
    level : float, default=0.9
        The confidence of the interval, by Student's t on the logarithms.
    settle : str
        What would settle it, if it is too close to call.

    Examples
    --------
    >>> print(decide([0.61, 0.55, 0.58]))
    pays: 0.58 [0.53, 0.63] times as long, where less than 0.9 pays and more than 1 does not
    >>> print(decide([0.80, 0.61, 1.15]))
    too close to call: 0.82 [0.48, 1.41] times as long, where less than 0.9 pays and more than 1 \
does not; more seeds
    """
    given = checked_values(ratios, "ratios", 1)
    if (given <= 0).any():
        j = int((given <= 0).argmax())
        raise ValueError(f"ratios[{j}] is {given[j]:g}: ratios of times are positive")
    threshold, level = positive("threshold", threshold), number("level", level)
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level:g}")
    with np.errstate(over="ignore"):
        ratio, low, high = map(float, np.exp(interval(np.log(given), level)))
    pays = judge((low, high), threshold, LIMIT)
    return Verdict(pays, ratio, low, high, threshold, LIMIT, len(ratios), settle)
