"""Adaptive weighted SGD: learns how often to draw from each group; Bouchard et al. (2015)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tombola.compiling import kernel
from tombola.index import drawing
from tombola.index.layout import new_index
from tombola.random import next_below
from tombola.samplers.arithmetic import learnt_unit, normalised, unit_after
from tombola.samplers.compiled import CompiledSampler
from tombola.samplers.groups import Groups, group_numbers, new_groups
from tombola.samplers.rivals.shares import TOTAL_WEIGHT, Shares, weigh
from tombola.state import Cell, Floats, Record, array, cell, count, derived, real
from tombola.validation import positive

__all__ = ["AdaptiveWeighted"]

MEMORY = 1000.0  # losses: the window of the running mean
LARGEST_MOVE = 1.0  # the largest change of tau by one loss


class AdaptiveWeightedRule(Record):
    """The step of the log-shares, and what it depends on."""

    fed: int = count("losses received", default=0)
    unit: float = learnt_unit()
    mean_v: float = real("running mean of the gradient of tau", default=0.0)
    step: float = derived("the rate")
    spent: float = real("sum of the squared moves, before scaling", default=0.0)


@kernel
def share_out(state: "AdaptiveWeightedState") -> None:
    """Set P = softmax(tau), after raising each tau that is below its floor."""
    tau, shares = state.tau, state.shares
    largest = tau[0]
    for c in range(tau.size):
        largest = max(largest, tau[c])
    total = 0.0
    for c in range(tau.size):
        total += math.exp(tau[c] - largest)
    shift = largest + math.log(total)
    total = 0.0
    for c in range(tau.size):
        tau[c] = max(tau[c] - shift, state.least[c])
        shares[c] = math.exp(tau[c])
        total += shares[c]
    for c in range(tau.size):
        shares[c] /= total


@kernel
def learn_one(state: "AdaptiveWeightedState", item: int, probability: float, loss: float) -> None:
    """Take one gradient step: tau += move (onehot - P)."""
    tau, shares, rule, groups = state.tau, state.shares, state.rule[0], state.groups
    n = groups.number.size
    rule.unit = unit_after(rule.unit, loss)
    loss = normalised(loss, rule.unit)
    group = groups.number[item]
    size = groups.starts[group + 1] - groups.starts[group]
    ours = shares[group] / size
    v = min(loss / (n * probability) * (loss / (n * ours)), 2.0**500)
    rule.fed += 1
    rule.mean_v += max(1.0 / rule.fed, 1.0 / MEMORY) * (v - rule.mean_v)
    if v > 0.0 and rule.mean_v > 0.0:
        move = min(rule.step * (v / rule.mean_v), LARGEST_MOVE)
        rule.spent += move * move
        move /= math.sqrt(1.0 + rule.spent)
        for c in range(tau.size):
            tau[c] -= move * shares[c]
        tau[group] += move
        share_out(state)


class AdaptiveWeightedState(Shares):
    """The share of each group, P(c), and its logarithm."""

    groups: Groups = derived("the items of each group")
    tau: Floats = array("log-shares, before they are floored")
    least: Floats = derived("the floor of tau")
    rule: Cell[AdaptiveWeightedRule]

    learn = learn_one

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with shares: their sum, or one far below its floor."""
        shares = saved["shares"]
        if abs(float(shares.sum()) - 1.0) > 1e-6 or (shares < 0.49 * np.exp(self.least)).any():
            return "shares must sum to 1, and be at least 0.49 of their floors"
        return ""

    def draw_one(self) -> Any:
        """Draw a group by its weight, then one of its members uniformly."""
        groups = self.groups
        c = drawing.draw_one(self.index, self.stream, 0)
        size = groups.starts[c + 1] - groups.starts[c]
        place = groups.starts[c] + next_below(self.stream, np.uint64(size))
        return np.int64(groups.members[place]), probability_of(self, c)

    def fill_probabilities(self, out: Floats) -> None:
        """Write the probability of every item."""
        for item in range(out.size):
            out[item] = probability_of(self, self.groups.number[item])


