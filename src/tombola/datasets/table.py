"""Tables: columns of numbers, text and dates, by name, before they become a matrix."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import interchange

from tombola.datasets import cells
from tombola.datasets.base import DataError, no_such

__all__ = ["Place", "Table", "as_table", "check_type", "column_of", "refuse_other"]

Place = Callable[[int], str]  # describes where a row is in its file
PLURAL = {"number": "numbers", "text": "text", "date": "dates"}


class Table:
    """Rows of named columns of numbers, text and dates.

    `Preparer` turns it into a matrix. Rows are chosen like those of an array, so that
    scikit-learn can split a table.

    Parameters
    ----------
    columns : mapping of str to array
        All of the same length, at least one: of pyarrow, of numpy, or lists. They are kept as
        chunked arrays of pyarrow, of float64, timestamps, or a dictionary of text.
    forms : mapping of str to str, optional
        How the dates of a column were written, for example "day-month-year".
    place : callable, optional
        Says where a row comes from, for messages; by default "row 1" for the first.

    Examples
    --------
    >>> table = Table({"kilos": [4.0, 20.5], "kind": ["cat", "dog"]})
    >>> table, table[1:]
    (Table(2 x 2: kilos number, kind text), Table(1 x 2: kilos number, kind text))
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        forms: Mapping[str, str] | None = None,
        place: Place | None = None,
    ) -> None:
        self.columns = {
            name: it if isinstance(it, pa.ChunkedArray) else cells.as_column(it)
            for name, it in columns.items()
        }
        self.forms = dict(forms or {})
        self.place: Place = place or (lambda row: f"row {row + 1}")
        sizes = {len(column) for column in self.columns.values()}
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
        return {name: cells.kind_of(column) for name, column in self.columns.items()}

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> "Table":
        if isinstance(rows, tuple):  # scikit-learn's table[rows, ...]
            rows = rows[0]
        return self.take(np.arange(len(self))[rows])

    def take(self, rows: NDArray[Any]) -> "Table":
        """Return rows by number, which keep their places."""
        chosen, place = pa.array(rows), self.place  # without the columns of this table
        columns = {name: it.take(chosen) for name, it in self.columns.items()}
        return Table(columns, self.forms, lambda row: place(int(rows[row])))

    def __repr__(self) -> str:
        held = ", ".join(f"{name} {kind}" for name, kind in self.kinds.items())
        return f"Table({self.shape[0]} x {self.shape[1]}: {held})"


def column_of(table: Table, name: str, kind: str, form: str | None = None) -> Any:
    """Return a column that must exist and be of a kind, or can be read as one.

    `form` is how dates are written, where they are still text.
    """
    if name not in table.columns:
        raise no_such("column", name, table.names)
    column, held = table.columns[name], cells.kind_of(table.columns[name])
    if held == kind:
        return column
    if cells.missing_in(column).all():  # nothing is known: any kind
        types = {"text": cells.TEXT, "date": cells.DATE, "number": cells.NUMBER}
        return pa.chunked_array([pa.nulls(len(table), types[kind])])
    if held == "text" and kind == "number" and (truth := cells.as_truth(column)) is not None:
        return truth
    if held == "text" and kind == "date" and form is not None:
        dates, odd = cells.dates_in(column, form)
        refuse_other(table.place, name, column, odd, f"a date written as {form}")
        return dates
    raise DataError(
        f"the column {name!r} holds {PLURAL[held]}, but held {PLURAL[kind]} in training"
    )


def refuse_other(place: Place, name: str, text: Any, odd: Any, what: str) -> None:
    """Refuse the first row of text that is not what the column was in training."""
    if odd.any():
        row = int(odd.argmax())
        raise DataError(
            f"{place(row)}, column {name!r}: {text[row].as_py()!r} is not {what}, as in training"
        )


def check_type(kind: Any, where: str, drop: str = "") -> None:
    """Refuse a column of a type that cannot become numbers, dates or text."""
    if not cells.is_usable(kind):
        raise DataError(
            f"the column {where} holds {kind}: only numbers, booleans, dates and text can be used"
            f"{drop}"
        )


def as_table(X: Any, *, settle: bool = True) -> Table | None:
    """Return a table, or a frame of pandas, polars or another library as a table; else None.

    Parameters
    ----------
    X : object
        A frame has Arrow's protocol `__arrow_c_stream__`, or the older `__dataframe__`.
    settle : bool, default=True
        Whether text that is true, false or a date is taken for what it is.
    """
    if isinstance(X, Table):
        return X
    if not (hasattr(X, "__arrow_c_stream__") or hasattr(X, "__dataframe__")):
        return None
    if hasattr(X, "iloc"):  # of pandas: other objects than text become text
        X = X.set_axis(list(map(str, X.columns)), axis=1).reset_index(drop=True)
        objects = [k for k, kind in enumerate(X.dtypes) if str(kind) == "object"]
        for k in objects:
            X.isetitem(k, X.iloc[:, k].map(str, na_action="ignore"))
        _check_names(X.columns)
    modern = hasattr(X, "__arrow_c_stream__")
    given = pa.table(X) if modern else interchange.from_dataframe(X)
    _check_names(given.column_names)
    columns: dict[str, Any] = {}
    forms: dict[str, str] = {}
    for name, part in zip(given.column_names, given.columns, strict=True):
        check_type(part.type, repr(name))
        columns[name] = cells.as_column(part)
        if settle and cells.is_text(part.type):
            found, odd, form, _ = cells.settled(columns[name])
            if not odd.any():
                columns[name] = found
                forms |= {name: form} if form else {}
    return Table(columns, forms)


def _check_names(names: Any) -> None:
    """Refuse a frame without columns, or with two of one name."""
    if not len(names):
        raise DataError("the frame has no columns")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"the frame has two columns named {name!r}")
        seen.add(name)
