"""Validate arguments, with errors that name the argument and its value."""

from typing import Any

import numpy as np

__all__ = ["number", "whole"]


def number(name: str, value: Any) -> float:
    """Return an argument as a float; raise a TypeError that names it if it is not a number."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    return float(value)


def whole(name: str, value: Any, least: int = 0, below: int | None = None) -> int:
    """Return an argument as an int from `least` to `below` - 1, or raise an error that names it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    if below is not None and not least <= value < below:
        raise ValueError(f"{name} must be from {least} to {below - 1}, got {value}")
    if value < least:
        range_ = "not be negative" if least == 0 else f"be at least {least}"
        raise ValueError(f"{name} must {range_}, got {value}")
    return int(value)
