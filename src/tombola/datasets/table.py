"""Tables: columns of numbers, text and dates, by name, before they become a matrix."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, no_such
from tombola.datasets.dates import moments

__all__ = [
    "MOMENT",
    "Column",
    "Place",
    "Table",
    "Words",
    "as_truth",
    "column_of",
    "kind_of",
    "missing_in",
    "take",
]

MOMENT = "datetime64[us]"  # what dates are kept as
TRUTH = {"false": 0.0, "true": 1.0}

Place = Callable[[int], str]  # describes where a row is in its file


class Words(NamedTuple):
    """A column of text: for each row the number of its value, -1 if it is missing.

    Examples
    --------
    >>> Words.of(["red", None, "blue", "red"])
    Words(codes=array([ 0, -1,  1,  0], dtype=int32), values=('red', 'blue'))
    """

    codes: NDArray[np.int32]
    values: tuple[str, ...]

    @classmethod
    def of(cls, cells: Sequence[str | None]) -> "Words":
        """Return the column of these cells."""
        known: dict[str | None, int] = {}
        codes = [-1 if cell is None else known.setdefault(cell, len(known)) for cell in cells]
        return cls(np.array(codes, dtype=np.int32), tuple(map(str, known)))

    def strings(self) -> NDArray[Any]:
        """Return the text of each row; missing text is empty."""
        return np.array([*self.values, ""])[self.codes]


Column = NDArray[Any] | Words  # float64 (NaN: missing), datetime64 (NaT: missing), or text


class Table:
    """Rows of named columns of numbers, text and dates.

    `Preparer` turns it into a matrix. Rows are chosen like those of an array, so that
    scikit-learn can split a table.

    Parameters
    ----------
    columns : mapping of str to Column
        All of the same length, at least one.
    forms : mapping of str to str, optional
        How the dates of a column were written, for example "day-month-year".
    place : callable, optional
        Says where a row comes from, for messages; by default "row 1" for the first.

    Examples
    --------
    >>> table = Table({"kilos": np.array([4.0, 20.5]), "kind": Words.of(["cat", "dog"])})
    >>> table, table[1:]
    (Table(2 x 2: kilos number, kind text), Table(1 x 2: kilos number, kind text))
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        forms: Mapping[str, str] | None = None,
        place: Place | None = None,
    ) -> None:
        self.columns, self.forms = dict(columns), dict(forms or {})
        self.place: Place = place or _row
        sizes = {len(_rows(column)) for column in self.columns.values()}
        if len(sizes) != 1:
            raise ValueError(f"columns must have one length, got {sorted(sizes)}")
        self.shape = sizes.pop(), len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns)

    @property
    def kinds(self) -> dict[str, str]:
        """For each column "number", "text" or "date"."""
        return {name: kind_of(column) for name, column in self.columns.items()}

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> "Table":
        if isinstance(rows, tuple):  # scikit-learn's table[rows, ...]
            rows = rows[0]
        return Table({name: take(it, rows) for name, it in self.columns.items()}, self.forms)

    def __repr__(self) -> str:
        held = ", ".join(f"{name} {kind}" for name, kind in self.kinds.items())
        return f"Table({self.shape[0]} x {self.shape[1]}: {held})"


def _row(row: int) -> str:
    return f"row {row + 1}"


def _rows(column: Column) -> NDArray[Any]:
    return column.codes if isinstance(column, Words) else column


def take(column: Column, rows: Any) -> Column:
    """Return some rows of a column."""
    if isinstance(column, Words):
        return Words(column.codes[rows], column.values)
    chosen: NDArray[Any] = column[rows]
    return chosen


def kind_of(column: Column) -> str:
    """Return "number", "text" or "date"."""
    if isinstance(column, Words):
        return "text"
    return "date" if column.dtype.kind == "M" else "number"


def missing_in(column: Column) -> NDArray[np.bool_]:
    """Return which rows are missing."""
    if isinstance(column, Words):
        return column.codes < 0
    return np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)


def as_truth(words: Words) -> NDArray[np.float64] | None:
    """Return 0 and 1 if all values are true or false, in any case; otherwise None."""
    values = [TRUTH.get(value.lower()) for value in words.values]
    if not values or None in values:
        return None
    return np.array([*values, np.nan], dtype=np.float64)[words.codes]


def column_of(table: Table, name: str, kind: str, form: str | None = None) -> Column:
    """Return a column that must exist and be of a kind, or can be read as one.

    `form` is how dates are written, where they are still text.
    """
    if name not in table.columns:
        raise no_such("column", name, table.names)
    column = table.columns[name]
    if kind_of(column) == kind:
        return column
    if missing_in(column).all():  # nothing is known: any kind
        return _nothing(kind, len(table))
    if isinstance(column, Words):
        if kind == "number" and (truth := as_truth(column)) is not None:
            return truth
        if kind == "date" and form is not None:
            return _as_dates(table, name, column, form)
    plural = {"number": "numbers", "text": "text", "date": "dates"}
    raise DataError(
        f"the column {name!r} holds {plural[kind_of(column)]}, but held {plural[kind]} in training"
    )


def _nothing(kind: str, n: int) -> Column:
    if kind == "text":
        return Words(np.full(n, -1, dtype=np.int32), ())
    return np.full(n, "NaT", dtype=MOMENT) if kind == "date" else np.full(n, np.nan)


def _as_dates(table: Table, name: str, column: Words, form: str) -> NDArray[Any]:
    dates, odd = moments(column.values, form)
    rows = np.flatnonzero(np.isin(column.codes, odd))
    if rows.size:
        value = column.values[column.codes[rows[0]]]
        raise DataError(
            f"{table.place(int(rows[0]))}, column {name!r}: {value!r} is not a date written as "
            f"{form}, as in training"
        )
    known: NDArray[Any] = np.append(dates, np.datetime64("NaT", "us"))[column.codes]
    return known
