"""Fixed distributions: importance sampling with weights that are known in advance."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.index.real import power_of_two_near
from tombola.samplers.bounds import check_numbers
from tombola.samplers.groups import group_numbers
from tombola.samplers.weighted import Rule, Scored, WeightedSampler
from tombola.state import Floats, cell, derived
from tombola.validation import share

__all__ = ["Static"]


class StaticState(Scored):
    """Learns nothing; the scores are the given weights."""

    scores: Floats = derived("the given weights")

    def value(self, item: int) -> float:
        """Return the given weight of the item."""
        return self.scores[item]


class Static(WeightedSampler):
    """Draws in proportion to fixed weights; learns nothing.

    With weights a and mixing theta:

        p(i) = (1 - theta) a(i) / sum_j a(j) + theta / n

    With bounds on the gradient norms as weights (for linear models, the norms of the rows), this is
    the sampling of Zhao and Zhang. `partially_biased` and `balanced` make two other choices.

    It needs the weights. Construction takes O(n), a draw O(1); feedback only updates the gauge.
    Without mixing, an item of weight 0 is never drawn, so estimates leave it out: they are biased
    unless its value is 0.

    Deviations: weights are rounded to integers with a total of about 2^50 (at least 1 if the weight
    is above 0), so p differs from the formula by about n / 2^50; a draw reports the p that it was
    drawn with.

    Parameters
    ----------
    weights : array-like of float, shape (n,)
        Finite and not negative, at least one of them above 0; in any unit.
    mixing : float in [0, 1], default=0.0
        theta, the share of uniform draws.
    seed : int, default=0

    Examples
    --------
    >>> Static([1.0, 0.0, 3.0]).probabilities()
    array([0.25, 0.  , 0.75])
    >>> Static.balanced(["cat", "dog", "dog"]).probabilities().round(3)
    array([0.5 , 0.25, 0.25])

    References
    ----------
    Zhao, Zhang (2015). Stochastic Optimization with Importance Sampling for Regularized Loss
    Minimization.
    Needell, Srebro, Ward (2014). Stochastic Gradient Descent, Weighted Sampling, and the
    Randomized Kaczmarz algorithm.
    """

    state: StaticState

    def __init__(
        self, weights: ArrayLike, *, mixing: float = 0.0, quantity: str = "loss", seed: int = 0
    ) -> None:
        given = _checked_weights(weights)
        mixing = share("mixing", mixing)
        parameters = {"weights": given, "mixing": mixing}
        super().__init__(given.size, seed, parameters, quantity=quantity)
        del self.parameters["n"]  # implied by the weights; `Static` does not take it
        scaled = given / power_of_two_near(float(given.max()))
        scores = np.where(given > 0, np.maximum(scaled, 2.0**-1000), 0.0)
        self._begin(StaticState, rule=cell(Rule(mixing=mixing)), scores=scores, least=0)
        chances = self.probabilities()
        self._limit = float(1.0 / (self.n * chances[chances > 0].min()))

    @classmethod
    def partially_biased(cls, lipschitz: ArrayLike, *, seed: int = 0) -> "Static":
        """Return the sampler of Needell, Srebro and Ward: p(i) = 1/(2n) + L(i) / (2 sum_j L(j)).

        Importances are at most 2, so the noise at most doubles, and L(i) / (n p(i)) is at most
        twice the mean of L: step sizes can depend on the mean instead of the maximum. Equivalent to
        ``Static(lipschitz, mixing=0.5)``.
        """
        return cls(lipschitz, mixing=0.5, seed=seed)

    @classmethod
    def balanced(cls, groups: ArrayLike, *, seed: int = 0) -> "Static":
        """Return a sampler that draws all groups equally often, and uniformly within a group.

        ``groups`` holds the group of each item, for example its class. With K groups, each of the m
        items of a group has p = 1 / (K m).
        """
        numbers, _ = group_numbers(groups)
        return cls(1.0 / np.bincount(numbers)[numbers], seed=seed)

    def _largest_importance(self) -> float:
        return self._limit


def _checked_weights(weights: ArrayLike) -> NDArray[np.float64]:
    """Return a read-only copy, or raise an error that names the first bad weight."""
    array = np.asarray(weights)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"weights must hold numbers, got dtype {array.dtype}")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"weights must have shape (n,) with n at least 1, got {array.shape}")
    given = array.astype(np.float64)
    check_numbers("weights", given)
    if not given.any():
        raise ValueError(f"all {given.size} weights are 0: at least one must be above 0")
    given.flags.writeable = False
    return given
