"""Variance reduction by mixtures: learns how to mix given distributions; Borsos et al. (2019)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.index import drawing
from tombola.index.layout import Index, build, new_index, new_sums, place_type, section
from tombola.random import next_below
from tombola.samplers.arithmetic import learnt_unit, normalised, unit_after
from tombola.samplers.bounds import check_numbers
from tombola.samplers.compiled import CompiledSampler
from tombola.samplers.groups import group_numbers
from tombola.samplers.rivals.shares import TOTAL_WEIGHT, Shares, weigh
from tombola.state import (
    Cell,
    CheckpointError,
    Floats,
    Record,
    array,
    cell,
    derived,
    real,
)
from tombola.validation import positive, share

__all__ = ["VRM"]

RIDGE = 0.1  # A at the start, on its diagonal
EXCHANGES = 100  # at most, in one step
LARGEST_IMPORTANCE = 2.0**200  # of draws that another sampler made


class Components(NamedTuple):
    """The given distributions, and the uniform one as the last."""

    members: Index  # over the items of each component, one after the other, but for the last
    starts: NDArray[np.int64]  # entries of component c: starts[c] <= entry < starts[c + 1]
    items: NDArray[Any]  # the item of each entry
    densities: NDArray[np.float64]  # n P(i, c), one row for each item


class VRMRule(Record):
    """The numbers of a Newton step."""

    unit: float = learnt_unit()
    largest: float = real("the largest |g| so far", default=0.0)
    step: float = derived("the step size")
    least: float = derived("the least share of the uniform component")


@kernel
def learn_one(state: "VRMState", item: int, probability: float, loss: float) -> None:
    """Take one Newton step, with g(c) = -P(i, c) l^2 / p(i)^2 / p'(i), relative to the largest."""
    rule, row, slope = state.rule[0], state.components.densities[item], state.slope
    n = state.components.densities.shape[0]
    rule.unit = unit_after(rule.unit, loss)
    mixed, largest = 0.0, 0.0
    for c in range(slope.size):
        mixed += state.shares[c] * row[c]  # n p(i)
        largest = max(largest, row[c])
    drawn = min(1.0 / (n * probability), LARGEST_IMPORTANCE)
    size = normalised(loss, rule.unit) ** 2 / mixed / mixed * drawn
    largest *= size
    if largest > rule.largest:
        shrunk = rule.largest / largest
        for c in range(slope.size):
            for d in range(slope.size):
                state.curvature[c, d] *= shrunk * shrunk
        rule.largest = largest
    if largest > 0.0:
        for c in range(slope.size):
            slope[c] = -row[c] * (size / rule.largest)
        for c in range(slope.size):
            for d in range(slope.size):
                state.curvature[c, d] += slope[c] * slope[d]
        for c in range(slope.size):
            slope[c] *= rule.step
        take_step(state)


@kernel
def take_step(state: "VRMState") -> None:
    """Minimise slope (v - w) + (v - w) A (v - w) / 2 over the mixtures v, where w was before.

    This is the Newton step with its projection in the norm of A. Mass is exchanged between the two
    components for which this pays most, until it does not pay.
    """
    mixture, curvature, slope = state.shares, state.curvature, state.slope
    least, last = state.rule[0].least, mixture.size - 1
    for _ in range(EXCHANGES):
        i, j = 0, -1  # from j to i
        for c in range(mixture.size):
            room = mixture[c] - (least if c == last else 0.0)
            if slope[c] < slope[i]:
                i = c
            if room > 0.0 and (j < 0 or slope[c] > slope[j]):
                j = c
        if j < 0 or not slope[j] - slope[i] > 1e-12:
            break
        bend = curvature[i, i] + curvature[j, j] - 2.0 * curvature[i, j]
        floor = least if j == last else 0.0
        move = (slope[j] - slope[i]) / (max(0.0, bend) + 2.0 * RIDGE)
        whole = move >= mixture[j] - floor
        move = min(move, mixture[j] - floor)
        mixture[i] += move
        mixture[j] = floor if whole else mixture[j] - move
        for c in range(mixture.size):
            slope[c] += move * (curvature[c, i] - curvature[c, j])
        slope[i] += move * RIDGE
        slope[j] -= move * RIDGE
    total = 0.0
    for c in range(mixture.size):
        total += mixture[c]
    for c in range(mixture.size):
        mixture[c] /= total
    mixture[last] = max(mixture[last], least)


