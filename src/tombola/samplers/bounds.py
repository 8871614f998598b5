"""Validation of bounds on squared losses."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["checked_bounds"]


def checked_bounds(bound: ArrayLike, n: int) -> Any:
    """Return one bound, or one for each of n items, or raise an error that names the problem."""
    try:
        if np.iscomplexobj(bound):
            raise TypeError
        bounds = np.array(bound, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise TypeError(f"bound must hold numbers, got {bound!r}") from None
    if bounds.size != 1 and bounds.size != n:
        raise ValueError(
            f"bound must be one number or one for each of {n} items, got {bounds.size}"
        )
    wrong = ~(np.isfinite(bounds) & (bounds >= 0))
    if wrong.any():
        position = int(wrong.argmax())
        raise ValueError(f"bound[{position}] is {bounds[position]}, not finite and at least 0")
    if not bounds.any():
        raise ValueError("bound is 0: a bound on squared losses must be positive")
    return bounds
