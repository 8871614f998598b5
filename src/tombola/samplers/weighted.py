"""Samplers with a score for each item, which draw from an index of integer weights.

Such a sampler consists of a few small functions on a subclass of `Weighted`: `absorb` updates the
score of an item from a loss, `value` maps the score to the real number that the item's weight is
proportional to, and `prepare` sets the parameters of the next draws, such as the mixing. This
module does the rest: it converts real values into integer weights, adds the uniform share of a
mixture to every weight at draw time, refreshes stale weights a few at a time, and compiles
everything together with these functions.

With weights a_i of sum A and the uniform weight U, an item is drawn with probability
(a_i + U) / (A + n U): a ratio of integers, which the draw reports exactly (rounded once, to a
float64). U is the smallest integer for which the uniform share n U / (A + n U) is at least the
requested mixing.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import by_type, kernel, new_record, prefetch
from tombola.compiling.records import Record
from tombola.index import drawing
from tombola.index.layout import Index, build, new_index
from tombola.index.setting import assign
from tombola.random import next_below
from tombola.samplers.arithmetic import power_of_two_near
from tombola.samplers.compiled import Compiled, CompiledSampler

__all__ = ["Scored", "Weighted", "WeightedSampler", "new_rule"]

SWEEP = 2  # items refreshed per loss, while a sweep is in progress
ALWAYS = 2**62  # the pending items of a sweep that never ends
TARGET = 2.0**50  # total weight after a rebuild
HIGH = 2**60  # a total above this, or an average weight below LOW, changes the scale
LOW = 2**10
SMALL = 2**20  # up to this many items are rescaled at once, in milliseconds; more by a sweep


# --- drawing ------------------------------------------------------------------------------------


@kernel(inline=True)
def uniform_weight(state: Any) -> Any:
    """Return U for the requested mixing; -1 if every draw is uniform."""
    mixing = state.rule[0].mixing
    if mixing <= 0.0:
        return np.int64(0)
    total = state.index.sums[0].total
    # 2^62 leaves room for area + n U below 2^63
    share = mixing / (1.0 - mixing) * total if mixing < 1.0 else np.inf
    if share >= 2.0**61:
        return np.int64(-1)
    return np.int64(share / state.index.weights.size) + 1


@kernel(inline=True)
def probability_of(state: Any, item: Any, uniform: Any) -> Any:
    """Return the probability of an item, given the uniform weight."""
    n = state.index.weights.size
    if uniform < 0:
        return 1.0 / n
    return (state.index.weights[item] + uniform) / (state.index.sums[0].total + n * uniform)


@kernel(inline=True)
def draw_from_index(state: Any) -> Any:
    """Draw one item by its weight; return it and its probability."""
    uniform = uniform_weight(state)
    if uniform < 0:
        item = next_below(state.stream, np.uint64(state.index.weights.size))
    else:
        item = drawing.draw_one(state.index, state.stream, uniform)
    return item, probability_of(state, item, uniform)


@kernel
def fill_from_index(state: Any, out: Any) -> None:
    """Write the probability of every item."""
    uniform = uniform_weight(state)
    for item in range(out.size):
        out[item] = probability_of(state, item, uniform)


@kernel(allocates=True)
def draw_many(state: Any, items: Any, probabilities: Any) -> None:
    """Draw a batch, calling `prepare` once for all draws that it is valid for."""
    done = 0
    while done < items.size:
        size = prepare(state, items.size - done)
        state.rule[0].drawn += size
        uniform = uniform_weight(state)
        if by_weight(state) and uniform >= 0:
            # the same items, from the same words, as `draw_from_index`
            drawing.draw_many(state.index, state.stream, items[done : done + size], uniform)
            for j in range(done, done + size):
                probabilities[j] = probability_of(state, items[j], uniform)
        else:
            for j in range(done, done + size):
                items[j], probabilities[j] = draw_next(state)
        done += size


# --- learning -----------------------------------------------------------------------------------


@kernel(inline=True)
def learn_one(state: Any, item: Any, probability: Any, loss: Any) -> None:
    """Learn from one loss."""
    absorb(state, item, probability, loss)
    state.rule[0].fed += 1
    put(state, item, value(state, item))
    sweep(state)


@kernel
def update_in_order(state: Any, items: Any, probabilities: Any, losses: Any) -> None:
    """Learn from a batch, one loss after the other, after prefetching what this reads."""
    index = state.index
    for j in range(items.size):
        fetch(state, items[j])
        prefetch(index.weights, items[j])
        prefetch(index.position, items[j])
    for j in range(items.size):
        prefetch(index.order, index.position[items[j]])
    for j in range(items.size):
        learn_one(state, items[j], probabilities[j], losses[j])


@kernel(inline=True)
def least_weight(state: Any, real: Any) -> Any:
    """Return the smallest weight that an item of this value can have."""
    return np.int64(1) if real > 0.0 else state.sweep[0].least


@kernel(inline=True)
def weight_within(real: Any, scale: Any, room: Any) -> Any:
    """Return a real value times the scale as an integer, at most `room`."""
    scaled = real * scale
    return min(room, np.int64(scaled) if scaled < 2.0**62 else room)


@kernel(inline=True)
def put(state: Any, item: Any, real: Any) -> None:
    """Convert a value into an integer weight.

    The weight is at least 1, so that every item can be drawn (a sampler may choose 0 for a value of
    0). It is clipped such that the total does not exceed the limit of the index; the end of the
    update then changes the scale.
    """
    room = 2 * HIGH - (state.index.sums[0].total - state.index.weights[item])
    weight = weight_within(real, state.sweep[0].scale, room)
    assign(state.index, item, max(weight, least_weight(state, real)))


@kernel(inline=True)
def following(item: Any, n: Any) -> Any:
    """Return the item after this one, in turn."""
    return item + 1 if item + 1 < n else 0


@kernel(inline=True)
def sweep(state: Any) -> None:
    """Refresh a few more weights; change the scale if the total is out of range."""
    turn, n = state.sweep[0], state.index.weights.size
    items = min(turn.pending, SWEEP)
    for _ in range(items):
        item = turn.cursor
        turn.cursor = following(item, n)
        fade(state, item)
        put(state, item, value(state, item))
    if turn.pending < ALWAYS:
        turn.pending -= items
    if not LOW * n <= state.index.sums[0].total <= HIGH:
        rescale(state)


@kernel(inner=True)
def rescale(state: Any) -> None:
    """Change the scale of the weights: at once if that is fast, else during a sweep."""
    turn, n = state.sweep[0], state.index.weights.size
    if n <= SMALL:
        rebuild(state)
    elif turn.pending == 0 or (turn.pending == ALWAYS and turn.cursor < SWEEP):
        turn.scale *= 0.5 if state.index.sums[0].total > HIGH else 2.0
        turn.pending = max(turn.pending, n)


@kernel
def rebuild(state: Any) -> None:
    """Choose the scale and compute all weights from the scores."""
    total = 0.0
    weights = state.index.weights
    for item in range(weights.size):
        total += value(state, item)
    scale = TARGET / power_of_two_near(total)
    state.sweep[0].scale = scale
    room = np.int64(2 * HIGH)
    for item in range(weights.size):
        real = value(state, item)
        weights[item] = max(weight_within(real, scale, room), least_weight(state, real))
        room -= weights[item]
    build(state.index)


# --- the state and its functions -----------------------------------------------------------------


class Weighted(Compiled):
    """Base class of states with the parts ``stream``, ``index``, ``sweep`` and ``rule``.

    ``rule`` is a record with at least ``mixing`` (the requested uniform share), ``drawn`` and
    ``fed`` (the number of items drawn and of losses received); see `new_rule`.
    """

    __slots__ = ()
    draw_many = draw_many
    update_many = update_in_order

    @classmethod
    def limits(cls, state: Any) -> dict[str, tuple[float, float]]:
        """Return the valid range of the parts that all weighted samplers have."""
        n, pending = state.index.weights.size, state.sweep[0].pending
        return {
            "rule.mixing": (0.0, 1.0),
            "rule.fade": (0.0, 1.0),
            "sweep.scale": (2.0**-1000, 2.0**1020),
            "sweep.least": (state.sweep[0].least, state.sweep[0].least),
            "sweep.cursor": (0, n - 1),
            "sweep.pending": (ALWAYS, ALWAYS) if pending == ALWAYS else (0, n),
            "scores": (0.0, 2.0**1020),
        }

    @staticmethod
    def absorb(state: Any, item: Any, probability: Any, loss: Any) -> None:
        """Update the score of an item from a loss; the default learns nothing."""

    @staticmethod
    def value(state: Any, item: Any) -> Any:
        """Return the real number that the item's weight is proportional to."""
        return 1.0

    @staticmethod
    def prepare(state: Any, size: Any) -> Any:
        """Set the mixing of the next draws; return for how many of `size` draws it is valid."""
        return size

    @staticmethod
    def fade(state: Any, item: Any) -> None:
        """Discount the evidence of an item as the sweep passes; the default does nothing."""

    @staticmethod
    def fetch(state: Any, item: Any) -> None:
        """Prefetch what `absorb` and `value` read of an item."""

    @staticmethod
    def by_weight(state: Any) -> Any:
        """Return whether the next draws are by weight, as `draw_from_index` makes them."""
        return True

    draw_next = staticmethod(draw_from_index)
    update_one = staticmethod(learn_one)
    fill_probabilities = staticmethod(fill_from_index)

    @staticmethod
    def draw_one(state: Any) -> Any:
        """Draw one item; return it and its probability."""
        prepare(state, 1)
        state.rule[0].drawn += 1
        return draw_next(state)


