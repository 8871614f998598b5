"""Validate arguments, with errors that name the argument and its value."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGEST",
    "brief",
    "check_finite",
    "checked_array",
    "checked_sparse",
    "checked_values",
    "compressed_rows",
    "is_exactly",
    "legible",
    "not_negative",
    "number",
    "positive",
    "positive_count",
    "share",
    "shown",
    "whole",
    "without_duplicates",
]

LARGEST = 2.0**500  # values of data: their squares can be added
LONGEST = 40  # characters of a value in an error message
LONGEST_MESSAGE = 5000  # characters: a path takes up to 4096


def is_exactly(value: Any, expected: str | float | None) -> bool:
    """Return whether a value that may be anything is this one, and of its type."""
    return type(value) is type(expected) and bool(value == expected)


def shown(value: Any) -> str:
    """Return a value that may be anything, and its type, as a few words for an error message.

    Examples
    --------
    >>> shown(3), shown([1, 2]), shown(np.zeros(3))
    ('3 of type int', 'a list', 'an array of float64 of shape (3,)')
    """
    plain = isinstance(value, (str, int, float, np.generic, type(None)))
    return f"{brief(value)} of type {type(value).__name__}" if plain else brief(value)


def brief(value: Any) -> str:
    """Return a value that may be anything as a few words.

    Examples
    --------
    >>> brief(3), brief([1, 2]), brief(10**5000)
    ('3', 'a list', 'one too long to show')
    """
    if isinstance(value, np.ndarray):
        kind = "an array" if type(value) is np.ndarray else f"a {type(value).__name__}"
        return f"{kind} of {value.dtype} of shape {value.shape}"
    if not isinstance(value, (str, int, float, np.generic, type(None))):
        return f"a {type(value).__name__}"  # what it holds may have no end
    try:
        text = repr(value[:LONGEST] if isinstance(value, str) else value)
    except ValueError:  # an integer of thousands of digits
        return "one too long to show"
    return text if len(text) < LONGEST else text[: LONGEST - 4] + " ..."


def legible(message: str) -> str:
    r"""Return a message that may quote anything as one line, without what steers a terminal.

    Examples
    --------
    >>> legible("no entry \x1b[2J\n") == "no entry \ufffd[2J\ufffd"
    True
    >>> len(legible("k" * 10**6))
    5004
    """
    text = message[:LONGEST_MESSAGE]
    text = "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
    return text if len(message) <= LONGEST_MESSAGE else f"{text} ..."


def number(name: str, value: Any) -> float:
    """Return an argument as a float; raise a TypeError that names it if it is not a number."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name} must be a number, got {shown(value)}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be below 1.8e308, got an integer beyond it") from None


def positive(name: str, value: Any) -> float:
    """Return an argument as a float that is positive and finite."""
    given = number(name, value)
    if not 0.0 < given < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return given


def not_negative(name: str, value: Any) -> float:
    """Return an argument as a float that is finite and at least 0."""
    given = number(name, value)
    if not 0.0 <= given < np.inf:
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return given


def share(name: str, value: Any, *, zero: bool = True) -> float:
    """Return an argument as a float from 0 to 1; 0 itself is refused unless `zero`."""
    given = number(name, value)
    if not 0 <= given <= 1 or (given == 0 and not zero):
        range_ = "from 0 to 1" if zero else "above 0 and at most 1"
        raise ValueError(f"{name} must be {range_}, got {value}")
    return given


def positive_count(name: str, value: Any, unit: str) -> int:
    """Return an argument as an int of at least 1; anything else is a ValueError with its unit."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a positive number of {unit}, got {brief(value)}")
    return int(value)


def whole(name: str, value: Any, least: int = 0, below: int | None = None) -> int:
    """Return an argument as an int from `least` to `below` - 1, or raise an error that names it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {shown(value)}")
    if below is not None and not least <= value < below:
        raise ValueError(f"{name} must be from {least} to {below - 1}, got {brief(value)}")
    if value < least:
        range_ = "not be negative" if least == 0 else f"be at least {least}"
        raise ValueError(f"{name} must {range_}, got {value}")
    return int(value)


