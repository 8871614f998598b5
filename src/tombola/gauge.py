"""Live estimates of the benefit of a sampler, from the bandit feedback alone.

With u = 1 / (n p) the importance of the item drawn and l its loss, l^2 u^2 is an unbiased
estimate of the sampler's second moment, (1/n^2) sum_i l_i^2 / p_i, and l^2 u is an unbiased
estimate of the second moment under uniform sampling, (1/n) sum_i l_i^2. The gauge reports the ratio
of their sums over all feedback: below 1, the sampler beats uniform sampling.

Two methods say how far the true ratio may be from it. For any r, the expectation of
z = l^2 u (u - r) has the sign of (true ratio - r), and both judge r by the sums of z and z^2.
`Gauge.interval` is asymptotic: it trusts that what was seen is typical. `Gauge.worst` assumes
nothing of the kind. ``docs/decisions/gauge.md`` has the coverage and the width of both.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.state import Cell, Record, cell, count, real

__all__ = ["Gauge", "Tally", "new_tally", "record", "record_many", "record_one"]


LARGEST_SUM = 2.0**460  # of 2^60 squared importances, each at most 2^400 ...
LARGEST_SPREAD = 2.0**990  # ... and of squared distances from their mean


class Tally(Record):
    """The rounds played by a sampler, and the sums behind its gauge.

    Let u be the importance of an item and l its loss, divided by the largest loss so far. A spread
    is the sum of squared distances from the running mean.
    """

    rounds: int = count("rounds played", default=0)
    count: int = count("losses received", default=0)
    ours: float = real("sum of l^2 u^2", 0.0, LARGEST_SUM, default=0.0)
    ours_spread: float = real("spread of l^2 u^2", 0.0, LARGEST_SPREAD, default=0.0)
    uniform: float = real("sum of l^2 u", 0.0, LARGEST_SUM, default=0.0)
    uniform_spread: float = real("spread of l^2 u", 0.0, LARGEST_SPREAD, default=0.0)
    cross_spread: float = real(
        "sum of the products of the two distances", -LARGEST_SPREAD, LARGEST_SPREAD, default=0.0
    )
    importance: float = real("sum of u", 0.0, LARGEST_SUM, default=0.0)
    importance_squared: float = real("sum of u^2", 0.0, LARGEST_SUM, default=0.0)
    surprise: float = real("sum of -log p", 0.0, LARGEST_SUM, default=0.0)
    largest_loss: float = real("the largest loss so far", default=0.0)
    largest_importance: float = real("the largest u so far", 0.0, LARGEST_SUM, default=0.0)


def new_tally() -> Cell[Tally]:
    """Return a tally before the first round."""
    return cell(Tally())


@kernel(inline=True)
def record_one(tally: Cell[Tally], n: Any, probability: Any, loss: Any) -> None:
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
    tally: Cell[Tally],
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


def record_many(
    tally: Cell[Tally],
    n: int,
    probabilities: NDArray[np.float64],
    losses: NDArray[np.float64],
) -> int:
    """Do as `record`, in numpy: for large batches, without compiling."""
    bad = ~((losses >= 0.0) & (losses < np.inf))
    if bad.any():
        return int(bad.argmax())
    sums = tally[0]
    largest = max(float(losses.max(initial=0.0)), sums.largest_loss)
    if largest > sums.largest_loss:
        ratio = (sums.largest_loss / largest) ** 2
        sums.ours, sums.uniform = sums.ours * ratio, sums.uniform * ratio
        for name in ("ours_spread", "uniform_spread", "cross_spread"):
            tally[name] *= ratio * ratio
        sums.largest_loss = largest
    u = np.minimum(1.0 / (n * probabilities), 2.0**200)
    uniform: Any = (losses / (largest or 1.0)) ** 2 * u
    ours = uniform * u
    counts = np.maximum(np.arange(sums.count, sums.count + losses.size), 1)
    ours_distances = ours - (sums.ours + np.cumsum(ours) - ours) / counts
    uniform_distances = uniform - (sums.uniform + np.cumsum(uniform) - uniform) / counts
    sums.ours_spread += float(ours_distances @ ours_distances)
    sums.uniform_spread += float(uniform_distances @ uniform_distances)
    sums.cross_spread += float(ours_distances @ uniform_distances)
    sums.ours += ours.sum()
    sums.uniform += uniform.sum()
    sums.importance += u.sum()
    sums.importance_squared += float(u @ u)
    sums.surprise -= np.log(probabilities).sum()
    sums.largest_importance = max(sums.largest_importance, float(u.max(initial=0.0)))
    sums.count += losses.size
    return -1


@dataclass(eq=False, repr=False)
class Gauge:
    """The benefit of a sampler, estimated from the feedback so far; a live view, cheap to make.

    Attributes
    ----------
    tally : record
        The sums, as the sampler goes on adding to them; see `Tally`.
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

    tally: Cell[Tally]
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
        """Return an asymptotic confidence sequence for the ratio: what the feedback suggests.

        The ratios r that (sum z)^2 <= f^2 sum z^2 does not exclude, with z = l^2 u (u - r) and the
        factor f of a normal mixture (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2024). The
        interval may be read at any time, and as often as one likes.

        It is asymptotic: it holds once the largest terms are a small part of their sums. Items
        that are rarely drawn and not yet seen are *not* in it, however large their losses may be;
        do not call a sampler harmless because of it. That is for `worst` to say.
        """
        alpha = 1 - _checked(confidence)
        sums, limit = self._sums, self._limit
        if not sums.uniform > 0:
            return 0.0, limit
        factor = _normal_mixture(sums.count, self.n, alpha)
        # for x = r / (ours / uniform): (1 - x)^2 <= f^2 sum z^2 / ours^2, or a x^2 - 2 b x + c <= 0
        square, product, constant = _second_order(sums)
        a = 1 - factor * square / sums.uniform**2
        b = 1 - factor * product / (sums.ours * sums.uniform)
        c = 1 - factor * constant / sums.ours**2
        if not a > 0:
            return 0.0, limit  # not even the second moment of uniform sampling is known
        root = math.sqrt(max(0.0, b * b - a * c))
        ratio = self.second_moment_ratio / a
        return max(0.0, float(ratio * (b - root))), min(limit, float(ratio * (b + root)))

    def worst(self, confidence: float = 0.95) -> float:
        """Return the largest ratio that the feedback does not exclude; it holds at all times.

        It holds with this confidence however feedback depends on the past, *provided that no
        item's loss exceeds the largest one seen*: no finite number of draws can exclude an
        enormous loss of a rarely drawn item. It is far above the ratio, by design, where rare
        items could matter. A sampler is harmless if this is below 1.

        For each ratio r of a grid, a gambler bets that z = l^2 u (u - r) is negative on average,
        with a mixture of constant bets. At all times, the wealth is below 1 / (1 - confidence) with
        this confidence if the true ratio is r or more.
        """
        alpha = 1 - _checked(confidence)
        sums, limit = self._sums, self._limit
        if not sums.uniform > 0 or not math.isfinite(limit):
            return limit
        above = (sums.ours / sums.uniform < RATIOS) & (limit > RATIOS)
        ratios = RATIOS[above]
        # If the true ratio is r or more, so it is for all smaller ratios: their wealth counts, too.
        wealth = np.logaddexp.accumulate(_log_wealth(sums, ratios, limit) + LOG_PRIOR[above])
        excluded = ratios[wealth >= -math.log(alpha)]
        return float(excluded[0]) if len(excluded) else limit

    @property
    def _limit(self) -> float:
        """What no importance exceeds, and so no ratio either."""
        return max(self.importance_limit, float(self._sums.largest_importance))

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
            "ratio_worst": self.worst(),
            "effective_sample_size": self.effective_sample_size,
            "entropy": self.entropy,
            "entropy_of_uniform": math.log(self.n),
            "largest_importance": self.largest_importance,
        }

    def __repr__(self) -> str:
        if self.count == 0:
            return f"Gauge(no feedback yet, {self.mode})"
        low, high = self.interval()
        return (
            f"Gauge(second moment of the {self.quantity} estimate over uniform's: "
            f"{self.second_moment_ratio:.3g} in [{low:.3g}, {high:.3g}], "
            f"at worst {self.worst():.3g}, {self.count} losses, {self.mode})"
        )


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    return confidence


