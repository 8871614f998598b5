"""pandas frames as tables."""

from typing import Any

import numpy as np

from tombola.datasets.base import DataError
from tombola.datasets.cells import settled
from tombola.datasets.table import MOMENT, Column, Table, Words

__all__ = ["as_table"]


def as_table(X: Any, *, settle: bool = True) -> Table | None:
    """Return a table, or a pandas frame as a table; None for anything else.

    Parameters
    ----------
    X : object
    settle : bool, default=True
        Whether text that is true, false or a date is taken for what it is.
    """
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
    columns: dict[str, Column] = {}
    forms: dict[str, str] = {}
    for j, name in enumerate(names):
        column = _column(X.iloc[:, j])
        if settle and isinstance(column, Words):
            found, form, odd, _ = settled(column)
            if odd is None:
                column = found
                forms |= {name: form} if form else {}
        columns[name] = column
    return Table(columns, forms)


def _column(series: Any) -> Column:
    """Return a column of a frame."""
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
