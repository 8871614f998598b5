"""Water filling in integers: chances that follow values, with an exact sum; choices by them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.random import Stream, Words, next_below
from tombola.samplers.deck import swap_in
from tombola.state import Cell

__all__ = ["TOTAL_BITS", "choose", "choose_items", "fill_chances", "water_level"]

PASSES = 100  # at most; a few suffice
TOTAL_BITS = 62  # the sum of all chances must stay below 2^62
UNIT = 2**32  # the chance of an item that is chosen with certainty
CLOSE = 1e-12  # the error of the sum, relative to it, at which the level is good enough


@kernel
def water_level(values: NDArray[np.float64], low: Any, high: Any, total: Any) -> Any:
    """Return c such that the sum of min(high, max(low, c s_i)) is `total`, up to rounding.

    Start as if no item were at a limit. Items that c s_i puts below `low` lack something, those
    above `high` have an excess. If more is lacking than in excess, c can only fall, so the items
    that are too low stay at `low`; otherwise those that are too high stay at `high` (Bitran and
    Hax 1981). Repeat with the others. A pass takes O(n) and no memory.
    """
    lowest, highest, level = -1.0, np.inf, 0.0  # items up to, and from, these values are at a limit
    for _ in range(PASSES):
        rest, free = float(total), 0.0
        for value in values:
            if value <= lowest:
                rest -= low
            elif value >= highest:
                rest -= high
            else:
                free += value
        if not 0.0 < free < np.inf or rest <= 0.0:
            break
        level, lack, excess = rest / free, 0.0, 0.0
        for value in values:
            if lowest < value < highest:
                lack += max(0.0, low - level * value)
                excess += max(0.0, level * value - high)
        if lack + excess <= CLOSE * total:
            break
        if lack >= excess:
            lowest = low / level
        else:
            highest = high / level
    return level


@kernel
def fill_chances(
    values: NDArray[np.float64], low: Any, high: Any, total: Any, chances: NDArray[np.int64]
) -> None:
    """Write integers from `low` to `high` whose sum is exactly `total`, in proportion to values.

    Where a limit does not allow for that, an item is at the limit. There must be a solution:
    n low <= total <= n high. What rounding leaves over is spread evenly, as far as limits allow,
    and any remainder goes to the first items that have room.
    """
    level, rest = water_level(values, low, high, total), total
    for item in range(values.size):
        real = level * values[item]
        if not real > low:  # or not a number
            chances[item] = low
        else:
            chances[item] = np.int64(real) if real < high else high
        rest -= chances[item]
    for evenly in (True, False):
        for item in range(values.size):
            among = values.size - item if evenly else 1
            part = -(-rest // among) if rest > 0 else rest // among  # away from 0
            changed = min(high, max(low, chances[item] + part))
            rest -= changed - chances[item]
            chances[item] = changed


@kernel(allocates=True)
def choose_items(
    chances: NDArray[np.int64], unit: Any, stream: Cell[Words], items: NDArray[Any]
) -> None:
    """Choose items by a systematic sample over a random order.

    The items lie on a line in random order, each with a stretch as long as its chance. Points at
    a distance of one unit, with a random first one, choose the items that they fall on: each
    `chance / unit` times in expectation, rounded up or down.
    """
    order = np.arange(chances.size)
    point, passed, place = next_below(stream, np.uint64(unit)), 0, 0
    for k in range(order.size):
        item = swap_in(order, k, order.size, stream)
        passed += chances[item]
        while point < passed:
            items[place] = item
            point += unit
            place += 1


def choose(
    values: NDArray[np.float64], count: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Choose `count` items without replacement; return them and the probability of each.

    The probability is min(1, c s_i), with c such that all of them sum to `count`: items of large
    values are chosen with certainty. Values are positive. All items, if there are no more.
    """
    if count >= values.size:
        return np.arange(values.size), np.ones(values.size)
    chances, items = np.empty(values.size, dtype=np.int64), np.empty(count, dtype=np.int64)
    fill_and_choose(values, Stream(seed).state, chances, items)
    return items, chances[items] / UNIT


@kernel(allocates=True)
def fill_and_choose(
    values: NDArray[np.float64],
    stream: Cell[Words],
    chances: NDArray[np.int64],
    items: NDArray[np.int64],
) -> None:
    """Write the chances of all items, and those that are chosen by them."""
    fill_chances(values, 0, UNIT, items.size * UNIT, chances)
    choose_items(chances, UNIT, stream, items)