def _second_order(sums: Any) -> tuple[float, float, float]:
    """Return the sums of v^2, v w and w^2 for v = l^2 u and w = l^2 u^2, rounded up.

    Spreads are around running means, where they are no smaller than around the final mean; adding
    the square of that mean gives sums such that sum z^2 is never too small, whatever r.
    """
    ours, uniform, count = sums.ours, sums.uniform, sums.count
    return (
        sums.uniform_spread + uniform * uniform / count,
        sums.cross_spread + ours * uniform / count,
        sums.ours_spread + ours * ours / count,
    )


def _normal_mixture(count: int, n: int, alpha: float) -> float:
    """Return f^2: at all times, a sum of `count` terms is within f standard deviations.

    For a Brownian motion W, |W_t|^2 <= t f^2 at all times t with probability 1 - alpha, where
    f^2 = (1 + 1/x) log((1 + x) / alpha^2), x = rho^2 t. It is smallest about t = n.
    """
    log = -2 * math.log(alpha)
    x = (log + math.log1p(log)) * count / n
    return (1 + 1 / x) * (math.log1p(x) + log)


OCTAVE = 64  # ratios of the grid from r to 2 r
RATIOS = 2.0 ** (np.arange(-12 * OCTAVE, 12 * OCTAVE + 1) / OCTAVE)
LOG_PRIOR = -np.log1p(np.log2(RATIOS) ** 2)
LOG_PRIOR -= np.log(np.exp(LOG_PRIOR).sum())
_STEPS = np.arange(60.0)[:, np.newaxis]
BETS = 2.0 ** (-_STEPS / 2)
LOG_SHARES = np.log(8 / ((_STEPS + 8) * (_STEPS + 9)))  # of the wealth at the start; below 1 in all


