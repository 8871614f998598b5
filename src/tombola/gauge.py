"""Live estimates of the benefit of a sampler, from the bandit feedback alone.

With u = 1 / (n p) the importance of the item drawn and l its loss, l^2 u^2 is an unbiased
estimate of the sampler's second moment, (1/n^2) sum_i l_i^2 / p_i, and l^2 u is an unbiased
estimate of the second moment under uniform sampling, (1/n) sum_i l_i^2. The gauge reports the ratio
of their sums over all feedback: below 1, the sampler beats uniform sampling.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, new_record
from tombola.compiling.records import Record

__all__ = ["Gauge", "new_tally", "record", "record_one"]


def new_tally() -> Record:
    """Return a new tally: the rounds played by a sampler, and the sums behind its gauge.

    Let u be the importance of an item and l its loss, divided by the largest loss so far. Then
    "ours" is the sum of l^2 u^2 and "uniform" the sum of l^2 u. A spread is the sum of squared
    distances from the running mean; the cross spread sums the products of the two distances.
    """
    return new_record(
        rounds=0,
        count=0,
        ours=0.0,
        ours_spread=0.0,
        uniform=0.0,
        uniform_spread=0.0,
        cross_spread=0.0,
        importance=0.0,
        importance_squared=0.0,
        surprise=0.0,  # sum of -log p
        largest_loss=0.0,
        largest_importance=0.0,
    )


@kernel(inline=True)
def record_one(tally: Record, n: Any, probability: Any, loss: Any) -> None:
    """Add one loss; losses are rescaled such that the largest one is 1."""
    sums = tally[0]
    if loss > sums.largest_loss:
        ratio = sums.largest_loss / loss
        sums.ours *= ratio * ratio
        sums.uniform *= ratio * ratio
        sums.ours_spread *= ratio * ratio * ratio * ratio
        sums.uniform_spread *= ratio * ratio * ratio * ratio
        sums.cross_spread *= ratio * ratio * ratio * ratio
        sums.largest_loss = loss
    relative = loss / sums.largest_loss if sums.largest_loss > 0.0 else 0.0
    u = min(1.0 / (n * probability), 2.0**200)  # keeps its fourth power finite
    count = max(1.0, sums.count)
    uniform = relative * relative * u
    ours = uniform * u
    ours_distance = ours - sums.ours / count
    uniform_distance = uniform - sums.uniform / count
    sums.ours_spread += ours_distance * ours_distance
    sums.uniform_spread += uniform_distance * uniform_distance
    sums.cross_spread += ours_distance * uniform_distance
    sums.ours += ours
    sums.uniform += uniform
    sums.importance += u
    sums.importance_squared += u * u
    sums.surprise -= math.log(probability)
    sums.largest_importance = max(sums.largest_importance, u)
    sums.count += 1


@kernel
def record(
    tally: Record,
    n: Any,
    probabilities: NDArray[np.float64],
    losses: NDArray[np.float64],
) -> Any:
    """Add a batch and return -1, or add nothing and return the first position of a bad loss."""
    for j in range(losses.size):
        if not 0.0 <= losses[j] < np.inf:
            return j
    for j in range(losses.size):
        record_one(tally, n, probabilities[j], losses[j])
    return -1


@dataclass(eq=False, repr=False)
class Gauge:
    """The benefit of a sampler, estimated from the feedback so far; a live view, cheap to make.

    Attributes
    ----------
    tally : record
        The sums, as the sampler goes on adding to them; see `new_tally`.
    n : int
        The number of items.
    importance_limit : float
        What no importance of a draw exceeds; infinity if unknown.
    count : int
        The number of losses received.
    mode : str
        The sampler's current mode: "adaptive" or "shuffle".
    quantity : str
        The kind of feedback: "loss" or "gradient norm". The ratio is that of *this* quantity.

    Examples
    --------
    >>> import tombola
    >>> sampler = tombola.Static([1.0, 1.0, 2.0])
    >>> draw = sampler.draw(1000)
    >>> sampler.update(draw, [[1.0, 1.0, 2.0][i] for i in draw.indices])
    >>> round(sampler.gauge.second_moment_ratio, 1)     # (1+1+2)^2 / (3 * (1+1+4)) = 0.889
    0.9
    """

    tally: Record
    n: int
    importance_limit: float = math.inf
    mode: str = "adaptive"
    quantity: str = "loss"

    @property
    def _sums(self) -> Any:
        return self.tally[0]

    @property
    def count(self) -> int:
        """The number of losses received."""
        return int(self._sums.count)

    @property
    def second_moment_ratio(self) -> float:
        """The sampler's second moment over that of uniform sampling; nan before any feedback."""
        uniform = self._sums.uniform
        return float(self._sums.ours / uniform) if uniform > 0 else math.nan

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return bounds on the ratio that hold simultaneously at all times.

        They hold with this confidence however feedback depends on the past, also if the sampler
        does worse than uniform sampling, *provided that no item's loss exceeds the largest one
        seen*: no finite number of draws can exclude an enormous loss of a rarely drawn item. The
        interval is wide, by design, where rare items could matter.

        For each ratio r of a grid, the mean of z = l^2 u (u - r) has the sign of (true ratio - r),
        and the floor on p bounds the range of z. A time-uniform empirical Bernstein inequality
        (Howard, Ramdas, McAuliffe, Sekhon 2021) determines for which r the sign is certain.
        """
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
        limit = max(self.importance_limit, float(self._sums.largest_importance))
        if self._sums.uniform <= 0 or not math.isfinite(limit):
            return 0.0, limit
        ratios = limit * 2.0 ** (-np.arange(385) / 32)  # down to limit / 4096
        alpha = (1 - confidence) / (2 * len(ratios))
        total, margin = _deviation(self._sums, ratios, limit, alpha)
        above, below = ratios[total + margin < 0], ratios[total - margin > 0]
        high = float(above.min()) if len(above) else limit
        return float(below.max()) if len(below) else 0.0, high

    @property
    def effective_sample_size(self) -> float:
        """Kish's effective sample size, (sum u)^2 / sum u^2."""
        squared = self._sums.importance_squared
        return float(self._sums.importance**2 / squared) if squared > 0 else 0.0

    @property
    def entropy(self) -> float:
        """Estimated entropy of the sampling distribution, in nats; log n if uniform."""
        return float(self._sums.surprise / self.count) if self.count else math.nan

    @property
    def largest_importance(self) -> float:
        """The largest importance among the draws with feedback."""
        return float(self._sums.largest_importance)

    def summary(self) -> dict[str, Any]:
        """Return all estimates by name, for logs and reports."""
        low, high = self.interval()
        return {
            "quantity": self.quantity,
            "mode": self.mode,
            "count": self.count,
            "second_moment_ratio": self.second_moment_ratio,
            "ratio_low": low,
            "ratio_high": high,
            "effective_sample_size": self.effective_sample_size,
            "entropy": self.entropy,
            "entropy_of_uniform": math.log(self.n),
            "largest_importance": self.largest_importance,
        }

    def __repr__(self) -> str:
        low, high = self.interval()
        return (
            f"Gauge(second moment of the {self.quantity} estimate over uniform's: "
            f"{self.second_moment_ratio:.3g} in [{low:.3g}, {high:.3g}], "
            f"{self.count} losses, {self.mode})"
        )


def _deviation(
    sums: Any, ratios: NDArray[np.float64], limit: float, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sums of z = l^2 u (u - r), and how far they may deviate from their expectations.

    With l <= 1 and 0 <= u <= limit, z lies in an interval of length w. For x_t in an interval of
    length 1 with conditional mean m_t, any predictable guess g_t in it and 0 < s < 1,
    exp(s sum(x_t - m_t) - psi(s) sum(x_t - g_t)^2) with psi(s) = -log(1 - s) - s is a
    supermartingale, so sum(x_t - m_t) <= (log(1/a) + psi(s) V) / s at all times with
    probability 1 - a; the lower bound is analogous. We take the best s of a grid, each with its
    share of alpha, and use the running mean as the guess.
    """
    total = sums.ours - ratios * sums.uniform
    spread = sums.ours_spread - 2 * ratios * sums.cross_spread + ratios**2 * sums.uniform_spread
    width = limit * (limit - ratios) + ratios**2 / 4
    k = np.arange(1, 40)[:, np.newaxis]
    s = 2.0**-k
    share = np.log(k * (k + 1) / alpha)
    psi = -np.log1p(-s) - s
    margin = ((share + psi * np.maximum(spread, 0.0) / width**2) / s).min(axis=0) * width
    return total, margin
