"""What the checks require of draws, distributions and errors."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tombola.draws import Draw

__all__ = [
    "check_distribution",
    "check_form",
    "check_refusal",
    "check_usable",
    "close",
    "error_text",
    "promise",
    "same",
]


def promise(kept: bool, message: str) -> None:
    """Raise an AssertionError unless a promise is kept."""
    if not kept:
        raise AssertionError(message)


def close(a: Any, b: Any, tolerance: float = 1e-12) -> bool:
    """Return whether two arrays are equal up to a relative tolerance."""
    return bool(np.allclose(a, b, rtol=tolerance, atol=0))


def same(a: Any, b: Any) -> bool:
    """Return whether two nested states are equal to the byte."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) or (a != a and b != b)


def check_distribution(probabilities: Any, n: int, when: str) -> None:
    """Check that an array is a distribution over n items."""
    promise(
        isinstance(probabilities, np.ndarray) and probabilities.dtype == np.float64,
        f"probabilities() must return an array of float64, got {type(probabilities).__name__}",
    )
    promise(
        probabilities.shape == (n,),
        f"probabilities() has shape {probabilities.shape} for {n} items",
    )
    wrong = ~(np.isfinite(probabilities) & (probabilities >= 0))
    worst = int(np.argmax(wrong))
    promise(not wrong.any(), f"{when}, the probability of item {worst} is {probabilities[worst]}")
    total = float(probabilities.sum())
    promise(abs(total - 1) <= 1e-9, f"{when}, probabilities() sums to {total} instead of 1")


def check_form(draw: Any, size: int, n: int) -> None:
    """Check that a draw has the right type, size and range, and cannot be changed."""
    promise(isinstance(draw, Draw), f"draw() must return a tombola.Draw, got {type(draw)}")
    promise(draw.size == size, f"draw({size}) returned a draw of size {draw.size}")
    promise(draw.n == n, f"a draw from a sampler over {n} items has n = {draw.n}")
    items, probabilities = draw.indices, draw.probabilities
    promise(
        items.dtype == np.int64 and probabilities.dtype == np.float64,
        f"indices and probabilities have types {items.dtype} and {probabilities.dtype} "
        "instead of int64 and float64",
    )
    promise(bool(((items >= 0) & (items < n)).all()), "an item out of range was drawn")
    promise(
        bool(((probabilities > 0) & (probabilities <= 1)).all()),
        "a draw has a probability outside (0, 1]",
    )
    promise(
        not items.flags.writeable and not probabilities.flags.writeable, "a draw can be changed"
    )
    promise(close(draw.importances, 1 / (n * probabilities)), "importances are not 1 / (n * p)")


def check_usable(sampler: Any, n: int, when: str) -> None:
    """Check that a sampler can still draw from a distribution."""
    check_distribution(sampler.probabilities(), n, when)
    draw = sampler.draw(2)
    check_form(draw, 2, n)
    promise(bool(np.isfinite(draw.importances).all()), f"{when}, importances are not finite")


def error_text(call: Any, arguments: tuple[Any, ...], kind: type[Exception], what: str) -> str:
    """Check that a call raises an error of the right kind; return its text."""
    try:
        call(*arguments)
    except Exception as error:
        promise(
            isinstance(error, kind),
            f"{what} must raise a {kind.__name__}, raised {type(error).__name__}: {error}",
        )
        return str(error)
    raise AssertionError(f"{what} was accepted, but must raise a {kind.__name__}")


def check_refusal(
    sampler: Any, call: Any, arguments: tuple[Any, ...], kind: type[Exception], what: str
) -> str:
    """Check that a call raises an error and leaves the state unchanged; return the error's text."""
    before = sampler.state_dict()
    text = error_text(call, arguments, kind, what)
    promise(same(before, sampler.state_dict()), f"{what} was refused, but the state has changed")
    return text
