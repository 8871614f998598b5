"""Draw from the mixture of `GroupVRB`: by weight, from all items, or from all groups.

A word of the sampler's stream decides: its first three bits choose the part of the mixture, and the
other 61 choose the item, or the group. A member of that group is drawn by darts, as in
`tombola.index.drawing`. They have a stream of their own, in which draw t takes word t; if that dart
misses, word t of the first child of that stream, then of the second, and so on. So no dart depends
on how many darts other draws needed, and all draws of a batch can throw their darts together.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, multiply_wide, prefetch
from tombola.index.drawing import locate
from tombola.random import Words, bounded_once, fill_words, next_below, next_word, word_of_child
from tombola.samplers import fallback
from tombola.samplers.deck import deal_one
from tombola.state import Cell, Floats, Ints

if TYPE_CHECKING:
    from tombola.samplers.group_rule import GroupState

__all__ = ["draw_many", "draw_one", "probability_of"]

CHUNK = 256  # draws made together: their scratch arrays fit into the first cache levels
FEW = 8  # fewer draws than this are made one by one
ITEM, GROUP = 0, 1  # first three bits of a word: any item, any group and member; else by weight
COIN = np.uint64(3)
REST = np.uint64(61)


@kernel(inline=True)
def probability_of(state: "GroupState", place: int) -> Any:
    """Return 3/4 (W_c / W) (a_i / A_c) + 1/8 (1/n) + 1/8 (1 / (K n_c)) for the item at a place."""
    c = state.group[place]
    ours = float(state.index.weights[c]) * float(state.members.weights[place])
    all_ = float(state.index.sums[0].total) * float(state.members.sums[c].total)
    return 0.75 * ours / all_ + state.floors[c]


@kernel(inline=True)
def rest_below(stream: Cell[Words], word: Any, bound: Any) -> Any:
    """Map the last 61 bits of a word to an integer in [0, bound), or those of the words after it.

    As `tombola.random.bounded` does with 64 bits: each integer has exactly the same probability.
    """
    while True:
        high, low = multiply_wide(word << COIN, bound)
        if low >= bound << COIN or low >= (np.uint64(1) << REST) % bound << COIN:
            return np.int64(high)
        word = next_word(stream)


@kernel(inline=True)
def draw_group(state: "GroupState", word: Any) -> Any:
    """Draw a group by its weight, with this word and those after it."""
    index = state.index
    sums = index.sums[0]
    while True:
        place, level = locate(sums, rest_below(state.stream, word, np.uint64(sums.area)))
        c = index.order[place]
        if level < index.weights[c]:
            return np.int64(c)
        word = next_word(state.stream)


@kernel(inline=True)
def any_member(state: "GroupState", word: Any) -> Any:
    """Draw any group with this word, and any of its members with the next; return its place."""
    c = rest_below(state.stream, word, np.uint64(state.levels.size))
    size = state.starts[c + 1] - state.starts[c]
    return state.starts[c] + next_below(state.stream, np.uint64(size))


@kernel(inline=True)
def throw(state: "GroupState", c: int, word: Any) -> Any:
    """Throw a dart at the members of a group; return the place of its column, and its level."""
    sums = state.members.sums[c]
    dart, accepted = bounded_once(word, np.uint64(sums.area))
    place, level = locate(sums, dart)
    return state.starts[c] + place, level if accepted else sums.area


@kernel(inline=True)
def draw_member(state: "GroupState", c: int) -> Any:
    """Draw a member of a group by its weight; return its place."""
    members, start = state.members, state.starts[c]
    turn = state.darts[0].position
    word = next_word(state.darts)
    misses = 0
    while True:
        column, level = throw(state, c, word)
        place = start + members.order[column]
        if level < members.weights[place]:
            return place
        word = word_of_child(state.darts, misses, turn)
        misses += 1


@kernel(inline=True)
def draw_one(state: "GroupState") -> Any:
    """Draw one item, in the current mode; return it and its probability."""
    if state.fallback[0].shuffling:
        return deal_one(state.deck, state.stream), 1.0 / state.place.size
    word = next_word(state.stream)
    part = word >> REST
    if part == ITEM:
        place = state.place[rest_below(state.stream, word, np.uint64(state.place.size))]
    elif part == GROUP:
        place = any_member(state, word)
    else:
        place = draw_member(state, draw_group(state, word))
    return np.int64(state.item[place]), probability_of(state, place)


class Throws(NamedTuple):
    """The draws of a chunk whose darts have not hit yet, in order."""

    draw: NDArray[np.int64]  # the position in the chunk
    turn: NDArray[np.int64]  # the position in the stream of darts
    group: NDArray[np.int64]
    word: NDArray[np.uint64]
    level: NDArray[np.int64]  # of the dart in its column
    missed: NDArray[np.int64]  # 1 if the dart is above the weight, else 0


@kernel(allocates=True)
def draw_many(state: "GroupState", items: Ints, probabilities: Floats) -> None:
    """Draw a batch: the same items, from the same words, as `draw_one`."""
    size = min(CHUNK, items.size)
    throws = Throws(
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.uint64),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.int64),
    )
    start = 0
    while start < items.size:
        end = start + fallback.begin_block(state.fallback[0], min(CHUNK, items.size - start))
        state.rule[0].drawn += end - start
        if state.fallback[0].shuffling or end - start < FEW:
            for j in range(start, end):
                items[j], probabilities[j] = draw_one(state)
        else:
            places = items[start:end]
            draw_members(state, places, throws, choose_parts(state, places, throws))
            for j in range(start, end):
                probabilities[j] = probability_of(state, items[j])
                items[j] = state.item[items[j]]
        start = end


@kernel
def choose_parts(state: "GroupState", places: Any, throws: Throws) -> Any:
    """Choose the part of the mixture for each draw; list draws by weight in `throws`.

    Writes the places of the other draws, and returns the number of draws by weight.
    """
    count = 0
    for j in range(places.size):
        word = next_word(state.stream)
        part = word >> REST
        if part == ITEM:
            item = rest_below(state.stream, word, np.uint64(state.place.size))
            places[j] = -1 - item
            prefetch(state.place, item)
        elif part == GROUP:
            places[j] = any_member(state, word)
            prefetch(state.item, places[j])
        else:
            places[j] = 0
            throws.draw[count], throws.group[count] = j, draw_group(state, word)
            count += 1
    for j in range(places.size):
        if places[j] < 0:
            places[j] = state.place[-1 - places[j]]
            prefetch(state.item, places[j])
    return count


@kernel
def draw_members(state: "GroupState", places: Any, throws: Throws, count: Any) -> None:
    """Draw members of the groups in `throws`: all dart by dart, so that memory accesses overlap."""
    members, misses, first = state.members, 0, np.int64(state.darts[0].position)
    fill_words(state.darts, throws.word[:count])
    for k in range(count):
        throws.turn[k] = first + k
    while count > 0:
        for k in range(count):
            column, throws.level[k] = throw(state, throws.group[k], throws.word[k])
            places[throws.draw[k]] = column
            prefetch(members.order, column)
        for k in range(count):
            j = throws.draw[k]
            places[j] = state.starts[throws.group[k]] + members.order[places[j]]
            prefetch(members.weights, places[j])
        for k in range(count):
            throws.missed[k] = throws.level[k] >= members.weights[places[throws.draw[k]]]
        missed = 0
        for k in range(count):
            j, turn, c = throws.draw[k], throws.turn[k], throws.group[k]
            throws.draw[missed], throws.turn[missed], throws.group[missed] = j, turn, c
            missed += throws.missed[k]
        count = missed
        for k in range(count):
            throws.word[k] = word_of_child(state.darts, misses, np.uint64(throws.turn[k]))
        misses += 1
