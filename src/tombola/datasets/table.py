"""Tables: columns of numbers, text and dates, by name, before they become a matrix."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.datasets.base import DataError, no_such

__all__ = ["Column", "Table", "Words", "as_table", "kind_of", "missing_in", "take"]

MOMENT = "datetime64[us]"  # what dates are kept as


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

    Examples
    --------
    >>> table = Table({"kilos": np.array([4.0, 20.5]), "kind": Words.of(["cat", "dog"])})
    >>> table, table[1:]
    (Table(2 x 2: kilos number, kind text), Table(1 x 2: kilos number, kind text))
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self.columns = dict(columns)
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
        return Table({name: take(column, rows) for name, column in self.columns.items()})

    def __repr__(self) -> str:
        held = ", ".join(f"{name} {kind}" for name, kind in self.kinds.items())
        return f"Table({self.shape[0]} x {self.shape[1]}: {held})"

    def without(self, *names: str) -> "Table":
        """Return the table without some columns."""
        return Table({name: it for name, it in self.columns.items() if name not in names})


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


# --- frames -------------------------------------------------------------------------------------


def as_table(X: Any) -> Table | None:
    """Return a table, or a pandas frame as a table; None for anything else."""
    if isinstance(X, Table):
        return X
    if not (hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "iloc")):
        return None
    names = list(map(str, X.columns))
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice is not None:
        raise DataError(f"the frame has two columns named {twice!r}")
    if not names:
        raise DataError("the frame has no columns")
    return Table({name: _column(X.iloc[:, j]) for j, name in enumerate(names)})


def _column(series: Any) -> Column:
    """Return a column of a pandas frame."""
    kind = getattr(series.dtype, "kind", "O")
    if kind in "fiub":
        return np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "M":
        if getattr(series.dtype, "tz", None) is not None:
            series = series.dt.tz_convert(None)
        return np.asarray(series.to_numpy(), dtype=MOMENT)
    gone = series.isna().to_numpy()
    cells = zip(series.to_numpy(dtype=object), gone, strict=True)
    return Words.of([None if lost else str(cell) for cell, lost in cells])


def column_of(table: Table, name: str, kind: str) -> Column:
    """Return a column that must exist and be of a kind."""
    if name not in table.columns:
        raise no_such("column", name, table.names)
    column = table.columns[name]
    if kind_of(column) == kind:
        return column
    if missing_in(column).all():  # nothing known: any kind
        n = len(table)
        empty: dict[str, Column] = {"text": Words(np.full(n, -1, dtype=np.int32), ()),
                 "date": np.full(n, "NaT", dtype=MOMENT)}  # fmt: skip
        return empty.get(kind, np.full(n, np.nan))
    plural = {"number": "numbers", "text": "text", "date": "dates"}
    raise DataError(
        f"the column {name!r} holds {plural[kind_of(column)]}, but held {plural[kind]} when the "
        "preparation was fitted"
    )
