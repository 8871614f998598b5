"""What files of tables share: columns that grow batch by batch, and what text stands for."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Collection, Iterator
from shlex import quote
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, Progress, count
from tombola.datasets.cells import Style, WordList, settled
from tombola.datasets.reading import Loaded, Reading
from tombola.datasets.sources import Source
from tombola.datasets.table import MOMENT, Column, Table, Words, as_truth

__all__ = ["Cells", "TableFile", "Typed", "new_column"]


class TableFile(ABC):
    """A file of a table, read in batches.

    Attributes
    ----------
    names : list of str
        The names of the columns; numbers from 0 if there is no header.
    notes : tuple of str
    headed : bool
        Whether the file names its columns.
    skipped : list of str
        Places of rows that could not even be split into fields.
    """

    names: list[str]
    notes: tuple[str, ...]
    headed = True

    def __init__(self, source: Source, reading: Reading) -> None:
        self.source, self.reading = source, reading
        self.style: Style = reading.style
        self.skipped: list[str] = []

    @abstractmethod
    def batches(
        self,
        chosen: Collection[int],
        progress: Progress | None = None,
        text: Collection[int] = (),
    ) -> Iterator[Any]:
        """Yield some rows at a time, of some columns; those in `text` as they are written."""

    @abstractmethod
    def column(self, j: int) -> Any:
        """Return an empty column, whose `add` takes a batch and the number of the column."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Say where a row is in the file."""

    def load(self, progress: Progress | None = None) -> Loaded:
        """Return all columns that are not dropped."""
        types, dropped = self.reading.types, set(self.reading.drop)
        chosen = [j for j, name in enumerate(self.names) if name not in dropped]
        columns = {j: self.column(j) for j in chosen}
        text = [j for j in chosen if types.get(self.names[j]) in ("text", "date")]
        for batch in self.batches(chosen, progress, text):
            for j, column in columns.items():
                column.add(batch, j)
        again = {j: WordList(self.style) for j in chosen if columns[j].was_text}
        if again:  # columns that began with numbers, most of which are none
            for batch in self.batches(again, text=again):
                for j, words in again.items():
                    words.add(batch.cells(j))
            for j, words in again.items():
                columns[j].words = words
        loaded = Loaded({}, self.place, notes=list(self.notes), skipped=self.skipped)
        for j in chosen:
            found = columns.pop(j).column(self, loaded, self.names[j])
            settled = self.settle(loaded, j, found) if isinstance(found, Words) else found
            loaded.columns[self.names[j]] = settled
        return loaded

    def settle(self, loaded: Loaded, j: int, text: Words) -> Column:
        """Return text as what it stands for; refuse dates with other text among them."""
        name = self.names[j]
        kind = self.reading.types.get(name)
        if kind == "text":
            return text
        column, form, odd, unsure = settled(text, self.reading.dates)
        if form is None and kind == "date" and text.values:
            self._refuse(int(np.flatnonzero(text.codes == 0)[0]), name, text.values[0], "a date")
        if form is None:
            return column
        loaded.forms[name] = form
        if odd is not None:
            assert isinstance(column, np.ndarray)
            rows = np.flatnonzero(np.isnat(column) & (text.codes >= 0)).tolist()
            if not self.reading.skip_bad_rows:
                self._refuse(rows[0], name, text.values[odd], "a date", ", unlike most values")
            loaded.bad[f"{name!r} is not a date"] = rows
        if unsure:
            other = "day-first" if form.startswith("month") else "month-first"
            loaded.notes.append(
                f"The dates in {name!r} were taken as {form} (--dates {other} takes the other "
                "order)."
            )
        return column

    def _refuse(self, row: int, name: str, value: str, what: str, unlike: str = "") -> NoReturn:
        """Raise the error about a cell that is not what its column is."""
        unlike = f"{unlike} of the column" if unlike else ""
        raise DataError(
            f"{self.place(row)} of {self.source.name}, column {name!r}: {value!r} is not {what}"
            f"{unlike} (--missing {quote(value)} takes it for a missing value)"
        )

    def pieces(
        self, kinds: dict[str, str], progress: Progress | None = None
    ) -> Iterator[tuple[Table, list[int]]]:
        """Yield some rows at a time, of columns whose kind is known; dates stay text.

        And the rows with text among numbers, which are an error unless they are to be skipped.
        """
        chosen = {j: name for j, name in enumerate(self.names) if name in kinds}
        start, text = 0, [j for j, name in chosen.items() if kinds[name] != "number"]
        for batch in self.batches(chosen, progress, text):
            columns: dict[str, Column] = {}
            bad: list[int] = []

            def place(row: int, start: int = start) -> str:
                return f"{self.place(start + row)} of {self.source.name}"

            for j, name in chosen.items():
                column = self.column(j)
                column.add(batch, j)
                columns[name] = column.of_kind(kinds[name], batch, j, f", column {name!r}", place)
                bad += column.bad
            start += batch.num_rows
            if batch.num_rows:
                yield Table(columns, place=place), bad


# --- columns that grow --------------------------------------------------------------------------


