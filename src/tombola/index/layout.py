"""The dart board: exact draws in proportion to integer weights, in constant time.

Give each item a column of width one, whose height is the smallest power of two that is not less
than its weight, and fill the column up to the weight. A dart that lands uniformly on the board
hits the filled part of item i's column with probability proportional to its weight; a dart that
misses every filled part is thrown again. Every column is more than half full, so fewer than two
darts are needed on average.

Columns of equal height stand side by side, so the column of a dart is found by arithmetic. When the
height of an item changes, the item crosses each boundary in between by one swap.

A draw may add the same integer to the weight of every item without changing the board: n full
columns of that height follow after the others.

All numbers are integers, so nothing is rounded: each of the darts 0 .. area - 1 hits one item or
none, and item i is hit by exactly ``weights[i] + uniform`` of them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import bit_length, kernel
from tombola.state import Cell, Ints, Record, State, array, cell, derived

__all__ = [
    "HEIGHTS",
    "LIMIT",
    "Index",
    "Sections",
    "Sums",
    "build",
    "column_area",
    "first_fault",
    "height_of",
    "is_order",
    "saved_order",
    "section",
]

HEIGHTS = 64  # heights run from 0 to 63
LIMIT = 2**62  # the largest total
NARROW = 2**31  # with fewer items than this, places are 32-bit integers


class Sums(Record):
    """What an index knows of all its items.

    Columns of height h are at places at_least[h+1] <= place < at_least[h].
    """

    at_least: Ints = derived("the number of items of height h or more; at_least[0] = n")
    total: int = derived("the sum of all weights")
    area: int = derived("the sum of all columns, less than twice the total")
    occupied: int = derived("a bit mask: bit h - 1 is set if height h has a column")


class Index(State):
    """The arrays of an index, as one argument for the kernels.

    The height of an item is 0 if its weight is 0, else the h >= 1 of its column of 2^(h-1).
    """

    sums: Cell[Sums] = derived("sums over all items")
    weights: Ints = array("the weight of each item", 0, LIMIT)
    order: NDArray[Any] = array(
        "the items, tallest columns first, items of weight 0 last", 0, "order.size - 1"
    )
    position: NDArray[Any] = derived("its inverse: order[position[item]] == item")

    def sections(self) -> Ints:
        """Return where each part of the arrays begins, and where the last one ends."""
        return np.array([0, self.weights.size])

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with weights and order, taken together."""
        if order_fault(saved["weights"], saved["order"], self.sections()) < 0:
            return ""
        return "not a valid index: its order does not match its weights"

    def restore(self) -> None:
        """Derive positions and sums from weights and order."""
        restore(self, self.sections())


class Sections(Index):
    """Several indexes, one after the other in the same arrays, with sums for each."""

    starts: Ints = derived("index c is at places starts[c] <= place < starts[c + 1]")

    def sections(self) -> Ints:
        """Return where each index begins, and where the last one ends."""
        return self.starts


@kernel(inline=True)
def section(index: Index, starts: Ints, c: int) -> Any:
    """Return index c of several that lie one after the other in the same arrays."""
    first, end = starts[c], starts[c + 1]
    return Index(
        index.sums[c : c + 1],
        index.weights[first:end],
        index.order[first:end],
        index.position[first:end],
    )


def new_sums(count: int = 1) -> Cell[Sums]:
    """Return the sums of `count` empty indexes."""
    at_least = np.zeros(HEIGHTS + 1, dtype=np.int64)
    sums: Any = cell(Sums(at_least=at_least, total=0, area=0, occupied=0))
    return np.repeat(sums, count)  # type: ignore[return-value]


def place_type(n: int) -> Any:
    """Return the integer type for places among n items."""
    return np.int32 if n < NARROW else np.int64


def saved_order(n: str) -> Any:
    """Declare the order of an index of n items in a document; "places" is their `place_type`."""
    return array(
        "the items, tallest columns first, items of weight 0 last",
        0, f"{n} - 1", dtype="places", shape=(n,),
    )  # fmt: skip


def new_index(weights: NDArray[np.int64]) -> Index:
    """Return an index over these weights, without copying them; call `build` before use."""
    n, kind = weights.size, place_type(weights.size)
    return Index(new_sums(), weights, np.empty(n, dtype=kind), np.empty(n, dtype=kind))


@kernel(inline=True)
def height_of(weight: Any) -> Any:
    """Return 0 for weight 0, else h such that 2^(h-2) < weight <= 2^(h-1)."""
    return bit_length(weight - 1) + 1 if weight > 0 else 0


