"""Water filling in integers: chances that follow values, within limits, with an exact sum."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel

__all__ = ["fill_chances", "water_level"]

PASSES = 100  # at most; a few suffice
CLOSE = 1e-12  # the error of the sum, relative to it, at which the level is good enough


@kernel(inner=True)
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


@kernel(inner=True)
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
