"""Adaptive weighted SGD: learn how often to draw from each group; Bouchard et al. (2015)."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.draws import Draw
from tombola.index import kernels as index
from tombola.random import next_below
from tombola.samplers.board import power_of_two_near
from tombola.samplers.compiled import CompiledSampler
from tombola.samplers.groups import group_numbers

__all__ = ["AdaptiveWeighted"]


class Table(NamedTuple):
    """All arrays of the sampler, as one argument for the kernels."""

    words: NDArray[np.uint64]  # the random stream
    counts: NDArray[np.int64]  # the index over groups: see tombola.index.kernels
    weights: NDArray[np.int64]
    order: NDArray[np.int64]
    position: NDArray[np.int64]
    groups: NDArray[np.int64]  # the group of each item
    members: NDArray[np.int64]  # the items, group by group
    starts: NDArray[np.int64]  # where each group begins in `members`, and a last entry, n
    tau: NDArray[np.float64]  # the logarithms of shares, before they are capped
    shares: NDArray[np.float64]  # P(c), the softmax of tau
    least: NDArray[np.float64]  # what tau is capped at
    knobs: NDArray[np.float64]  # layout below

    @staticmethod
    def draw_one(table: Any) -> Any:
        """Draw one item; return it and its probability."""
        return draw_member(table)

    @staticmethod
    def update_one(table: Any, item: Any, probability: Any, loss: Any) -> None:
        """Learn from one loss."""
        learn_one(table, item, probability, loss)
        weigh(table)

    @staticmethod
    def fill_probabilities(table: Any, out: Any) -> None:
        """Write the probability of every item."""
        for item in range(out.size):
            out[item] = probability_of(table, table.groups[item])


FED = 0  # losses received
UNIT = 1  # losses are multiplied by this power of two; 0: not yet known
MEAN = 2  # running mean of v
STEP = 3
SPENT = 4  # sum of the squared moves asked for
KNOBS = 5

MEMORY = 1000.0  # losses that the running mean goes back
LARGEST_MOVE = 1.0  # of tau, by one loss
TOTAL_WEIGHT = 2.0**40


@kernel
def share_out(table: Table) -> None:
    """P = softmax(tau), after lifting each tau that is below its cap."""
    tau, shares = table.tau, table.shares
    largest = tau[0]
    for c in range(tau.size):
        largest = max(largest, tau[c])
    total = 0.0
    for c in range(tau.size):
        total += math.exp(tau[c] - largest)
    shift = largest + math.log(total)
    total = 0.0
    for c in range(tau.size):
        tau[c] = max(tau[c] - shift, table.least[c])
        shares[c] = math.exp(tau[c])
        total += shares[c]
    for c in range(tau.size):
        shares[c] /= total


@kernel
def weigh(table: Table) -> None:
    """Turn shares into integer weights, rounding up."""
    for c in range(table.weights.size):
        table.weights[c] = np.int64(math.ceil(table.shares[c] * TOTAL_WEIGHT))
    index.build(table.counts, table.weights, table.order, table.position)


@kernel
def learn_one(table: Table, item: Any, probability: Any, loss: Any) -> None:
    """Take one gradient step: tau += move (onehot - P)."""
    tau, shares, knobs, n = table.tau, table.shares, table.knobs, table.groups.size
    if knobs[UNIT] == 0.0 and loss > 0.0:
        knobs[UNIT] = 1.0 / power_of_two_near(loss)
    loss = min(loss * knobs[UNIT], 2.0**250)
    group = table.groups[item]
    size = table.starts[group + 1] - table.starts[group]
    ours = shares[group] / size
    v = min(loss / (n * probability) * (loss / (n * ours)), 2.0**500)
    knobs[FED] += 1.0
    knobs[MEAN] += max(1.0 / knobs[FED], 1.0 / MEMORY) * (v - knobs[MEAN])
    if v > 0.0 and knobs[MEAN] > 0.0:
        move = min(knobs[STEP] * (v / knobs[MEAN]), LARGEST_MOVE)
        knobs[SPENT] += move * move
        move /= math.sqrt(1.0 + knobs[SPENT])
        for c in range(tau.size):
            tau[c] -= move * shares[c]
        tau[group] += move
        share_out(table)


@kernel
def learn_many(
    table: Table,
    items: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    losses: NDArray[np.float64],
) -> None:
    """Learn from a batch, one after the other; the weights follow at its end."""
    for j in range(items.size):
        learn_one(table, items[j], probabilities[j], losses[j])
    weigh(table)


@kernel
def probability_of(table: Table, group: Any) -> Any:
    """Return the probability of each item of a group."""
    size = table.starts[group + 1] - table.starts[group]
    return table.weights[group] / table.counts[index.TOTAL] / size


@kernel
def draw_member(table: Table) -> Any:
    """Draw a group by its weight, then one of its members uniformly."""
    starts = table.starts
    group = index.draw_one(table.counts, table.weights, table.order, table.words, 0)
    size = starts[group + 1] - starts[group]
    item = table.members[starts[group] + next_below(table.words, np.uint64(size))]
    return item, probability_of(table, group)


class AdaptiveWeighted(CompiledSampler):
    """Learns how often to draw from each of K groups; uniform inside a group.

    With n_c items in group c, item i of group c is drawn with q(i) = P(c) / n_c, where P is the
    softmax of tau. An item drawn with probability p gives an unbiased estimate of the gradient
    of the second moment (1/n^2) sum_i l(i)^2 / q(i), and tau descends:

        v = l(i)^2 / (n p  n q(i))          that is, (l / (n q))^2 where p = q
        tau <- tau + rho v (onehot(c) - P)

    At rest, P(c) is proportional to n_c times the root mean square of the losses in c. It
    starts uniform over items.

    Needs the group of each item: a class label, say. O(1) a draw and O(K) a loss, 16 bytes an
    item. No guarantee is known that we could state.

    Deviations: v has heavy tails and the unit of l^2. So a move is step v / (mean of v), at most
    1, with the running mean over the last 1000 losses, more or less; and it is divided by the
    root of 1 + the sum of all squared moves so far, as AdaGrad does. tau is capped from below so
    that every q(i) >= floor / n. Feedback that is late, or for draws of another sampler, counts
    by the probability of its own draw, p above. The rule needs exp: draws repeat on the same
    platform, and perhaps not on another.

    Parameters
    ----------
    groups : array-like of shape (n,)
        The group of each item: numbers, strings or other hashable objects.
    step : float, default=0.05
        How fast tau moves at first, before the moves so far add up.
    floor : float in (0, 0.5], default=0.1
        No item is drawn less often than so many times 1/n.
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

    def __init__(
        self, groups: ArrayLike, *, step: float = 0.05, floor: float = 0.1, seed: int = 0
    ) -> None:
        codes = group_numbers(groups)[0].astype(np.int64)
        if not 0 < step < math.inf:
            raise ValueError(f"step must be positive and finite, got {step}")
        if not 0 < floor <= 0.5:
            raise ValueError(f"floor must be above 0 and at most 0.5, got {floor}")
        super().__init__(codes.size, seed, {"groups": codes, "step": step, "floor": floor})
        del self.parameters["n"]
        sizes = np.bincount(codes)
        # if all are capped at floor / (1 - floor) n_c / n, the total is at most 1 / (1 - floor)
        least = np.log(floor / (1 - floor) * sizes / self.n)
        self.state = Table(
            words=self._stream.state,
            counts=np.zeros(index.COUNTS, dtype=np.int64),
            weights=np.ones(sizes.size, dtype=np.int64),
            order=np.empty(sizes.size, dtype=np.int64),
            position=np.empty(sizes.size, dtype=np.int64),
            groups=codes,
            members=np.argsort(codes, kind="stable"),
            starts=np.concatenate([[0], np.cumsum(sizes)]),
            tau=np.log(sizes / self.n),
            shares=np.empty(sizes.size),
            least=least,
            knobs=np.zeros(KNOBS),
        )
        self.state.knobs[STEP] = step
        self.state.shares[:] = sizes / self.n
        weigh(self.state)

    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        learn_many(self.state, draw.indices, draw.probabilities, losses)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        changing = ("counts", "weights", "order", "position", "tau", "shares", "knobs")
        return {name: getattr(self.state, name) for name in changing}

    def _largest_importance(self) -> float:
        total = float(self.state.counts[index.TOTAL])
        return (1 + 1e-9) * total / TOTAL_WEIGHT / float(self.parameters["floor"])
