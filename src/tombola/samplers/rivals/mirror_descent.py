"""Bandit mirror descent: Namkoong, Sinha, Yadlowsky, Duchi (2017)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.samplers.arithmetic import normalised
from tombola.samplers.bounds import unit_for
from tombola.samplers.rivals import mirror
from tombola.samplers.weighted import Scored, WeightedSampler
from tombola.state import Cell, Floats, array, cell, derived, integer, real
from tombola.validation import positive, share

__all__ = ["MirrorDescent"]

SMALLEST = 2.0**-500  # when the total mass falls below this, all masses are divided by it
LARGEST = 2.0**100  # of a saved mass: honest ones are about 1 at most
LARGEST_MASS = 2.0**60 * LARGEST  # of all items
DRIFT = 1e-6  # of the total mass: what rounding may have added to a saved sum


class MirrorRule(mirror.SteppedRule):
    """The step, alpha, and the mass."""

    limit: float = derived("U: what squared estimates are subtracted from")
    least: float = derived("p_min / (1 - p_min)")
    mass: float = real("sum of all scores", 0.0, LARGEST_MASS, default=1.0)
    summed: int = integer(
        "items whose scores have been summed up for the next mass", 0, "scores.size - 1", default=0
    )
    mass_of_summed: float = real("their sum", -LARGEST_MASS, LARGEST_MASS, default=0.0)


class MirrorDescentState(Scored):
    """Entropic mirror descent above a floor; the score of an item is its mass."""

    rule: Cell[MirrorRule]
    scores: Floats = array("the mass of each item", 0.0, LARGEST)

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with the running sums of masses, which rounding errors change."""
        scores, rule = saved["scores"], saved["rule"]
        total, summed = float(scores.sum()), float(scores[: rule["summed"]].sum())
        for name, right in (("mass", total), ("mass_of_summed", summed)):
            if not abs(rule[name] - right) <= DRIFT * total:
                return f"rule.{name} is {rule[name]}, but the masses sum to {right}"
        return ""

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """p(i) <- p(i) exp(-alpha max(U - g^2, 0) / p~(i)) with g = l / (n p~(i)), projected."""
        rule, n = self.rule[0], self.scores.size
        estimate = normalised(loss, rule.unit) / (n * probability)
        excess = rule.limit - estimate * estimate
        if excess > 0.0 and n > 1:
            shrink(self, item, math.exp(-mirror.current_step(rule, n) * excess / probability))

    def value(self, item: int) -> float:
        """Return the mass of the item, which need not be normalised."""
        return self.scores[item]


@kernel
def shrink(state: MirrorDescentState, item: int, factor: Any) -> None:
    """Multiply the mass of an item by a factor, but keep it at least p_min of the new total.

    This performs the projection: all other items grow relative to the total, so none of them falls
    below the floor. One extra unit of weight compensates for rounding down.
    """
    rule, scores = state.rule[0], state.scores
    old = scores[item]
    least = rule.least * max(0.0, rule.mass - old) + 1.0 / state.sweep[0].scale
    new = max(old * factor, least)
    scores[item] = new
    rule.mass += new - old
    if item < rule.summed:
        rule.mass_of_summed += new - old
    for _ in range(2):  # sum two more items, so that rounding errors do not accumulate
        rule.mass_of_summed += scores[rule.summed]
        rule.summed += 1
        if rule.summed == scores.size:
            rule.mass = rule.mass_of_summed
            rule.mass_of_summed = 0.0
            rule.summed = 0
    if rule.mass < SMALLEST:
        magnify(state)


@kernel
def magnify(state: MirrorDescentState) -> None:
    """Multiply all masses by a power of two, which is exact and changes no weight."""
    state.rule[0].mass /= SMALLEST
    state.rule[0].mass_of_summed /= SMALLEST
    state.sweep[0].scale *= SMALLEST
    for item in range(state.scores.size):
        state.scores[item] /= SMALLEST


