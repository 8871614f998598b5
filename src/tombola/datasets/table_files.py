"""What files of tables share: rows in batches, and what text stands for."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from shlex import quote
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, Progress, count
from tombola.datasets.cells import Style, cell_in, is_text, numbers_in, settled, typed, words_in
from tombola.datasets.reading import Loaded, Reading
from tombola.datasets.sample import Sample, rows_in_memory
from tombola.datasets.sources import Source
from tombola.datasets.table import Column, Table, Words, as_truth

__all__ = ["Batch", "TableFile"]


class Batch(NamedTuple):
    """Some rows: for each column, by number, a list of text, numbers or an array of pyarrow."""

    columns: dict[int, Any]
    num_rows: int

    def take(self, rows: NDArray[np.int64]) -> "Batch":
        """Return some of the rows."""
        columns = {
            j: [cells[k] for k in rows] if isinstance(cells, list) else cells.take(rows)
            for j, cells in self.columns.items()
        }
        return Batch(columns, len(rows))


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

    def __init__(self, source: Source, reading: Reading) -> None:
        self.source, self.reading = source, reading
        self.style: Style = reading.style
        self.skipped: list[str] = []
        self._drawn: NDArray[np.int64] | None = None  # the rows that `load` has drawn

    @abstractmethod
    def batches(
        self,
        chosen: Collection[int],
        progress: Progress | None = None,
        text: Collection[int] = (),
    ) -> Iterator[Batch]:
        """Yield some rows at a time, of some columns; those in `text` as they are written."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Say where a row is in the file."""

    def is_guessed(self, j: int) -> bool:
        """Return whether the cells of a column say by themselves whether they are numbers."""
        return True

    def where(self, row: int) -> str:
        """Say where a row of those that `load` has drawn is in the file."""
        return self.place(row if self._drawn is None else int(self._drawn[row]))

    # --- the whole file -----------------------------------------------------------------------

    def load(self, progress: Progress | None = None) -> Loaded:
        """Return all columns that are not dropped; of rows that memory cannot hold, a sample."""
        types, dropped = self.reading.types, set(self.reading.drop)
        chosen = [j for j, name in enumerate(self.names) if name not in dropped]
        text = [j for j in chosen if types.get(self.names[j]) in ("text", "date")]
        sample = None
        most = self.reading.rows or rows_in_memory(len(self.names))
        if most is not None and (self.reading.rows or self.rows_at_most > most):
            sample = Sample(most)
        parts: dict[int, list[Any]] = {j: [] for j in chosen}
        batches = self.batches(chosen, progress, text)
        for batch in batches if sample is None else sample.draw(batches):
            for j in chosen:
                parts[j].append(batch.columns[j])
        loaded = Loaded({}, self.where, notes=list(self.notes), skipped=self.skipped)
        if sample is not None and sample.seen > sample.most:
            self._drawn = sample.rows
            why = "" if self.reading.rows else ", since memory holds no more"
            self.reading.rows = sample.most  # for whoever repeats it
            loaded.notes.append(
                f"{sample.most:,} of {sample.seen:,} rows were drawn at random (--rows "
                f"{sample.most}){why}."
            )
        again = [j for j in chosen if self._was_text(j, parts[j])]
        if again:
            parts |= {j: [] for j in again}
            batches = self.batches(again, text=again)
            for batch in batches if sample is None else sample.again(batches):
                for j in again:
                    parts[j].append(batch.columns[j])
        for j in chosen:
            loaded.columns[self.names[j]] = self._column(j, parts.pop(j), loaded)
        return loaded

    def _was_text(self, j: int, parts: list[Any]) -> bool:
        """Return whether most cells are text, though the first ones were read as numbers."""
        if not self.is_guessed(j) or self.names[j] in self.reading.types:
            return False
        texts = [is_text(part) for part in parts]
        if all(texts) or not any(texts):
            return False
        values, odd = numbers_in(parts, self.style)
        return int(np.count_nonzero(values == values)) < len(odd)

    def _column(self, j: int, parts: list[Any], loaded: Loaded) -> Column:
        """Return a column as what it holds, or is said to hold; refuse other cells, or note them.

        It holds numbers if at least half of its values are.
        """
        name, kind = self.names[j], self.reading.types.get(self.names[j])
        if kind is None and not self.is_guessed(j):
            if not all(map(is_text, parts)):
                return typed(parts)
        elif kind in (None, "number"):
            values, odd = numbers_in(parts[:1], self.style)
            first = np.count_nonzero(values == values) < len(odd) and all(map(is_text, parts))
            if kind is None and first:  # text, it seems: each value is looked at once
                words = words_in(parts, self.style)
                sure = self.style.numbers(words.values)[1]
                counts = np.bincount(words.codes[words.codes >= 0], minlength=len(words.values))
                if 2 * counts[sure].sum() > counts.sum():
                    return self.settle(loaded, j, words)
            values, odd = numbers_in(parts, self.style)
            known = int(np.count_nonzero(values == values))
            if kind or known >= len(odd):
                if odd and self.reading.skip_bad_rows:
                    loaded.bad[f"{name!r} is not a number"] = odd
                elif odd:
                    unlike = f", unlike {count(known, 'other value')} of the column" * bool(known)
                    self._refuse(odd[0], name, cell_in(parts, odd[0]), "a number", unlike)
                return values
        return self.settle(loaded, j, words_in(parts, self.style))

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
                unlike = ", unlike most values of the column"
                self._refuse(rows[0], name, text.values[odd], "a date", unlike)
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
        raise DataError(
            f"{self.where(row)} of {self.source.name}, column {name!r}: {value!r} is not {what}"
            f"{unlike} (--missing {quote(value)} takes it for a missing value)"
        )

    # --- new rows -----------------------------------------------------------------------------

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
                parts = [batch.columns[j]]
                if not self.is_guessed(j) and not is_text(parts[0]):
                    columns[name] = typed(parts)
                    continue
                if kinds[name] == "number":
                    columns[name], odd = numbers_in(parts, self.style)
                    if not odd:
                        continue
                words = words_in(parts, self.style)
                if kinds[name] != "number" or as_truth(words) is not None:
                    columns[name] = words
                elif self.reading.skip_bad_rows:
                    bad += odd
                else:
                    raise DataError(
                        f"{place(odd[0])}, column {name!r}: {cell_in(parts, odd[0])!r} is not a "
                        "number, as the column was in training"
                    )
            start += batch.num_rows
            if batch.num_rows:
                yield Table(columns, place=place), bad
