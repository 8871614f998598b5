"""Cells of text files: which are missing, which are numbers, and what the others are."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError
from tombola.datasets.dates import moments, written_as
from tombola.datasets.table import Column, Words, as_truth

__all__ = ["Style", "WordList", "as_number", "settled"]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})  # in upper or lower case


@functools.lru_cache(maxsize=2**14)
def as_number(cell: str) -> float:
    """Return the number in a cell, or NaN if it is not a number."""
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


@dataclass(frozen=True)
class Style:
    """How numbers and missing values are written.

    Examples
    --------
    >>> Style(missing=("?",), decimal=",", thousands=".").numbers(["1.234,5", "?", "7", "x"])
    (array([1234.5,    nan,    7. ,    nan]), [3])
    """

    missing: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    words: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.decimal) != 1 or len(self.thousands) > 1 or self.decimal == self.thousands:
            raise DataError(
                "decimal and thousands must be two different characters, got "
                f"{self.decimal!r} and {self.thousands!r}"
            )
        more = {word.strip().lower() for word in self.missing}
        object.__setattr__(self, "words", MISSING | more)

    def is_missing(self, cell: str) -> bool:
        """Return whether a cell stands for a missing value."""
        return cell.strip().lower() in self.words

    def numbers(self, cells: Sequence[str]) -> tuple[NDArray[np.float64], list[int]]:
        """Return the cells as numbers, and the positions of those that are text."""
        if not self.missing and self.decimal == "." and not self.thousands:
            try:
                if "_" not in "".join(cells):  # only Python reads 1_000 as a number
                    return np.fromiter(map(float, cells), np.float64, len(cells)), []
            except ValueError:
                pass
        values, odd = np.full(len(cells), np.nan), []
        for k, cell in enumerate(cells):
            if not self.is_missing(cell):
                values[k] = self.number(cell)
                if math.isnan(values[k]):
                    odd.append(k)
        return values, odd

    def number(self, cell: str) -> float:
        """Return the number in a cell, or NaN if it is not a number."""
        if self.thousands:
            cell = cell.replace(self.thousands, "")
        if self.decimal != ".":
            if "." in cell:
                return math.nan
            cell = cell.replace(self.decimal, ".")
        return as_number(cell)


class WordList:
    """A column of text that grows by pieces."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._cells: dict[str, int] = {}  # the code of each cell as it is written
        self._values: dict[str, int] = {}
        self._parts: list[NDArray[np.int32]] = []

    def add(self, cells: Sequence[str]) -> None:
        """Append cells, as they are written."""
        known = self._cells
        for cell in dict.fromkeys(cells):  # in order: the same codes in each run
            if cell in known:
                continue
            word = cell.strip()
            missing = self._style.is_missing(word)
            known[cell] = -1 if missing else self._values.setdefault(word, len(self._values))
        self._parts.append(np.fromiter(map(known.__getitem__, cells), np.int32, len(cells)))

    def add_coded(self, codes: NDArray[Any], values: Sequence[str]) -> None:
        """Append cells that are codes of values already, -1 if they are missing."""
        mine = [
            -1
            if self._style.is_missing(value)
            else self._values.setdefault(value, len(self._values))
            for value in values
        ]
        self._parts.append(np.array([*mine, -1], dtype=np.int32)[codes])

    def column(self) -> Words:
        """Return the column; nothing can be added any more."""
        self._cells.clear()
        codes = np.concatenate(self._parts) if self._parts else np.zeros(0, np.int32)
        self._parts.clear()
        return Words(codes, tuple(self._values))


def settled(words: Words, order: str | None = None) -> tuple[Column, str | None, int | None, bool]:
    """Return text as what it is: truth values as 0 and 1, dates as dates, or as it is.

    Returns
    -------
    column : Column
    form : str or None
        How dates are written.
    odd : int or None
        Of a column of dates, the number of the first value that is none.
    unsure : bool
        Whether dates could have been read in another order.
    """
    truth = as_truth(words)
    if truth is not None:
        return truth, None, None, False
    known = np.flatnonzero(np.bincount(words.codes[words.codes >= 0], minlength=len(words.values)))
    found = written_as([words.values[k] for k in known], order) if known.size else None
    if found is None:
        return words, None, None, False
    form, unsure = found
    dates, odd = moments(words.values, form)
    column = np.append(dates, np.datetime64("NaT", "us"))[words.codes]
    return column, form, odd[0] if odd else None, unsure
