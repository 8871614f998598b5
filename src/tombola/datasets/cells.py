"""Columns, which are pyarrow's: numbers, dates or text; and what cells of text stand for."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, types

from tombola.datasets.dates import moments, written_as
from tombola.datasets.reading import Style

__all__ = ["DATE", "NUMBER", "TEXT", "as_column", "as_truth", "coded", "dates_in", "infinite_in",
           "is_clean", "is_text", "is_usable", "kind_of", "missing_in", "numbers_in", "settled",
           "text_of", "words_of"]  # fmt: skip

NUMBER, DATE, TEXT = pa.float64(), pa.timestamp("us"), pa.dictionary(pa.int32(), pa.string())
TRUTH = {"false": 0.0, "true": 1.0}
NUMERIC = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean, types.is_null)
DATED = (types.is_timestamp, types.is_date)


def kind_of(column: Any) -> str:
    """Return "number", "text" or "date"."""
    return {NUMBER: "number", DATE: "date"}.get(column.type, "text")


def is_clean(column: Any) -> bool:
    """Return whether it is sure by the sum that nothing is missing or infinite."""
    if column.null_count:
        return False
    return column.type != NUMBER or math.isfinite(compute.sum(column).as_py() or 0.0)


def missing_in(column: Any) -> NDArray[np.bool_]:
    """Return which rows are missing."""
    if is_clean(column):
        return np.zeros(len(column), dtype=bool)
    gone: NDArray[np.bool_] = column.is_null(nan_is_null=True).to_numpy()
    return gone


def infinite_in(column: Any) -> NDArray[np.bool_]:
    """Return which rows hold an infinite number."""
    if column.type != NUMBER or is_clean(column):
        return np.zeros(len(column), dtype=bool)
    wrong: NDArray[np.bool_] = np.isinf(column.to_numpy())
    return wrong


def is_text(kind: Any) -> bool:
    """Return whether a type of pyarrow is text, or a dictionary of it."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_usable(kind: Any) -> bool:
    """Return whether a type of pyarrow can become numbers, dates or text."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return is_text(kind) or any(it(kind) for it in (*NUMERIC, *DATED, types.is_duration))


def as_column(cells: Any) -> Any:
    """Return cells as numbers, dates in UTC or text; durations become days."""
    if not isinstance(cells, pa.Array | pa.ChunkedArray):
        cells = pa.array(cells, from_pandas=True)
    if isinstance(cells, pa.Array):
        cells = pa.chunked_array([cells])
    if is_text(cells.type):
        return coded(cells, Style())
    if types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    kind = cells.type
    if any(it(kind) for it in DATED):
        unit = pa.timestamp("us", getattr(kind, "tz", None))
        return cells.cast(unit, safe=False).cast(DATE)
    if types.is_duration(kind):
        lengths = cells.cast(pa.duration("us"), safe=False).cast(pa.int64()).cast(NUMBER, False)
        return compute.divide(lengths, 24 * 3600e6)
    return cells.cast(NUMBER, safe=False)


def text_of(codes: NDArray[Any], values: Sequence[str]) -> Any:
    """Return the column of text whose rows have these values; a code of -1 is missing."""
    held = pa.array(values, pa.string())
    codes = codes.astype(np.int32, copy=False)
    indices = pa.array(codes, mask=codes < 0)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, held)])


def words_of(column: Any) -> tuple[NDArray[np.int32], list[str]]:
    """Return the code of each row of text, -1 if it is missing, and the values."""
    whole = column.unify_dictionaries().combine_chunks()
    codes: NDArray[np.int32] = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, whole.dictionary.to_pylist()


def coded(cells: Any, style: Style) -> Any:
    """Return a column of text without blanks around it, and with missing words as missing."""
    if not types.is_dictionary(cells.type):
        view = types.is_string_view(cells.type)
        cells = (cells.cast(pa.large_string()) if view else cells).dictionary_encode()
    codes, words = words_of(cells)
    values: dict[str, int] = {}
    places = [
        -1 if word is None or style.is_missing(word) else
        values.setdefault(word.strip(), len(values)) for word in words
    ]  # fmt: skip
    codes = np.array([*places, -1], dtype=np.int32)[codes]
    used = np.bincount(codes[codes >= 0], minlength=len(values)) > 0
    if not used.all():  # a dictionary may hold more than its rows
        codes = np.append(np.where(used, np.cumsum(used) - 1, -1), -1)[codes]
    return text_of(codes, [value for value, there in zip(values, used, strict=True) if there])


def numbers_in(text: Any, style: Style) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return a column of text as numbers, and the rows that hold something else."""
    codes, words = words_of(text)
    values, odd = style.numbers(words)
    return np.append(values, np.nan)[codes], np.append(odd, False)[codes]


def dates_in(text: Any, form: str) -> tuple[Any, NDArray[np.bool_]]:
    """Return a column of text as dates of a form, and the rows that hold something else."""
    codes, words = words_of(text)
    dates, odd = moments(words, form)
    column = as_column(np.append(dates, np.datetime64("NaT", "us"))[codes])
    return column, np.isin(codes, odd)


def as_truth(text: Any) -> Any | None:
    """Return 0 and 1 if all values are true or false, in any case; otherwise None."""
    codes, words = words_of(text)
    values = [TRUTH.get(word.lower()) for word in words]
    if not values or None in values:
        return None
    return as_column(np.array([*values, np.nan], dtype=np.float64)[codes])


def settled(text: Any, order: str | None = None) -> tuple[Any, Any, str | None, bool]:
    """Return text as truth values or dates, if it holds these, or as it is.

    With the rows that are not dates, the form of the dates if it holds these, and whether they
    could have been read in another order.
    """
    truth = as_truth(text)
    codes, words = words_of(text)
    known = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(words)))
    found = written_as([words[k] for k in known], order) if known.size and truth is None else None
    if found is None:
        return (text if truth is None else truth), np.zeros(len(codes), dtype=bool), None, False
    column, odd = dates_in(text, found[0])
    return column, odd, *found
