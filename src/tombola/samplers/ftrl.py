"""Follow the regularised leader, with the losses of all items in every round."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.samplers.arithmetic import normalised
from tombola.samplers.bounds import as_argument, bound_unit, checked_bounds, unit_for
from tombola.samplers.weighted import Rule, Scored, WeightedSampler, rebuild
from tombola.state import Cell, cell

__all__ = ["FTRL"]


class FTRLRule(Rule):
    """The unit of the losses."""

    unit: float = bound_unit()


class FTRLState(Scored):
    """Scores are sums of squared losses, plus the bound."""

    rule: Cell[FTRLRule]

    def value(self, item: int) -> float:
        """Lemma 2: p_t(i) is proportional to sqrt(l_{1:t-1}^2(i) + L)."""
        return math.sqrt(self.scores[item])


@kernel
def absorb_all(state: FTRLState, losses: NDArray[np.float64]) -> None:
    """Add the losses of one round to the scores, and recompute all weights."""
    for item in range(losses.size):
        loss = normalised(losses[item], state.rule[0].unit)
        state.scores[item] += loss * loss
    rebuild(state)


class FTRL(WeightedSampler):
    """Follows the regularised leader: learns from *all* n losses of every round.

    With a bound L on the squared losses:

        p_t(i) ~ sqrt(sum_{s < t} l_s(i)^2 + L)

    This is the full-information player that `VRB` approximates from bandit feedback. It serves as a
    reference: if all n losses are known, there is rarely a need to sample. Feedback goes to
    `update_all`; `update`, with the losses of drawn items only, raises a TypeError. The gauge
    therefore stays empty; with all losses known, costs and regret can be computed exactly.

    It needs the losses of all items in every round, in any order of rounds, and the bound. A draw
    takes O(1), an update O(n).

    Guarantee (Theorem 3): with losses within the bound, the regret after T rounds is at most
    27 sqrt(L) / n * sum_i sqrt(sum_t l_t(i)^2) + 44 L, hence 27 L sqrt(T) + 44 L. The paper has no
    proof for per-item bounds. There is no mixing: p has no fixed floor.

    Deviations: weights are rounded to integers, with a total of about 2^50.

    Parameters
    ----------
    n : int
    bound : float or array-like of shape (n,)
        L: an upper bound on the squared losses, one for all items or one for each.
    seed : int, default=0

    Examples
    --------
    >>> sampler = FTRL(2, bound=1.0)
    >>> sampler.probabilities()
    array([0.5, 0.5])
    >>> for _ in range(8):
    ...     sampler.update_all([1.0, 0.0])
    >>> sampler.probabilities()                     # in proportion to sqrt(8 + 1) and sqrt(1)
    array([0.75, 0.25])

    References
    ----------
    Borsos, Krause, Levy (2018). Online Variance Reduction for Stochastic Optimization.
    """

    state: FTRLState
    feedback = "all"

    def __init__(self, n: int, bound: ArrayLike, *, quantity: str = "loss", seed: int = 0) -> None:
        bounds = checked_bounds(bound, n)
        super().__init__(n, seed, {"bound": as_argument(bounds)}, quantity=quantity)
        unit = unit_for(bounds)
        scores = np.full(self.n, 1.0) * (bounds * unit * unit)
        self._begin(FTRLState, rule=cell(FTRLRule(unit=unit)), scores=scores)

    def update_all(self, losses: ArrayLike) -> None:
        """Learn from one round.

        Parameters
        ----------
        losses : array-like of float, shape (n,)
            The loss of every item; non-negative and finite.
        """
        absorb_all(self.state, self._checked_all(losses))
