"""How a file is read: its options, and how its cells are written."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import TASKS, DataError
from tombola.datasets.dates import ORDERS
from tombola.state import (
    CheckpointError,
    Document,
    Scope,
    count,
    flag,
    listed,
    mapping,
    optional,
    text,
)

__all__ = ["DEFAULTS", "KINDS", "Reading", "Style", "as_number"]

KINDS = ("number", "text", "date")
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
    (array([1234.5,    nan,    7. ,    nan]), array([False, False, False,  True]))
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
        return sorted({"NaN", *(made for it in given for made in (it, it.upper(), it.title()))})

    def is_missing(self, cell: str) -> bool:
        """Return whether a cell stands for a missing value."""
        return cell.strip().lower() in self.words

    def number(self, cell: str) -> float:
        """Return the number in a cell, or NaN if it is not a number."""
        if self.thousands:
            cell = cell.replace(self.thousands, "")
        if self.decimal != ".":
            cell = "" if "." in cell else cell.replace(self.decimal, ".")
        return as_number(cell)

    def numbers(self, cells: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return cells as numbers, and which of them are text."""
        import pyarrow as pa

        if self == Style(self.missing):
            try:  # pyarrow is faster, but knows no blanks around numbers
                numbers = pa.array(cells, pa.string()).cast(pa.float64())
                return numbers.to_numpy(zero_copy_only=False), np.zeros(len(cells), dtype=bool)
            except pa.ArrowInvalid:
                pass
        values = np.array([self.number(cell) for cell in cells], dtype=np.float64)
        odd = np.isnan(values)
        odd[odd] = [not self.is_missing(cells[k]) for k in np.flatnonzero(odd).tolist()]
        return values, odd


class Reading(Document):
    """How a file is read: the arguments of `tombola.datasets.read`."""

    target: str | None = optional(text("the column to predict"))
    task: str | None = optional(text("what for", TASKS))
    features: str | None = optional(text("the key of the rows"))
    drop: list[str] = listed("columns to leave out", text("a name"))
    keep: list[str] = listed("columns to use in any case", text("a name"))
    missing: list[str] = listed("words for missing values", text("a word"))
    decimal: str = text("the decimal point")
    thousands: str = text("the mark between thousands")
    encoding: str | None = optional(text("of the text"))
    dates: str | None = optional(text("the order of day and month", tuple(ORDERS)))
    types: Mapping[str, str] = mapping("what columns hold", text("a kind", KINDS))
    impute: bool = flag("whether values may be missing")
    skip_bad_rows: bool = flag("whether rows that cannot be used are left out")
    rows: int | None = optional(count("rows to draw, at most", least=1))

    @classmethod
    def of(cls, **given: Any) -> "Reading":
        """Return how to read a file, or raise a DataError that names a wrong argument.

        Examples
        --------
        >>> Reading.of(target="y", drop="a").record()
        {'target': 'y', 'drop': ['a']}
        """
        for name in ("drop", "keep", "missing"):
            if isinstance(given.get(name), str | tuple):
                value = given[name]
                given[name] = [value] if isinstance(value, str) else list(value)
        try:
            return cls.read({**DEFAULTS, **given})
        except CheckpointError as error:
            raise DataError(str(error)) from None

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the marks, or with the encoding."""
        marks = self.decimal, self.thousands
        if len(marks[0]) != 1 or len(marks[1]) > 1 or marks[0] == marks[1]:
            return (
                "decimal and thousands must be two different characters, got "
                f"{marks[0]!r} and {marks[1]!r}"
            )
        nul = self.encoding is not None and "\0" in self.encoding
        return f"encoding {self.encoding!r} is not the name of an encoding" if nul else ""

    @property
    def style(self) -> Style:
        """How cells are written."""
        return Style(tuple(self.missing), self.decimal, self.thousands)

    def record(self) -> dict[str, Any]:
        """Return the options that are not at their default."""
        return {name: it for name, it in self.to_dict().items() if it != DEFAULTS[name]}


DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(Reading.declared), "drop": [], "keep": [], "missing": [], "decimal": ".",
    "thousands": "", "types": {}, "impute": False, "skip_bad_rows": False,
}  # fmt: skip
