"""Entries of the states of `tombola train`, with errors that name them."""

import math
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.checkpoint import CheckpointError

__all__ = [
    "array_in",
    "class_in",
    "dict_in",
    "dicts_in",
    "finite_in",
    "number_in",
    "require",
    "whole_in",
]

LARGEST = 2**60  # any count is below


def require(good: bool, state: Mapping[str, Any], name: str, rule: str) -> None:
    """Raise a CheckpointError that names an entry, its value and what it must be."""
    if not good:
        raise CheckpointError(f"{name} must be {rule}, got {_shown(state.get(name))}")


def class_in(state: Mapping[str, Any], name: str) -> None:
    """Refuse a state of another class."""
    value = state.get("class")
    require(isinstance(value, str) and value == name, state, "class", repr(name))


def whole_in(state: Mapping[str, Any], name: str, most: int = LARGEST) -> int:
    """Return an integer entry from 0 to `most`."""
    value = state.get(name)
    good = type(value) is int and 0 <= value <= most
    require(good, state, name, f"an integer from 0 to {most}")
    return int(value)  # type: ignore[arg-type]


def number_in(state: Mapping[str, Any], name: str) -> float:
    """Return a float entry that is finite and not negative."""
    value = state.get(name)
    good = type(value) is float and 0 <= value < math.inf
    require(good, state, name, "a finite number that is not negative")
    return float(value)  # type: ignore[arg-type]


def dict_in(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a dict entry."""
    value = state.get(name)
    require(isinstance(value, dict), state, name, "a dict")
    return dict(value)  # type: ignore[arg-type]


def dicts_in(state: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return an entry that is a list of dicts."""
    value = state.get(name)
    good = isinstance(value, list) and all(isinstance(it, dict) for it in value)
    require(good, state, name, "a list of dicts")
    return list(value)  # type: ignore[arg-type]


def array_in(
    state: Mapping[str, Any], name: str, dtype: Any, shape: tuple[int | None, ...]
) -> NDArray[Any]:
    """Return an array entry of this type and shape, in which None stands for any length."""
    value: Any = state.get(name)
    good = isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == len(shape)
    good = good and all(want in (None, it) for want, it in zip(shape, value.shape, strict=True))
    sizes = " x ".join("any" if size is None else str(size) for size in shape)
    require(good, state, name, f"an array of {sizes} {np.dtype(dtype)}")
    return np.asarray(value)


def finite_in(
    state: Mapping[str, Any], name: str, shape: tuple[int | None, ...], least: float = -math.inf
) -> NDArray[np.float64]:
    """Return an array entry of finite float64, none below `least`; None stands for any length."""
    values = array_in(state, name, np.float64, shape)
    good = np.isfinite(values) & (values >= least)
    if not good.all():
        at = int(np.argmin(good.ravel()))
        raise CheckpointError(f"{name}[{at}] must be finite and in range, got {values.flat[at]}")
    return values


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        start = reprlib.repr(value.ravel()[:4].tolist())
        return f"an array of {value.dtype} of shape {value.shape}, {start}"
    return reprlib.repr(value)