def _log_wealth(sums: Any, ratios: NDArray[np.float64], limit: float) -> NDArray[np.float64]:
    """Return a lower bound on the logarithm of a gambler's wealth, for each ratio.

    With l <= 1 and 0 <= u <= limit, z = l^2 u (u - r) is at most w = limit (limit - r). A bet b
    with b w < 1 multiplies the wealth by 1 - b z, which is at least exp(-b z - psi(b w) z^2 / w^2)
    with psi(s) = -log(1 - s) - s (Fan, Grama, Liu 2015). Thus the sums of z and z^2 are enough.
    The wealth relative to exp(-b sum of the conditional means of z) is a supermartingale, as
    1 - b m <= exp(-b m): a bet must not change over time, else it would be about another average.
    The bets are those of a fixed grid, as w may grow; those that are too large count nothing.
    """
    total = sums.ours - ratios * sums.uniform
    square, product, constant = _second_order(sums)
    squares = np.maximum(0.0, constant - 2 * ratios * product + ratios**2 * square)
    width = limit * (limit - ratios)
    share = BETS * width
    allowed = share < 1
    share = np.where(allowed, share, 0.0)
    psi = -np.log1p(-share) - share
    log_wealth = np.where(allowed, LOG_SHARES - BETS * total - psi * squares / width**2, -np.inf)
    wealth: NDArray[np.float64] = np.logaddexp.reduce(log_wealth, axis=0)
    return wealth
