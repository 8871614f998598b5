"""Avare: draws by the last loss, above a decreasing floor; El Hanchi and Stephens (2020)."""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.samplers.arithmetic import cube_root
from tombola.samplers.rivals.last_losses import LastLosses, LastLossRule, remember
from tombola.samplers.rivals.projections import floor_level, value_of_others
from tombola.samplers.weighted import WeightedSampler, rebuild
from tombola.state import Cell, Floats, array, cell, count, derived, real
from tombola.validation import share

__all__ = ["Avare"]

TOLERANCE = 0.5  # the level is recomputed when p would fall below this share of eps_t


class AvareRule(LastLossRule):
    """The floor and its level."""

    floor: float = derived("n p_min")
    decay: float = derived("d")
    least: float = real("eps_t, the least probability", 0.0, 1.0)
    level: float = real("the value of an item at the floor; 1 before any loss", default=1.0)
    due: int = count("the number of losses at which the level is recomputed")


class AvareState(LastLosses):
    """Last losses, floored at a level."""

    rule: Cell[AvareRule]
    losses: Floats = array("h, the last loss of each item, 0 before the first", 0.0, 2.0**250)

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """h(i) <- l(i); when due, p <- argmin of sum_i h(i)^2 / p(i) over p >= eps_t."""
        rule = self.rule[0]
        fed = rule.fed + 1
        due = fed >= rule.due or (rule.unit == 0.0 and loss > 0.0)
        last = remember(self, item, loss)
        lower_floor(self, fed)
        total = value_of_others(self, item) + max(last, rule.level)
        if due or rule.level < TOLERANCE * rule.least * total:
            project(self, fed)

    def value(self, item: int) -> float:
        """Return the last loss, or the level if that is higher."""
        return max(self.losses[item], self.rule[0].level)


@kernel
def lower_floor(state: AvareState, fed: Any) -> None:
    """Set n eps_t = f + (1 - f) (1 + u (1 - f) / n)^(-d/3), after u losses."""
    rule, n = state.rule[0], state.losses.size
    root = cube_root(1.0 / (1.0 + fed * (1.0 - rule.floor) / n))
    if rule.decay != 1.0:
        root = math.pow(root, rule.decay)
    rule.least = (rule.floor + (1.0 - rule.floor) * root) / n


@kernel
def project(state: AvareState, fed: Any) -> None:
    """Compute the level from all losses, then all weights from the level."""
    rule, n = state.rule[0], state.losses.size
    level = floor_level(state.losses, rule.least)
    rule.level = level if level > 0.0 else 1.0
    rule.due = fed + max(1, min(n // 4, max(n // 64, fed)))
    rebuild(state)


class Avare(WeightedSampler):
    """Draws in proportion to the last loss of each item, above a decreasing floor.

    With h(i) the last loss of item i (0 before the first), f = n p_min and u losses so far:

        n eps_t = f + (1 - f) (1 + u (1 - f) / n)^(-d/3)
        p_t = argmin over p >= eps_t of sum_i h(i)^2 / p(i) = max(h(i) / lambda, eps_t)

    It needs no bound, no horizon and no unit. If all losses are zero, it draws uniformly; an item
    without a loss so far is at the floor.

    Cost: a draw takes O(1). An update sets the weight of its item in O(1); every n/4 losses (more
    often at the start, and after every loss if n is small) lambda is computed exactly and all
    weights are recomputed, in O(n). This takes about 100 to 300 ns per loss on average, with pauses
    of about 30 ns per item, which are noticeable from 10^6 items on. Memory is 24 bytes per item.

    Guarantee (f = 0, d = 1): dynamic regret of order T^(2/3) for SGD with steps of order 1/t, on
    smooth, strongly convex problems with bounded gradients; none in general. A single zero sends an
    item to the floor: with intermittent losses (hinge, dropout, augmentation) it does worse than
    uniform sampling.

    Deviations: between two computations of lambda, the weight of an item is max(h, eps lambda) with
    the old eps lambda, normalised. A loss after which the smallest p would be below eps_t / 2
    triggers the next computation early, so p >= eps_t / 2 at all times. u counts losses, where the
    authors count draws. lambda is found by passes over all items instead of an ordered tree. With a
    `decay` other than 1 the rule uses pow: draws may then differ between platforms.

    Parameters
    ----------
    n : int
        The number of items.
    floor : float in [0, 1], default=0.2
        f: the limit of n eps_t. The authors use 1/5 for constant steps, 0 for decreasing steps.
    decay : float in [0, 1], default=1.0
        d: 1 for steps of order 1/t, 0 for a constant floor of 1/n.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([0.1] * 99 + [5.0])
    >>> sampler = Avare(100)
    >>> for _ in range(50):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> p = sampler.probabilities()
    >>> int(p.argmax()), bool(p.min() >= 0.2 / 100)
    (99, True)

    References
    ----------
    El Hanchi, Stephens (2020). Adaptive Importance Sampling for Finite-Sum Optimization and
    Sampling with Decreasing Step-Sizes.
    """

    state: AvareState

    def __init__(
        self,
        n: int,
        *,
        floor: float = 0.2,
        decay: float = 1.0,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        floor, decay = share("floor", floor), share("decay", decay)
        super().__init__(n, seed, {"floor": floor, "decay": decay}, quantity=quantity)
        rule = AvareRule(floor=floor, decay=decay, least=1.0 / self.n, due=max(1, self.n // 64))
        self._begin(AvareState, rule=cell(rule), losses=np.full(self.n, 0.0))

    def _largest_importance(self) -> float:
        return 1.001 / (TOLERANCE * self.n * float(self.state.rule[0].least))
