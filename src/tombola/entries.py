"""Read the entries of a state that may hold anything, with errors that name them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.archive import CheckpointError
from tombola.validation import is_exactly, shown

__all__ = ["LARGEST_COUNT", "Entry", "is_text"]

LARGEST_COUNT = 2**60  # what a counter may have reached: 36 years at one a nanosecond


class Entry:
    """A dict inside a state; reading checks types and ranges, and errors name the entry.

    Parameters
    ----------
    value : Any
        What should be a dict with strings as keys.
    name : str, default=""
        Where it is in the state; "" for the state itself.

    Raises
    ------
    CheckpointError
        By every method, if the state does not hold what was asked for.

    Examples
    --------
    >>> entry = Entry({"rule": {"epoch": 7}})
    >>> entry.entry("rule").whole("epoch", 0, 5)
    Traceback (most recent call last):
    tombola.archive.CheckpointError: rule.epoch must be an integer from 0 to 5, got 7 of type int
    """

    def __init__(self, value: Any, name: str = "") -> None:
        if not isinstance(value, Mapping):
            raise CheckpointError(f"{name or 'a state'} must be a dict, got {type(value).__name__}")
        self.value = value
        self._name = name

    def path(self, key: str) -> str:
        """Return the full name of an entry."""
        return f"{self._name}.{key}" if self._name else key

    def get(self, key: str) -> Any:
        """Return an entry, which must be there."""
        if key not in self.value:
            raise CheckpointError(f"the state is incomplete: it has no {self.path(key)}")
        return self.value[key]

    def require(self, key: str, good: Any, rule: str) -> None:
        """Raise an error that says what an entry must be, unless it is good.

        `good` may be an array of bool: the error then names the first element that is not.
        """
        if np.all(good):
            return
        name, value = self.path(key), self.get(key)
        if np.ndim(good):
            at = np.unravel_index(np.argmin(good), np.shape(good))
            name, value = f"{name}[{', '.join(map(str, at))}]", value[at].item()
        raise CheckpointError(f"{name} must be {rule}, got {shown(value)}")

    def exactly(self, key: str, expected: str | float) -> None:
        """Require an entry of this type and value."""
        self.require(key, is_exactly(self.get(key), expected), repr(expected))

    def whole(self, key: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
        """Return an integer entry from `least` to `most`."""
        value = self.get(key)
        good = type(value) is int and least <= value <= most
        self.require(key, good, f"an integer from {least} to {most}")
        return int(value)

    def number(self, key: str, least: float = -math.inf, most: float = math.inf) -> float:
        """Return a float entry from `least` to `most`; NaN is none."""
        value = self.get(key)
        good = type(value) is float and least <= value <= most
        self.require(key, good, f"a float from {least} to {most}")
        return float(value)

    def flag(self, key: str) -> bool:
        """Return a bool entry."""
        value = self.get(key)
        self.require(key, type(value) is bool, "a bool")
        return bool(value)

    def array(self, key: str, dtype: Any, *shape: int | None) -> NDArray[Any]:
        """Return an array entry of this type and shape, in which None stands for any length."""
        value = self.get(key)
        good = type(value) is np.ndarray and value.dtype == dtype and value.ndim == len(shape)
        good = good and all(want in (None, it) for want, it in zip(shape, value.shape, strict=True))
        sizes = " x ".join("any" if size is None else str(size) for size in shape)
        self.require(key, good, f"an array of {sizes} {np.dtype(dtype)}")
        return np.asarray(value)

    def numbers(
        self, key: str, *shape: int | None, least: float = -math.inf, most: float = math.inf
    ) -> NDArray[np.float64]:
        """Return an array entry of finite float64 from `least` to `most`."""
        values = self.array(key, np.float64, *shape)
        with np.errstate(invalid="ignore"):
            good = np.isfinite(values) & (values >= least) & (values <= most)
        self.require(key, good, f"finite and from {least:g} to {most:g}")
        return values

    def texts(self, key: str) -> list[str]:
        """Return an entry that is a list of strings that a file can hold."""
        value = self.get(key)
        self.require(key, isinstance(value, list) and all(map(is_text, value)), "a list of texts")
        return list(value)

    def entry(self, key: str) -> "Entry":
        """Return a dict entry."""
        return Entry(self.get(key), self.path(key))

    def entries(self, key: str) -> list["Entry"]:
        """Return the dicts of a list entry."""
        value = self.get(key)
        self.require(key, isinstance(value, list), "a list")
        return [Entry(one, f"{self.path(key)}.{k}") for k, one in enumerate(value)]


def is_text(value: Any) -> bool:
    """Return whether it is a string without half a surrogate pair, which no file can hold."""
    return isinstance(value, str) and value == value.encode(errors="replace").decode()
