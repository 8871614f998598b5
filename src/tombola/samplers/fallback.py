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

from tombola.compiling import kernel, new_record
from tombola.compiling.records import Record
from tombola.entries import LARGEST_COUNT

__all__ = ["begin_block", "forget", "judge", "new_fallback"]

ENTER = 0.9  # start to adapt when the ratio of second moments is below this
LEAVE = 0.95  # stop when it is above this
NEVER = 2**62  # draws left in a block that never ends


def block_size(n: int) -> int:
    """Return the number of draws in a block: whole epochs, with at least 256 draws."""
    return n * -(-256 // n)


def new_fallback(n: int, *, allowed: bool = True) -> Record:
    """Return a new record; the first block is adaptive, and never ends unless `allowed`."""
    return new_record(
        ours=0.0,  # second moment of adaptive draws ...
        uniform=0.0,  # ... and of uniform draws: sums, in the same unit
        left=block_size(n) if allowed else NEVER,  # draws left in this block
        block=block_size(n),
        shuffling=0,  # 1 while shuffled epochs are dealt
    )


def limits(state: Any) -> dict[str, tuple[float, float]]:
    """Return the valid range of the numbers in a record."""
    block, left = state.fallback[0].block, state.fallback[0].left
    return {
        "fallback.ours": (0.0, 1e300),
        "fallback.uniform": (0.0, 1e300),
        "fallback.left": (0, block) if left <= block else (NEVER - LARGEST_COUNT, NEVER),
        "fallback.block": (block, block),
        "fallback.shuffling": (0, 1),
    }


@kernel(inline=True)
def judge(fallback: Any, squared: Any, n: Any, probability: Any, candidate: Any) -> None:
    """Add a squared loss to the sums; `candidate` is the item's probability in adaptive mode."""
    uniform = squared / (n * probability)
    fallback.uniform += uniform
    fallback.ours += uniform / (n * candidate)


@kernel(inline=True)
def begin_block(fallback: Any, size: Any) -> Any:
    """Begin a new block if necessary; return how many of `size` draws fit into the block."""
    if fallback.left == 0:
        choose(fallback)
    size = min(size, fallback.left)
    fallback.left -= size
    return size


@kernel(inner=True)
def choose(fallback: Any) -> None:
    """Begin a block, in the mode that the ratio of second moments selects."""
    ratio = fallback.ours / fallback.uniform if fallback.uniform > 0.0 else 1.0
    limit = ENTER if fallback.shuffling else LEAVE
    fallback.shuffling = 0 if ratio < limit else 1
    fallback.left = fallback.block
    fallback.ours *= 0.5
    fallback.uniform *= 0.5


@kernel(inner=True)
def forget(fallback: Any) -> None:
    """Set the sums to zero."""
    fallback.ours = 0.0
    fallback.uniform = 0.0
