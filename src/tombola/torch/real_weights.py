"""Draws in proportion to real weights: whole numbers of a small unit, on the board of the index.

The unit is a power of two, at most 2^-LEAST of the total of the items that can be drawn. A weight
is rounded to the nearest number of units, and up to one unit if it is positive and smaller. So a
weight is off by at most one unit, a positive one never becomes 0, and whole numbers (up to a total
of 2^LEAST) are not rounded at all. Where the total leaves its range, the unit changes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.index import drawing
from tombola.index.layout import build, is_order, new_index
from tombola.index.setting import assign_many
from tombola.random import Stream
from tombola.state import CheckpointError

__all__ = ["CHUNK", "LARGEST_EXPONENT", "RealWeights"]

LEAST, CHOSEN, MOST = 49, 57, 61  # the total is from 2^LEAST to 2^MOST units, 2^CHOSEN at first
LARGEST_EXPONENT = 1200  # of the unit, for any weights that float64 can hold
CHUNK = 1024  # the most items that are drawn at once without replacement
MANY = 8  # where more than one item in so many changes, the board is built anew
BLOCK = 2**20  # weights that are rounded together


class _Undo(NamedTuple):
    """What `put_back` needs to know of the items that were drawn last."""

    weights: NDArray[np.int64]
    places: NDArray[np.int64]


class RealWeights:
    """Real weights that can change, and exact draws in proportion to their whole units.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Finite and not negative; kept, not copied. To change some, write to it, then call `put`.
    replacement : bool
        Whether items stay on the board when they are drawn.

    Attributes
    ----------
    exponent : int
        The unit is 2^-exponent.
    taken : ndarray of bool, shape (n,)
        Which items are off the board. Empty with replacement.
    """

    def __init__(self, values: NDArray[np.float64], replacement: bool) -> None:
        self._start(values, replacement)
        self._build()

    def _start(self, values: NDArray[np.float64], replacement: bool) -> None:
        self.values = values
        self.taken = np.zeros(0 if replacement else values.size, dtype=bool)
        self.replacement = replacement
        self.exponent = 0
        self._index = new_index(np.zeros(values.size, dtype=np.int64))
        self._undo = _Undo(np.empty(CHUNK, dtype=np.int64), np.empty(CHUNK, dtype=np.int64))

    @property
    def available(self) -> int:
        """The number of items that can be drawn."""
        return int(self._index.sums[0].at_least[1])

    @property
    def order(self) -> NDArray[Any]:
        """The order of the items on the board; with values, exponent and taken, it is the state."""
        return self._index.order

    def put(self, items: NDArray[np.int64]) -> None:
        """Bring the board in line with the values of these items."""
        units = self._units(items)
        if items.size * MANY > self.values.size or self._total + units.sum(dtype=float) > 2.0**MOST:
            self._build()
        else:
            assign_many(self._index, items, units)

    def check_enough(self, draws: int) -> None:
        """Raise an error if so many draws cannot be made."""
        n, available = self.values.size, self.available
        if available == 0:
            raise ValueError(f"all {n} weights are 0: there is nothing to draw")
        if available < draws and not self.replacement:
            raise ValueError(
                f"cannot draw {draws} items without replacement: only {available} of {n} have a "
                "weight above 0 and are not drawn yet"
            )

    def draw(self, stream: Stream, out: NDArray[np.int64]) -> int:
        """Draw items; return how many: all, or without replacement some of them, at least one.

        Without replacement the items leave the board. At most CHUNK are drawn, and fewer where the
        unit becomes too large for the items that are left.
        """
        if self._total < 2**LEAST:
            self._build()
        if self.replacement:
            drawing.draw_many(self._index, stream.state, out, 0)
            return out.size
        out = out[: min(CHUNK, self.available)]
        undo = self._undo
        made: int = drawing.take(
            self._index, stream.state, out, undo.weights, undo.places, 2**LEAST
        )
        self.taken[out[:made]] = True
        return made

    def undo(self, items: NDArray[np.int64]) -> None:
        """Restore the board exactly to what it was before the last `draw`, of these items."""
        if not self.replacement:
            drawing.put_back(self._index, items, self._undo.weights, self._undo.places)
            self.taken[items] = False

    def release(self, items: NDArray[np.int64]) -> None:
        """Return items that were drawn to the board; they must be all of them."""
        if not self.replacement:
            self.taken[items] = False
            self.put(items)

    @property
    def _total(self) -> int:
        return int(self._index.sums[0].total)

    def _build(self) -> None:
        """Choose the unit for the items that can be drawn, and build the board."""
        largest = max(float(part.max()) for _, part in self._blocks())
        if largest > 0:
            scale = int(np.frexp(largest)[1])  # the sum itself could overflow
            total = sum(float(np.ldexp(part, -scale).sum()) for _, part in self._blocks())
            self.exponent = CHOSEN - scale - int(np.frexp(total)[1])
        for where, part in self._blocks():
            self._index.weights[where] = _rounded(part, self.exponent)
        build(self._index)

    def _blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Return the values, and 0 for items that are taken, a block at a time."""
        for start in range(0, self.values.size, BLOCK):
            where = slice(start, start + BLOCK)
            part = self.values[where]
            yield where, np.where(self.taken[where], 0.0, part) if self.taken.size else part

    def _units(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        units = _rounded(self.values[items], self.exponent)
        if self.taken.size:
            units[self.taken[items]] = 0
        return units

    @classmethod
    def restored(
        cls,
        values: NDArray[np.float64],
        replacement: bool,
        taken: NDArray[np.bool_] | None,
        exponent: int,
        order: NDArray[Any],
    ) -> "RealWeights":
        """Return what a state describes, or raise a `CheckpointError` if the parts do not fit.

        The values are finite and not negative, and the arrays have the right lengths and types; no
        item is off the board if `taken` is None.
        """
        made = cls.__new__(cls)
        made._start(values.copy(), replacement)
        if taken is not None:
            made.taken[:] = taken
        made.exponent = exponent
        index = made._index
        for where, part in made._blocks():
            index.weights[where] = _rounded(part, exponent)
        if not is_order(index.weights, order):
            raise CheckpointError("order does not match weights and exponent")
        index.order[:] = order
        index.restore()
        return made


def _rounded(values: NDArray[np.float64], exponent: int) -> NDArray[np.int64]:
    """Return values times 2^exponent as integers; at least 1 where positive, at most 2^62."""
    with np.errstate(over="ignore", under="ignore"):
        units = np.rint(np.ldexp(values, exponent))
    np.clip(units, values > 0, 2.0**62, out=units)
    return units.astype(np.int64)
