"""Read tables that are text: CSV, and the like."""

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from tombola.datasets.base import DataError, Progress, count
from tombola.datasets.cells import Style, WordList, settled
from tombola.datasets.reading import Loaded, Reading, unique_names
from tombola.datasets.sources import Source
from tombola.datasets.table import Column, Table, as_truth

__all__ = ["CsvFile"]

SEPARATORS = ",;\t|"
COMMA = re.compile(r"[+-]?\d+(,\d+)+(\.\d*)?$")  # 1,5 or 1,000.5
PIECE = 2**13  # rows that are converted at a time
LONGEST = 2**24  # characters of a field


class CsvFile:
    """A table in a text file, separated by commas, semicolons, tabs, bars or blanks.

    Attributes
    ----------
    names : list of str
        The names of the columns; numbers from 0 if there is no header.
    notes : tuple of str
    """

    def __init__(self, source: Source, reading: Reading) -> None:
        self.source, self.reading = source, reading
        self.style: Style = reading.style
        with source.text(reading.encoding) as file:
            first_line = next((line for line in file if line.strip()), "")
        if not first_line:
            raise DataError(f"{source.name} is empty: it has only blank lines")
        self.separator = _separator(first_line, reading.decimal)
        with source.text(reading.encoding) as file:
            _, first = next(self._records(file))
        self.headed = self._is_header(first)
        names = [cell.strip() or f"column {j}" for j, cell in enumerate(first)]
        self.names, self.notes = unique_names(names)
        if not self.headed:
            self.names = list(map(str, range(len(first))))
            self.notes = ("There is no header: columns are numbered from 0.",)
        self.skipped: list[str] = []

    # --- records ------------------------------------------------------------------------------

    def _records(self, file: TextIO) -> Iterator[tuple[int, list[str]]]:
        """Yield the first line and the fields of each record; skip blank lines."""
        line, name = 1, self.source.name
        blanks = self.separator == " "
        lines: Iterable[str] = (it.strip() + "\n" for it in file) if blanks else file
        csv.field_size_limit(LONGEST)
        reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=blanks)
        try:
            for record in reader:
                if len(record) > 1 or (record and record[0].strip()):
                    yield line, record
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"line {line} of {name} cannot be read: {error}") from None

    def _is_header(self, record: Sequence[str]) -> bool:
        """Return whether a line has names: not only numbers, and no fractions."""
        numbers = [self.style.number(cell) for cell in record]
        named = any(
            math.isnan(number) and not self.style.is_missing(cell)
            for number, cell in zip(numbers, record, strict=True)
        )
        return named and all(math.isnan(number) or number.is_integer() for number in numbers)

    def _pieces(self, progress: Progress | None = None) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield the lines and the columns of some rows at a time, as cells of text."""
        width, skip = len(self.names), self.reading.skip_bad_rows
        self.skipped = []
        lines: list[int] = []
        rows: list[list[str]] = []
        with self.source.text(self.reading.encoding, progress) as file:
            records = self._records(file)
            if self.headed:
                next(records)
            for line, record in records:
                if len(record) > width and not any(cell.strip() for cell in record[width:]):
                    del record[width:]  # separators at the end of the line
                if len(record) != width:
                    if not skip:
                        raise DataError(
                            f"line {line} of {self.source.name} has "
                            f"{count(len(record), 'field')}, but the first line has {width}"
                        )
                    self.skipped.append(f"line {line}")
                    continue
                lines.append(line)
                rows.append(record)
                if len(rows) == PIECE:
                    yield lines, list(zip(*rows, strict=True))
                    lines, rows = [], []
        if rows:
            yield lines, list(zip(*rows, strict=True))

    # --- all of it ----------------------------------------------------------------------------

    def load(self, progress: Progress | None = None) -> Loaded:
        """Return all columns: numbers in a first pass, text in a second one.

        A column is text if fewer than half of its values are numbers.
        """
        numbers: list[list[Any]] = [[] for _ in self.names]
        texts: dict[int, _Text] = {}
        lines = array("q")
        for here, cells in self._pieces(progress):
            for j, column in enumerate(cells):
                values, odd = self.style.numbers(column)
                numbers[j].append(values)
                if odd:
                    if j not in texts:
                        texts[j] = _Text(len(lines) + odd[0], column[odd[0]].strip())
                    texts[j].count += len(odd)
                    if self.reading.skip_bad_rows:
                        texts[j].rows.extend(len(lines) + k for k in odd)
            lines.extend(here)

        def place(row: int) -> str:
            return f"line {lines[row]}"

        loaded = Loaded({}, place, notes=list(self.notes), skipped=self.skipped)
        found: dict[int, Column] = {}
        words: dict[int, WordList] = {}
        for j, name in enumerate(self.names):
            parts = numbers[j]
            column = np.concatenate(parts) if parts else np.zeros(0)
            parts.clear()
            if j in texts:
                known = int((~np.isnan(column)).sum())
                if known < texts[j].count:
                    words[j] = WordList(self.style)
                    continue
                self._number_fault(loaded, name, texts[j], known)
            found[j] = column
        self._load_words(words, progress)
        for j, name in enumerate(self.names):
            if j in words:
                loaded.columns[name] = self._settle(loaded, name, words.pop(j))
            else:
                loaded.columns[name] = found.pop(j)
        return loaded

    def _number_fault(self, loaded: Loaded, name: str, text: "_Text", known: int) -> None:
        """Refuse a column of numbers with some text in it, or mark these rows."""
        if self.reading.skip_bad_rows:
            loaded.bad[f"{name!r} is not a number"] = list(text.rows)
            return
        raise DataError(
            f"{loaded.place(text.row)} of {self.source.name}, column {name!r}: {text.value!r} is "
            f"not a number, unlike {count(known, 'other value')} of the column (--missing "
            f"{_quoted(text.value)} takes it for a missing value)"
        )

    def _load_words(self, words: dict[int, WordList], progress: Progress | None) -> None:
        if words:
            for _, cells in self._pieces(progress):
                for j, column in words.items():
                    column.add(cells[j])

    def _settle(self, loaded: Loaded, name: str, words: WordList) -> Column:
        """Return a column of text, or what it stands for."""
        text = words.column()
        if self.style == Style(self.style.missing) and all(map(COMMA.match, text.values)):
            row = int(np.flatnonzero(text.codes == 0)[0])
            raise DataError(
                f"{loaded.place(row)} of {self.source.name}, column {name!r}: {text.values[0]!r} "
                "has a comma, as have all values of the column: read it with --decimal , or "
                "--thousands ,"
            )
        return settle_column(loaded, name, text, self.reading, self.source.name)

    # --- by pieces ----------------------------------------------------------------------------

    def pieces(self, kinds: dict[str, str], progress: Progress | None = None) -> Iterator[Table]:
        """Yield some rows at a time, of columns whose kind is known; dates stay text."""
        chosen = {j: name for j, name in enumerate(self.names) if name in kinds}
        for lines, cells in self._pieces(progress):
            columns: dict[str, Column] = {}

            def place(row: int, lines: list[int] = lines) -> str:
                return f"line {lines[row]} of {self.source.name}"

            for j, name in chosen.items():
                if kinds[name] == "number":
                    columns[name], odd = self.style.numbers(cells[j])
                    if not odd:
                        continue
                words = WordList(self.style)
                words.add(cells[j])
                columns[name] = text = words.column()
                if kinds[name] == "number" and as_truth(text) is None:
                    raise DataError(
                        f"{place(odd[0])}, column {name!r}: {cells[j][odd[0]].strip()!r} is not a "
                        "number, as the column was in training"
                    )
            yield Table(columns, place=place)


@dataclass
class _Text:
    """The cells of a column that are not numbers: the first one, their number, and their rows."""

    row: int
    value: str
    count: int = 0
    rows: "array[int]" = field(default_factory=lambda: array("q"))  # if they are to be skipped


def settle_column(loaded: Loaded, name: str, text: Any, reading: Reading, file: str) -> Column:
    """Return text as what it stands for; refuse dates with other text among them."""
    column, form, odd, unsure = settled(text, reading.dates)
    if form is None:
        return column
    loaded.forms[name] = form
    if odd is not None:
        assert isinstance(column, np.ndarray)
        rows = np.flatnonzero(np.isnat(column) & (text.codes >= 0)).tolist()
        if not reading.skip_bad_rows:
            raise DataError(
                f"{loaded.place(rows[0])} of {file}, column {name!r}: {text.values[odd]!r} is not "
                f"a date, unlike most values of the column (--missing {_quoted(text.values[odd])} "
                "takes it for a missing value)"
            )
        loaded.bad[f"{name!r} is not a date"] = rows
    if unsure:
        other = "day-first" if form.startswith("month") else "month-first"
        loaded.notes.append(
            f"The dates in {name!r} were taken as {form} (--dates {other} takes the other order)."
        )
    return column


def _separator(line: str, decimal: str) -> str:
    """Return the separator of fields, by the first line of a file."""
    others = SEPARATORS.replace(decimal, "")
    best = max(others, key=line.count)
    if line.count(best):
        return best
    if decimal in line and decimal in SEPARATORS:
        return decimal
    return " " if len(line.split()) > 1 and '"' not in line else ","


def _quoted(value: str) -> str:
    return value if value.isalnum() else f'"{value}"'