class _ScoredParts(NamedTuple):
    stream: Record
    index: Index  # type: ignore[assignment]
    sweep: Record
    rule: Record
    scores: NDArray[np.float64]


class Scored(Weighted, _ScoredParts):
    """Base class of states with one score for each item."""

    __slots__ = ()

    @staticmethod
    def fetch(state: Any, item: Any) -> None:
        """Prefetch the score."""
        prefetch(state.scores, item)


absorb = by_type(Weighted.absorb)
value = by_type(Weighted.value)
prepare = by_type(Weighted.prepare)
fade = by_type(Weighted.fade)
fetch = by_type(Weighted.fetch)
draw_next = by_type(Weighted.draw_next, "draw_next")
by_weight = by_type(Weighted.by_weight)


# --- the sampler class --------------------------------------------------------------------------


def new_rule(*, mixing: float = 0.0, **own: Any) -> Record:
    """Return the record of a rule: mixing, counts of draws and losses, and further numbers."""
    return new_record(mixing=mixing, drawn=0, fed=0, **own)


class WeightedSampler(CompiledSampler):
    """A sampler with an index; a subclass sets `state_class` and calls `_begin`."""

    state_class: type[Any]

    def _begin(
        self, *, index: Index | None = None, stale: bool = False, least: int = 1, **own: Any
    ) -> None:
        """Make the state and compute all weights; call it at the end of the constructor.

        Parameters
        ----------
        index : Index, optional
            Space for the index, where it is not to be separate arrays.
        stale : bool, default=False
            Whether weights change without feedback for their item; the sweep then never stops.
        least : {0, 1}, default=1
            The weight of an item of value 0: with 0 (and no mixing), it is never drawn.
        **own
            The other parts of the state, besides stream, index and sweep: ``rule``, and arrays.
        """
        pending = ALWAYS if stale else 0
        self.state = self.state_class(
            stream=self._stream.state,
            index=new_index(np.ones(self.n, dtype=np.int64)) if index is None else index,
            sweep=new_record(
                scale=1.0,  # integer weight per unit of value; a power of two
                least=least,  # the weight of an item of value 0
                cursor=0,  # the item that is refreshed next
                pending=pending,  # the number of items still to be refreshed
            ),
            **own,
        )
        rebuild(self.state)

    def _largest_importance(self) -> float:
        mixing = float(self.state.rule[0].mixing)
        return 1.0 / mixing if mixing > 0 else np.inf