@kernel(inline=True)
def column_area(height: Any) -> Any:
    """Return the height of the column in units of weight."""
    return np.int64(1) << (height - 1) if height > 0 else np.int64(0)


@kernel
def sum_up(index: Index) -> None:
    """Compute the sums from the weights."""
    sums, at_least = index.sums[0], index.sums[0].at_least
    sums.total = sums.area = sums.occupied = 0
    for height in range(HEIGHTS + 1):
        at_least[height] = 0
    for weight in index.weights:
        height = height_of(weight)
        at_least[height] += 1
        sums.total += weight
        sums.area += column_area(height)
    for height in range(1, HEIGHTS):
        if at_least[height]:
            sums.occupied |= column_area(height)  # bit height - 1
    for height in range(HEIGHTS - 1, -1, -1):
        at_least[height] += at_least[height + 1]


@kernel
def build(index: Index) -> None:
    """Sort the items by height (counting sort) and compute the sums."""
    sum_up(index)
    at_least = index.sums[0].at_least
    # at_least[h + 1] is where height h begins; it moves up to where h ends, at_least[h] ...
    for item in range(index.weights.size):
        height = height_of(index.weights[item])
        place = at_least[height + 1]
        at_least[height + 1] += 1
        index.order[place] = item
        index.position[item] = place
    # ... so shifting all of them down by one restores it
    for height in range(HEIGHTS):
        at_least[height] = at_least[height + 1]
    at_least[HEIGHTS] = 0


@kernel(allocates=True)
def first_fault(index: Index) -> Any:
    """Return the first item that violates an invariant, n if a sum is wrong, or -1.

    It reads only within the arrays, whatever values they contain.
    """
    sums, at_least, weights = index.sums[0], index.sums[0].at_least, index.weights
    n = at_least[0]
    if n < 0 or n > weights.size:
        return np.int64(0)
    seen = np.zeros(HEIGHTS + 1, dtype=np.int64)
    total, area, occupied = np.int64(0), np.int64(0), np.int64(0)
    for item in range(n):
        place = np.int64(index.position[item])
        weight = weights[item]
        if place < 0 or place >= n or index.order[place] != item:
            return item
        if weight < 0 or weight > LIMIT - total:
            return item
        height = height_of(weight)
        if place < at_least[height + 1] or place >= at_least[height]:
            return item
        seen[height] += 1
        total += weight
        area += column_area(height)
    for height in range(HEIGHTS - 1, -1, -1):
        if height > 0 and seen[height]:
            occupied |= np.int64(1) << (height - 1)
        seen[height] += seen[height + 1]
    for height in range(HEIGHTS + 1):
        if seen[height] != at_least[height]:
            return n
    right = total == sums.total and area == sums.area and occupied == sums.occupied
    return np.int64(-1) if right else n


@kernel(allocates=True)
def order_fault(weights: NDArray[np.int64], order: NDArray[Any], starts: NDArray[np.int64]) -> Any:
    """Return the first place at which weights and order violate an invariant, or -1.

    Part c of the arrays, from starts[c] to starts[c + 1], is a separate index: no weight is
    negative, their total is above 0 and within the limit, and the order is a permutation sorted by
    height.
    """
    seen = np.zeros(weights.size, dtype=np.uint8)
    for c in range(starts.size - 1):
        first, end = starts[c], starts[c + 1]
        total = np.int64(0)
        for place in range(first, end):
            if weights[place] < 0 or weights[place] > LIMIT - total:
                return place
            total += weights[place]
        if total == 0:
            return first
        before = HEIGHTS
        for place in range(first, end):
            item = first + np.int64(order[place])
            if item < first or item >= end or seen[item]:
                return place
            seen[item] = 1
            height = height_of(weights[item])
            if height > before:
                return place
            before = height
    return np.int64(-1)


def is_order(weights: NDArray[np.int64], order: NDArray[Any]) -> bool:
    """Return whether an order is one of these weights, which may all be 0."""
    if weights.any():
        parts = np.ascontiguousarray(weights), np.ascontiguousarray(order)
        return bool(order_fault(*parts, np.array([0, weights.size])) < 0)
    return np.array_equal(np.sort(order), np.arange(order.size))


@kernel
def restore(index: Index, starts: NDArray[np.int64]) -> None:
    """Derive positions and sums from weights and order, for each part of the arrays."""
    for c in range(starts.size - 1):
        part = section(index, starts, c)
        for place in range(part.order.size):
            part.position[part.order[place]] = place
        sum_up(part)