def checked_sparse(matrix: Any, name: str) -> Any:
    """Return a sparse matrix, or raise an error if it points outside of its shape or arrays.

    Neither our kernels nor scipy's conversions and products check. A matrix without such arrays
    (`lil`, `dok`, `dia`) is returned as CSR.
    """
    if getattr(matrix, "format", None) not in ("csr", "csc", "bsr", "coo"):
        matrix = matrix.tocsr()
    form, (n, d) = matrix.format, matrix.shape
    if form == "coo":
        for line, places, limit in (("row", matrix.row, n), ("col", matrix.col, d)):
            _check_range(places, limit, f"{name}.{line}")
        return matrix
    height, width = matrix.blocksize if form == "bsr" else (1, 1)
    lines, limit = (d, n) if form == "csc" else (n // height, d // width)
    indices, starts = matrix.indices, matrix.indptr
    if (
        starts.shape != (lines + 1,)
        or starts[0] != 0
        or starts[-1] > min(len(indices), len(matrix.data))
        or (starts[1:] < starts[:-1]).any()
    ):
        raise ValueError(
            f"{name}.indptr must be {lines + 1} rising numbers, from 0 to the number of entries"
        )
    _check_range(indices, limit, f"{name}.indices")
    return matrix


def _check_range(places: NDArray[Any], limit: int, name: str) -> None:
    if places.size and not (places.min() >= 0 and places.max() < limit):
        wrong = int(((places < 0) | (places >= limit)).argmax())
        raise ValueError(f"{name}[{wrong}] is {places[wrong]}, not from 0 to {limit - 1}")


def checked_array(values: Any, name: str, dimensions: int) -> NDArray[Any]:
    """Return finite float32 or float64 in C order, or raise an error that says what is wrong."""
    array = checked_values(values, name, dimensions)
    check_finite(array, name)
    return array


def check_finite(matrix: Any, name: str, largest: float = np.inf) -> None:
    """Raise an error that names the first value that is not finite, or beyond the largest.

    The matrix is an array, CSR or CSC.
    """
    values, form = matrix, getattr(matrix, "format", None)
    if form is not None:
        values = matrix.data[: int(matrix.indptr[-1])]  # it may be longer
    wrong = first_infinite(values) if largest == np.inf else first_beyond(values, largest)
    if wrong is None:
        return
    value = values[wrong]
    if form is not None:
        line = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        wrong = (line, int(matrix.indices[wrong]))[:: -1 if form == "csc" else 1]
    large = "one of the numbers so large that their squares overflow: scale the data"
    what = large if np.isfinite(value) else "not finite"
    raise ValueError(f"{name}[{', '.join(map(str, wrong))}] is {value}, {what}")


def compressed_rows(matrix: Any, name: str) -> Any:
    """Return a sparse matrix as CSR without duplicates, or raise an error if it is damaged."""
    return without_duplicates(checked_sparse(matrix, name).tocsr())


def without_duplicates(matrix: Any) -> Any:
    """Return a CSR or CSC matrix whose entries are in order, each place once; a copy if not."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def checked_values(values: Any, name: str, dimensions: int) -> NDArray[Any]:
    """Return float32 or float64 in C order, or raise an error that names what was given."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}")
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got shape {array.shape}")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    return np.ascontiguousarray(array)


def first_infinite(array: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the position of the first value that is infinite or not a number, or None."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):  # one pass without a mask; large values may overflow it
            return None
    wrong = np.argwhere(~np.isfinite(array))
    return tuple(int(k) for k in wrong[0]) if wrong.size else None


def first_beyond(array: NDArray[Any], largest: float) -> tuple[int, ...] | None:
    """Return the position of the first value that is not from -largest to largest, or None."""
    flat = array.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        if np.dot(flat, flat) <= largest * largest:  # one pass without a mask
            return None
    largest = min(largest, float(np.finfo(array.dtype).max))
    wrong = np.argwhere(~(np.abs(array) <= largest))
    return tuple(int(k) for k in wrong[0]) if wrong.size else None
