"""Samplers with a score for each item, which draw from an index of integer weights.

Such a sampler consists of a few small functions on a subclass of `Weighted`: `absorb` updates the
score of an item from a loss, `value` maps the score to the real number that the item's weight is
proportional to, and `prepare` sets the parameters of the next draws, such as the mixing. This
module does the rest: it turns values into integer weights by `tombola.index.real`, adds the uniform
share of a mixture to every weight at draw time, refreshes stale weights a few at a time, and
compiles everything together with these functions.

With weights a_i of sum A and the uniform weight U, an item is drawn with probability
(a_i + U) / (A + n U): a ratio of integers, which the draw reports exactly (rounded once, to a
float64). U is the smallest integer for which the uniform share n U / (A + n U) is at least the
requested mixing.
"""

from typing import Any

import numpy as np

from tombola.compiling import kernel, prefetch
from tombola.index import drawing
from tombola.index.layout import Index, build, new_index
from tombola.index.real import HIGH, LOW, TARGET, out_of_range, scale_for, to_integer
from tombola.index.setting import assign
from tombola.random import next_below
from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.state import Cell, Floats, Ints, Record, array, cell, count, derived, integer, real

__all__ = ["Rule", "Scored", "Sweep", "Weighted", "WeightedSampler"]

SWEEP = 2  # items refreshed per loss, while a sweep is in progress
SMALL = 2**20  # up to this many items are rescaled at once, in milliseconds; more by a sweep


# --- drawing ------------------------------------------------------------------------------------


@kernel(inline=True)
def uniform_weight(state: "Weighted") -> Any:
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
def probability_of(state: "Weighted", item: int, uniform: Any) -> Any:
    """Return the probability of an item, given the uniform weight."""
    n = state.index.weights.size
    if uniform < 0:
        return 1.0 / n
    return (state.index.weights[item] + uniform) / (state.index.sums[0].total + n * uniform)


@kernel(inline=True)
def draw_from_index(state: "Weighted") -> Any:
    """Draw one item by its weight; return it and its probability."""
    uniform = uniform_weight(state)
    if uniform < 0:
        item = next_below(state.stream, np.uint64(state.index.weights.size))
    else:
        item = drawing.draw_one(state.index, state.stream, uniform)
    return item, probability_of(state, item, uniform)


@kernel
def fill_from_index(state: "Weighted", out: Floats) -> None:
    """Write the probability of every item."""
    uniform = uniform_weight(state)
    for item in range(out.size):
        out[item] = probability_of(state, item, uniform)


@kernel(allocates=True)
def draw_many(state: "Weighted", items: Ints, probabilities: Floats) -> None:
    """Draw a batch, calling `prepare` once for all draws that it is valid for."""
    done = 0
    while done < items.size:
        size, uniform = begin_draws(state, items[done:], probabilities[done:])
        if uniform >= 0:
            # the same items and probabilities, from the same words, as `draw_from_index`
            drawing.draw_many(
                state.index,
                state.stream,
                items[done : done + size],
                probabilities[done : done + size],
                uniform,
            )
        done += size


@kernel
def begin_draws(state: "Weighted", items: Ints, probabilities: Floats) -> Any:
    """Prepare draws; return their number, and U if they are by weight.

    Otherwise make them, and return -1. This is not done in `draw_many`, because in a function that
    allocates, calls of methods count references.
    """
    size = state.prepare(items.size)
    state.rule[0].drawn += size
    uniform = uniform_weight(state) if state.by_weight() else np.int64(-1)
    if uniform < 0:
        for j in range(size):
            items[j], probabilities[j] = state.draw_next()
    return size, uniform


# --- learning -----------------------------------------------------------------------------------


@kernel(inline=True)
def learn_one(state: "Weighted", item: int, probability: float, loss: float) -> None:
    """Learn from one loss."""
    state.absorb(item, probability, loss)
    state.rule[0].fed += 1
    put(state, item, state.value(item))
    sweep(state)


@kernel
def update_in_order(state: "Weighted", items: Ints, probabilities: Floats, losses: Floats) -> None:
    """Learn from a batch, one loss after the other, after prefetching what this reads."""
    index = state.index
    for j in range(items.size):
        state.fetch(items[j])
        prefetch(index.weights, items[j])
        prefetch(index.position, items[j])
    for j in range(items.size):
        prefetch(index.order, index.position[items[j]])
    for j in range(items.size):
        learn_one(state, items[j], probabilities[j], losses[j])


@kernel(inline=True)
def put(state: "Weighted", item: int, real: Any) -> None:
    """Set the weight of an item by its value, as `tombola.index.real` describes.

    The weight of value 0 is 1 too, so that every item can be drawn, unless the sampler chooses 0.
    A weight is clipped such that the total does not exceed the limit of the index; the end of the
    update then changes the scale.
    """
    room = 2 * HIGH - (state.index.sums[0].total - state.index.weights[item])
    weight = to_integer(real, state.sweep[0].scale, room)
    assign(state.index, item, max(weight, state.sweep[0].least))


@kernel(inline=True)
def following(item: int, n: int) -> Any:
    """Return the item after this one, in turn."""
    return item + 1 if item + 1 < n else 0


