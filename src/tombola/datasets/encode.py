"""Turn the columns of a table into numbers, by rules that are fitted to training rows."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, count
from tombola.datasets.cells import kind_of, missing_in, words_of
from tombola.datasets.dates import FORMS
from tombola.datasets.table import Table, column_of
from tombola.state import (
    Document,
    Floats,
    Scope,
    array,
    exactly,
    flag,
    integer,
    listed,
    optional,
    text,
)

__all__ = ["HASHED", "RULES", "Rule", "fit_rules", "numbers_of"]

MOST_VALUES = 200  # text with more different values has many
FEW_VALUES = 20  # text with more, most of them different, is an identifier or prose
MOST_COLUMNS = 20_000  # of 0 and 1, from one column of text
HASHED = 64  # columns of hashed text
COMMON = 10  # rows that have a value: fewer do not show what it means
CELLS = 2 * 10**7  # that the common values of a text may make
MISSING, OTHERS = "(missing)", "(other)"
DAY = np.timedelta64(1, "D")
MOST_DAYS = 10**8  # from 1970 to a date, in microseconds a 64-bit number

Numbers = NDArray[np.float64]


class Rule(Document):
    """How a column of a table becomes columns of numbers, whose names are `parts`."""

    column: str = text("the name of the column")
    kind: ClassVar[str] = "text"
    form: str | None = None

    @property
    def parts(self) -> Sequence[str]:
        """What the names of the columns of numbers are made of."""
        return ("{}",)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(part.replace("{}", self.column, 1) for part in self.parts)

    def apply(self, column: Any) -> Iterator[Numbers]:
        """Yield the columns of numbers."""
        yield column.to_numpy()


class AsIs(Rule):
    """Numbers stay as they are."""

    kind = "number"
    rule: str = exactly("AsIs", "the class")


class OneHot(Rule):
    """A column of 0 and 1 for each value of a text; others share one, or are 0 in all of them."""

    rule: str = exactly("OneHot", "the class")
    values: list[str] = listed("the values of a text", text("one of them"))
    missing: bool = flag("whether missing text has a column of its own")
    others: bool = flag("whether all other values share a column")

    @property
    def parts(self) -> list[str]:
        """One for each value, one for missing text and one for all other values."""
        more = (MISSING,) * self.missing + (OTHERS,) * self.others
        return [f"{{}}={value}" for value in (*self.values, *more)]

    def apply(self, column: Any) -> Iterator[Numbers]:
        """Yield the columns of 0 and 1."""
        codes, words = words_of(column)
        place = {value: k for k, value in enumerate(self.values)}
        gone = len(self.values) if self.missing else -1
        width = len(self.values) + self.missing + self.others
        other = width - 1 if self.others else -1
        numbers = np.array([*(place.get(word, other) for word in words), gone])[codes]
        for k in range(width):
            yield (numbers == k).astype(np.float64)


class Hashed(Rule):
    """The CRC-32 of a text, modulo the number of columns, is the column that holds 1."""

    rule: str = exactly("Hashed", "the class")
    size: int = exactly(HASHED, "the number of columns of hashed text")

    @property
    def parts(self) -> list[str]:
        """Numbers from 0."""
        return [f"{{}}#{k}" for k in range(HASHED)]

    def apply(self, column: Any) -> Iterator[Numbers]:
        """Yield the columns of 0 and 1; missing text is 0 in all of them."""
        codes, words = words_of(column)
        numbers = np.array([*(zlib.crc32(word.encode()) % HASHED for word in words), -1])[codes]
        for k in range(HASHED):
            yield (numbers == k).astype(np.float64)


class Frequency(Rule):
    """The share of the training rows that have the same text; 0 for text that none had."""

    rule: str = exactly("Frequency", "the class")
    values: list[str] = listed("the values of a text", text("one of them"))
    shares: Floats = array("of the values, and of missing text")

    @property
    def parts(self) -> Sequence[str]:
        """The share."""
        return ("share of {}",)

    def apply(self, column: Any) -> Iterator[Numbers]:
        """Yield the column of shares."""
        codes, words = words_of(column)
        share = dict(zip(self.values, self.shares, strict=False))
        yield np.array([*(share.get(word, 0.0) for word in words), self.shares[-1]])[codes]

    def fault(self, scope: Scope) -> str:
        """Return whether a share is missing."""
        fine = len(self.shares) == len(self.values) + 1
        return "" if fine else "shares must have one entry more than values"


class Calendar(Rule):
    """The parts of a date: year, month, day of the week (Monday is 0) and days since the first.

    With the hour if dates have a time of the day, in UTC.
    """

    kind = "date"
    rule: str = exactly("Calendar", "the class")
    first: int = integer("the first date, in days since 1970", -MOST_DAYS, MOST_DAYS)
    hours: bool = flag("whether dates have a time of the day")
    form: str | None = optional(text("how dates are written, if they are text", tuple(FORMS)))

    @property
    def parts(self) -> list[str]:
        """The parts of a date."""
        parts = ["year", "month", "weekday", "days", *("hour",) * self.hours]
        return [f"{{}}.{part}" for part in parts]

    def apply(self, column: Any) -> Iterator[Numbers]:
        """Yield the parts of dates, NaN if the date is missing."""
        moments = column.to_numpy()
        gone, days = np.isnat(moments), moments.astype("datetime64[D]")
        months = days.astype("datetime64[M]").astype(np.int64)
        since = (moments - np.datetime64(self.first, "D")) / DAY
        weekday = (days.astype(np.int64) + 3) % 7
        parts: list[Any] = [1970 + months // 12, 1 + months % 12, weekday, since]
        if self.hours:
            parts.append((moments - days) / np.timedelta64(1, "h"))
        for part in parts:
            yield np.where(gone, np.nan, part)


class Dropped(Rule):
    """A text that is left out."""

    rule: str = exactly("Dropped", "the class")

    @property
    def parts(self) -> Sequence[str]:
        """Nothing."""
        return ()


RULES: dict[str, type[Rule]] = {
    kind.__name__: kind for kind in (AsIs, OneHot, Hashed, Frequency, Calendar, Dropped)
}


def numbers_of(rules: Iterable[Rule], table: Table) -> Iterator[Numbers]:
    """Yield the columns of numbers that rules make of a table, one at a time."""
    used = [rule for rule in rules if rule.parts]
    lost = [rule.column for rule in used if rule.column not in table.columns]
    if len(lost) > 1:
        raise DataError(f"there are no columns {', '.join(map(repr, lost))}")
    for rule in used:
        yield from rule.apply(column_of(table, rule.column, rule.kind, rule.form))


def fit_rules(
    table: Table, encode: str = "auto", keep: Sequence[str] = ()
) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """Return a rule for each column of training rows, and notes; `Preparer` says which.

    Examples
    --------
    >>> table = Table({"kind": ["cat", "dog", "cat"]})
    >>> (rule,), _ = fit_rules(table)
    >>> rule.names, [column.tolist() for column in numbers_of([rule], table)]
    (('kind=cat', 'kind=dog'), [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    """
    rules: list[Rule] = []
    notes: list[str] = []
    for name, column in table.columns.items():
        if kind_of(column) == "text":
            rule, what = _text_rule(name, column, encode, name in keep)
            notes.append(f"The text in {name!r}{what}")
        elif kind_of(column) == "date":
            moments = column.to_numpy()[~missing_in(column)]
            days = moments.astype("datetime64[D]")
            rule = Calendar(
                rule="Calendar",
                column=name,
                first=int(days.min().astype(np.int64)) if days.size else 0,
                hours=bool((moments != days).any()),
                form=table.forms.get(name),
            )
            parts = ", ".join(part[3:] for part in rule.parts)
            notes.append(f"The dates in {name!r} became {len(rule.parts)} numbers: {parts}.")
        else:
            rule = AsIs(rule="AsIs", column=name)
        rules.append(rule)
    return tuple(rules), tuple(notes)


def _text_rule(name: str, column: Any, encode: str, kept: bool) -> tuple[Rule, str]:
    """Return the rule for a column of text, and what it does."""
    codes, words = words_of(column)
    n, counts = len(codes), np.bincount(codes[codes >= 0], minlength=len(words))
    by_value = {words[k]: int(counts[k]) for k in np.flatnonzero(counts)}
    values = sorted(by_value)
    different, known = len(values), int(counts.sum())
    has = f" has {different:,} different values"
    own = different > FEW_VALUES and known < 2 * different
    many = different > MOST_VALUES
    if encode == "auto" and own and not kept:
        return Dropped(rule="Dropped", column=name), (
            f"{has} in {known:,} rows, like an identifier: it was left out (--encode hash uses it)."
        )
    if encode == "drop" and many and not kept:
        return Dropped(rule="Dropped", column=name), f"{has}: it was left out."
    became = f", {different:,} different values, became"
    if (encode == "hash" and many) or (encode == "auto" and own):
        return Hashed(
            rule="Hashed", column=name, size=HASHED
        ), f"{became} {HASHED} columns of 0 and 1 by its hash."
    if encode == "auto" and many:
        order = sorted(values, key=by_value.__getitem__, reverse=True)
        common = [it for it in order[: min(MOST_VALUES, CELLS // n)] if by_value[it] >= COMMON]
        if 2 * sum(by_value[value] for value in common) >= known:
            rule: Rule = OneHot(
                rule="OneHot", column=name, values=sorted(common), missing=known < n, others=True
            )
            return rule, (
                f"{became} {len(rule.parts)} columns of 0 and 1: one for each of the "
                f"{len(common)} most common, one for all others."
            )
    if encode != "one-hot" and many:
        shares = np.array([*(by_value[value] for value in values), n - known]) / n
        rule = Frequency(rule="Frequency", column=name, values=values, shares=shares)
        return rule, f"{became} the share of rows that have the same."
    if different > MOST_COLUMNS:
        raise DataError(
            f"the text in {name!r}{has}, more than {MOST_COLUMNS:,} columns of 0 and 1: use "
            "--encode hash or frequency"
        )
    rule = OneHot(rule="OneHot", column=name, values=values, missing=known < n, others=False)
    return rule, f" became {count(len(rule.parts), 'column')} of 0 and 1."
