"""What comes into an index from outside: weights and items, or an error that says what is wrong."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.index.layout import LIMIT
from tombola.index.setting import first_unfit

__all__ = [
    "check_fit",
    "check_item",
    "check_items",
    "check_real",
    "check_sizes",
    "is_plain",
    "item_numbers",
    "one_dimension",
    "real_numbers",
    "whole_numbers",
]


def is_plain(values: Any, dtype: Any) -> bool:
    """Return whether this is an array that the kernels take as it is."""
    return (
        type(values) is np.ndarray
        and values.dtype == dtype
        and values.ndim == 1
        and values.flags.c_contiguous
    )


def one_dimension(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array of one dimension in the layout of the kernels; a number becomes one entry."""
    try:
        array = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} must have one dimension: {error}") from None
    if array.ndim > 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    if array.ndim == 1 and array.flags.c_contiguous:  # the layout that the kernels are compiled for
        return array
    return np.ascontiguousarray(array.reshape(-1))


def item_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return item numbers as int64, or raise a TypeError; the range is checked later."""
    array = one_dimension(name, values)
    if array.dtype == np.int64:
        return array
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind == "u":
        array = np.minimum(array.astype(np.uint64), np.uint64(2**63 - 1))
    elif array.dtype.kind != "i":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    return array.astype(np.int64)


def check_item(name: str, items: NDArray[np.int64], position: int, n: int) -> None:
    """Raise an IndexError if the item at a position is not one of n."""
    if not 0 <= items[position] < n:
        raise IndexError(
            f"{name}[{position}] is {items[position]}, out of range for an index of {n} items"
        )


def check_items(name: str, items: NDArray[np.int64], n: int) -> None:
    """Raise an IndexError at the first item that is not one of n."""
    outside = (items < 0) | (items >= n)
    if outside.any():
        check_item(name, items, int(outside.argmax()), n)


def check_sizes(**arrays: NDArray[Any]) -> None:
    """Raise a ValueError that names both if two arrays have different lengths."""
    (first, one), (second, other) = arrays.items()
    if one.size != other.size:
        raise ValueError(
            f"{first} and {second} must have the same length, got {one.size} and {other.size}"
        )


def real_numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return numbers as a new array of float64; their range is checked later."""
    array = one_dimension(name, values)
    if array.dtype.kind not in "fiu" and array.size:
        raise TypeError(f"{name} must hold numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def check_real(name: str, values: NDArray[np.float64]) -> None:
    """Raise a ValueError at the first value that is negative or not finite."""
    if values.size and not (values.min() >= 0 and values.max() < np.inf):
        j = int(np.argmin((values >= 0) & (values < np.inf)))
        raise ValueError(f"{name}[{j}] is {values[j]}: weights must be finite and not negative")


def whole_numbers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return weights as int64; only their sign remains to be checked."""
    array = one_dimension(name, values)
    if array.dtype == np.int64:
        return array
    if array.dtype.kind == "O" and all(type(value) is int for value in array):
        wrong = np.array([abs(value) > LIMIT for value in array], dtype=bool)
        reason = "beyond the limit of 2^62"
    elif array.dtype.kind == "f":
        wrong = ~(np.isfinite(array) & (np.floor(array) == array))
        reason = "not a whole number"
        if not wrong.any():
            wrong, reason = np.abs(array) > LIMIT, "beyond the limit of 2^62"
    elif array.dtype.kind in "iu":
        wrong = array > LIMIT
        reason = "beyond the limit of 2^62"
    else:
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if wrong.any():
        position = int(wrong.argmax())
        raise ValueError(f"{name}[{position}] is {array[position]}, {reason}")
    return array.astype(np.int64)


def check_fit(new: NDArray[np.int64], total: int, first: int = 0) -> None:
    """Raise a ValueError at the first weight that is negative or makes the total too large."""
    j = first_unfit(new, total)
    if j < 0:
        return
    if new[j] < 0:
        raise ValueError(f"weights[{first + j}] is {new[j]}, but weights must not be negative")
    raise ValueError(
        f"weights[{first + j}] is {new[j]} and brings the total beyond the limit of 2^62"
    )
