"""The least of many numbers that change, where few of them change between two questions.

Numbers lie in blocks. Each block has a bound, which is at most its least number, and a mark that
says whether the bound is reached. A change moves the bound of one block in O(1). A question takes
the least bound; if it is not reached, that block is read and the question is asked again. Blocks
have about sqrt(n) numbers, so a question costs O(sqrt(n)), and a change leads to at most one
reading.

NaN stands for a number that is not there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel

__all__ = ["Bounds", "least", "new_bounds", "note", "unknown"]


class Bounds(NamedTuple):
    """What is known of the least number of each block."""

    bound: NDArray[np.float64]
    reached: NDArray[np.bool_]


def block_bits(n: int) -> int:
    """Return the b for which blocks of 2^b numbers, of n in all, are about as many as they hold."""
    return (max(n - 1, 1).bit_length() + 1) // 2


def new_bounds(n: int) -> Bounds:
    """Return the bounds of n numbers that are not there yet."""
    blocks = -(-n // (1 << block_bits(n)))
    return Bounds(np.full(blocks, np.inf), np.ones(blocks, dtype=bool))


def unknown(bounds: Bounds) -> None:
    """Forget the bounds: the next question reads all numbers."""
    bounds.bound[:] = -np.inf
    bounds.reached[:] = False


@kernel(inline=True)
def note(bounds: Bounds, block: Any, old: Any, new: Any) -> None:
    """Take notice that a number of a block changes from `old` to `new`."""
    if new <= bounds.bound[block]:
        bounds.bound[block] = new
        bounds.reached[block] = True
    elif old == bounds.bound[block]:
        bounds.reached[block] = False


@kernel(inner=True)
def least(bounds: Bounds, values: NDArray[np.float64], sign: Any, bits: Any) -> Any:
    """Return the least of ``sign * values``, or infinity if none is there."""
    bound, reached = bounds.bound, bounds.reached
    while True:
        best = 0
        for block in range(1, bound.size):
            tie = bound[block] == bound[best] and reached[block] and not reached[best]
            if bound[block] < bound[best] or tie:
                best = block
        if reached[best]:
            return bound[best]
        found = np.inf
        for item in range(best << bits, min((best + 1) << bits, values.size)):
            if sign * values[item] < found:
                found = sign * values[item]
        bound[best] = found
        reached[best] = True
