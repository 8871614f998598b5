"""Read tables that are text: CSV, and the like."""

import csv
import io
import math
import re
from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TextIO

import pyarrow as pa
from pyarrow import csv as arrow_csv

from tombola.datasets.base import DataError, Progress, count
from tombola.datasets.cells import NUMBER, TEXT, words_of
from tombola.datasets.reading import Reading, Style
from tombola.datasets.sources import Source
from tombola.datasets.table_files import Loaded, TableFile, unique_names

__all__ = ["CsvFile"]

SEPARATORS = ",;\t|"
COMMA = re.compile(r"[+-]?\d+(,\d+)+(\.\d*)?$")  # 1,5 or 1,000.5
ODD = re.compile(r"In CSV column #(\d+): CSV conversion error")
FIRST = 2**18  # bytes whose cells show which columns are numbers ...
TRIES = 3  # ... and how often 16 times as many are looked at, if others turn out to hold text
BLOCK = 2**20  # bytes that pyarrow converts at a time, ...
LARGE = 2**26  # ... of long lines or rewritten ones
WIDE = 2**14  # characters of a line that is long: there are many columns
LONGEST = 2**24  # characters of a field
LONGEST_LINE = 2**28  # characters of a line


class CsvFile(TableFile):
    """A table in a text file, separated by commas, semicolons, tabs, bars or blanks.

    pyarrow reads it. Where it stops, Python's csv reader goes through the lines first: it knows
    separators at the end of lines, and says which line is wrong.
    """

    tidy = True  # whether pyarrow can read the lines as they are

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
        self.tidy = self.tidy and self.separator != " " and self._begin >= 0
        self.length = len(first_line)

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

        What are numbers in a first block is converted. A column with something else further down
        goes on as text, and if pyarrow cannot read a row, all are rewritten.
        """
        text, done, tries = set(text), 0, 0
        while True:
            again = done  # rows that were yielded
            try:
                types = self._types(chosen, text, tries)
                for batch in self._converted(types, progress, whole=whole):
                    rows = batch.slice(min(again, batch.num_rows))
                    again -= batch.num_rows - rows.num_rows
                    done += rows.num_rows
                    if rows.num_rows:
                        yield rows
                return
            except (pa.ArrowInvalid, UnicodeError) as error:
                odd = ODD.match(str(error))
                if odd is not None:
                    text, tries = text | {int(odd[1])}, tries + 1
                elif self.tidy:
                    self.tidy = False
                elif (reason := str(error).splitlines()[0]) == "Empty CSV file":
                    return
                else:
                    raise DataError(f"{self.source.name} cannot be read: {reason}") from None

    def _types(self, chosen: Sequence[int], text: Collection[int], tries: int) -> dict[int, Any]:
        """Return the types of columns: numbers if a first block holds nothing else."""
        types = dict.fromkeys(chosen, TEXT)
        numbers = [j for j in chosen if j not in text]
        if not numbers or tries > TRIES or self.style.thousands:
            return types
        with self._bytes(None) as file:
            size = max(min(FIRST, BLOCK), 4 * self.length) << 4 * tries
            head = file.read(min(size, LARGE)).decode(self._encoding, "ignore")
        head = head[: head.rfind("\n") + 1]
        with suppress(pa.ArrowInvalid):  # which reading it all will say
            options = self._options(dict.fromkeys(numbers, pa.string()), LARGE, "utf8")
            found = arrow_csv.read_csv(pa.BufferReader(head.encode()), *options)
            for j, column in zip(numbers, found.columns, strict=True):
                cells = column.drop_null().to_pylist()
                if cells and not self.style.numbers(cells)[1].any():
                    types[j] = NUMBER
        return types

    def _options(self, types: dict[int, Any], block: int, encoding: str) -> tuple[Any, ...]:
        """Return how pyarrow reads columns of these types."""
        return (
            arrow_csv.ReadOptions(
                block_size=block, skip_rows=self._begin if self.tidy else 0, encoding=encoding,
                column_names=[str(j) for j in range(len(self.names))],
            ),
            arrow_csv.ParseOptions(
                delimiter=self.separator if self.tidy else ",", newlines_in_values=not self.tidy
            ),
            arrow_csv.ConvertOptions(
                column_types={str(j): kind for j, kind in types.items()},
                include_columns=[str(j) for j in types], decimal_point=self.style.decimal,
                null_values=self.style.nulls, strings_can_be_null=True,
            ),
        )  # fmt: skip

    def _converted(self, types: dict[int, Any], progress: Any, *, whole: bool) -> Iterator[Any]:
        """Yield some rows at a time, or all, in columns of these types."""
        block = BLOCK if self.tidy and self.length < WIDE else LARGE
        options = self._options(types, block, self._encoding)
        with self._bytes(progress) as file:
            if whole:
                yield arrow_csv.read_csv(file, *options)
                return
            with arrow_csv.open_csv(file, *options) as reader:
                yield from reader

    @property
    def _encoding(self) -> str:
        """The encoding of `_bytes`."""
        given = self.source.encoding(self.reading.encoding) if self.tidy else "utf8"
        return "utf8" if given == "utf-8-sig" else given

    @contextmanager
    def _bytes(self, progress: Progress | None) -> Iterator[Any]:
        """Open the file as it is, or with all rows rewritten."""
        if self.tidy:
            with self.source.binary(progress) as file:
                yield file
        else:
            with self.source.text(self.reading.encoding, progress) as text:
                yield pa.PythonFile(_Rewritten(self._rows(text)), "r")

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


class _Rewritten:
    """A file of bytes: rows as CSV, separated by commas and without what surrounds them."""

    closed = False

    def __init__(self, rows: Iterator[tuple[int, list[str]]]) -> None:
        self._rows, self._rest = rows, b""

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        while len(self._rest) + text.tell() < size:
            row = next(self._rows, None)
            if row is None:
                break
            writer.writerow(row[1])
        self._rest += text.getvalue().encode(errors="replace")
        block, self._rest = self._rest[:size], self._rest[size:]
        return block


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
