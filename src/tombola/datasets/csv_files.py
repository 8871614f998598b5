"""Read tables that are text: CSV, and the like."""

import csv
import math
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from tombola.datasets.base import DataError, Progress, count
from tombola.datasets.cells import NUMBER, TEXT, coded, numbers_in, words_of
from tombola.datasets.reading import Reading, Style
from tombola.datasets.sources import Source
from tombola.datasets.table_files import Loaded, TableFile, unique_names

__all__ = ["CsvFile"]

SEPARATORS = ",;\t|"
COMMA = re.compile(r"[+-]?\d+(,\d+)+(\.\d*)?$")  # 1,5 or 1,000.5
ODD = re.compile(r"In CSV column #(\d+): CSV conversion error")
BLOCK = 2**20  # bytes that pyarrow converts at a time
FIRST = 2**18  # bytes whose cells show which columns are numbers
WIDE = 1000  # columns: from here on Python's reader takes less time than pyarrow's, by rows
PIECE = 2**23  # cells that Python's reader converts at a time
LONGEST = 2**24  # characters of a field
LONGEST_LINE = 2**28  # characters of a line
TRIES = 4  # to read columns as numbers that turn out to hold text


class CsvFile(TableFile):
    """A table in a text file, separated by commas, semicolons, tabs, bars or blanks.

    pyarrow reads regular files. Where it stops, and for very wide files, Python's csv reader goes
    on: it knows separators at the end of lines, and says which line is wrong.
    """

    def __init__(self, source: Source, reading: Reading) -> None:
        super().__init__(source, reading)
        with source.text(reading.encoding) as file:
            first_line = next((line for line in self._lines_of(file) if line.strip()), "")
        if not first_line:
            raise DataError(f"{source.name} is empty: it has only blank lines")
        self.separator = _separator(first_line, reading.decimal)
        with source.text(reading.encoding) as file:
            records = self._records(file)
            _, first = next(records)
            self.headed = self._is_header(first)
            second, _ = next(records, (0, first))
        self._begin = second - 1 if self.headed else 0  # lines before the rows
        self.names, self.notes = unique_names(
            cell.strip() or f"column {j}" for j, cell in enumerate(first)
        )
        if not self.headed:
            self.names = list(map(str, range(len(first))))
            self.notes = ("There is no header: columns are numbered from 0.",)
        with source.binary() as file:
            head = file.read(2**16)
        self.rows_at_most = 2 * source.size * max(1, head.count(b"\n")) // len(head)
        self.regular = self.separator != " " and len(self.names) < WIDE and self._begin >= 0

    def _is_header(self, record: Sequence[str]) -> bool:
        """Return whether a line has names: not only numbers, and no fractions."""
        numbers = [self.style.number(cell) for cell in record]
        named = any(
            math.isnan(number) and not self.style.is_missing(cell)
            for number, cell in zip(numbers, record, strict=True)
        )
        return named and all(math.isnan(number) or number.is_integer() for number in numbers)

    def settle(self, loaded: Loaded, name: str, text: Any) -> Any:
        """Return text as what it stands for; refuse numbers with commas."""
        plain = self.style == Style(self.style.missing) and name not in self.reading.types
        codes, words = words_of(text)
        if plain and all(map(COMMA.match, words)):
            raise DataError(
                f"{self.where(int((codes == 0).argmax()))} of {self.source.name}, column {name!r}: "
                f"{words[0]!r} has a comma, as have all values of the column: read it with "
                "--decimal , or --thousands ,"
            )
        return super().settle(loaded, name, text)

    def place(self, row: int) -> str:
        """Return the line of a row."""
        return f"line {self._lines[row]}"

    @cached_property
    def _lines(self) -> "array[int]":
        """The first lines of all rows, which only messages need."""
        skipped = self.skipped  # of a pass that may be going on
        with self.source.text(self.reading.encoding) as file:
            lines = array("q", (line for line, _ in self._rows(file)))
        self.skipped = skipped
        return lines

    # --- batches ------------------------------------------------------------------------------

    def batches(
        self,
        chosen: Sequence[int],
        progress: Progress | None = None,
        text: Collection[int] = (),
        *,
        whole: bool = False,
    ) -> Iterator[Any]:
        """Yield some rows at a time, or all; columns in `text` are not converted to numbers.

        pyarrow converts what are numbers in its first block. A column with something else further
        down goes on as text, and if pyarrow cannot read a row, Python does.
        """
        text, done, tries = set(text), 0, 0
        numbers: set[int] | None = None
        while self.regular:
            try:
                if numbers is None:
                    numbers = self._numbers([j for j in chosen if j not in text])
                for batch in self._by_pyarrow(chosen, numbers - text, done, progress, whole=whole):
                    yield batch
                    done += batch.num_rows
                return
            except (pa.ArrowInvalid, UnicodeError) as error:
                odd, tries = ODD.match(str(error)), tries + 1
                if odd is None or tries > TRIES:
                    self.regular = False
                else:
                    text |= {int(odd[1])} if tries < TRIES else set(chosen)
        yield from self._by_python(chosen, text, done, progress)

    def _numbers(self, chosen: Sequence[int]) -> set[int]:
        """Return the columns that hold numbers in the first block, and nothing else."""
        if self.style.thousands or not chosen:
            return set()
        found = set()
        for batch in self._by_pyarrow(chosen, (), 0, None, whole=False, block=min(FIRST, BLOCK)):
            for j, cells in zip(chosen, batch.columns, strict=True):
                values, odd = numbers_in(coded(pa.chunked_array([cells]), self.style), self.style)
                if not odd.any() and not np.isnan(values).all():
                    found.add(j)
            break
        return found

    def _by_pyarrow(
        self,
        chosen: Sequence[int],
        numbers: Collection[int],
        done: int,
        progress: Any,
        *,
        whole: bool,
        block: int | None = None,
    ) -> Iterator[Any]:
        """Yield the rows after the first ones, which are done."""
        encoding = self.source.encoding(self.reading.encoding)
        options = (
            arrow_csv.ReadOptions(
                block_size=block or BLOCK, skip_rows=self._begin,
                column_names=[str(j) for j in range(len(self.names))],
                encoding="utf8" if encoding == "utf-8-sig" else encoding,
            ),
            arrow_csv.ParseOptions(delimiter=self.separator),
            arrow_csv.ConvertOptions(
                column_types={str(j): NUMBER if j in numbers else TEXT for j in chosen},
                include_columns=[str(j) for j in chosen], decimal_point=self.style.decimal,
                null_values=self.style.nulls, strings_can_be_null=True,
            ),
        )  # fmt: skip
        with self.source.binary(progress) as file:
            if whole:
                yield arrow_csv.read_csv(file, *options)
                return
            with arrow_csv.open_csv(file, *options) as reader:
                for batch in reader:
                    rows = batch.slice(min(done, batch.num_rows))
                    done -= batch.num_rows - rows.num_rows
                    if rows.num_rows:
                        yield rows

    def _by_python(
        self, chosen: Sequence[int], text: Collection[int], done: int, progress: Any
    ) -> Iterator[Any]:
        """Yield the rows after the first ones, which are done.

        They are converted row by row, as there may be many more columns. A column is kept as text
        from the first row on in which it is not a number.
        """
        most = max(1, PIECE // len(self.names))
        words: dict[int, list[str]] = {j: [] for j in chosen if j in text}
        numbers = [j for j in chosen if j not in words]
        rows: list[Any] = []

        def batch() -> Any:
            values = np.ascontiguousarray(np.array(rows).T)  # columns are not copied again
            columns = {j: values[k] for k, j in enumerate(numbers)} | {
                j: pa.array(cells, pa.string()).dictionary_encode() for j, cells in words.items()
            }
            return pa.RecordBatch.from_arrays([columns[j] for j in chosen], list(map(str, chosen)))

        with self.source.text(self.reading.encoding, progress) as file:
            for k, (_, record) in enumerate(self._rows(file)):
                if k < done:
                    continue
                values, odd = self.style.numbers([record[j] for j in numbers])
                if len(rows) == most or (odd.any() and rows):
                    yield batch()
                    rows, words = [], {j: [] for j in words}
                if odd.any():
                    words |= {numbers[place]: [] for place in np.flatnonzero(odd)}
                    numbers = [j for j in numbers if j not in words]
                    values = values[~odd]
                rows.append(values)
                for j, cells in words.items():
                    cells.append(record[j])
        if rows:
            yield batch()

    def _rows(self, file: TextIO) -> Iterator[tuple[int, list[str]]]:
        """Yield the first line and the fields of each row; refuse or skip those of other width."""
        width, self.skipped = len(self.names), []
        records = self._records(file)
        if self.headed:
            next(records)
        for line, record in records:
            if len(record) > width and not any(cell.strip() for cell in record[width:]):
                del record[width:]  # separators at the end of the line
            if len(record) == width:
                yield line, record
            elif self.reading.skip_bad_rows:
                self.skipped.append(f"line {line}")
            else:
                raise DataError(
                    f"line {line} of {self.source.name} has {count(len(record), 'field')}, but the "
                    f"first line has {width}"
                )

    def _lines_of(self, file: TextIO) -> Iterator[str]:
        """Yield the lines of a file; refuse one that would fill the memory, as of a packed bomb."""
        for line in iter(lambda: file.readline(LONGEST_LINE), ""):
            if len(line) == LONGEST_LINE:
                raise DataError(
                    f"{self.source.name} has a line of {LONGEST_LINE:,} characters or more: that "
                    "is no table"
                )
            yield line

    def _records(self, file: TextIO) -> Iterator[tuple[int, list[str]]]:
        """Yield the first line and the fields of each record; skip blank lines."""
        line, name = 1, self.source.name
        blanks = self.separator == " "
        lines: Iterable[str] = self._lines_of(file)
        if blanks:
            lines = (it.strip() + "\n" for it in lines)
        csv.field_size_limit(LONGEST)
        reader = csv.reader(lines, delimiter=self.separator, skipinitialspace=blanks)
        try:
            for record in reader:
                if len(record) > 1 or (record and record[0].strip()):
                    yield line, record
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"line {line} of {name} cannot be read: {error}") from None


def _separator(line: str, decimal: str) -> str:
    """Return the separator of fields, by the first line of a file."""
    line = re.sub(r'"[^"]*"', '""', line)  # names may hold any mark
    others = SEPARATORS.replace(decimal, "")
    best = max(others, key=line.count)
    if line.count(best):
        return best
    if decimal in line and decimal in SEPARATORS:
        return decimal
    return " " if len(line.split()) > 1 and '"' not in line else ","