@kernel(inline=True)
def probability_of(state: "VRMState", item: int) -> Any:
    """Return sum_c w(c) P(i, c), with the integer weights of the components as w."""
    weights, densities, total = state.index.weights, state.components.densities, 0.0
    for c in range(weights.size):
        total += weights[c] * densities[item, c]
    return total / state.index.sums[0].total / densities.shape[0]


@kernel
def build_members(components: Any) -> None:
    """Build the index of each component."""
    for c in range(components.starts.size - 1):
        build(section(components.members, components.starts, c))


class VRMState(Shares):
    """A mixture: the share of each component, w."""

    components: Components = derived("the given distributions")
    curvature: Floats = array("A, but for the ridge", -1e18, 1e18)
    slope: Floats = derived("space for a step")
    rule: Cell[VRMRule]

    learn = learn_one

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with a mixture."""
        total, uniform = float(saved["shares"].sum()), float(saved["shares"][-1])
        if abs(total - 1) > 1e-6 or uniform < self.rule[0].least:
            return f"shares has a sum of {total} and a uniform share of {uniform}"
        return ""

    def draw_one(self) -> Any:
        """Draw a component by its weight, then an item from it."""
        components = self.components
        c = drawing.draw_one(self.index, self.stream, 0)
        if c == self.shares.size - 1:
            item: Any = np.int64(next_below(self.stream, np.uint64(components.densities.shape[0])))
        else:
            members = section(components.members, components.starts, c)
            entry = drawing.draw_one(members, self.stream, 0)
            item = np.int64(components.items[components.starts[c] + entry])
        return item, probability_of(self, item)

    def fill_probabilities(self, out: Floats) -> None:
        """Write the probability of every item."""
        for item in range(out.size):
            out[item] = probability_of(self, item)


class VRM(CompiledSampler):
    """Learns how to mix k given distributions over the items, and the uniform one.

    With P(i, c) the probability of item i in component c, and w the mixture, an online Newton step
    on the cost sum_i l(i)^2 / p(i):

        p(i) = sum_c w(c) P(i, c);  draw I ~ p
        g(c) = -P(I, c) l(I)^2 / p(I)^3,  over the largest so far
        A = A + g g';  w = argmin over mixtures v of  step g (v - w) + (v - w)' A (v - w) / 2

    where the uniform component has at least the share `mixing`. Components may overlap: classes,
    norms of rows, neighbourhoods, distributions that other samplers have learnt. They share what
    is learnt, so a few hundred losses are enough whatever n.

    Guarantee: regret of order T^(2/3), up to k and logarithms, against the best fixed mixture. It
    is no better than that: items of one component are drawn as given.

    Cost: a draw takes O(k), an update O(k^2) per loss, and O(100 k) where the mixture moves far.
    Memory is 8 (2 k + 1) bytes per item, and about 24 for
    each entry above 0.

    Deviations: the draws of a batch are independent, where the authors draw one component for the
    whole batch, so that its items depend on each other; and each loss is a step, where they add up
    g over the batch. g is relative to its largest size so far, where they divide by a constant, so
    that the unit of the losses does not matter. The quadratic problem is solved by exchanges
    between two components, at most 100, where they take five projected gradient steps. Late
    feedback, or that for draws of another sampler, has l^2 / (p(i)^2 p'(i)), with p' the
    probability of its draw and p that of now.

    Parameters
    ----------
    components : array-like of shape (k, n)
        The distributions: each row has weights that are at least 0, not all 0.
    step : float, default=0.1
        1 / beta, the size of the linear term.
    mixing : float in (0, 1], default=0.1
        The least share of uniform draws. With the authors' 0.01, the cost may be a hundred times
        that of uniform draws when losses change.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.array([1.0] * 90 + [9.0] * 10)
    >>> sampler = VRM([[1.0] * 90 + [0.0] * 10, [0.0] * 90 + [1.0] * 10])
    >>> for _ in range(100):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> share = sampler.probabilities()[90:].sum()
    >>> bool(0.4 < share < 0.6)                             # 10 * 9 / (90 * 1 + 10 * 9)
    True

    References
    ----------
    Borsos, Curi, Levy, Krause (2019). Online Variance Reduction with Mixtures.
    """

    state: VRMState

    def __init__(
        self,
        components: ArrayLike,
        *,
        step: float = 0.1,
        mixing: float = 0.1,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        weights = _checked_components(components)
        positive("step", step)
        mixing = share("mixing", mixing, zero=False)
        given = {"components": weights, "step": step, "mixing": mixing}
        super().__init__(weights.shape[1], seed, given, quantity=quantity)
        del self.parameters["n"]  # implied by the components
        k = len(weights) + 1
        uniform = max(mixing, 1 / k)
        self.state = VRMState(
            stream=self._stream.state,
            components=_new_components(weights),
            index=new_index(np.ones(k, dtype=np.int64)),
            shares=np.append(np.full(k - 1, (1 - uniform) / (k - 1)), uniform),
            curvature=np.zeros((k, k)),
            slope=np.zeros(k),
            rule=cell(VRMRule(step=float(step), least=mixing)),
        )
        build_members(self.state.components)
        weigh(self.state)

    @classmethod
    def over(cls, groups: ArrayLike, *, seed: int = 0) -> "VRM":
        """Return a mixture of the uniform distributions over each group, such as a class."""
        numbers = group_numbers(groups)[0]
        return cls(np.arange(numbers.max() + 1)[:, np.newaxis] == numbers, seed=seed)

    @property
    def mixture(self) -> NDArray[np.float64]:
        """The share of each component; that of the uniform one is the last."""
        mixture: NDArray[np.float64] = self.state.shares.copy()
        return mixture

    @classmethod
    def _entries(cls, parameters: Mapping[str, Any]) -> int:
        components: Any = parameters.get("components")
        array = isinstance(components, np.ndarray) and components.dtype == np.float64
        if not array or components.ndim != 2:
            raise CheckpointError("components is not an array of float64, of shape (k, n)")
        return (len(components) + 1) ** 2  # of the curvature

    def _largest_importance(self) -> float:
        return (1 + 1e-9) / float(self.parameters["mixing"])


def _checked_components(components: ArrayLike) -> NDArray[np.float64]:
    """Return a read-only copy, or raise an error that names the first bad weight."""
    array = np.asarray(components)
    if array.dtype.kind not in "bfiu":
        raise TypeError(f"components must hold numbers, got dtype {array.dtype}")
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"components must have shape (k, n), both at least 1, got {array.shape}")
    given = array.astype(np.float64)
    check_numbers("components", given)
    empty = ~given.any(axis=1)
    if empty.any():
        raise ValueError(f"components[{int(empty.argmax())}] has no weight above 0")
    given.flags.writeable = False
    return given


def _new_components(weights: NDArray[np.float64]) -> Components:
    """Return distributions as integers, proportional to these weights up to rounding."""
    k, n = weights.shape
    rows = weights / weights.max(axis=1, keepdims=True)
    whole = np.ceil(rows / rows.sum(axis=1, keepdims=True) * TOTAL_WEIGHT).astype(np.int64)
    entries = np.nonzero(whole)
    count = len(entries[0])
    kind = place_type(n)
    members = Index(new_sums(k), whole[entries], np.empty(count, kind), np.empty(count, kind))
    densities = np.ones((n, k + 1))
    densities[:, :k] = (whole / whole.sum(axis=1, keepdims=True) * n).T
    starts = np.concatenate([[0], np.cumsum(np.bincount(entries[0], minlength=k))])
    return Components(members, starts.astype(np.int64), entries[1].astype(kind), densities)