class Cells:
    """A column of a text file: numbers, or text if fewer than half of its values are numbers.

    Or what it is said to be: `kind`. With `keep`, all rows with text among numbers are kept.
    """

    def __init__(self, style: Style, keep: bool, kind: str | None = None) -> None:
        self._style, self._keep, self._kind = style, keep, kind
        self._parts: list[NDArray[np.float64]] = []
        self._known = self._odd = self._size = 0
        self._first: tuple[int, str] = (0, "")  # of those that are not numbers: row and text ...
        self._rows = array("q")  # ... and all rows, if they are to be skipped
        self.bad: list[int] = []
        self.words: WordList | None = WordList(style) if kind in ("text", "date") else None

    def add(self, batch: Any, j: int) -> None:
        """Append a column of a batch."""
        if self.words is None:
            values, odd = batch.numbers(j)
            known = int(np.count_nonzero(values == values))
            if self._kind == "number" or not (len(odd) > known and self._known == 0):
                self._note(values, known, odd, batch, j)
                return
            self.words = WordList(self._style)
            self.words.add([""] * self._size)
        self.words.add(batch.cells(j))

    def _note(self, values: Any, known: int, odd: list[int], batch: Any, j: int) -> None:
        if odd and not self._odd:
            self._first = self._size + odd[0], batch.cells(j)[odd[0]]
        if self._keep:
            self._rows.extend(self._size + k for k in odd)
        self._parts.append(values)
        self._known, self._odd = self._known + known, self._odd + len(odd)
        self._size += len(values)

    @property
    def was_text(self) -> bool:
        """Whether most values are text, though the first ones are numbers."""
        return self.words is None and self._kind is None and self._known < self._odd

    def column(self, file: TableFile, loaded: Loaded, name: str) -> Column:
        """Return the column; refuse a few cells of text among numbers, or mark their rows."""
        if self.words is None:
            found = np.concatenate(self._parts) if self._parts else np.zeros(0)
            self._parts.clear()
            if self._odd:
                self._fault(file, loaded, name)
            return found
        text = self.words.column()
        if self._kind is not None:
            return text
        values, odd = self._style.numbers(text.values)
        counts = np.bincount(text.codes[text.codes >= 0], minlength=len(values))
        self._odd = int(counts[odd].sum())
        self._known = int(counts.sum()) - self._odd
        if self._known < self._odd or not len(values):
            return text
        rows = np.flatnonzero(np.isin(text.codes, odd))
        if rows.size:
            self._first = int(rows[0]), text.values[text.codes[rows[0]]]
            self._rows = array("q", rows.tolist())
            self._fault(file, loaded, name)
        return np.append(values, np.nan)[text.codes]

    def _fault(self, file: TableFile, loaded: Loaded, name: str) -> None:
        if self._keep:
            loaded.bad[f"{name!r} is not a number"] = list(self._rows)
            return
        row, value = self._first
        unlike = f", unlike {count(self._known, 'other value')}" if self._known else ""
        file._refuse(row, name, str(value).strip(), "a number", unlike)

    def of_kind(self, kind: str, batch: Any, j: int, where: str, place: Any) -> Column:
        """Return what was added as the kind that the column was in training."""
        odd = 0
        if kind == "number":
            values: NDArray[np.float64]
            values, positions = batch.numbers(j)
            if not positions:
                return values
            odd = positions[0]
        words = WordList(self._style)
        words.add(batch.cells(j))
        text = words.column()
        if kind == "number" and as_truth(text) is None:
            if self._keep:
                self.bad = positions
                return values
            value = str(batch.cells(j)[odd]).strip()
            raise DataError(
                f"{place(odd)}{where}: {value!r} is not a number, as the column was in training"
            )
        return text


class Typed:
    """A column of Arrow: numbers, dates, durations in days, or text."""

    was_text = False
    bad: tuple[int, ...] = ()

    def __init__(self, kind: Any, style: Style) -> None:
        from pyarrow import types

        self.kind = kind.value_type if types.is_dictionary(kind) else kind
        self.words: WordList | None = None
        texts = (types.is_string, types.is_large_string, types.is_string_view)
        if any(is_text(self.kind) for is_text in texts):
            self.words = WordList(style)
        self._parts: list[NDArray[Any]] = []

    @property
    def usable(self) -> bool:
        """Whether the type can become numbers or text."""
        from pyarrow import types

        known = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean,
                 types.is_null, types.is_timestamp, types.is_date, types.is_duration)  # fmt: skip
        return self.words is not None or any(is_known(self.kind) for is_known in known)

    def add(self, batch: Any, j: int) -> None:
        """Append a column of a batch."""
        values = batch.cells(j)
        if self.words is not None:
            self.words.add(values)
        else:
            self._parts.append(self._converted(values))

    def _converted(self, values: Any) -> NDArray[Any]:
        import pyarrow
        from pyarrow import types

        if types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if types.is_null(self.kind):
            return np.full(len(values), np.nan)
        if types.is_timestamp(self.kind) or types.is_date(self.kind):
            unit = pyarrow.timestamp("us", getattr(self.kind, "tz", None))  # kept in UTC
            moments = values.cast(unit, safe=False).to_numpy(zero_copy_only=False)
            return np.asarray(moments.astype(MOMENT))
        if types.is_duration(self.kind):
            lengths = values.cast(pyarrow.duration("us"), safe=False)
            return np.asarray(lengths.to_numpy(zero_copy_only=False) / np.timedelta64(1, "D"))
        if types.is_boolean(self.kind):
            values = values.cast(pyarrow.int8())
        numbers = values.cast(pyarrow.float64(), safe=False)
        return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)

    def column(self, *about: Any) -> Column:
        """Return the column."""
        if self.words is not None:
            return self.words.column()
        whole = np.concatenate(self._parts) if self._parts else np.zeros(0)
        self._parts.clear()
        return whole

    def of_kind(self, *about: Any) -> Column:
        """Return the column, whatever it was in training."""
        return self.column()


def new_column(kind: Any, style: Style, where: str, drop: str = "") -> Typed:
    """Return an empty column of a type of Arrow, or raise an error that names what it holds."""
    column = Typed(kind, style)
    if not column.usable:
        raise DataError(
            f"the column {where} holds {kind}: only numbers, booleans, dates and text can be used"
            f"{drop}"
        )
    return column
