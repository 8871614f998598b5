"""The dart board: exact draws in proportion to integer weights, in constant time.

Give each item a column as wide as one and as high as the smallest power of two that its
weight fits under, and fill the column up to the weight. A dart that lands uniformly on the
board hits the filled part of item i's column with probability in proportion to its weight;
a dart that misses every filled part is thrown again. A column is more than half full, so
fewer than two darts are needed on average.

Columns of equal height stand side by side, so that a dart finds its column by arithmetic:

    order     the items, column by column, tallest columns first, items without weight last
    position  its inverse: ``order[position[item]] == item``
    weights   the weight of each item
    counts    int64[68], see below

A weight that changes its height crosses the boundaries in between by one swap each.

A draw may add the same integer to the weight of every item without touching any: n full
columns of that height stand behind the others.

All integers, nothing is ever rounded: for each of the darts 0 .. area - 1 the hit is
determined, and item i is hit by exactly ``weights[i] + uniform`` of them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import bit_length, kernel, multiply_wide, prefetch
from tombola.random import POSITION, bounded, fill_words, next_below, rejected_below, seek

# Layout of `counts`. A height is 0 for an item without weight, else h >= 1 for a column of
# 2^(h-1); entries 0 .. 64 hold the number of items of at least that height, so that
# counts[0] = n, counts[1] = the items with weight, and columns of height h stand at
# places counts[h+1] <= place < counts[h].
HEIGHTS = 64  # heights run from 0 to 63
TOTAL = 65  # sum of all weights
AREA = 66  # sum of all column heights: the size of the board, less than twice the total
OCCUPIED = 67  # bit h - 1 is set where height h has a column
COUNTS = 68

LIMIT = 2**62  # the largest total

CHUNK = 1024  # darts thrown together: their scratch arrays stay in the first cache levels
FEW = 12  # so few are drawn one by one
AHEAD = 4  # crossings of a boundary for which the memory is asked in advance


@kernel(inline=True)
def height_of(weight: Any) -> Any:
    """Return 0 for weight 0, else h such that 2^(h-2) < weight <= 2^(h-1)."""
    return bit_length(weight - 1) + 1 if weight > 0 else 0


@kernel(inline=True)
def column_area(height: Any) -> Any:
    """Return the height of the column in units of weight."""
    return np.int64(1) << (height - 1) if height > 0 else np.int64(0)


@kernel
def build(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    position: NDArray[Any],
) -> None:
    """Sort the items by height (counting sort) and fill in `counts`."""
    n = weights.size
    counts[:] = 0
    for item in range(n):
        height = height_of(weights[item])
        counts[height] += 1
        counts[TOTAL] += weights[item]
        counts[AREA] += column_area(height)
    for height in range(1, HEIGHTS):
        if counts[height]:
            counts[OCCUPIED] |= np.int64(1) << (height - 1)
    for height in range(HEIGHTS - 1, -1, -1):
        counts[height] += counts[height + 1]
    # counts[h + 1] is where height h begins; it moves up to where h ends, which is counts[h] ...
    for item in range(n):
        height = height_of(weights[item])
        place = counts[height + 1]
        counts[height + 1] += 1
        order[place] = item
        position[item] = place
    # ... so that moving all of them down by one undoes it
    for height in range(HEIGHTS):
        counts[height] = counts[height + 1]
    counts[HEIGHTS] = 0


@kernel(inline=True)
def locate(counts: NDArray[np.int64], dart: Any) -> Any:
    """Return the place of the column that a dart in [0, area) lands in, and how high up."""
    occupied = counts[OCCUPIED]
    while True:
        height = bit_length(occupied)
        area = (counts[height] - counts[height + 1]) << (height - 1)
        if dart < area:
            place = counts[height + 1] + (dart >> (height - 1))
            return place, dart & ((np.int64(1) << (height - 1)) - 1)
        dart -= area
        occupied ^= np.int64(1) << (height - 1)


@kernel
def draw_one(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    state: NDArray[np.uint64],
    uniform: Any,
) -> Any:
    """Draw one item: throw darts, one word each, until one hits."""
    area = np.uint64(counts[AREA] + counts[0] * uniform)
    while True:
        dart = next_below(state, area)
        if dart >= counts[AREA]:
            return (dart - counts[AREA]) // uniform
        place, level = locate(counts, dart)
        item = order[place]
        if level < weights[item]:
            return np.int64(item)


# Rows of the plan that `throw` makes of the board: one entry for each occupied height, and a
# last one, with shift -1, for what is added to every weight.
END, START, SHIFT, PLACE, GUIDE = 0, 1, 2, 3, 4
PLAN = 5
GUIDE_BITS = 6


@kernel(allocates=True)
def survey(counts: NDArray[np.int64], uniform: Any) -> Any:
    """Return the plan of the board: where each height's darts end and its columns begin.

    ``plan[GUIDE, g]`` is the first height that a word with leading bits g can land in.
    """
    plan = np.empty((PLAN, HEIGHTS + 1), dtype=np.int64)
    area = np.int64(0)
    heights = 0
    occupied = counts[OCCUPIED]
    while occupied:
        height = bit_length(occupied)
        occupied ^= np.int64(1) << (height - 1)
        plan[START, heights] = area
        plan[SHIFT, heights] = height - 1
        plan[PLACE, heights] = counts[height + 1]
        area += (counts[height] - counts[height + 1]) << (height - 1)
        plan[END, heights] = area
        heights += 1
    if uniform:
        plan[START, heights] = area
        plan[SHIFT, heights] = -1
        area += counts[0] * uniform
    plan[END, heights] = 2**63 - 1  # no dart is above the last
    k = 0
    for g in range(1 << GUIDE_BITS):
        dart, _ = multiply_wide(np.uint64(g) << np.uint64(64 - GUIDE_BITS), np.uint64(area))
        while plan[END, k] <= np.int64(dart):
            k += 1
        plan[GUIDE, g] = k
    return plan


@kernel(allocates=True)
def throw(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    words: NDArray[np.uint64],
    rejected: Any,
    out: NDArray[np.int64],
    uniform: Any,
) -> Any:
    """Throw one dart per word until `out` is full; return the hits and the darts used.

    In stages, so that the memory system works on many darts at once: columns by arithmetic,
    then their items, then the weights, then keep the hits, in the order of the words.
    """
    plan = survey(counts, uniform)
    area = np.uint64(counts[AREA] + counts[0] * uniform)
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
        else:  # behind the columns: below every weight, so that it hits whatever item it is
            places[j] = -1 - dart // uniform
            levels[j] = -1
        if not accepted:  # a dart that does not count lands above every weight
            levels[j] = LIMIT
    items = places
    for j in range(words.size):
        items[j] = order[places[j]] if places[j] >= 0 else -1 - places[j]
        prefetch(weights, items[j])
    hits = 0
    used = 0
    while used < words.size and hits < out.size:
        out[hits] = items[used]
        hits += levels[used] < weights[items[used]]
        used += 1
    return hits, used


@kernel(allocates=True)
def draw_many(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    state: NDArray[np.uint64],
    out: NDArray[np.int64],
    uniform: Any,
) -> None:
    """Draw `out.size` items: the same, from the same words, as that many `draw_one`."""
    area = counts[AREA] + counts[0] * uniform
    total = counts[TOTAL] + counts[0] * uniform
    rejected = rejected_below(np.uint64(area))
    darts_per_hit = area / total
    words = np.empty(CHUNK if out.size >= FEW else 0, dtype=np.uint64)
    done = 0
    while out.size - done >= FEW:
        # about as many darts as it takes; how many has no influence on what is drawn
        darts: Any = min(CHUNK, np.int64((out.size - done) * darts_per_hit))
        start = state[POSITION]
        fill_words(state, words[:darts])
        hits, used = throw(counts, weights, order, words[:darts], rejected, out[done:], uniform)
        done += hits
        if used < darts:  # hand the words of the darts not thrown back
            seek(state, start + np.uint64(used))
    for j in range(done, out.size):
        out[j] = draw_one(counts, weights, order, state, uniform)


@kernel(inline=True)
def assign(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    position: NDArray[Any],
    item: Any,
    weight: Any,
) -> None:
    """Give an item a new weight, and another place if its height changes."""
    old = weights[item]
    weights[item] = weight
    counts[TOTAL] += weight - old
    low, high = height_of(old), height_of(weight)
    if low != high:
        cross(counts, order, position, item, low, high)


@kernel
def cross(
    counts: NDArray[np.int64],
    order: NDArray[Any],
    position: NDArray[Any],
    item: Any,
    low: Any,
    high: Any,
) -> None:
    """Swap an item across the boundaries between its old height and its new one."""
    counts[AREA] += column_area(high) - column_area(low)
    place = np.int64(position[item])
    for height in range(low + 1, high + 1):  # upwards: to the front of the next lower height
        place = move(order, position, place, counts[height])
        counts[height] += 1
        prefetch(position, order[min(counts[height] + AHEAD, counts[0] - 1)])
    for height in range(low, high, -1):  # downwards: to the back of its height
        counts[height] -= 1
        place = move(order, position, place, counts[height])
        prefetch(position, order[max(counts[height] - AHEAD, 0)])
    order[place] = item
    position[item] = place
    for height in (low, high):
        if height > 0:
            bit = np.int64(1) << (height - 1)
            counts[OCCUPIED] |= bit
            if counts[height] == counts[height + 1]:
                counts[OCCUPIED] ^= bit


@kernel(inline=True)
def move(order: NDArray[Any], position: NDArray[Any], place: Any, target: Any) -> Any:
    """Let the item at `target` take the free place, and return the place that it freed."""
    if place != target:
        other = order[target]
        order[place] = other
        position[other] = place
    return target


@kernel
def assign_many(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    position: NDArray[Any],
    items: NDArray[np.int64],
    new: NDArray[np.int64],
) -> None:
    """Assign in sequence, after asking for all the memory that this will read."""
    for j in range(items.size):
        prefetch(weights, items[j])
        prefetch(position, items[j])
    for j in range(items.size):
        assign(counts, weights, order, position, items[j], new[j])


SET_DONE = -1
SET_MAY_PASS_LIMIT = -2


@kernel
def checked_set(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    position: NDArray[Any],
    items: NDArray[np.int64],
    new: NDArray[np.int64],
) -> Any:
    """Check the whole batch, then assign it.

    Returns SET_DONE, or without having changed anything: the first position that holds a bad
    item or weight; or SET_MAY_PASS_LIMIT where the new weights alone could pass the limit.
    """
    n = counts[0]
    room = LIMIT - counts[TOTAL]
    fits = True
    for j in range(items.size):
        if items[j] < 0 or items[j] >= n or new[j] < 0:
            return j
        fits = fits and new[j] <= room
        room -= new[j] if fits else 0
    if not fits:
        return SET_MAY_PASS_LIMIT
    assign_many(counts, weights, order, position, items, new)
    return SET_DONE


@kernel(allocates=True)
def draw_without_replacement(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    position: NDArray[Any],
    state: NDArray[np.uint64],
    out: NDArray[np.int64],
) -> None:
    """Draw, take the item's weight away, draw the next; then put everything back exactly.

    Undone last first, each assignment retraces its own swaps; only the step inside the item's
    own height is left, and one more swap undoes that.
    """
    taken = np.empty(out.size, dtype=np.int64)
    places = np.empty(out.size, dtype=np.int64)
    for j in range(out.size):
        item = draw_one(counts, weights, order, state, 0)
        out[j] = item
        taken[j] = weights[item]
        places[j] = position[item]
        assign(counts, weights, order, position, item, 0)
    for j in range(out.size - 1, -1, -1):
        item = out[j]
        assign(counts, weights, order, position, item, taken[j])
        place = move(order, position, np.int64(position[item]), places[j])
        order[place] = item
        position[item] = place


@kernel
def append(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    position: NDArray[Any],
    new: NDArray[np.int64],
) -> None:
    """Add items behind the last: first without weight, then assigned theirs."""
    for j in range(new.size):
        item = counts[0]
        counts[0] += 1
        weights[item] = 0
        order[item] = item
        position[item] = item
        assign(counts, weights, order, position, item, new[j])


@kernel
def first_unfit(new: NDArray[np.int64], total: Any) -> Any:
    """Return the first position with a negative weight or where the total passes the limit."""
    for j in range(new.size):
        if new[j] < 0 or new[j] > LIMIT - total:
            return j
        total += new[j]
    return -1


@kernel(allocates=True)
def first_fault(
    counts: NDArray[np.int64],
    weights: NDArray[np.int64],
    order: NDArray[Any],
    position: NDArray[Any],
) -> Any:
    """Return the first item that breaks an invariant, n where a count is wrong, or -1."""
    n = counts[0]
    seen = np.zeros(COUNTS, dtype=np.int64)
    for item in range(n):
        place = np.int64(position[item])
        if place < 0 or place >= n or order[place] != item or weights[item] < 0:
            return item
        height = height_of(weights[item])
        if place < counts[height + 1] or place >= counts[height]:
            return item
        seen[height] += 1
        seen[TOTAL] += weights[item]
        seen[AREA] += column_area(height)
    for height in range(HEIGHTS - 1, -1, -1):
        if height > 0 and seen[height]:
            seen[OCCUPIED] |= np.int64(1) << (height - 1)
        seen[height] += seen[height + 1]
    for k in range(COUNTS):
        if seen[k] != counts[k]:
            return n
    return -1