@kernel
def probability_of(state: AdaptiveWeightedState, group: Any) -> Any:
    """Return the probability of each item of a group."""
    size = state.groups.starts[group + 1] - state.groups.starts[group]
    return state.index.weights[group] / state.index.sums[0].total / size


class AdaptiveWeighted(CompiledSampler):
    """Learns how often to draw from each of K groups; draws uniformly within a group.

    With n_c items in group c, item i of group c is drawn with q(i) = P(c) / n_c, where P is the
    softmax of tau. The loss of an item drawn with probability p gives an unbiased estimate of the
    gradient of the second moment (1/n^2) sum_i l(i)^2 / q(i), and tau follows its descent:

        v = l(i)^2 / (n p  n q(i))          that is, (l / (n q))^2 if p = q
        tau <- tau + rho v (onehot(c) - P)

    At a fixed point, P(c) is proportional to n_c times the root mean square of the losses in c.
    The initial distribution is uniform over items.

    It needs the group of each item, for example a class label. A draw takes O(1), an update O(K)
    per loss; memory is 16 bytes per item. No guarantee is known.

    Deviations: v has heavy tails and the unit of l^2. A move is therefore step v / (mean of v), at
    most 1, with the running mean over about the last 1000 losses; and it is divided by the root of
    1 + the sum of all squared moves so far, as in AdaGrad. tau is bounded from below such that
    every q(i) >= floor / n. Feedback that is late, or for draws of another sampler, is weighted by
    the probability of its own draw, p above. The rule uses exp: draws are reproducible on one
    platform, but may differ between platforms.

    Parameters
    ----------
    groups : array-like of shape (n,)
        The group of each item: numbers, strings or other hashable objects.
    step : float, default=0.05
        The initial size of a move, before AdaGrad's scaling takes effect.
    floor : float in (0, 0.5], default=0.1
        No item has a probability below floor / n.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.array(["rest"] * 90 + ["rare"] * 10)
    >>> losses = np.where(labels == "rare", 3.0, 1.0)
    >>> sampler = AdaptiveWeighted(labels)
    >>> for _ in range(100):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> share = sampler.probabilities()[labels == "rare"].sum()
    >>> bool(0.2 < share < 0.3)                             # 10 * 3 / (90 * 1 + 10 * 3)
    True

    References
    ----------
    Bouchard, Trouillon, Perez, Gaidon (2015). Online Learning to Sample.
    """

    keeps_items = False  # its state grows with the groups

    state: AdaptiveWeightedState

    def __init__(
        self,
        groups: ArrayLike,
        *,
        step: float = 0.05,
        floor: float = 0.1,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        numbers = group_numbers(groups)[0]
        positive("step", step)
        if not 0 < floor <= 0.5:
            raise ValueError(f"floor must be above 0 and at most 0.5, got {floor}")
        given = {"groups": numbers.astype(np.int64), "step": step, "floor": floor}
        super().__init__(numbers.size, seed, given, quantity=quantity)
        del self.parameters["n"]
        sizes = np.bincount(numbers)
        self.state = AdaptiveWeightedState(
            stream=self._stream.state,
            index=new_index(np.ones(sizes.size, dtype=np.int64)),
            groups=new_groups(numbers),
            tau=np.log(sizes / self.n),
            shares=sizes / self.n,
            # floored at floor / (1 - floor) n_c / n, the shares sum to at most 1 / (1 - floor)
            least=np.log(floor / (1 - floor) * sizes / self.n),
            rule=cell(AdaptiveWeightedRule(step=float(step))),
        )
        weigh(self.state)

    def _largest_importance(self) -> float:
        total = float(self.state.index.sums[0].total)
        return (1 + 1e-9) * total / TOTAL_WEIGHT / float(self.parameters["floor"])
