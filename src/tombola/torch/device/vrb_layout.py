"""The state of `VRB` and `GroupVRB` on a device: numbers by name, and what may go wrong.

Two small tensors hold all numbers, as the host's records do, so that kernels of one call leave them
for those of the next. The arrays are the weights (a board), h (`scores`) and V (`visits`) of
`tombola.samplers.default_rule`. The programs of an update leave their sums, `Part`, for the last
one of them.
"""

from types import SimpleNamespace
from typing import Any

from tombola.gauge import Tally
from tombola.state import Record, count, derived, integer, real
from tombola.torch.device.layout import NO_FAULT

__all__ = [
    "NEVER",
    "Part",
    "Real",
    "Reals",
    "Trouble",
    "Whole",
    "Wholes",
]

NEVER = 2**62  # draws left in a block that never ends
LARGEST_SUM = 1e300


class Reals(Record):
    """Numbers of float64, in the order of their places."""

    mixing: float = real("theta of the latest draw", 2.0**-60, 1.0)
    unit: float = real(
        "a power of two near 1 / (the first loss); 0: not yet known", 0.0, LARGEST_SUM, default=0.0
    )
    mean_square: float = real("m; the level of all groups", 0.0, LARGEST_SUM, default=0.0)
    disagreement: float = real("D, with a margin for rounding", -1e-9, 1.0 + 1e-9, default=0.0)
    compared: float = real("losses averaged in D", 0.0, LARGEST_SUM, default=0.0)
    first_root: float = real(
        "the initial sqrt(m): values are relative to it", 0.0, LARGEST_SUM, default=0.0
    )
    scale: float = real("integer weight per unit of value; a power of two", 2.0**-1000, 2.0**1000)
    guard_ours: float = real("second moment of adaptive draws", 0.0, LARGEST_SUM, default=0.0)
    guard_uniform: float = real("second moment of uniform draws", 0.0, LARGEST_SUM, default=0.0)
    ours: float = Tally.ours
    ours_spread: float = Tally.ours_spread
    uniform: float = Tally.uniform
    uniform_spread: float = Tally.uniform_spread
    cross_spread: float = Tally.cross_spread
    importance: float = Tally.importance
    importance_squared: float = Tally.importance_squared
    surprise: float = Tally.surprise
    largest_loss: float = Tally.largest_loss
    largest_importance: float = Tally.largest_importance
    bad_value: float = derived("what was at fault", default=0.0)
    batch_largest: float = derived("the largest loss of this batch", default=0.0)
    level_before: float = derived("the level of all groups before it", default=0.0)


class Wholes(Record):
    """Numbers of int64, in the order of their places."""

    fed: int = count("losses received", default=0)
    left: int = integer("draws left in this block", "least_left", "block")
    shuffling: int = integer("1 while shuffled epochs are dealt", 0, 1, default=0)
    dealt: int = count("items dealt so far, in all shuffled epochs", default=0)
    cursor: int = integer("the item that is refreshed next", 0, "n - 1", default=0)
    drawn: int = count("items drawn", default=0)
    rounds: int = count("calls of `draw`", default=0)
    trouble: int = derived(
        "the kind of the first fault since the last check: one of `Trouble`", default=0
    )
    where: int = derived("its position in the batch", default=0)
    batch_fault: int = derived(
        "the first one of this batch: position * KINDS + kind", default=NO_FAULT
    )
    accepted: int = derived("1 if it has none", default=0)
    room: int = derived(
        "the largest weight that it may write: the total cannot overflow", default=0
    )
    cut: int = integer("1 if a weight was cut to that, and the scale must change", 0, 1, default=0)


def places(kind: type[Record]) -> Any:
    """Return where each number is, by its name in capitals.

    >>> places(Wholes).LEFT
    1
    """
    return SimpleNamespace(**{name.upper(): k for k, name in enumerate(kind.declared)})


Real, Whole = places(Reals), places(Wholes)


class Part:
    """Which sum over the losses of one program is in which column."""

    MEAN = 0  # of l^2 / (n p) ...
    OTHERS = 1  # ... and how many differ from m
    GAP = 2  # of distances minus D ...
    COMPARED = 3  # ... and their number
    GUARD_OURS = 4
    GUARD_UNIFORM = 5
    OURS = 6  # of the gauge, less their means before
    UNIFORM = 7
    OURS_SQUARED = 8
    UNIFORM_SQUARED = 9
    CROSS = 10
    IMPORTANCE = 11
    IMPORTANCE_SQUARED = 12
    SURPRISE = 13
    SIZE = 16


class Trouble:
    """Kinds of faults of a batch of losses, in the order in which they are reported."""

    NONE = 0
    INDEX = 1  # an item is out of range
    PROBABILITY = 2  # not from 2^-200 to 1
    LOSS = 3  # negative or not finite
    KINDS = 4