class MirrorDescent(WeightedSampler):
    """Bandit mirror descent: reduces the probability of items with small losses.

    Let L be the bound on the *squared* losses, p_min = floor / n, and g = l / (n p) the estimate
    from the item drawn, whose square is at most L / floor^2. The rule is

        c = max(clip L / floor^2 - g^2, 0)
        p(I) <- p(I) exp(-alpha c / p(I)),  then the KL projection onto {p >= p_min}

    Only the item drawn loses probability, so the projection takes O(1). The implementation keeps
    masses, proportional to p, which are never normalised.

    It needs a bound. A draw and an update take O(1); memory is 24 bytes per item. Each time the
    total mass has decreased by a factor of 2^500, one pass over all items follows.

    Guarantee: with ``horizon=T`` and ``clip=1``, the regret is at most
    (L / floor^2) sqrt(2 n T log n) against the best p above the floor.

    Deviations: `step` is alpha times L, so that the unit of the losses does not matter. The floor
    is relative to the total mass, a running sum in float64 that is recomputed every n/2 losses.
    With the rounding of weights, p >= p_min holds to one part in 250 (temporarily to a factor of
    two, while more than 2^20 items change their scale). Late or repeated feedback reduces the mass
    that the item has at that time, by the factor that follows from the probability of its draw. The
    rule uses exp: draws are reproducible on one platform, but may differ between platforms.

    Parameters
    ----------
    n : int
        The number of items.
    bound : float
        L: an upper bound on the squared losses.
    floor : float in (0, 1], default=0.5
        n p_min: no item has a probability below floor / n. The authors' example has 0.1; c grows
        with 1 / floor^2, and the noise with c.
    clip : float in (0, 1], default=0.1
        Values below 1 treat all estimates near the largest possible size the same. This is a
        heuristic of the authors; without it, nearly all c are nearly equal.
    step : float, optional
        alpha L. A single loss multiplies a p near 1/n by a factor as small as
        exp(-step clip n / floor^2): from about 1000 items on, the authors' example, 0.001, sends
        each item drawn to the floor, and is then worse than uniform sampling.
    horizon : int, optional
        T, the number of draws planned: step = floor^2 sqrt(2 log(n) / (n T)), as in the theory.
        Without `step` and `horizon`, T is replaced by the number of losses so far, at least n.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 50 + [1.0] * 50)
    >>> sampler = MirrorDescent(100, bound=1.0)
    >>> for _ in range(200):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> p = sampler.probabilities()
    >>> bool(p[50:].sum() > 0.6)
    True

    References
    ----------
    Namkoong, Sinha, Yadlowsky, Duchi (2017). Adaptive Sampling Probabilities for Non-Smooth
    Optimization.
    """

    state: MirrorDescentState

    def __init__(
        self,
        n: int,
        *,
        bound: float,
        floor: float = 0.5,
        clip: float = 0.1,
        step: float | None = None,
        horizon: int | None = None,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        given = {"bound": bound, "floor": floor, "clip": clip, "step": step, "horizon": horizon}
        unit = unit_for(positive("bound", bound))
        if step is not None:
            positive("step", step)
        floor, clip = share("floor", floor, zero=False), share("clip", clip, zero=False)
        super().__init__(n, seed, given, quantity=quantity)
        alpha, falling = mirror.checked_step(
            step,
            horizon,
            lambda draws: floor**2 * math.sqrt(2 * math.log(self.n) / (self.n * draws)),
        )
        largest = bound * unit * unit
        rule = MirrorRule(
            unit=unit,
            limit=clip * largest / floor**2,
            step=alpha / largest,
            falling=falling,
            least=floor / (self.n - floor) if self.n > 1 else 0.0,
        )
        self._begin(MirrorDescentState, rule=cell(rule), scores=np.full(self.n, 1.0 / self.n))

    def _largest_importance(self) -> float:
        return mirror.importance_above(self.state, float(self.parameters["floor"]))
