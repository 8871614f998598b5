"""What files of tables share: rows in batches, what text stands for, and what is used of it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from tombola.datasets import cells, checks
from tombola.datasets.base import DataError, Progress, about, count, in_words
from tombola.datasets.reading import Reading, Style
from tombola.datasets.sample import Sample, rows_in_memory
from tombola.datasets.sources import Source
from tombola.datasets.table import Place, Table, refuse_other

__all__ = ["TableFile", "unique_names"]

INDEX = re.compile(r"(column 0|unnamed: ?\d+|index|rownames|row|(row|line)?(id|nr|no)\.?|#)$", re.I)
IDENTIFIER = re.compile(r"(?i:(.*[_ .-])?id|uuid|guid)$|.*[a-z]I[dD]$")
LEAST = 3  # rows in order make an index
ENOUGH = 10  # rows with different numbers make an identifier, if their column is named so


def unique_names(names: Iterable[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return names that differ: the second a becomes a.1; with a note on each.

    Examples
    --------
    >>> unique_names(["a", "b", "a"])
    (['a', 'b', 'a.1'], ("Another column named 'a' is called 'a.1'.",))
    """
    found: dict[str, None] = {}
    given = dict.fromkeys(names := list(names))
    notes = []
    for name in names:
        number, new = 0, name
        while new in found or (number and new in given):
            number += 1
            new = f"{name}.{number}"
        if number:
            notes.append(f"Another column named {name!r} is called {new!r}.")
        found[new] = None
    return list(found), tuple(notes)


@dataclass
class Loaded:
    """The columns of a file, before they are checked."""

    notes: list[str]
    columns: dict[str, Any] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)  # how dates are written
    bad: dict[str, Any] = field(default_factory=dict)  # rows to be skipped, by reason


