"""The memory layout on a device: the board of an index, and the numbers of a sampler.

The board is one tensor: leaves are the weights of the items, level 1 holds the sums of rows of 128
leaves, level 2 the sums of rows of 32 of level 1, level 3 those of rows of 32 of level 2, and so on
up to the level that fits into one row. Every level is padded with zeros to whole rows, so that no
read needs a mask. The tensor is

    | cells | level `height` | level `height` - 1 | ... | level 1 | leaves |

With n items the cost is 8 bytes for a leaf and 8/128 (1 + 1/32 + 1/1024 + ...) = 0.065 for its
sums. Cells are numbers that kernels of one call leave for those of the next, so that a call in a
CUDA graph starts where the one before it ended.

`VRB` and `GroupVRB` have a board of weights, arrays h (`scores`) and V (`visits`) as in
`tombola.samplers.default_rule`, and two small tensors of numbers, `Reals` and `Wholes`.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

from tombola.gauge import Tally
from tombola.state import Record, count, derived, integer, real

__all__ = [
    "BITS", "CELLS", "FAN", "FAN_BITS", "LIMIT", "LINE", "MOST_ITEMS", "NEVER", "NO_FAULT",
    "PARTS", "POSITION_BITS", "ROOMY_BITS", "WIDTH", "Cell", "Fault", "Real", "Reals", "Shape",
    "Trouble", "Whole", "Wholes", "room_for", "shape_of",
]  # fmt: skip

BITS, FAN_BITS = 7, 5
WIDTH = 1 << BITS  # leaves in a row: more, and sums take less memory
FAN = 1 << FAN_BITS  # sums in a row: one for each thread of a warp
CELLS = 128
LIMIT = 2**62  # the largest total
POSITION_BITS = 24  # of a position in a batch; item and position share a word
MOST_ITEMS = 2**38
NO_FAULT = 2**62  # in place of position * Fault.KINDS + kind: above all of them
ROOMY_BITS = 3  # a table has 2^3 slots or more for each position: hardly any is asked for twice
LINE = 16  # cells in a cache line
PARTS = 16  # numbers that a program of an update leaves for the last one, or more


class Cell:
    """Where each cell is."""

    KEY = 0  # of the generator
    POSITION = 1  # the number of draws made
    KIND = 2  # of the first fault since the last check: one of `Fault`
    WHERE = 3  # the position in its batch; for a draw, the number of the draw
    VALUE = 4  # the value at fault
    TICKET = LINE  # the programs of this launch that are done


class Fault:
    """Kinds of faults, in the order in which they are reported if one position has two."""

    NONE = 0
    INDEX = 1  # an index is out of range
    WEIGHT = 2  # a weight is negative or above the limit
    AMOUNT = 3  # an amount is too large to be added
    RANGE = 4  # a sum of weight and amounts is negative or above the limit
    CROWDED = 5  # an item found no slot; cannot happen while there are more slots than items
    EMPTY = 6  # a draw from a total of zero
    UNLUCKY = 7  # a draw rejected every word it was given
    KINDS = 8


class Shape(NamedTuple):
    """The size of a board and of its parts."""

    n: int
    height: int  # levels of sums
    starts: tuple[int, ...]  # starts[k]: where level k begins; starts[0]: the leaves
    rows: tuple[int, ...]  # rows[k]: rows of level k
    size: int  # entries in all
    limit: int  # the largest weight: with it in every leaf the total is within 2^62


def shape_of(n: int) -> Shape:
    """Return the shape of a board of n items.

    >>> shape = shape_of(20_000)
    >>> shape.height, shape.rows, shape.starts, shape.size
    (2, (157, 5, 1), (320, 160, 128), 20416)
    """
    rows = [-(-n // WIDTH)]
    while rows[-1] > 1 or len(rows) == 1:
        rows.append(-(-rows[-1] // FAN))
    starts, end = [], CELLS
    for level, many in reversed(list(enumerate(rows))):
        starts.append(end)
        end += many * (FAN if level else WIDTH)
    return Shape(n, len(rows) - 1, tuple(reversed(starts)), tuple(rows), end, LIMIT // n)


def room_for(size: int) -> int:
    """Return the entries of a part of a draw, so that all parts begin at multiples of 16 bytes."""
    return size + size % 2


# ---- the numbers of a sampler

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
    bad_value: float = derived("the value at fault", default=0.0)
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
    """Return the place of each number, by its name in capitals.

    >>> places(Wholes).LEFT
    1
    """
    return SimpleNamespace(**{name.upper(): k for k, name in enumerate(kind.declared)})


Real, Whole = places(Reals), places(Wholes)


class Trouble:
    """Kinds of faults of a batch of losses, in the order in which they are reported."""

    NONE = 0
    INDEX = 1  # an item is out of range
    PROBABILITY = 2  # not from 2^-200 to 1
    LOSS = 3  # negative or not finite
    KINDS = 4
