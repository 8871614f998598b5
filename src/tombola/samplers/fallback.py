"""Do no harm: adapt only while it pays, else deal the shuffled epochs people would use anyway.

Draws come in blocks of n (or as many whole epochs as make 256). Each loss says something about
the distribution that the sampler would draw from, whatever it was drawn with: with p its
probability and q the one that the sampler would give the item now, l^2 / (n p) / (n q) is an
unbiased estimate of the second moment under q, and l^2 / (n p) of that under uniform draws. At
the end of a block the ratio of their sums, in which older blocks count half, a quarter and so
on, decides about the next one. The decision is made from past feedback only and between whole
epochs, so estimates stay unbiased: independent draws in the usual sense, shuffled ones in the
sense of `Shuffle`.

The thresholds are apart so that the mode does not flicker, and below 1 because a shuffled epoch
is better than independent uniform draws.
"""

from typing import Any

from tombola.compiling import kernel, new_record
from tombola.compiling.records import Record

__all__ = ["begin_block", "forget", "judge", "new_fallback"]

ENTER = 0.9  # adapt once the ratio of second moments is below this
LEAVE = 0.95  # and until it is above that
NEVER = 2**62  # draws left in a block that does not end


def block_size(n: int) -> int:
    """Return the number of draws in a block: whole epochs, 256 draws at least."""
    return n * -(-256 // n)


def new_fallback(n: int, *, allowed: bool = True) -> Record:
    """Return the record of a new sampler; its first block adapts, and never ends if not allowed."""
    return new_record(
        ours=0.0,  # second moment of what the sampler would draw ...
        uniform=0.0,  # ... and of uniform draws: sums, in the same unit
        left=block_size(n) if allowed else NEVER,  # draws left in this block
        block=block_size(n),
        shuffling=0,  # 1 while shuffled epochs are dealt
    )


def limits(state: Any) -> dict[str, tuple[float, float]]:
    """Return the range of the numbers in a sound record."""
    block, left = state.fallback[0].block, state.fallback[0].left
    return {
        "fallback.ours": (0.0, 1e300),
        "fallback.uniform": (0.0, 1e300),
        "fallback.left": (0, block) if left <= block else (1, NEVER),
        "fallback.block": (block, block),
        "fallback.shuffling": (0, 1),
    }


@kernel(inline=True)
def judge(fallback: Any, squared: Any, n: Any, probability: Any, candidate: Any) -> None:
    """Take a squared loss into the sums; `candidate` is what the sampler would draw it with."""
    uniform = squared / (n * probability)
    fallback.uniform += uniform
    fallback.ours += uniform / (n * candidate)


@kernel(inline=True)
def begin_block(fallback: Any, size: Any) -> Any:
    """Begin a block if the last one is over; return how many of `size` draws it has left."""
    if fallback.left == 0:
        choose(fallback)
    size = min(size, fallback.left)
    fallback.left -= size
    return size


@kernel
def choose(fallback: Any) -> None:
    """Begin a block, in the mode that the ratio of second moments asks for."""
    ratio = fallback.ours / fallback.uniform if fallback.uniform > 0.0 else 1.0
    limit = ENTER if fallback.shuffling else LEAVE
    fallback.shuffling = 0 if ratio < limit else 1
    fallback.left = fallback.block
    fallback.ours *= 0.5
    fallback.uniform *= 0.5


@kernel
def forget(fallback: Any) -> None:
    """Set the sums to zero."""
    fallback.ours = 0.0
    fallback.uniform = 0.0
