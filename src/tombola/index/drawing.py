"""Draw from the board of `tombola.index.layout`: one dart at a time, or many in stages."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import bit_length, kernel, multiply_wide, prefetch
from tombola.index.layout import HEIGHTS, LIMIT, Index
from tombola.index.setting import assign, move
from tombola.random import Words, bounded, fill_words, next_below, rejected_below, seek
from tombola.state import Cell

__all__ = ["draw_distinct", "draw_many", "draw_one", "put_back", "take"]

CHUNK = 1024  # darts thrown together: their scratch arrays fit into the first cache levels
FEW = 12  # fewer draws than this are made one by one
GUIDE_BITS = 6  # leading bits of a word, which select the first height that it can land in


@kernel(inline=True)
def locate(sums: Any, dart: Any) -> Any:
    """Return the place of the column that a dart in [0, area) lands in, and its level there."""
    occupied, at_least = sums.occupied, sums.at_least
    while True:
        height = bit_length(occupied)
        area = (at_least[height] - at_least[height + 1]) << (height - 1)
        if dart < area:
            place = at_least[height + 1] + (dart >> (height - 1))
            return place, dart & ((np.int64(1) << (height - 1)) - 1)
        dart -= area
        occupied ^= np.int64(1) << (height - 1)


@kernel(inline=True)
def draw_one(index: Index, stream: Cell[Words], uniform: Any) -> Any:
    """Draw one item: throw darts, one word each, until one hits a filled part."""
    sums = index.sums[0]
    board = sums.area
    area = np.uint64(board + sums.at_least[0] * uniform)
    while True:
        dart = next_below(stream, area)
        if dart >= board:
            return (dart - board) // uniform
        place, level = locate(sums, dart)
        item = index.order[place]
        if level < index.weights[item]:
            return np.int64(item)


# Rows of the plan that `throw` uses: one entry for each occupied height, and a last one, with
# shift -1, for the integer that is added to every weight.
END, START, SHIFT, PLACE, GUIDE = 0, 1, 2, 3, 4
PLAN = 5


@kernel(allocates=True)
def plan_of(sums: Any, uniform: Any) -> Any:
    """Return the plan of the board: for each height, its range of darts and its first column.

    ``plan[GUIDE, g]`` is the first height that a word with leading bits g can land in.
    """
    plan = np.empty((PLAN, HEIGHTS + 1), dtype=np.int64)
    at_least = sums.at_least
    area = np.int64(0)
    heights = 0
    occupied = sums.occupied
    while occupied:
        height = bit_length(occupied)
        occupied ^= np.int64(1) << (height - 1)
        plan[START, heights] = area
        plan[SHIFT, heights] = height - 1
        plan[PLACE, heights] = at_least[height + 1]
        area += (at_least[height] - at_least[height + 1]) << (height - 1)
        plan[END, heights] = area
        heights += 1
    if uniform:
        plan[START, heights] = area
        plan[SHIFT, heights] = -1
        area += at_least[0] * uniform
    plan[END, heights] = 2**63 - 1  # no dart is above the last entry
    k = 0
    for g in range(1 << GUIDE_BITS):
        dart, _ = multiply_wide(np.uint64(g) << np.uint64(64 - GUIDE_BITS), np.uint64(area))
        while plan[END, k] <= np.int64(dart):
            k += 1
        plan[GUIDE, g] = k
    return plan


@kernel(allocates=True)
def throw(
    index: Index,
    words: NDArray[np.uint64],
    rejected: Any,
    out: NDArray[np.int64],
    drawn_by: NDArray[np.float64],
    uniform: Any,
) -> Any:
    """Throw one dart per word until `out` is full; return the number of hits and of darts used.

    The integer that an item was drawn by, its weight + `uniform`, is written to `drawn_by`.

    The darts go through stages together, so that memory accesses overlap: compute the columns, then
    load their items, then their weights, then keep the hits in the order of the words.
    """
    sums, weights, order = index.sums[0], index.weights, index.order
    plan = plan_of(sums, uniform)
    area = np.uint64(sums.area + sums.at_least[0] * uniform)
    places = np.empty(words.size, dtype=np.int64)
    levels = np.empty(words.size, dtype=np.int64)
    for j in range(words.size):
        dart, accepted = bounded(words[j], area, rejected)
        k = plan[GUIDE, np.int64(words[j] >> np.uint64(64 - GUIDE_BITS))]
        while plan[END, k] <= dart:
            k += 1
        dart -= plan[START, k]
        shift = plan[SHIFT, k]
        if shift >= 0:
            places[j] = plan[PLACE, k] + (dart >> shift)
            levels[j] = dart & ((np.int64(1) << shift) - 1)
            prefetch(order, places[j])
        else:  # after the columns: level -1 is below every weight, so the dart hits
            places[j] = -1 - dart // uniform
            levels[j] = -1
        if not accepted:  # a rejected word: its level is above every weight
            levels[j] = LIMIT
    items = places
    for j in range(words.size):
        items[j] = order[places[j]] if places[j] >= 0 else -1 - places[j]
        prefetch(weights, items[j])
    hits = 0
    used = 0
    while used < words.size and hits < out.size:
        weight = weights[items[used]]
        out[hits] = items[used]
        drawn_by[hits] = weight + uniform
        hits += levels[used] < weight
        used += 1
    return hits, used


@kernel(allocates=True)
def draw_many(
    index: Index,
    stream: Cell[Words],
    out: NDArray[np.int64],
    probabilities: NDArray[np.float64],
    uniform: Any,
) -> None:
    """Draw `out.size` items: the same items, from the same words, as calls of `draw_one`.

    Writes the probability of each, (weight + uniform) / (total + n uniform).
    """
    sums = index.sums[0]
    area = sums.area + sums.at_least[0] * uniform
    total = sums.total + sums.at_least[0] * uniform
    rejected = rejected_below(np.uint64(area))
    darts_per_hit = area / total
    words = np.empty(CHUNK if out.size >= FEW else 0, dtype=np.uint64)
    done = 0
    while out.size - done >= FEW:
        # about as many darts as needed; their number does not affect which items are drawn
        darts: Any = min(CHUNK, np.int64((out.size - done) * darts_per_hit))
        start = stream[0].position
        fill_words(stream, words[:darts])
        hits, used = throw(
            index, words[:darts], rejected, out[done:], probabilities[done:], uniform
        )
        done += hits
        if used < darts:  # return the words of unused darts to the stream
            seek(stream, start + np.uint64(used))
    for j in range(done, out.size):
        out[j] = draw_one(index, stream, uniform)
        probabilities[j] = index.weights[out[j]] + uniform
    for j in range(out.size):
        probabilities[j] /= total


@kernel
def take(
    index: Index,
    stream: Cell[Words],
    out: NDArray[np.int64],
    weights: NDArray[np.int64],
    places: NDArray[np.int64],
    least: Any,
) -> Any:
    """Draw items and set the weight of each to 0; return how many were drawn.

    It stops early if the total is below `least`. What `put_back` needs is recorded in `weights`
    and `places`.
    """
    for j in range(out.size):
        if index.sums[0].total < least:
            return np.int64(j)
        item = draw_one(index, stream, 0)
        out[j] = item
        weights[j] = index.weights[item]
        places[j] = index.position[item]
        assign(index, item, 0)
    return np.int64(out.size)


@kernel
def put_back(
    index: Index, items: NDArray[np.int64], weights: NDArray[np.int64], places: NDArray[np.int64]
) -> None:
    """Restore the index exactly to what it was before `take` drew these items.

    Undoing the assignments in reverse order retraces their swaps. Only the move within the item's
    own height remains, and one more swap undoes it.
    """
    for j in range(items.size - 1, -1, -1):
        item = items[j]
        assign(index, item, weights[j])
        place = move(index, np.int64(index.position[item]), places[j])
        index.order[place] = item
        index.position[item] = place


@kernel(allocates=True)
def draw_distinct(index: Index, stream: Cell[Words], out: NDArray[np.int64], least: Any) -> Any:
    """Draw different items as `take` does, and leave the index as it was; return their number.

    It is one kernel, so that Ctrl-C cannot leave items without their weight.
    """
    weights = np.empty(out.size, dtype=np.int64)
    places = np.empty(out.size, dtype=np.int64)
    made = take(index, stream, out, weights, places, least)
    put_back(index, out[:made], weights, places)
    return made