class TableFile(ABC):
    """A file of a table, read in batches.

    Attributes
    ----------
    names : list of str
        The names of the columns; numbers from 0 if there is no header.
    notes : tuple of str
    headed : bool
        Whether the file names its columns.
    rows_at_most : int
        How many rows there may be, estimated.
    skipped : list of str
        Places of rows that could not even be split into fields.
    """

    names: list[str]
    notes: tuple[str, ...]
    rows_at_most: int
    headed = True
    typed = False  # whether the file itself says what its columns hold

    def __init__(self, source: Source, reading: Reading) -> None:
        self.source, self.reading = source, reading
        self.style: Style = reading.style
        self.skipped: list[str] = []
        self.left = 0  # new rows that were left out
        self._drawn: Any = None  # the rows that `load` has drawn

    @abstractmethod
    def batches(
        self,
        chosen: Sequence[int],
        progress: Progress | None = None,
        text: Collection[int] = (),
        *,
        whole: bool = False,
    ) -> Iterator[Any]:
        """Yield some rows at a time, or all, of some columns; those in `text` as written."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Say where a row is in the file."""

    def where(self, row: int) -> str:
        """Say where a row of those that `load` has drawn is in the file."""
        return self.place(row if self._drawn is None else int(self._drawn[row]))

    def guesses(self, name: str) -> bool:
        """Return whether the cells of a column show what it holds."""
        return not self.typed or name in self.reading.types

    # --- the whole file -----------------------------------------------------------------------

    def load(self, progress: Progress | None = None) -> dict[str, Any]:
        """Return X, y, columns and notes; refuse what cannot be used, or leave it out."""
        types, dropped = self.reading.types, set(self.reading.drop)
        chosen = [j for j, name in enumerate(self.names) if name not in dropped]
        text = {j for j in chosen if types.get(self.names[j]) in ("text", "date")}
        most, sample = self.reading.rows or rows_in_memory(len(self.names)) or 0, None
        draws = self.reading.rows is not None or 0 < most < self.rows_at_most
        late = {-1}
        while late:  # columns with text further down are read again, as text from the first row on
            batches = self.batches(chosen, progress, text, whole=not draws)
            if draws:
                sample = Sample(most)
                batches = sample.draw(batches)
            parts = _by_column(chosen, batches)
            late = {j for j in chosen if len({part.type for part in parts[j]}) > 1}
            text |= late
        loaded = Loaded([*self.notes])
        if sample is not None and sample.seen > sample.most:
            self._drawn = sample.rows
            why = "" if self.reading.rows else ", since memory holds no more"
            self.reading.rows = sample.most  # for whoever repeats it
            loaded.notes.append(
                f"{sample.most:,} of {sample.seen:,} rows were drawn at random (--rows "
                f"{sample.most}){why}."
            )
        for j in chosen:
            column = pa.chunked_array(parts.pop(j))
            loaded.columns[self.names[j]] = self._column(self.names[j], column, loaded)
        return self._assembled(loaded)

    def _column(self, name: str, column: Any, loaded: Loaded) -> Any:
        """Return a column as what it holds, or is said to hold; refuse other cells, or note them.

        It holds numbers if at least half of its values are.
        """
        if not cells.is_text(column.type):
            return cells.as_column(column) if self.typed else column
        text, kind = cells.coded(column, self.style), self.reading.types.get(name)
        if self.guesses(name) and kind in (None, "number"):
            numbers, odd = cells.numbers_in(text, self.style)
            known, wrong = int((~np.isnan(numbers)).sum()), np.flatnonzero(odd)
            if kind or known >= wrong.size:
                if wrong.size and not self.reading.skip_bad_rows:
                    row = int(wrong[0])
                    unlike = f", unlike {count(known, 'other value')} of the column" * bool(known)
                    self._refuse(row, name, text[row].as_py(), "a number", unlike)
                if wrong.size:
                    loaded.bad[f"{name!r} is not a number"] = wrong
                return cells.as_column(numbers)
        return self.settle(loaded, name, text)

    def settle(self, loaded: Loaded, name: str, text: Any) -> Any:
        """Return text as what it stands for; refuse dates with other text among them."""
        kind = self.reading.types.get(name)
        if kind == "text":
            return text
        column, odd, form, unsure = cells.settled(text, self.reading.dates)
        if kind == "date" and form is None:
            odd = ~cells.missing_in(text)
        rows = np.flatnonzero(odd)
        if rows.size and (form is None or not self.reading.skip_bad_rows):
            unlike = ", unlike most values of the column" * (form is not None)
            self._refuse(int(rows[0]), name, text[int(rows[0])].as_py(), "a date", unlike)
        if rows.size:
            loaded.bad[f"{name!r} is not a date"] = rows
        if form is not None:
            loaded.forms[name] = form
        if form is not None and unsure:
            other = "day-first" if form.startswith("month") else "month-first"
            loaded.notes.append(
                f"The dates in {name!r} were taken as {form} (--dates {other} takes the other "
                "order)."
            )
        return column

    def _refuse(self, row: int, name: str, value: str, what: str, unlike: str = "") -> NoReturn:
        """Raise the error about a cell that is not what its column is."""
        raise DataError(
            f"{self.where(row)} of {self.source.name}, column {name!r}: {value!r} is not {what}"
            f"{unlike} (--missing {quote(value)} takes it for a missing value)"
        )

    # --- what is used -------------------------------------------------------------------------

    def _assembled(self, loaded: Loaded) -> dict[str, Any]:
        """Return X, y, columns and notes."""
        names, reading, columns = self.names, self.reading, loaded.columns
        checks.check_names(names, reading)
        target = reading.target
        if target is None and reading.task != "clustering":
            raise DataError(
                f"choose the target with --target: {in_words(names)} (--task clustering needs none)"
            )
        held = None if target is None else names[checks.column_number(names, target)]
        if held in reading.drop:
            raise DataError(
                f"the target {held!r} cannot be dropped: leave out --drop {quote(held)}"
            )
        if not max(map(len, columns.values()), default=0):
            raise DataError(f"{self.source.name} has a header but no rows")
        y = None if held is None else columns.pop(held)
        if not columns:
            raise DataError(f"{self.source.name} has no column besides the target")
        notes = loaded.notes
        doubtful = [name for name, it in columns.items() if not cells.is_clean(it)]
        empty = {name: None for name in doubtful if cells.missing_in(columns[name]).all()}
        if 0 < len(empty) < len(columns):
            gone = "is empty and was left out.", "are empty and were left out."
            notes.append(about(empty, *gone))
            columns = {name: it for name, it in columns.items() if name not in empty}
        columns = self._without_index(columns, notes)
        used = Table(columns | ({} if held is None else {held: y}), loaded.forms, self.where)
        if reading.skip_bad_rows:
            used = used.take(self._good_rows(used, held, loaded))
        y = None if held is None else _labels(held, used.columns.pop(held), used.place)
        left = {name: used.columns[name] for name in doubtful if name in used.columns}
        infinite = ((name, cells.infinite_in(it)) for name, it in left.items())
        checks.refuse_infinite(infinite, used.place)
        missing = ((name, cells.missing_in(it)) for name, it in left.items())
        if not reading.impute:
            checks.refuse_missing(missing, used.place)
        return {
            "X": Table(used.columns, used.forms, used.place),
            "y": y,
            "columns": tuple(used.columns),
            "notes": tuple(notes),
            "label": "" if held is None else repr(held),
        }

    def _without_index(self, columns: dict[str, Any], notes: list[str]) -> dict[str, Any]:
        """Return the columns that do not only number the rows."""
        used = dict(columns)
        for k, (name, column) in enumerate(columns.items()):
            unnamed = not self.headed and k == 0 and name == "0"
            what = _numbers_rows(name, column, unnamed)
            if what and name not in self.reading.keep and len(used) > 1:
                del used[name]
                notes.append(
                    f"The column {name!r} {what} and was left out (--keep {quote(name)} uses it)."
                )
        return used

    def _good_rows(self, table: Table, held: str | None, loaded: Loaded) -> Any:
        """Return the rows that would not be refused."""
        bad = {
            why: rows
            for why, rows in loaded.bad.items()
            if any(why.startswith(repr(name)) for name in table.columns)
        }
        for name, column in table.columns.items():
            bad[f"{name!r} is infinite or too large"] = np.flatnonzero(cells.infinite_in(column))
            if name == held or not self.reading.impute:
                known = bad.get(f"{name!r} is not a number", bad.get(f"{name!r} is not a date", ()))
                lost = np.flatnonzero(cells.missing_in(column))
                bad[f"{name!r} is missing"] = np.setdiff1d(lost, known)
        return checks.left_out(len(table), bad, self.where, loaded.notes, self.skipped)

    # --- new rows -----------------------------------------------------------------------------

    def pieces(
        self,
        kinds: dict[str, str],
        forms: dict[str, str | None],
        impute: bool,
        progress: Progress | None = None,
    ) -> Iterator[Table]:
        """Yield some rows at a time, of columns whose kind is known, and how dates are written.

        Rows that cannot be used are an error, or are left out and counted by `left`.
        """
        chosen = [j for j, name in enumerate(self.names) if name in kinds]
        start, text = 0, [j for j in chosen if kinds[self.names[j]] != "number"]
        for batch in self.batches(chosen, progress, text):
            columns: dict[str, Any] = {}
            bad = np.zeros(batch.num_rows, dtype=bool)

            def place(row: int, start: int = start) -> str:
                return f"{self.place(start + row)} of {self.source.name}"

            for j, part in zip(chosen, batch.columns, strict=True):
                name, given = self.names[j], part
                kind, form, odd = kinds[name], forms.get(name), np.zeros(0, dtype=bool)
                what = "a number"
                if cells.is_text(part.type):
                    part = given = cells.coded(pa.chunked_array([part]), self.style)
                    if kind == "date" and form is not None:
                        part, odd = cells.dates_in(given, form)
                        what = f"a date written as {form}"
                    elif kind == "number" and self.guesses(name) and cells.as_truth(given) is None:
                        part, odd = cells.numbers_in(given, self.style)
                columns[name] = column = cells.as_column(part)
                if self.reading.skip_bad_rows:
                    bad |= cells.infinite_in(column)
                    bad[odd.nonzero()] = True
                    if not impute:
                        bad |= cells.missing_in(column)
                else:
                    refuse_other(place, name, given, odd, what)
            start += batch.num_rows
            if batch.num_rows:
                if not self.reading.skip_bad_rows:
                    infinite = ((name, cells.infinite_in(it)) for name, it in columns.items())
                    way_out = ": every row gets a prediction, so correct or remove it"
                    checks.refuse_infinite(infinite, place, way_out)
                table = Table(columns, place=place)
                yield table.take(np.flatnonzero(~bad)) if bad.any() else table
                self.left += int(bad.sum())
        self.left += len(self.skipped)


