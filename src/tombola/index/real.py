"""Real weights as integers: the one rule by which a real number becomes the weight of an index.

A real weight w becomes the integer

    floor(w * scale),  but at least 1 if w > 0,

with one scale, a power of two, for all items. So a weight is off by less than one unit, 1 / scale;
zero stays 0, and a positive weight never becomes 0. Whole numbers are exact while the scale is at
least 1. Draws are exactly in proportion to the integers, and probabilities are those of the
integers: rounding shifts the weights a little, but never the estimates.

The scale is chosen for the total of all weights, and changes when the total leaves a range. There
are two ranges, because there are two purposes:

- *Weights that are given* (`RealWeights`, below, and replay) keep the unit at most 2^-LEAST of the
  total at every draw: whole numbers with a total of 2^LEAST are exact.
- *Values that a sampler learns* are refreshed a few at a time, and a mixture adds n U to the total
  at draw time. Their total starts lower, which leaves room for U and for losses that grow a
  thousandfold before all weights have to be computed again, and a resolution of 2^-10 of the
  average weight is enough. Everybody's draws depend on these constants.

A device applies the same rule in its own language: `tombola.torch.device.index` and the kernels of
the device's samplers. `tombola.samplers.rivals.shares` rounds up instead, which keeps the promised
least share of a part.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import entry, kernel
from tombola.index import drawing
from tombola.index.layout import Index, build, is_order, new_index
from tombola.index.setting import append, assign_many, with_room
from tombola.random import Stream
from tombola.state import CheckpointError

__all__ = [
    "CHOSEN",
    "CHUNK",
    "DEVICE_TARGET",
    "HIGH",
    "LARGEST_EXPONENT",
    "LEAST",
    "LEAST_EXPONENT",
    "LOW",
    "LOW_GROUPS",
    "MOST",
    "NONE_TAKEN",
    "TARGET",
    "RealWeights",
    "fill_integers",
    "out_of_range",
    "power_of_two_near",
    "scale_for",
    "to_integer",
]

# given weights: the total is from 2^LEAST to 2^MOST units, below 2^CHOSEN at first
LEAST, CHOSEN, MOST = 49, 57, 61
# of the scale, for any weights that float64 can hold
LEAST_EXPONENT, LARGEST_EXPONENT = -1010, 1200

# learnt values: the total is below TARGET at first, and changes the scale if it is above HIGH ...
TARGET = 2.0**50
DEVICE_TARGET = 2.0**46  # on a GPU: no batch of losses, all at once, can overflow the total
HIGH = 2**60
LOW = 2**10  # ... or if the average weight of an item is below this ...
LOW_GROUPS = 2**40  # ... or the total of all groups, however few

CHUNK = 1024  # the most items that are drawn at once without replacement
MANY = 8  # if more than one item in MANY changes, all weights are computed again
SET_DONE = -1
NONE_TAKEN = np.zeros(0, dtype=bool)


@kernel(inline=True)
def to_integer(value: Any, scale: Any, room: Any) -> Any:
    """Return floor(value * scale), at most `room`, and at least 1 if the value is positive."""
    scaled = value * scale
    weight = min(room, np.int64(scaled) if scaled < 2.0**62 else room)
    return max(weight, np.int64(value > 0.0))


@kernel
def power_of_two_near(x: Any) -> Any:
    """Return a power of two p with x / p in [1/2, 1), for positive finite x.

    It is limited to 2^-950 and 2^1000, so that 2^50 / p is finite.
    """
    exponent = math.frexp(x)[1]
    return math.ldexp(1.0, min(1000, max(-950, exponent)))


@kernel(inline=True)
def scale_for(total: Any, target: Any) -> Any:
    """Return the scale that brings a total of values to between half the target and the target."""
    return target / power_of_two_near(total)


@kernel(inline=True)
def out_of_range(total: Any, low: Any) -> Any:
    """Return whether the total weight of learnt values calls for another scale."""
    return not low <= total <= HIGH


# --- weights that are given ----------------------------------------------------------------------


@kernel(inline=True)
def factors(exponent: Any) -> Any:
    """Return two powers of two, whose product is 2^exponent, even if that is beyond float64.

    Only the smallest weights have such a scale. They times the first factor are exact.
    """
    lift = max(exponent - 1000, 0)
    return math.ldexp(1.0, int(lift)), math.ldexp(1.0, int(exponent - lift))


@kernel
def fill_integers(
    values: NDArray[np.float64], taken: NDArray[np.bool_], exponent: Any, out: NDArray[np.int64]
) -> None:
    """Write values times 2^exponent as integers; 0 for items that are taken."""
    lift, scale = factors(exponent)
    for item in range(values.size):
        there = not (taken.size and taken[item])
        out[item] = to_integer(values[item] * lift, scale, 2**62) if there else 0


@kernel
def exponent_for(values: NDArray[np.float64], taken: NDArray[np.bool_], present: Any) -> Any:
    """Return the exponent of the scale for items that are not taken; `present` if all are 0."""
    largest = 0.0
    for item in range(values.size):
        if not (taken.size and taken[item]):
            largest = max(largest, values[item])
    if largest == 0.0:
        return np.int64(present)
    size = math.frexp(largest)[1]
    lift, scale = factors(-size)  # the sum of the values themselves could overflow
    total = 0.0
    for item in range(values.size):
        if not (taken.size and taken[item]):
            total += values[item] * lift * scale
    return np.int64(CHOSEN - size - math.frexp(total)[1])


@kernel
def rebuild(
    index: Index,
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    exponent: NDArray[np.int64],
) -> None:
    """Choose the scale for the items that are not taken, and build the board."""
    n = values.size
    exponent[0] = exponent_for(values, taken, exponent[0])
    part = Index(index.sums, index.weights[:n], index.order[:n], index.position[:n])
    fill_integers(values, taken, exponent[0], part.weights)
    build(part)


@kernel(allocates=True)
def put_all(
    index: Index,
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    items: NDArray[np.int64],
    exponent: Any,
) -> Any:
    """Bring the weights of items in line with their values; return whether they fit."""
    lift, scale = factors(exponent)
    weights = np.empty(items.size, dtype=np.int64)
    total = np.float64(index.sums[0].total)
    for j in range(items.size):
        there = not (taken.size and taken[items[j]])
        weights[j] = to_integer(values[items[j]] * lift, scale, 2**62) if there else 0
        total += weights[j]
    if total > 2.0**MOST:
        return False
    assign_many(index, items, weights)
    return True


@kernel(allocates=True)
def checked_set(
    index: Index,
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    items: NDArray[np.int64],
    new: NDArray[np.float64],
    exponent: NDArray[np.int64],
) -> Any:
    """Check the whole batch, then set values and weights, on another scale if they need one.

    Returns SET_DONE, or the first position with a bad item or value; then nothing has changed. It
    is one kernel, so that Ctrl-C cannot leave values without their weights.
    """
    n = values.size
    for j in range(items.size):
        if items[j] < 0 or items[j] >= n or not 0.0 <= new[j] < np.inf:
            return np.int64(j)
    for j in range(items.size):
        values[items[j]] = new[j]
    if items.size * MANY > n or not put_all(index, values, taken, items, exponent[0]):
        rebuild(index, values, taken, exponent)
    return np.int64(SET_DONE)


class _Undo(NamedTuple):
    """What `put_back` needs to know of the items that were drawn last."""

    weights: NDArray[np.int64]
    places: NDArray[np.int64]


class RealWeights:
    """Real weights that can change, and exact draws in proportion to their integers.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Finite and not negative; kept, not copied. `set` changes some of them.
    replacement : bool
        Whether items stay on the board when they are drawn.

    Attributes
    ----------
    index : Index
        The board; with room for more items after `extend`.
    taken : ndarray of bool, shape (n,)
        Which items are off the board. Empty with replacement.
    """

    def __init__(self, values: NDArray[np.float64], replacement: bool = True) -> None:
        self._start(values, replacement)
        self.rebuild()

    def _start(self, values: NDArray[np.float64], replacement: bool) -> None:
        self.values = self._memory = values
        self.taken = np.zeros(0 if replacement else values.size, dtype=bool)
        self.replacement = replacement
        self._exponent = np.zeros(1, dtype=np.int64)  # kernels change it
        self.index = new_index(np.zeros(values.size, dtype=np.int64))
        self._undo = _Undo(np.empty(CHUNK, dtype=np.int64), np.empty(CHUNK, dtype=np.int64))
        self._set: Callable[..., int] | None = None  # machine code, after first use

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_set": None}

    @property
    def exponent(self) -> int:
        """The scale is 2^exponent."""
        return int(self._exponent[0])

    @property
    def available(self) -> int:
        """The number of items that can be drawn."""
        return int(self.index.sums[0].at_least[1])

    def set(self, items: NDArray[np.int64], new: NDArray[np.float64]) -> int:
        """Set the values of items; if an item occurs more than once, its last value wins.

        Returns -1, or the first position with an item or a value that is not valid; then nothing
        has changed.
        """
        arguments = (self.index, self.values, self.taken, items, new, self._exponent)
        if self._set is None:
            self._set = entry(checked_set, *arguments)
        return self._set(*arguments)

    @property
    def nbytes(self) -> int:
        """The memory of the values and marks, in bytes."""
        return self._memory.nbytes + self.taken.nbytes

    def extend(self, values: NDArray[np.float64]) -> None:
        """Append items, in amortised O(1) time each; with replacement only."""
        n, memory, weights = self.values.size, self._memory, np.empty(values.size, dtype=np.int64)
        index = with_room(self.index, n + values.size)
        if memory.size < n + values.size:
            memory = np.empty(index.weights.size)
            memory[:n] = self.values
        fill_integers(values, NONE_TAKEN, self.exponent, weights)
        fits = float(index.sums[0].total) + weights.sum(dtype=float) <= 2.0**MOST
        self.index, self._set, self._memory = index, None, memory  # all memory is there
        self.values = memory[: n + values.size]
        self.values[n:] = values
        append(self.index, weights if fits else np.zeros_like(weights))
        if not fits:
            self.rebuild()

    def check_enough(self, draws: int) -> None:
        """Raise an error if that many draws cannot be made."""
        n, available = self.values.size, self.available
        if available == 0:
            raise ValueError(f"all {n} weights are 0: there is nothing to draw")
        if available < draws and not self.replacement:
            raise ValueError(
                f"cannot draw {draws} items without replacement: only {available} of {n} have a "
                "weight above 0 and are not drawn yet"
            )

    def settle(self) -> None:
        """Make the unit small enough for draws; call it before each."""
        if self.index.sums["total"].item() < 2**LEAST:
            self.rebuild()

    def draw(self, stream: Stream, out: NDArray[np.int64]) -> int:
        """Draw items; return how many: all, or without replacement some of them, at least one.

        Without replacement the items leave the board. At most CHUNK are drawn, and fewer if the
        unit becomes too large for the items that are left.
        """
        self.settle()
        if self.replacement:
            drawing.draw_many(self.index, stream.state, out, np.empty(out.size), 0)
            return out.size
        out = out[: min(CHUNK, self.available)]
        undo = self._undo
        made: int = drawing.take(self.index, stream.state, out, undo.weights, undo.places, 2**LEAST)
        self.taken[out[:made]] = True
        return made

    def undo(self, items: NDArray[np.int64]) -> None:
        """Restore the board exactly to what it was before the last `draw`, of these items."""
        if not self.replacement:
            drawing.put_back(self.index, items, self._undo.weights, self._undo.places)
            self.taken[items] = False

    def release(self, items: NDArray[np.int64]) -> None:
        """Return items that were drawn to the board; they must be all of them."""
        if not self.replacement:
            self.taken[items] = False
            self.set(items, self.values[items])

    def without(self, items: NDArray[np.int64]) -> "RealWeights":
        """Return a board of the same values, to draw from without replacement, with items taken."""
        made = RealWeights.__new__(RealWeights)
        made._start(self.values, False)
        made.taken[items] = True
        return made  # its first draw builds it

    def rebuild(self) -> None:
        """Choose the scale for the items that can be drawn, and build the board."""
        rebuild(self.index, self.values, self.taken, self._exponent)

    def best_exponent(self) -> int:
        """Return the exponent of the scale that `rebuild` would choose."""
        return int(exponent_for(self.values, self.taken, self.exponent))

    @classmethod
    def restored(
        cls,
        values: NDArray[np.float64],
        replacement: bool,
        taken: NDArray[np.bool_] | None,
        exponent: int,
        order: NDArray[Any],
    ) -> "RealWeights":
        """Return what a state describes, or raise a `CheckpointError` if the parts do not fit.

        The values are finite and not negative, and the arrays have the right lengths and types; no
        item is off the board if `taken` is None.
        """
        made = cls.__new__(cls)
        made._start(values.copy(), replacement)
        if taken is not None:
            made.taken[:] = taken
        made._exponent[0], index = exponent, made.index
        fill_integers(made.values, made.taken, exponent, index.weights)
        if not is_order(index.weights, order):
            raise CheckpointError("order does not match weights and exponent")
        index.order[:] = order
        index.restore()
        return made
