"""Projections onto distributions in which every item keeps a least probability."""

from typing import Any

from numpy.typing import NDArray

from tombola.compiling import kernel

__all__ = ["floor_level"]


@kernel
def floor_level(values: NDArray[Any], floor: Any) -> Any:
    """Return the level at which max(value, level) / sum is the cheapest p with p >= floor.

    The p that minimises sum_i a_i^2 / p_i over p_i >= floor is max(a_i / lambda, floor), with
    lambda such that it sums to 1 (Lemma 1 of El Hanchi and Stephens 2020); the level is
    lambda * floor. Values are not negative, floor is at most 1/n; 0 where all values are.

    Start from lambda = sum of all values, as if no item were at the floor. Items below the
    level are; leave them out, and lambda grows: a_i < lambda floor for m items leaves
    (lambda - their values) / (1 - m floor) > lambda. So each pass puts more items at the
    floor, until none is left to put. A pass takes O(n) and no memory; a few of them do.
    """
    level = 0.0
    low = -1
    while True:
        left = 0.0
        below = 0
        for value in values:
            if value < level:
                below += 1
            else:
                left += value
        rest = 1.0 - below * floor
        if below <= low or left <= 0.0 or rest <= 0.0:
            return level
        low = below
        level = max(level, floor * left / rest)
