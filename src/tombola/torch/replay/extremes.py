"""The minimum of many numbers, of which few change between two queries.

Numbers lie in blocks of about sqrt(n). Each block has a lower bound on its numbers, and a flag that
says whether the bound is attained; so do all numbers together. A change updates two bounds in O(1).
If the global bound is attained, it answers a query. If not, the query takes the lowest bound of a
block; if that one is not attained, it reads the block and starts again. That costs O(sqrt(n)), and
each change leads to at most one such read.

NaN stands for a number that is not there.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel

__all__ = ["Bounds", "least", "new_bounds", "note", "unknown"]


class Bounds(NamedTuple):
    """Lower bounds on the least number of each block and, at the end, of all."""

    bound: NDArray[np.float64]
    reached: NDArray[np.bool_]


def block_bits(n: int) -> int:
    """Return the b for which blocks of 2^b numbers, of n in all, are about as many as they hold."""
    return (max(n - 1, 1).bit_length() + 1) // 2


def new_bounds(n: int) -> Bounds:
    """Return the bounds of n numbers that are not there yet."""
    blocks = -(-n // (1 << block_bits(n)))
    return Bounds(np.full(blocks + 1, np.inf), np.ones(blocks + 1, dtype=bool))


def unknown(bounds: Bounds) -> None:
    """Forget the bounds: the next query reads all numbers."""
    bounds.bound[:] = -np.inf
    bounds.reached[:] = False


@kernel(inline=True)
def note(bounds: Bounds, block: Any, old: Any, new: Any) -> None:
    """Update the bounds when a number of a block changes from `old` to `new`."""
    for part in (block, bounds.bound.size - 1):
        if new <= bounds.bound[part]:
            bounds.bound[part] = new
            bounds.reached[part] = True
        elif old == bounds.bound[part]:
            bounds.reached[part] = False


@kernel(inner=True)
def least(bounds: Bounds, values: NDArray[np.float64], sign: Any, bits: Any) -> Any:
    """Return the least of ``sign * values``, or infinity if none is there."""
    bound, reached, blocks = bounds.bound, bounds.reached, bounds.bound.size - 1
    while not reached[blocks]:
        best = 0
        for block in range(1, blocks):
            tie = bound[block] == bound[best] and reached[block] and not reached[best]
            if bound[block] < bound[best] or tie:
                best = block
        if reached[best]:
            bound[blocks] = bound[best]
            reached[blocks] = True
        else:
            found = np.inf
            for item in range(best << bits, min((best + 1) << bits, values.size)):
                if sign * values[item] < found:
                    found = sign * values[item]
            bound[best] = found
            reached[best] = True
    return bound[blocks]
