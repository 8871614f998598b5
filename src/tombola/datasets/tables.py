"""Read tables of named columns: CSV and Parquet."""

import csv
import functools
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, Progress, count, in_words, no_such
from tombola.datasets.table import Table, Words

__all__ = [
    "as_number",
    "column_number",
    "read_csv",
    "read_parquet",
    "refuse_infinite",
    "refuse_missing",
]

MISSING = {"", "na", "n/a", "nan", "null", "none"}  # in a CSV file, in upper or lower case
TRUTH = {"false": 0.0, "true": 1.0}
SEPARATORS = ",;\t"
ENCODING = "utf-8-sig"  # with or without a byte order mark

Column = NDArray[np.float64] | list[str | None]  # numbers or text; NaN or None if missing
Place = Callable[[int], str]  # describes where a row is in its file


# --- CSV ----------------------------------------------------------------------------------------


def read_csv(
    path: Path, target: str | None, task: str | None, impute: bool, progress: Progress | None
) -> dict[str, Any]:
    """Return X, y, columns and notes of a CSV file; see `tombola.datasets.read`."""
    with path.open(encoding=ENCODING, newline="") as file:
        records = _records(path, file)
        _, first = next(records, (0, []))
        if not first:
            raise DataError(f"{path.name} is empty: it has only blank lines")
        headed = _is_header(first)
        if not headed:
            records = _records(path, file)
        names = [cell.strip() or f"column {j}" for j, cell in enumerate(first)]
        names = names if headed else list(map(str, range(len(first))))
        matrix, lines, texts = _parse(path, records, len(names), file, progress)

    def place(row: int) -> str:
        return f"line {lines[row]}"

    columns: list[Column] = list(matrix.T)
    for j, (cells, row, value) in texts.items():
        numbers = int((~np.isnan(matrix[:, j])).sum())
        if numbers >= cells:
            raise DataError(
                f"{place(row)} of {path.name}, column {names[j]!r}: {value!r} is not a number, "
                f"unlike {count(numbers, 'other value')} of the column"
            )
    for j, text in _read_texts(path, list(texts), skip=int(headed)).items():
        columns[j] = _as_truth(text)
    notes = () if headed else ("There is no header: columns are numbered from 0.",)
    return _assembled(path, names, columns, place, target, task, impute, notes)


