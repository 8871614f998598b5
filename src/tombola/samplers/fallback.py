"""Fall back to shuffled epochs while adaptive draws do not pay.

Draws come in blocks of n (or of the smallest number of whole epochs with at least 256 draws). Each
loss provides information about the adaptive distribution, whichever distribution its item was
drawn from. Let p be the probability of the draw, and q the probability that the adaptive rule would
give the item now. Then l^2 / (n p) / (n q) is an unbiased estimate of the second moment under q,
and l^2 / (n p) of that under uniform draws. (`VRB` counts only the losses of items that had one
before: what q is for other items, in the first epoch most of them, says nothing about the epochs to
come.) At the end of a block, the ratio of their sums decides
the mode of the next block; older blocks are discounted by one half each. The decision depends only
on past feedback and is made between whole epochs, so estimates stay unbiased: independent draws in
the usual sense, shuffled ones in the sense of `Shuffle`.

The two thresholds differ to avoid frequent switching. Both are below 1 because a shuffled epoch is
better than independent uniform draws.
"""

from typing import Any

from tombola.compiling import kernel
from tombola.state import Cell, Record, cell, derived, integer, real

__all__ = ["Fallback", "begin_block", "block_size", "forget", "judge", "new_fallback"]

ENTER = 0.9  # start to adapt when the ratio of second moments is below this
LEAVE = 0.95  # stop when it is above this


class Fallback(Record):
    """The sums that decide between adaptive draws and shuffled epochs, and the current block."""

    ours: float = real("second moment of adaptive draws, a discounted sum", 0.0, 1e300, default=0.0)
    uniform: float = real("that of uniform draws, in the same unit", 0.0, 1e300, default=0.0)
    left: int = integer("draws left in this block", 0, "block")
    block: int = derived("draws in a block")
    allowed: int = derived("1 if shuffled epochs are allowed; else no block ends")
    shuffling: int = integer("1 while shuffled epochs are dealt", 0, "allowed", default=0)


def block_size(n: int) -> int:
    """Return the number of draws in a block: whole epochs with at least 256 draws."""
    return n * -(-256 // n)


def new_fallback(n: int, *, allowed: bool = True) -> Cell[Fallback]:
    """Return a new record; the first block is adaptive."""
    block = block_size(n)
    return cell(Fallback(left=block, block=block, allowed=int(allowed)))


@kernel(inline=True)
def judge(fallback: Fallback, squared: Any, n: int, probability: float, candidate: Any) -> None:
    """Add a squared loss to the sums; `candidate` is the item's probability in adaptive mode."""
    uniform = squared / (n * probability)
    fallback.uniform += uniform
    fallback.ours += uniform / (n * candidate)


@kernel(inline=True)
def begin_block(fallback: Fallback, size: int) -> Any:
    """Begin a new block if necessary; return how many of `size` draws fit into the block."""
    if not fallback.allowed:
        return size
    if fallback.left == 0:
        choose(fallback)
    size = min(size, fallback.left)
    fallback.left -= size
    return size


@kernel
def choose(fallback: Fallback) -> None:
    """Begin a block, in the mode that the ratio of second moments selects."""
    ratio = fallback.ours / fallback.uniform if fallback.uniform > 0.0 else 1.0
    limit = ENTER if fallback.shuffling else LEAVE
    fallback.shuffling = 0 if ratio < limit else 1
    fallback.left = fallback.block
    fallback.ours *= 0.5
    fallback.uniform *= 0.5


@kernel
def forget(fallback: Fallback) -> None:
    """Set the sums to zero."""
    fallback.ours = 0.0
    fallback.uniform = 0.0
