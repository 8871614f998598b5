"""The rule that `VRB` plays without parameters: visit averages, shrunk, and a guard.

Each item keeps V, the number of its losses, and h, the average of their squares (over its last
32, more or less). Its weight is the root of that average, shrunk towards the average m over all
items as if k more visits had shown m:

    value = sqrt((V h + k m) / (V + k)),   k = 1/8 + D^2 / 2   (1/8 + 8 D^2 after only zeros)

D, from 0 to 1, is how much losses differ, on average, from their item's own past: where losses
are steady, one visit settles the weight; where they are noise, it takes more. Mixing is
min(1, sqrt(n / (4 u))) after u losses. Everything is relative to m: the scale of the losses
does not matter.

The guard (`tombola.samplers.guard`) deals shuffled epochs wherever adapting does not pay.

``docs/decisions/vrb_default.md`` says what else was tried, with the figures.
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.samplers import guard
from tombola.samplers.board import (
    FED,
    MIXING,
    UNIT,
    Board,
    normalised,
    power_of_two_near,
    probability_of,
    put,
    uniform_weight,
)

__all__ = ["ParameterFreeBoard", "start"]

# Knobs of this sampler, behind those of the guard.
MEAN = guard.GUARD_KNOBS  # m: running mean of l^2 / (n p), an unbiased estimate of the mean of l^2
DISAGREEMENT = guard.GUARD_KNOBS + 1  # D
COMPARED = guard.GUARD_KNOBS + 2  # losses that went into D
FIRST_ROOT = guard.GUARD_KNOBS + 3  # sqrt(m) at first; values begin at 1, relative to it

LAST = 32.0  # an item's average forgets beyond so many visits
PRIOR, PRIOR_NOISE, PRIOR_ZEROS = 0.125, 0.5, 8.0
CLIP = 8.0  # a squared loss counts as at most CLIP n m
TOO_LARGE = 2.0**100  # a loss so much larger than the first one makes the sampler begin anew


def start(board: Board) -> None:
    """Set the counters of a new sampler."""
    guard.begin(board, board.weights.size)
    board.knobs[MIXING] = 1.0


class ParameterFreeBoard(Board):
    """Visit averages, shrunk, with a guard."""

    __slots__ = ()

    @staticmethod
    def absorb(board: Any, item: Any, probability: Any, loss: Any) -> None:
        """Take a loss into the item's average, the overall one, D and the guard's sums."""
        knobs = board.knobs
        n = board.counts[0]
        pace = max(1.0 / (board.clock[FED] + 1.0), 1.0 / n)
        if loss * knobs[UNIT] > TOO_LARGE:
            begin_anew(board)
        if knobs[UNIT] == 0.0 and loss > 0.0:
            set_unit(board, loss, pace, probability)
        squared = normalised(board, loss) ** 2
        if knobs[UNIT] > 0.0:
            mean = knobs[MEAN] + pace * (squared / (n * probability) - knobs[MEAN])
            # one loss can at most double it, unless a long run of zeros has used it up
            knobs[MEAN] = min(mean, 2.0 * knobs[MEAN]) if knobs[MEAN] > 0.0 else mean
            squared = min(squared, CLIP * n * knobs[MEAN])
            candidate = probability_of(board, item, uniform_weight(board))
            guard.judge(board, squared, n, probability, candidate)
        visits, past = board.notes[item], board.scores[item]
        if visits > 0.0 and squared + past > 0.0:
            knobs[COMPARED] += 1.0
            distance = 1.0 - 2.0 * math.sqrt(squared * past) / (squared + past)
            share = max(1.0 / (knobs[COMPARED] + 1.0), 1.0 / n)
            knobs[DISAGREEMENT] += share * (distance - knobs[DISAGREEMENT])
        board.notes[item] = visits + 1.0
        board.scores[item] += (squared - past) / min(visits + 1.0, LAST)

    @staticmethod
    def value(board: Any, item: Any) -> Any:
        """Return the root of the shrunk average of squared losses; 1 before any loss."""
        if board.knobs[UNIT] == 0.0:
            return 1.0
        average, visits, d = board.scores[item], board.notes[item], board.knobs[DISAGREEMENT]
        k = PRIOR + (PRIOR_NOISE if average > 0.0 else PRIOR_ZEROS) * d * d
        shrunk = (visits * average + k * board.knobs[MEAN]) / (visits + k)
        return math.sqrt(shrunk) / board.knobs[FIRST_ROOT]

    @staticmethod
    def prepare(board: Any, size: Any) -> Any:
        """Set the mixing; at the end of a block, choose the mode of the next one."""
        clock = board.clock
        fed, n = clock[FED], board.counts[0]
        board.knobs[MIXING] = 1.0 if 4 * fed <= n else math.sqrt(n / (4.0 * fed))
        if clock[guard.LEFT] == 0:
            guard.choose(board, guard.measured(board))
        size = min(size, clock[guard.LEFT])
        clock[guard.LEFT] -= size
        return size


@kernel
def set_unit(board: Board, loss: Any, pace: Any, probability: Any) -> None:
    """Take the unit from the first loss that is not zero: a power of two near it."""
    board.knobs[UNIT] = 1.0 / power_of_two_near(loss)
    squared = normalised(board, loss) ** 2
    mean = pace * (squared / (board.counts[0] * probability))
    board.knobs[FIRST_ROOT] = math.sqrt(mean)


@kernel
def begin_anew(board: Board) -> None:
    """Forget everything: next to the loss that has come, all before it is nothing."""
    board.knobs[UNIT] = 0.0
    for knob in (MEAN, DISAGREEMENT, COMPARED, guard.OURS, guard.UNIFORM):
        board.knobs[knob] = 0.0
    for item in range(board.weights.size):
        board.scores[item] = 0.0
        board.notes[item] = 0.0
        put(board, item, 1.0)
