"""The state of `VRB` and `GroupVRB` on a device: numbers by name, and what may go wrong.

Two small tensors hold all numbers, as the host's records do, so that kernels of one call leave them
for those of the next. The arrays are the weights (a board), h (`scores`) and V (`visits`) of
`tombola.samplers.parameter_free`. The programs of an update leave their sums, `Part`, for the last
one of them.
"""

__all__ = [
    "HIGH",
    "LOW",
    "NEVER",
    "TARGET",
    "Part",
    "Real",
    "Trouble",
    "Whole",
    "reals",
    "wholes",
]

TARGET = 2.0**46  # total weight after a rebuild: a batch that multiplies it cannot overflow
HIGH, LOW = 2**60, 2**10  # a total above this, or an average weight below, changes the scale

NEVER = 2**62  # draws left in a block that never ends


class Real:
    """Where each number of float64 is."""

    MIXING = 0  # of the latest draw
    UNIT = 1  # a power of two near 1 / (the first loss); 0: not yet known
    MEAN_SQUARE = 2  # m; the level of all groups
    DISAGREEMENT = 3  # D
    COMPARED = 4  # the number of losses averaged in D
    FIRST_ROOT = 5  # the initial sqrt(m): values are relative to it
    SCALE = 6  # integer weight per unit of value; a power of two
    GUARD_OURS = 7  # second moment of adaptive draws ...
    GUARD_UNIFORM = 8  # ... and of uniform draws
    OURS = 9  # from here on the gauge, see `tombola.gauge.new_tally`
    OURS_SPREAD = 10
    UNIFORM = 11
    UNIFORM_SPREAD = 12
    CROSS_SPREAD = 13
    IMPORTANCE = 14
    IMPORTANCE_SQUARED = 15
    SURPRISE = 16
    LARGEST_LOSS = 17
    LARGEST_IMPORTANCE = 18
    BAD_VALUE = 19  # what was at fault
    BATCH_LARGEST = 20  # the largest loss of this batch
    LEVEL_BEFORE = 21  # the level of all groups before it


class Whole:
    """Where each number of int64 is."""

    FED = 0  # losses received
    LEFT = 1  # draws left in this block
    SHUFFLING = 2  # 1 while shuffled epochs are dealt
    DEALT = 3  # items dealt so far, in all shuffled epochs
    CURSOR = 4  # the item that is refreshed next
    DRAWN = 5  # items drawn
    ROUNDS = 6  # calls of `draw`
    TROUBLE = 7  # the kind of the first fault since the last check: one of `Trouble`
    WHERE = 8  # its position in the batch
    BATCH_FAULT = 9  # the first one of this batch: position * KINDS + kind
    ACCEPTED = 10  # 1 if it has none
    ROOM = 11  # the largest weight that it may write: the total cannot overflow
    CUT = 12  # 1 if a weight was cut to that, and the scale must change


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


def names_of(kind: type) -> dict[str, int]:
    """Return the places of numbers by their names in lower case.

    >>> names_of(Trouble)
    {'none': 0, 'index': 1, 'probability': 2, 'loss': 3, 'kinds': 4}
    """
    return {name.lower(): place for name, place in vars(kind).items() if name.isupper()}


reals = names_of(Real)
wholes = names_of(Whole)
