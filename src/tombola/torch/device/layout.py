"""The board: leaves and sums of an index in one tensor, as the device sees them.

Leaves are the weights of the items. Level 1 holds the sums of rows of 128 leaves, level 2 the sums
of rows of 32 of level 1, level 3 those of rows of 32 of level 2, and so on up to the level that
fits into one row. Every level is padded with zeros to whole rows, so that no read needs a mask. The
tensor is

    | cells | level `height` | level `height` - 1 | ... | level 1 | leaves |

With n items the cost is 8 bytes for a leaf and 8/128 (1 + 1/32 + 1/1024 + ...) = 0.065 for its
sums.

Cells are numbers that kernels of one call leave for those of the next, so that a call in a CUDA
graph starts where the one before it ended.
"""

from typing import NamedTuple

__all__ = [
    "BITS",
    "CELLS",
    "FAN",
    "FAN_BITS",
    "LIMIT",
    "LINE",
    "MOST_ITEMS",
    "NO_FAULT",
    "POSITION_BITS",
    "ROOMY_BITS",
    "WIDTH",
    "Cell",
    "Fault",
    "Shape",
    "shape_of",
]

BITS, FAN_BITS = 7, 5
WIDTH = 1 << BITS  # leaves in a row: more, and sums take less memory
FAN = 1 << FAN_BITS  # sums in a row: one for each thread of a warp
CELLS = 128
LIMIT = 2**62  # the largest total
POSITION_BITS = 24  # of a position in a batch, where item and position share a word
MOST_ITEMS = 2**38
NO_FAULT = 2**62  # in place of position * Fault.KINDS + kind: above all of them
ROOMY_BITS = 3  # a table has 2^3 slots or more for each position: hardly any is asked for twice
LINE = 16  # cells in a cache line


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
    for level, count in reversed(list(enumerate(rows))):
        starts.append(end)
        end += count * (FAN if level else WIDTH)
    return Shape(n, len(rows) - 1, tuple(reversed(starts)), tuple(rows), end, LIMIT // n)
