"""Online stochastic mirror descent: raises the probability of items with large losses."""

import math

import numpy as np

from tombola.compiling import kernel
from tombola.samplers.arithmetic import normalised
from tombola.samplers.bounds import unit_for
from tombola.samplers.rivals import mirror
from tombola.samplers.rivals.projections import floor_level, value_of_others
from tombola.samplers.weighted import Scored, WeightedSampler, rebuild
from tombola.state import Cell, Floats, array, cell, derived, real
from tombola.validation import positive, share

__all__ = ["OSMD"]

TOLERANCE = 0.99  # the projection is due when p would fall below this share of its floor
LARGEST = 2.0**500  # when a mass exceeds this, all masses are divided by it


class OSMDRule(mirror.SteppedRule):
    """The step, which is the logarithm of the largest rise, and the floor."""

    bound: float = derived("L, in that unit")
    floor: float = derived("alpha")
    least: float = derived("the floor of p")
    level: float = real("the mass of an item at the floor", 1e-300, LARGEST)


class OSMDState(Scored):
    """Entropic mirror descent above a floor; the score of an item is its mass."""

    rule: Cell[OSMDRule]
    scores: Floats = array("the mass of each item", 0.0, LARGEST)

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """q(i) <- q(i) exp(eta a(i) / p(i)^3), then the KL projection onto {q >= alpha / n}."""
        rule, n = self.rule[0], self.scores.size
        squared = normalised(loss, rule.unit) ** 2 / rule.bound  # l^2 / L
        shrunk = min(1.0, rule.floor / (n * probability))  # alpha / (n p)
        rise = mirror.current_step(rule, n) * min(1.0, squared * shrunk * shrunk * shrunk)
        mass = max(self.scores[item], rule.level) * math.exp(rise)
        self.scores[item] = mass
        total = value_of_others(self, item) + mass
        if rule.level < TOLERANCE * rule.least * total or mass > LARGEST:
            project(self)

    def value(self, item: int) -> float:
        """Return the mass of the item, or the level of the floor if that is higher."""
        return max(self.scores[item], self.rule[0].level)


@kernel
def project(state: OSMDState) -> None:
    """Raise all masses below the floor to it: this is the projection, as masses need no sum."""
    rule, scores = state.rule[0], state.scores
    largest = 0.0
    for item in range(scores.size):
        scores[item] = max(scores[item], rule.level)
        largest = max(largest, scores[item])
    if largest > LARGEST:
        rule.level /= LARGEST
        for item in range(scores.size):
            scores[item] /= LARGEST
    rule.level = max(rule.level, floor_level(scores, rule.least))
    rebuild(state)


class OSMD(WeightedSampler):
    """Online stochastic mirror descent (Zhao et al.): exponential weights above a floor.

    With a(i) = l(i)^2 / n^2 and a floor of alpha / n:

        draw I ~ p;  q(I) = p(I) exp(eta a(I) / p(I)^3)
        p = the KL projection of q onto {p >= alpha / n} = max(c q, alpha / n)
        eta = (alpha^3 / (n L)) sqrt(ln n / (2 T)),  with L the bound on the squared losses

    An item that is drawn twice in a batch rises twice.

    Guarantee: dynamic regret that grows with the total variation of the distribution that it is
    compared with. eta is such that one loss raises a probability by a factor of at most
    exp(sqrt(ln n / (2 T))): as tuned by the theory, it stays close to uniform draws for hundreds
    of epochs.

    It needs a bound. A draw takes O(1), and so does an update, but for a pass over all items each
    time the total mass has grown by one part in a hundred. Memory is 24 bytes per item.

    Deviations: a batch of K draws counts as K rounds with the same p, so that the authors' 1/K^2 is
    part of eta. Their code overwrites the multiplicities of a batch, here they are summed. Between
    two projections p may fall to 0.99 alpha / n. A squared loss above the bound, or a draw of
    another sampler below the floor, counts as the largest possible rise. Ada-OSMD, their mixture of
    many eta, is not implemented. The rule uses exp: draws are reproducible on one platform, but may
    differ between platforms.

    Parameters
    ----------
    n : int
        The number of items.
    bound : float
        L: an upper bound on the squared losses.
    horizon : int, optional
        T, the number of draws planned. Without it, T is the number of losses so far, at least n.
    floor : float in (0, 1], default=0.4
        alpha: no item has a probability below floor / n.
    step : float in (0, 100], optional
        The logarithm of the largest factor by which one loss raises a probability, in place of
        sqrt(ln n / (2 T)).
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 50 + [1.0] * 50)
    >>> sampler = OSMD(100, bound=1.0, step=0.5)
    >>> for _ in range(200):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> p = sampler.probabilities()
    >>> bool(p[50:].sum() > 0.7)
    True

    References
    ----------
    Zhao, Wang, Zhang, Kolar, Liu (2021). Adaptive Client Sampling in Federated Learning via Online
    Learning with Bandit Feedback.
    """

    state: OSMDState

    def __init__(
        self,
        n: int,
        *,
        bound: float,
        horizon: int | None = None,
        floor: float = 0.4,
        step: float | None = None,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        given = {"bound": bound, "horizon": horizon, "floor": floor, "step": step}
        unit = unit_for(positive("bound", bound))
        if step is not None and not 0 < step <= 100:
            raise ValueError(f"step must be above 0 and at most 100, got {step}")
        floor = share("floor", floor, zero=False)
        super().__init__(n, seed, given, quantity=quantity)
        largest_rise, falling = mirror.checked_step(
            step, horizon, lambda draws: math.sqrt(math.log(self.n) / (2 * draws))
        )
        rule = OSMDRule(
            unit=unit,
            bound=bound * unit * unit,
            step=largest_rise,
            falling=falling,
            floor=floor,
            least=floor / self.n,
            level=floor,
        )
        self._begin(OSMDState, rule=cell(rule), scores=np.full(self.n, 1.0))

    def _largest_importance(self) -> float:
        return mirror.importance_above(self.state, TOLERANCE * float(self.parameters["floor"]))