def _records(path: Path, file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the fields of each record; skip blank lines."""
    line = 1
    try:
        file.seek(0)
        separator = max(SEPARATORS, key=file.readline().count)
        file.seek(0)
        reader = csv.reader(file, delimiter=separator)
        for record in reader:
            if len(record) > 1 or (record and record[0].strip()):
                yield line, record
            line = reader.line_num + 1
    except UnicodeDecodeError as error:
        raise DataError(f"{path.name} is not UTF-8 text: {error.reason}") from None
    except csv.Error as error:
        raise DataError(f"line {line} of {path.name} cannot be read: {error}") from None


def _is_header(record: Sequence[str]) -> bool:
    """Return whether a line has names: not only numbers, and no fractions."""
    numbers = [as_number(cell) for cell in record]
    named = any(
        math.isnan(number) and cell.strip() for number, cell in zip(numbers, record, strict=True)
    )
    return named and all(math.isnan(number) or number.is_integer() for number in numbers)


def _parse(
    path: Path,
    records: Iterator[tuple[int, list[str]]],
    width: int,
    file: TextIO,
    progress: Progress | None,
) -> tuple[NDArray[np.float64], Any, dict[int, tuple[int, int, str]]]:
    """Return the cells as numbers, the line of each row, and the columns with text.

    For each such column, return the number of its text cells, and the row and content of the
    first one.
    """
    cells, lines = array("d"), array("q")
    texts: dict[int, tuple[int, int, str]] = {}
    size = path.stat().st_size
    for line, record in records:
        if len(record) != width:
            raise DataError(
                f"line {line} of {path.name} has {count(len(record), 'field')}, but the first "
                f"line has {width}"
            )
        for j in texts:  # check known text columns first: exceptions are slow
            _take(record, j, len(lines), texts)
        try:
            numbers = list(map(float, record))
            if "_" in "".join(record):  # only Python reads 1_000 as a number
                raise ValueError
        except ValueError:
            for j in range(width):
                if j not in texts:
                    _take(record, j, len(lines), texts)
            numbers = list(map(float, record))
        cells.extend(numbers)
        lines.append(line)
        if progress is not None and len(lines) % 1024 == 0:
            progress(file.buffer.tell(), size)
    return np.frombuffer(cells, dtype=np.float64).reshape(-1, width), lines, texts


def _take(record: list[str], j: int, row: int, texts: dict[int, tuple[int, int, str]]) -> None:
    """Replace a cell that is not a number by "nan"; record it in `texts` unless it is missing."""
    cell = record[j]
    if math.isnan(as_number(cell)):
        record[j] = "nan"
        if cell.strip().lower() not in MISSING:
            seen, first, value = texts.get(j, (0, row, cell.strip()))
            texts[j] = seen + 1, first, value


@functools.lru_cache(maxsize=2**14)
def as_number(cell: str) -> float:
    """Return the number in a cell, or NaN if it is not a number."""
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _read_texts(path: Path, chosen: Sequence[int], skip: int) -> dict[int, list[str | None]]:
    """Return the cells of some columns as text, with None for missing ones."""
    found: dict[int, list[str | None]] = {j: [] for j in chosen}
    if chosen:
        with path.open(encoding=ENCODING, newline="") as file:
            for k, (_, record) in enumerate(_records(path, file)):
                for j in chosen if k >= skip else ():
                    cell = record[j].strip()
                    found[j].append(None if cell.lower() in MISSING else cell)
    return found


def _as_truth(text: list[str | None]) -> Column:
    """Return 0 and 1 if all cells are true or false, and the text otherwise."""
    words = [None if value is None else value.lower() for value in text]
    if all(word is None or word in TRUTH for word in words):
        return np.array([math.nan if word is None else TRUTH[word] for word in words])
    return text


# --- Parquet ------------------------------------------------------------------------------------


def read_parquet(path: Path, target: str | None, task: str | None, impute: bool) -> dict[str, Any]:
    """Return X, y, columns and notes of a Parquet file; see `tombola.datasets.read`."""
    import pyarrow
    from pyarrow import parquet, types

    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path.name} is not a readable Parquet file: {error}") from None
    if not table.num_columns:
        raise DataError(f"{path.name} has no columns")
    columns: list[Column] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if types.is_boolean(column.type):
            column = column.cast(pyarrow.int8())
        kind = column.type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            numbers = column.cast(pyarrow.float64(), safe=False).to_numpy()
            columns.append(numbers)
        elif types.is_string(kind) or types.is_large_string(kind):
            columns.append(column.to_pylist())
        else:
            raise DataError(
                f"the column {name!r} of {path.name} holds {kind}: only numbers, booleans and text "
                "can be used"
            )

    def place(row: int) -> str:
        return f"row {row + 1}"

    return _assembled(path, table.column_names, columns, place, target, task, impute, ())


# --- both ---------------------------------------------------------------------------------------


def _assembled(
    path: Path,
    names: Sequence[str],
    columns: Sequence[Column],
    place: Place,
    target: str | None,
    task: str | None,
    impute: bool,
    notes: tuple[str, ...],
) -> dict[str, Any]:
    """Return X, y and names; refuse columns that cannot be used."""
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise DataError(f"{path.name} has two columns named {twice!r}")
    if target is None and task != "clustering":
        raise DataError(
            f"choose the target with --target: {in_words(names)} (--task clustering needs none)"
        )
    held = None if target is None else column_number(names, target)
    if not len(columns[0]):
        raise DataError(f"{path.name} has a header but no rows")
    y = None if held is None else _labels(names[held], columns[held], place)
    used = [j for j in range(len(names)) if j != held]
    if not used:
        raise DataError(f"{path.name} has no column besides the target")
    refuse_infinite([names[j] for j in used], [columns[j] for j in used], place)
    if not impute:
        refuse_missing([names[j] for j in used], [columns[j] for j in used], place)
    held_columns = {names[j]: _as_column(columns[j]) for j in used}
    return {
        "X": Table(held_columns),
        "y": y,
        "columns": tuple(held_columns),
        "notes": notes,
        "label": "" if held is None else repr(names[held]),
    }


def _as_column(column: Column) -> Any:
    return Words.of(column) if isinstance(column, list) else np.ascontiguousarray(column)


def column_number(names: Sequence[str], target: str) -> int:
    """Return the position of a column, given by name or number."""
    if target in names:
        return names.index(target)
    number = as_number(target)
    if number.is_integer() and -len(names) <= number < len(names):
        return int(number) % len(names)
    raise no_such("column", target, names)


def _labels(name: str, column: Column, place: Place) -> NDArray[Any]:
    """Return the target; refuse missing values."""
    lost = _missing(column)
    if lost:
        raise DataError(
            f"the target {name!r} is missing in {count(len(lost), 'row')}, first in "
            f"{place(lost[0])}"
        )
    if isinstance(column, list):
        return np.array(column, dtype=str)
    refuse_infinite([name], [column], place)
    return column


def _missing(column: Column) -> list[int]:
    if isinstance(column, list):
        return [row for row, value in enumerate(column) if value is None]
    return np.flatnonzero(np.isnan(column)).tolist()


def refuse_missing(names: Sequence[str], columns: Sequence[Column], place: Place) -> None:
    """Raise an error that counts missing values by column."""
    lost = {name: _missing(column) for name, column in zip(names, columns, strict=True)}
    found = [
        f"{name!r} ({len(rows):,}, first in {place(rows[0])})"
        for name, rows in lost.items()
        if rows
    ]
    if found:
        total = sum(map(len, lost.values()))
        raise DataError(
            f"{count(total, 'value')} {'is' if total == 1 else 'are'} missing, in "
            f"{in_words(found, most=5)}: fill them in with --impute median or --impute mean"
        )


def refuse_infinite(names: Sequence[str], columns: Sequence[Column], place: Place) -> None:
    """Raise an error that names the first column with infinite values."""
    for name, column in zip(names, columns, strict=True):
        wrong = [] if isinstance(column, list) else np.flatnonzero(np.isinf(column)).tolist()
        if wrong:
            raise DataError(
                f"{count(len(wrong), 'value')} of {name!r} {'is' if len(wrong) == 1 else 'are'} "
                f"infinite or too large, first in {place(wrong[0])}"
            )