@kernel(inline=True)
def sweep(state: "Weighted") -> None:
    """Refresh a few more weights; change the scale if the total is out of range."""
    turn, n = state.sweep[0], state.index.weights.size
    if turn.pending > 0:
        items = SWEEP if turn.endless else min(turn.pending, SWEEP)
        for _ in range(items):
            item = turn.cursor
            turn.cursor = following(item, n)
            state.fade(item)
            put(state, item, state.value(item))
        if not turn.endless:
            turn.pending -= items
    if out_of_range(state.index.sums[0].total, LOW * n):
        rescale(state)


@kernel
def rescale(state: "Weighted") -> None:
    """Change the scale of the weights: at once if that is fast, else during a sweep."""
    turn, n = state.sweep[0], state.index.weights.size
    if n <= SMALL:
        rebuild(state)
    elif turn.cursor < SWEEP if turn.endless else turn.pending == 0:
        turn.scale *= 0.5 if state.index.sums[0].total > HIGH else 2.0
        turn.pending = n


@kernel
def rebuild(state: "Weighted") -> None:
    """Choose the scale and compute all weights from the scores."""
    total = 0.0
    weights = state.index.weights
    for item in range(weights.size):
        total += state.value(item)
    scale = scale_for(total, TARGET)
    state.sweep[0].scale = scale
    room = np.int64(2 * HIGH)
    for item in range(weights.size):
        weight = to_integer(state.value(item), scale, room)
        weights[item] = max(weight, state.sweep[0].least)
        room -= weights[item]
    build(state.index)


# --- the state and its functions -----------------------------------------------------------------


class Rule(Record):
    """The numbers that every rule has; a rule with more of them derives from this class."""

    mixing: float = real("theta, the requested share of uniform draws", 0.0, 1.0, default=0.0)
    drawn: int = count("items drawn", default=0)
    fed: int = count("losses received", default=0)


class Sweep(Record):
    """How weights follow from values, and which of them are refreshed next."""

    scale: float = real(
        "integer weight per unit of value, a power of two", 2.0**-1000, 2.0**1020, default=1.0
    )
    least: int = derived("the weight of an item of value 0")
    endless: int = derived("1 if weights change without feedback: the sweep never ends")
    cursor: int = integer("the item that is refreshed next", 0, "index.order.size - 1", default=0)
    pending: int = integer("items still to be refreshed", "endless", "index.order.size")


class Weighted(Compiled):
    """Base class of states with an index over all items."""

    index: Index
    sweep: Cell[Sweep]
    rule: Cell[Rule]

    draw_many = draw_many
    update_many = update_in_order

    def absorb(self, item: int, probability: float, loss: float) -> None:
        """Update the score of an item from a loss; the default learns nothing."""

    def value(self, item: int) -> float:
        """Return the real number that the item's weight is proportional to."""
        return 1.0

    def prepare(self, size: int) -> int:
        """Set the mixing of the next draws; return for how many of `size` draws it is valid."""
        return size

    def fade(self, item: int) -> None:
        """Discount the evidence of an item as the sweep passes; the default does nothing."""

    def fetch(self, item: int) -> None:
        """Prefetch what `absorb` and `value` read of an item."""

    def by_weight(self) -> bool:
        """Return whether the next draws are by weight, as `draw_from_index` makes them."""
        return True

    draw_next = draw_from_index
    update_one = learn_one
    fill_probabilities = fill_from_index

    def draw_one(self) -> Any:
        """Draw one item; return it and its probability."""
        self.prepare(1)
        self.rule[0].drawn += 1
        return self.draw_next()


class Scored(Weighted):
    """Base class of states with one score for each item."""

    scores: Floats = array("the score of each item", 0.0, 2.0**1020)

    def fetch(self, item: int) -> None:
        """Prefetch the score."""
        prefetch(self.scores, item)


# --- the sampler class --------------------------------------------------------------------------


class WeightedSampler(CompiledSampler):
    """A sampler with an index; a subclass calls `_begin` with the class of its state."""

    state: Weighted

    def _begin(
        self,
        kind: type[Weighted],
        *,
        index: Index | None = None,
        stale: bool = False,
        least: int = 1,
        **own: Any,
    ) -> None:
        """Make the state and compute all weights; call it at the end of the constructor.

        Parameters
        ----------
        kind : type of Weighted
            The class of the state.
        index : Index, optional
            Space for the index, if it shares memory with other arrays.
        stale : bool, default=False
            Whether weights change without feedback for their item; the sweep then never stops.
        least : {0, 1}, default=1
            The weight of an item of value 0: with 0 (and no mixing), it is never drawn.
        **own
            The other parts of the state, besides stream, index and sweep: ``rule``, and arrays.
        """
        self.state = kind(
            stream=self._stream.state,
            index=new_index(np.ones(self.n, dtype=np.int64)) if index is None else index,
            sweep=cell(Sweep(least=least, endless=int(stale), pending=self.n if stale else 0)),
            **own,
        )
        rebuild(self.state)

    def _largest_importance(self) -> float:
        mixing = float(self.state.rule[0].mixing)
        return 1.0 / mixing if mixing > 0 else np.inf
