"""The options of reading a file, and tables as they come out of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tombola.datasets.base import TASKS, DataError
from tombola.datasets.cells import Style
from tombola.datasets.dates import ORDERS
from tombola.datasets.table import Column, Place
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

__all__ = ["DEFAULTS", "KINDS", "Loaded", "Reading", "unique_names"]

KINDS = ("number", "text", "date")


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


@dataclass
class Loaded:
    """The columns of a file, before they are checked."""

    columns: dict[str, Column]
    place: Place  # says where a row is in the file
    forms: dict[str, str] = field(default_factory=dict)  # how dates are written
    notes: list[str] = field(default_factory=list)
    bad: dict[str, list[int]] = field(default_factory=dict)  # rows to be skipped, by reason
    skipped: list[str] = field(default_factory=list)  # places of rows that have no fields


def unique_names(names: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return names that differ: the second a becomes a.1; with a note on each.

    Examples
    --------
    >>> unique_names(["a", "b", "a"])
    (['a', 'b', 'a.1'], ("Another column named 'a' is called 'a.1'.",))
    """
    found: dict[str, None] = {}
    given, notes = set(names), []
    for name in names:
        number, new = 0, name
        while new in found or (number and new in given):
            number += 1
            new = f"{name}.{number}"
        if number:
            notes.append(f"Another column named {name!r} is called {new!r}.")
        found[new] = None
    return list(found), tuple(notes)