def _by_column(chosen: Sequence[int], batches: Iterable[Any]) -> dict[int, list[Any]]:
    """Return the arrays of each column."""
    parts: dict[int, list[Any]] = {j: [] for j in chosen}
    for batch in batches:
        for j, part in zip(chosen, batch.columns, strict=True):
            parts[j] += getattr(part, "chunks", [part])
    return {j: column or [pa.array([], cells.TEXT)] for j, column in parts.items()}


def _numbers_rows(name: str, column: Any, unnamed: bool) -> str | None:
    """Return in words why a column says nothing about its rows, or None."""
    named = IDENTIFIER.match(name) is not None
    if not (unnamed or named or INDEX.match(name)) or cells.kind_of(column) != "number":
        return None
    values = column.to_numpy()
    n = len(values)
    if n >= LEAST and values[0] in (0.0, 1.0) and (np.diff(values) == 1.0).all():
        return "numbers the rows"
    whole = named and n >= ENOUGH and bool((values == np.floor(values)).all())
    differ = whole and len(np.unique(values)) == n
    return "is an identifier, different in all rows," if differ else None


def _labels(name: str, column: Any, place: Place) -> Any:
    """Return the target; refuse missing values."""
    lost = np.flatnonzero(cells.missing_in(column))
    if lost.size:
        raise DataError(
            f"the target {name!r} is missing in {count(lost.size, 'row')}, first in "
            f"{place(int(lost[0]))} (--skip-bad-rows leaves such rows out)"
        )
    kind = cells.kind_of(column)
    if kind == "text":
        codes, words = cells.words_of(column)
        return np.array(words)[codes]
    if kind == "date":  # days since 1970
        return (column.to_numpy() - np.datetime64(0, "D")) / np.timedelta64(1, "D")
    checks.refuse_infinite([(name, cells.infinite_in(column))], place)
    return column.to_numpy()
