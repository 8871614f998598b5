"""Distributions with a minimum probability for every item: the projection, and when it is due."""

from typing import Any

from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.samplers.weighted import Weighted

__all__ = ["floor_level", "value_of_others"]


@kernel
def floor_level(values: NDArray[Any], floor: Any) -> Any:
    """Return the level for which max(value, level) / sum minimises the cost over p >= floor.

    The p that minimises sum_i a_i^2 / p_i over p_i >= floor is max(a_i / lambda, floor), with
    lambda such that it sums to 1 (Lemma 1 of El Hanchi and Stephens 2020); the level is
    lambda * floor. Values must not be negative, and floor is at most 1/n. The level is 0 if all
    values are 0.

    Start from lambda = sum of all values, as if no item were at the floor. Items below the level
    are at the floor; excluding them increases lambda: if a_i < lambda floor for m items, then
    (lambda - their values) / (1 - m floor) > lambda. Each pass thus moves further items to the
    floor, until no more follow. A pass takes O(n) and no memory; a few passes suffice.
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


@kernel(inline=True)
def value_of_others(state: Weighted, item: int) -> Any:
    """Return the sum of the values of all items but one, by their weights."""
    return (state.index.sums[0].total - state.index.weights[item]) / state.sweep[0].scale
