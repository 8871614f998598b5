"""Turn the columns of a table into numbers, by rules that are fitted to training rows."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, count
from tombola.datasets.table import Column, Table, Words, column_of, kind_of, missing_in

__all__ = ["ENCODE", "Encoding", "fit_encoding"]

ENCODE = ("auto", "one-hot", "hash", "frequency", "drop")
MOST_VALUES = 200  # text with more different values has many
FEW_VALUES = 20  # text with more, most of them different, is an identifier or prose
MOST_COLUMNS = 20_000  # of 0 and 1, from one column of text
HASHED = 64  # columns of hashed text
MISSING = "(missing)"
DAY = np.timedelta64(1, "D")

Numbers = NDArray[np.float64]


# --- one rule for each kind of column -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AsIs:
    """Numbers stay as they are."""

    column: str
    kind = "number"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that it makes."""
        return (self.column,)

    def apply(self, column: Any) -> Iterator[Numbers]:
        """Yield the columns of numbers."""
        yield column


@dataclass(frozen=True, eq=False)
class OneHot:
    """A column of 0 and 1 for each value of a text; other values are 0 in all of them."""

    column: str
    values: tuple[str, ...]
    missing: bool  # whether missing text has a column of its own
    kind = "text"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that it makes."""
        return tuple(f"{self.column}={value}" for value in self.shown)

    @property
    def shown(self) -> tuple[str, ...]:
        """The values, with the missing one."""
        return (*self.values, MISSING) if self.missing else self.values

    def apply(self, column: Words) -> Iterator[Numbers]:
        """Yield the columns of numbers."""
        place = {value: k for k, value in enumerate(self.values)}
        last = len(self.values) if self.missing else -1
        numbers = np.array([*(place.get(value, -1) for value in column.values), last])[column.codes]
        for k in range(len(self.shown)):
            yield (numbers == k).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Hashed:
    """The CRC-32 of a text, modulo the number of columns, is the column that holds 1."""

    column: str
    size: int = HASHED
    kind = "text"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that it makes."""
        return tuple(f"{self.column}#{k}" for k in range(self.size))

    def apply(self, column: Words) -> Iterator[Numbers]:
        """Yield the columns of numbers; missing text is 0 in all of them."""
        places = [zlib.crc32(value.encode()) % self.size for value in column.values]
        numbers = np.array([*places, -1])[column.codes]
        for k in range(self.size):
            yield (numbers == k).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Frequency:
    """The share of the training rows that have the same text; 0 for text that none had."""

    column: str
    values: tuple[str, ...]
    shares: Numbers  # of the values, and last that of missing text
    kind = "text"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that it makes."""
        return (f"share of {self.column}",)

    def apply(self, column: Words) -> Iterator[Numbers]:
        """Yield the column of numbers."""
        share = dict(zip(self.values, self.shares, strict=False))
        shares = [*(share.get(value, 0.0) for value in column.values), self.shares[-1]]
        yield np.array(shares)[column.codes]


@dataclass(frozen=True, eq=False)
class Calendar:
    """The parts of a date: year, month, day of the week (Monday is 0) and days since the first.

    With the hour where dates have a time of the day, in UTC.
    """

    column: str
    first: int  # the first date of the training rows, in days since 1970
    hours: bool
    kind = "date"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that it makes."""
        parts = ("year", "month", "weekday", "days") + ("hour",) * self.hours
        return tuple(f"{self.column}.{part}" for part in parts)

    def apply(self, column: NDArray[Any]) -> Iterator[Numbers]:
        """Yield the columns of numbers, NaN where the date is missing."""
        gone = np.isnat(column)
        days = column.astype("datetime64[D]")
        number = days.astype(np.int64)
        months = days.astype("datetime64[M]").astype(np.int64)
        since = (column - np.datetime64(self.first, "D")) / DAY
        parts: list[Any] = [1970 + months // 12, 1 + months % 12, (number + 3) % 7, since]
        if self.hours:
            parts.append((column - days) / np.timedelta64(1, "h"))
        for part in parts:
            yield np.where(gone, np.nan, part)


@dataclass(frozen=True, eq=False)
class Dropped:
    """A text that is left out."""

    column: str
    kind = "text"
    names: tuple[str, ...] = ()

    def apply(self, column: Column) -> Iterator[Numbers]:
        """Yield nothing."""
        return iter(())


Rule = AsIs | OneHot | Hashed | Frequency | Calendar | Dropped
RULES: dict[str, Any] = {
    kind.__name__: kind for kind in (AsIs, OneHot, Hashed, Frequency, Calendar, Dropped)
}


# --- all columns --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Encoding:
    """How each column of a table becomes numbers.

    Attributes
    ----------
    rules : tuple of Rule
    notes : tuple of str
        What is done, in one sentence each.
    """

    rules: tuple[Rule, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(name for rule in self.rules for name in rule.names)

    @property
    def used(self) -> tuple[str, ...]:
        """The names of the columns of the table that are used."""
        return tuple(rule.column for rule in self.rules if rule.names)

    def columns(self, table: Table) -> Iterator[Numbers]:
        """Yield the columns of numbers, one at a time."""
        lost = [name for name in self.used if name not in table.columns]
        if len(lost) > 1:
            raise DataError(f"there are no columns {', '.join(map(repr, lost))}")
        for rule in self.rules:
            if rule.names:
                yield from rule.apply(column_of(table, rule.column, rule.kind))  # type: ignore[arg-type]

    def state(self) -> list[dict[str, Any]]:
        """Return the rules as dicts of arrays, strings and numbers."""
        return [{"rule": type(rule).__name__, **vars(rule)} for rule in self.rules]

    @classmethod
    def from_state(cls, state: Sequence[dict[str, Any]]) -> "Encoding":
        """Return the encoding that `state` describes."""
        rules = []
        for fields in state:
            fields = {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
            rules.append(RULES[fields.pop("rule")](**fields))
        return cls(tuple(rules))


def fit_encoding(table: Table, encode: str = "auto", keep: Sequence[str] = ()) -> Encoding:
    """Fit an encoding to training rows.

    Parameters
    ----------
    table : Table
    encode : {"auto", "one-hot", "hash", "frequency", "drop"}, default="auto"
        What becomes of text with more than 200 different values; other text becomes a column of 0
        and 1 for each value. "auto" is "frequency", but text with more than 20 values that differ
        in most rows is dropped: it is an identifier, or prose.
    keep : sequence of str
        Columns that "auto" does not drop.

    Examples
    --------
    >>> table = Table({"kind": Words.of(["cat", "dog", "cat"])})
    >>> encoding = fit_encoding(table)
    >>> encoding.names, [column.tolist() for column in encoding.columns(table)]
    (('kind=cat', 'kind=dog'), [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    """
    if encode not in ENCODE:
        raise DataError(f"encode must be one of {', '.join(ENCODE)}, got {encode!r}")
    rules: list[Rule] = []
    notes: list[str] = []
    for name, column in table.columns.items():
        kind = kind_of(column)
        if isinstance(column, Words):
            rule, note = _text_rule(name, column, encode, name in keep)
            notes.append(note)
        elif kind == "date":
            rule = _calendar(name, column)
            parts = ", ".join(part.removeprefix(f"{name}.") for part in rule.names)
            notes.append(f"The dates in {name!r} became {len(rule.names)} numbers: {parts}.")
        else:
            rule = AsIs(name)
        rules.append(rule)
    return Encoding(tuple(rules), tuple(notes))


def _text_rule(name: str, column: Words, encode: str, kept: bool) -> tuple[Rule, str]:
    """Return the rule for a column of text, with a note."""
    n = len(column.codes)
    counts = np.bincount(column.codes[column.codes >= 0], minlength=len(column.values))
    values = tuple(sorted(column.values[k] for k in np.flatnonzero(counts)))
    different, known = len(values), int(counts.sum())
    text = f"The text in {name!r}"
    own = different > FEW_VALUES and known < 2 * different
    many = different > MOST_VALUES
    if encode == "auto" and own and not kept:
        return Dropped(name), (
            f"{text} has {different:,} different values in {known:,} rows, like an identifier: it "
            f"was left out (--keep {name} or --encode hash uses it)."
        )
    if encode == "drop" and many and not kept:
        return Dropped(name), f"{text} has {different:,} different values: it was left out."
    if encode == "hash" and many:
        return Hashed(name), (
            f"{text}, {different:,} different values, became {HASHED} columns of 0 and 1 by its "
            "hash."
        )
    if encode != "one-hot" and many:
        by_value = {column.values[k]: int(counts[k]) for k in np.flatnonzero(counts)}
        shares = np.array([*(by_value[value] for value in values), n - known]) / n
        return Frequency(name, values, shares), (
            f"{text}, {different:,} different values, became the share of rows that have the same."
        )
    if different > MOST_COLUMNS:
        raise DataError(
            f"the text in {name!r} has {different:,} different values, more than {MOST_COLUMNS:,} "
            "columns of 0 and 1: use --encode hash or frequency"
        )
    rule = OneHot(name, values, missing=known < n)
    return rule, f"{text} became {count(len(rule.names), 'column')} of 0 and 1."


def _calendar(name: str, column: NDArray[Any]) -> Calendar:
    known = column[~missing_in(column)]
    days = known.astype("datetime64[D]")
    first = int(days.min().astype(np.int64)) if known.size else 0
    return Calendar(name, first, hours=bool((known != days).any()))
