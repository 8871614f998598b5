"""Cells of text: which are missing, which are numbers, and what the others are."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.dates import moments, written_as
from tombola.datasets.table import MOMENT, Column, Words, as_truth

__all__ = [
    "Style",
    "as_number",
    "cell_in",
    "is_text",
    "is_usable",
    "numbers_in",
    "settled",
    "typed",
    "words_in",
]

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


def numbers_in(parts: Sequence[Any], style: Style) -> tuple[NDArray[np.float64], list[int]]:
    """Return a column as numbers, and the rows whose cells are text; see `Style.numbers`."""
    values, odd, done = [], [], 0
    for part in parts:
        numbers, places = (part, []) if isinstance(part, np.ndarray) else style.numbers(part)
        values.append(numbers)
        odd += [done + k for k in places]
        done += len(numbers)
    return np.concatenate(values or [np.zeros(0)]), odd


def cell_in(parts: Sequence[Any], row: int) -> str:
    """Return a cell of a column as it is written."""
    for part in parts:
        if row < len(part):
            cell = part[row]
            return str(cell.as_py() if hasattr(cell, "as_py") else cell).strip()
        row -= len(part)
    raise IndexError(row)


def words_in(parts: Sequence[Any], style: Style) -> Words:
    """Return a column as text, whose codes are in the order of appearance.

    Parameters
    ----------
    parts : sequence of list of str, or of arrays of pyarrow of text or a dictionary of it
    style : Style
    """
    known: dict[str | None, int] = {}  # the code of each cell as it is written
    values: dict[str, int] = {}
    codes = [np.zeros(0, np.int32)]

    def codes_of(cells: Sequence[str | None]) -> list[int]:
        for cell in cells:
            if cell not in known:
                word = "" if cell is None else cell.strip()
                gone = style.is_missing(word)
                known[cell] = -1 if gone else values.setdefault(word, len(values))
        return [known[cell] for cell in cells]

    for part in parts:
        if isinstance(part, list):
            codes.append(np.array(codes_of(part), dtype=np.int32))
        else:
            coded = part.dictionary_encode()  # of a dictionary: itself
            own = np.array([*codes_of(coded.dictionary.to_pylist()), -1], dtype=np.int32)
            codes.append(own[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])
    whole, kept = np.concatenate(codes), list(values)
    used = np.bincount(whole[whole >= 0], minlength=len(kept)) > 0
    if not used.all():  # a dictionary may hold more than its rows
        whole = np.append(np.cumsum(used) - 1, -1).astype(np.int32)[whole]
        kept = [value for value, there in zip(kept, used, strict=True) if there]
    return Words(whole, tuple(kept))


def is_text(cells: Any) -> bool:
    """Return whether a list, an array or a type of pyarrow is text, or a dictionary of it."""
    if isinstance(cells, list | np.ndarray):
        return isinstance(cells, list)
    from pyarrow import types

    kind = getattr(cells, "type", cells)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_usable(kind: Any) -> bool:
    """Return whether a type of pyarrow can become numbers, dates or text."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean,
             types.is_null, types.is_timestamp, types.is_date, types.is_duration)  # fmt: skip
    return is_text(kind) or any(fits(kind) for fits in known)


def typed(parts: Sequence[Any]) -> NDArray[Any]:
    """Return a column of pyarrow that is not text: numbers, dates, or durations in days."""
    return np.concatenate([_converted(part) for part in parts] or [np.zeros(0)])


def _converted(values: Any) -> NDArray[Any]:
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if types.is_timestamp(kind) or types.is_date(kind):
        unit = pyarrow.timestamp("us", getattr(kind, "tz", None))  # kept in UTC
        moments = values.cast(unit, safe=False).to_numpy(zero_copy_only=False)
        return np.asarray(moments.astype(MOMENT))
    if types.is_duration(kind):
        lengths = values.cast(pyarrow.duration("us"), safe=False)
        return np.asarray(lengths.to_numpy(zero_copy_only=False) / np.timedelta64(1, "D"))
    if types.is_boolean(kind):
        values = values.cast(pyarrow.int8())
    numbers = values.cast(pyarrow.float64(), safe=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


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
