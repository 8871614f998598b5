"""Validate arguments, with errors that name the argument and its value."""

from typing import Any

import numpy as np

__all__ = [
    "brief",
    "is_exactly",
    "legible",
    "not_negative",
    "number",
    "positive",
    "positive_count",
    "share",
    "shown",
    "whole",
]

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
