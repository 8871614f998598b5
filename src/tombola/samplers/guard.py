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

from tombola.compiling import kernel
from tombola.samplers.board import ADAPTIVE, MODE, OWN_CLOCK, OWN_KNOBS, SHUFFLE

__all__ = ["GUARD_KNOBS", "begin", "choose", "judge", "measured"]

ENTER = 0.9  # adapt once the ratio of second moments is below this
LEAVE = 0.95  # and until it is above that

# Knobs of the guard; a guarded sampler keeps its own from GUARD_KNOBS on.
OURS = OWN_KNOBS  # second moment of what the sampler would draw ...
UNIFORM = OWN_KNOBS + 1  # ... and under uniform draws: sums, in the same unit
GUARD_KNOBS = OWN_KNOBS + 2
# Its clock.
LEFT = OWN_CLOCK  # draws left in this block
BLOCK = OWN_CLOCK + 1  # draws in a block


def begin(board: Any, n: int) -> None:
    """Set the counters of a new sampler; its first block is adaptive."""
    board.clock[BLOCK] = n * -(-256 // n)
    board.clock[LEFT] = board.clock[BLOCK]
    board.clock[MODE] = ADAPTIVE


@kernel(inline=True)
def judge(board: Any, squared: Any, n: Any, probability: Any, candidate: Any) -> None:
    """Take a squared loss into the sums; `candidate` is what the sampler would draw it with."""
    uniform = squared / (n * probability)
    board.knobs[UNIFORM] += uniform
    board.knobs[OURS] += uniform / (n * candidate)


@kernel
def measured(board: Any) -> Any:
    """Return the ratio of second moments that the feedback shows; 1 without any."""
    knobs = board.knobs
    return knobs[OURS] / knobs[UNIFORM] if knobs[UNIFORM] > 0.0 else 1.0


@kernel
def choose(board: Any, ratio: Any) -> None:
    """Begin a block, in the mode that this ratio of second moments asks for."""
    knobs, clock = board.knobs, board.clock
    limit = LEAVE if clock[MODE] == ADAPTIVE else ENTER
    clock[MODE] = ADAPTIVE if ratio < limit else SHUFFLE
    clock[LEFT] = clock[BLOCK]
    knobs[OURS] *= 0.5
    knobs[UNIFORM] *= 0.5
