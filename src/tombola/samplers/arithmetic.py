"""Arithmetic that gives the same result on every machine, for losses of any size."""

from typing import Any

from tombola.compiling import kernel
from tombola.index.real import power_of_two_near
from tombola.state import real

__all__ = ["cube_root", "learnt_unit", "normalised", "power_of_two_near"]


def learnt_unit() -> Any:
    """Declare the unit of losses that a rule chooses itself."""
    return real(
        "what losses are multiplied by: a power of two near 1 / (the first loss); 0: not yet known",
        default=0.0,
    )


@kernel(inline=True)
def normalised(loss: float, unit: Any) -> Any:
    """Return the loss times the unit, clipped at 2^250 so that its square does not overflow."""
    return min(loss * unit, 2.0**250)


@kernel
def cube_root(x: Any) -> Any:
    """Return x^(1/3) by Newton's method, with + - * / only: the same digits on every machine."""
    root = 1.0
    for _ in range(100):
        following = (2.0 * root + x / (root * root)) / 3.0
        if following == root:
            break
        root = following
    return root
