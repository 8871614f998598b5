"""Change weights on the board of `tombola.index.layout`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, prefetch
from tombola.index.layout import LIMIT, Index, column_area, height_of, place_type

__all__ = ["append", "assign", "assign_many", "checked_set", "first_unfit", "summed", "with_room"]

CHUNK = 256  # assignments whose items are prefetched together
AHEAD = 4  # crossings of a boundary ahead of which its items are prefetched
SET_DONE = -1
SET_MAY_PASS_LIMIT = -2


@kernel(inline=True)
def assign(index: Index, item: Any, weight: Any) -> None:
    """Set the weight of an item, and move it if its height changes."""
    old = index.weights[item]
    index.weights[item] = weight
    index.sums[0].total += weight - old
    low, high = height_of(old), height_of(weight)
    if low != high:
        cross(index, item, low, high)


@kernel
def cross(index: Index, item: Any, low: Any, high: Any) -> None:
    """Move an item across the boundaries between its old height and its new one."""
    sums, at_least = index.sums[0], index.sums[0].at_least
    order, position = index.order, index.position
    sums.area += column_area(high) - column_area(low)
    place = np.int64(position[item])
    for height in range(low + 1, high + 1):  # upwards: to the front of the height below
        place = move(index, place, at_least[height])
        at_least[height] += 1
        prefetch(position, order[min(at_least[height] + AHEAD, at_least[0] - 1)])
    for height in range(low, high, -1):  # downwards: to the back of its height
        at_least[height] -= 1
        place = move(index, place, at_least[height])
        prefetch(position, order[max(at_least[height] - AHEAD, 0)])
    order[place] = item
    position[item] = place
    for height in (low, high):
        if height > 0:
            bit = np.int64(1) << (height - 1)
            sums.occupied |= bit
            if at_least[height] == at_least[height + 1]:
                sums.occupied ^= bit


@kernel(inline=True)
def move(index: Index, place: Any, target: Any) -> Any:
    """Move the item at `target` to the free place, and return the place that this frees."""
    if place != target:
        other = index.order[target]
        index.order[place] = other
        index.position[other] = place
    return target


@kernel
def assign_many(index: Index, items: NDArray[np.int64], new: NDArray[np.int64]) -> None:
    """Assign in sequence, after prefetching everything that this reads."""
    for start in range(0, items.size, CHUNK):
        end = min(start + CHUNK, items.size)
        for j in range(start, end):
            prefetch(index.weights, items[j])
            prefetch(index.position, items[j])
        for j in range(start, end):
            prefetch(index.order, index.position[items[j]])
        for j in range(start, end):
            assign(index, items[j], new[j])


@kernel
def checked_set(index: Index, items: NDArray[np.int64], new: NDArray[np.int64]) -> Any:
    """Check the whole batch, then assign it.

    Returns SET_DONE on success. Otherwise nothing has changed, and it returns the first position
    with a bad item or weight, or SET_MAY_PASS_LIMIT if the new weights could exceed the limit.
    """
    n = index.sums[0].at_least[0]
    room = LIMIT - index.sums[0].total
    fits = True
    for j in range(items.size):
        if items[j] < 0 or items[j] >= n or new[j] < 0:
            return j
        fits = fits and new[j] <= room
        room -= new[j] if fits else 0
    if not fits:
        return SET_MAY_PASS_LIMIT
    assign_many(index, items, new)
    return SET_DONE


def summed(
    weights: NDArray[Any], items: NDArray[np.int64], deltas: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Add deltas to the weights of items, all of them if an item occurs more than once.

    Returns the distinct items, what their weights become, and the last position of each in `items`.
    """
    unique, where = np.unique(items, return_inverse=True)
    new = weights[unique].astype(deltas.dtype)
    np.add.at(new, where, deltas)
    last = np.zeros(unique.size, dtype=np.int64)
    np.maximum.at(last, where, np.arange(items.size))
    return unique, new, last


def with_room(index: Index, n: int) -> Index:
    """Return the index if it has room for n items, else a copy with half as much room again."""
    kind, size = place_type(n), index.weights.size
    if n <= size and kind == index.order.dtype:
        return index
    capacity = max(n, size + size // 2)
    parts = ((index.weights, np.int64), (index.order, kind), (index.position, kind))
    grown: list[Any] = [np.empty(capacity, dtype=dtype) for _, dtype in parts]
    for new, (old, _) in zip(grown, parts, strict=True):
        new[:size] = old
    return Index(index.sums, *grown)


@kernel
def append(index: Index, new: NDArray[np.int64]) -> None:
    """Append items: first with weight 0, then with their weights assigned."""
    at_least = index.sums[0].at_least
    for j in range(new.size):
        item = at_least[0]
        at_least[0] += 1
        index.weights[item] = 0
        index.order[item] = item
        index.position[item] = item
        assign(index, item, new[j])


@kernel
def first_unfit(new: NDArray[np.int64], total: Any) -> Any:
    """Return where a weight is first negative or the total first exceeds the limit, or -1."""
    for j in range(new.size):
        if new[j] < 0 or new[j] > LIMIT - total:
            return j
        total += new[j]
    return -1
