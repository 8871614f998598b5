"""Cells of text: which are missing, which are numbers, and what the others are."""

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

MISSING = ("", "na", "n/a", "nan", "null", "none")  # in upper or lower case


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
        object.__setattr__(self, "words", frozenset(MISSING) | more)

    @property
    def nulls(self) -> list[str]:
        """Missing values as they are usually written, for readers that distinguish case."""
        given = {*self.words, *self.missing}
        return sorted({made for it in given for made in (it, it.upper(), it.title(), _nan(it))})

    def is_missing(self, cell: str) -> bool:
        """Return whether a cell stands for a missing value."""
        return cell.strip().lower() in self.words

    def number(self, cell: str) -> float:
        """Return the number in a cell, or NaN if it is not a number."""
        if self.thousands:
            cell = cell.replace(self.thousands, "")
        if self.decimal != ".":
            if "." in cell:
                return math.nan
            cell = cell.replace(self.decimal, ".")
        return as_number(cell)

    def numbers(self, cells: Any) -> tuple[NDArray[np.float64], list[int]]:
        """Return the cells as numbers, and the positions of those that are text.

        Parameters
        ----------
        cells : sequence of str, or array of pyarrow
            Of numbers, text, or a dictionary of text; nulls are missing, too.
        """
        if hasattr(cells, "dictionary_encode"):
            return self._numbers_of_array(cells)
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

    def _numbers_of_array(self, cells: Any) -> tuple[NDArray[np.float64], list[int]]:
        """Convert each different cell: by pyarrow if it can, else one by one."""
        import pyarrow
        from pyarrow import compute, types

        if types.is_floating(cells.type):
            return cells.to_numpy(zero_copy_only=False), []  # not a copy
        coded = cells.dictionary_encode()  # of a dictionary: itself
        plain = coded.dictionary
        if self.thousands:
            plain = compute.replace_substring(plain, self.thousands, "")
        dots = self.decimal != "." and compute.any(compute.match_substring(plain, ".")).as_py()
        if self.decimal != ".":
            plain = compute.replace_substring(plain, self.decimal, ".")
        odd: list[int] = []
        try:
            if dots:
                raise pyarrow.ArrowInvalid
            numbers = plain.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
        except pyarrow.ArrowInvalid:
            numbers, odd = self.numbers(coded.dictionary.to_pylist())
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        marks = np.zeros(len(numbers) + 1, dtype=bool)
        marks[odd] = True
        return np.append(numbers, np.nan)[codes], np.flatnonzero(marks[codes]).tolist()


def _nan(word: str) -> str:
    return "NaN" if word == "nan" else word


class WordList:
    """A column of text that grows by pieces."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._cells: dict[str | None, int] = {}  # the code of each cell as it is written
        self._values: dict[str, int] = {}
        self._parts: list[NDArray[np.int32]] = []

    def add(self, cells: Any) -> None:
        """Append cells: a sequence of str, or an array of pyarrow, of text or a dictionary of it.

        Codes are in the order of appearance, the same in each run.
        """
        if not hasattr(cells, "dictionary_encode"):
            self._parts.append(np.array(self._codes(cells), dtype=np.int32))
            return
        coded = cells.dictionary_encode()  # of a dictionary: itself
        codes = np.array([*self._codes(coded.dictionary.to_pylist()), -1], dtype=np.int32)
        self._parts.append(codes[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])

    def _codes(self, cells: Sequence[str | None]) -> list[int]:
        known = self._cells
        return [known[cell] if cell in known else self._code(cell) for cell in cells]

    def _code(self, cell: str | None) -> int:
        word = "" if cell is None else cell.strip()
        missing = self._style.is_missing(word)
        code = -1 if missing else self._values.setdefault(word, len(self._values))
        self._cells[cell] = code
        return code

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
