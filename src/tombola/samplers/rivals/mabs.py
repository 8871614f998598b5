"""MABS: multi-armed bandit sampling, exponential weights on the linearised cost."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tombola.compiling import kernel
from tombola.samplers.arithmetic import normalised
from tombola.samplers.bounds import as_argument, bound_unit, checked_bounds, unit_for
from tombola.samplers.weighted import SMALL, Rule, Scored, WeightedSampler, rebuild
from tombola.state import Cell, cell, derived, real
from tombola.validation import positive_count, share

__all__ = ["MABS"]

ROOM = 4.0  # how far a log-weight may exceed the reference before the reference is raised
LARGEST = 2.0**500  # clips the gain and the steps of log-weights, so that sums stay finite


class MABSRule(Rule):
    """The step of log-weights, and what they are relative to."""

    unit: float = bound_unit()
    gain: float = derived("delta / n^2, for losses in that unit")
    reference: float = real("the log-weight of an item of value 1", default=0.0)


class MABSState(Scored):
    """Scores are the logarithms of exponential weights."""

    rule: Cell[MABSRule]

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """w(I_t) <- w(I_t) exp(delta a(I_t) / p_t(I_t)^3), in logarithms."""
        rule = self.rule[0]
        loss = normalised(loss, rule.unit)
        rise = rule.gain * loss * loss / probability / probability / probability
        self.scores[item] += min(rise, LARGEST)
        if self.scores[item] - rule.reference > ROOM:
            raise_reference(self, self.scores[item])

    def value(self, item: int) -> float:
        """Return w(i), relative to the reference."""
        return math.exp(self.scores[item] - self.rule[0].reference)


@kernel
def raise_reference(state: MABSState, score: Any) -> None:
    """Scale all values down by one factor: at once, or item by item during a sweep."""
    state.rule[0].reference = score
    n = state.scores.size
    if n <= SMALL:
        rebuild(state)
    else:
        state.sweep[0].pending = n


class MABS(WeightedSampler):
    """Multi-armed bandit sampling (Salehi, Celis, Thiran): exponential weights.

    EXP3 on the linearised cost; with a_t(i) = l_t(i)^2 / n^2 and w = 1 at the start:

        p_t(i) = (1 - eta) w(i) / sum_j w(j) + eta / n
        draw I_t ~ p_t;  w(I_t) *= exp(delta a_t(I_t) / p_t(I_t)^3)
        delta = sqrt(eta^4 ln n / (T n^5 A)),   A >= (1/n) sum_i a_t(i)^2

    It needs the horizon T and a bound L on the squared losses, which give A = L^2 / n^4 (with a
    bound L(i) for each item, the mean of L(i)^2 / n^4); or a step. A draw and an update take O(1).

    Guarantee: the average cost is at most 3 times that of the best fixed p, plus
    O(sqrt(n^5 A ln n / T)). The factor 3 is (1 - eta) / (1 - 2 eta) at eta = 0.4: less mixing makes
    the factor smaller and the second term larger, and from eta = 1/2 on there is no guarantee. The
    factor n^(5/2) makes delta tiny: over a few epochs the sampler stays close to uniform.

    Deviations: in a batch every draw counts as a round with late feedback, so `horizon` counts
    draws. The state holds log-weights, which are converted into integer weights of at least 1. With
    more than 2^20 items, each time the largest weight has grown e^4-fold the other weights are
    rescaled within n/2 losses; reported probabilities stay exact meanwhile. The rule uses exp and
    log, which differ in the last digit between processors: draws are reproducible on one platform
    only.

    Parameters
    ----------
    n : int
        The number of items.
    horizon : int, optional
        T, the number of draws planned.
    bound : float or array-like of shape (n,), optional
        L: an upper bound on the squared losses, one for all items or one for each.
    mixing : float in (0, 1], default=0.4
        eta, the share of uniform draws.
    step : float, optional
        delta itself, in units of 1 / loss^2, if it is tuned by hand; `horizon` and `bound` are then
        not needed.
    seed : int, default=0

    Attributes
    ----------
    step : float
        The delta in use.

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 9 + [1.0])
    >>> sampler = MABS(10, horizon=5000, bound=1.0)
    >>> for _ in range(5000):
    ...     draw = sampler.draw()
    ...     sampler.update(draw, losses[draw.indices])
    >>> bool(sampler.probabilities().argmax() == 9)
    True

    References
    ----------
    Salehi, Celis, Thiran (2017). Stochastic Optimization with Bandit Sampling.
    """

    state: MABSState

    def __init__(
        self,
        n: int,
        *,
        horizon: int | None = None,
        bound: ArrayLike | None = None,
        mixing: float = 0.4,
        step: float | None = None,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        mixing = share("mixing", mixing, zero=False)
        if step is None and (horizon is None or bound is None):
            raise ValueError("MABS needs a horizon and a bound, or a step")
        if step is not None and not 0 <= step < math.inf:
            raise ValueError(f"step must be finite and not negative, got {step}")
        if horizon is not None:
            horizon = positive_count("horizon", horizon, "draws")
        parameters = {"horizon": horizon, "bound": None, "mixing": mixing, "step": step}
        unit, size = 1.0, 1.0
        if bound is not None:
            bounds = checked_bounds(bound, n)
            parameters["bound"] = as_argument(bounds)
            unit = unit_for(bounds)
            size = math.sqrt(float(np.mean((bounds * unit * unit) ** 2)))  # n^2 sqrt(A)
        super().__init__(n, seed, parameters, quantity=quantity)
        if step is not None:
            gain = step / self.n**2 / unit / unit
        else:
            gain = mixing**2 * math.sqrt(math.log(n) / (float(horizon or 1) * n)) / n**2 / size
        self.step = float(step) if step is not None else gain * self.n**2 * unit * unit
        rule = MABSRule(mixing=mixing, unit=unit, gain=min(gain, LARGEST))
        self._begin(MABSState, rule=cell(rule), scores=np.full(self.n, 0.0))
