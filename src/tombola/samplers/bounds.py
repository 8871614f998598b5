"""Numbers for items, such as bounds on squared losses: their validation, and the unit of losses."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.index.real import power_of_two_near
from tombola.state import derived

__all__ = [
    "as_argument",
    "bound_unit",
    "check_numbers",
    "checked_bounds",
    "numbers_for_items",
    "unit_for",
]


def checked_bounds(bound: ArrayLike, n: int) -> Any:
    """Return one bound, or one for each of n items, or raise an error that names the problem."""
    bounds = numbers_for_items("bound", bound, n)
    if not bounds.any():
        raise ValueError("bound is 0: a bound on squared losses must be positive")
    return bounds


def numbers_for_items(
    name: str, values: ArrayLike, n: int, *, positive: bool = False
) -> NDArray[np.float64]:
    """Return one number, or one for each of n items: finite, and not negative or positive."""
    try:
        if np.iscomplexobj(values):
            raise TypeError
        numbers = np.array(values, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, got {values!r}") from None
    if numbers.size != 1 and numbers.size != n:
        raise ValueError(
            f"{name} must be one number or one for each of {n} items, got {numbers.size}"
        )
    check_numbers(name, numbers, positive=positive)
    return numbers


def check_numbers(name: str, numbers: NDArray[np.float64], *, positive: bool = False) -> None:
    """Raise an error that names the first number that is not finite, or too small."""
    wrong = ~(np.isfinite(numbers) & ((numbers > 0) if positive else (numbers >= 0)))
    if wrong.any():
        place = np.unravel_index(int(wrong.argmax()), numbers.shape)
        raise ValueError(
            f"{name}[{', '.join(map(str, place))}] is {numbers[place]}, not finite and "
            f"{'above 0' if positive else 'at least 0'}"
        )


def as_argument(numbers: NDArray[np.float64]) -> Any:
    """Return validated numbers as an argument of a constructor: an array, or the only one."""
    return numbers if numbers.size > 1 else float(numbers[0])


def bound_unit() -> Any:
    """Declare the unit of losses that a rule with a bound has; see `unit_for`."""
    return derived("what losses are multiplied by: a power of two near 1 / sqrt(L)")


def unit_for(bounds: Any) -> float:
    """Return a power of two near 1 / sqrt(L), for the largest L, as the unit of losses."""
    return 1.0 / float(power_of_two_near(math.sqrt(float(np.max(bounds)))))
