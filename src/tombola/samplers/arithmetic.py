"""Arithmetic that gives the same result on every machine, for losses of any size."""

from typing import Any

from tombola.compiling import kernel
from tombola.index.real import power_of_two_near
from tombola.state import real

__all__ = ["cube_root", "learnt_unit", "normalised", "pace", "unit_after"]


def learnt_unit() -> Any:
    """Declare the unit of losses that a rule chooses itself; see `unit_after`."""
    return real(
        "what losses are multiplied by: a power of two near 1 / (the first loss); 0: not yet known",
        default=0.0,
    )


@kernel(inline=True)
def normalised(loss: float, unit: Any) -> Any:
    """Return the loss times the unit, clipped at 2^250 so that its square does not overflow."""
    return min(loss * unit, 2.0**250)


@kernel(inline=True)
def unit_after(unit: Any, loss: float) -> Any:
    """Return the unit of losses, which the first loss above 0 sets, and no later one changes."""
    return 1.0 / power_of_two_near(loss) if unit == 0.0 and loss > 0.0 else unit


@kernel(inline=True)
def pace(count: Any, n: int) -> Any:
    """Return the share of the newest value in a mean of `count` earlier ones, at least 1/n."""
    return max(1.0 / (count + 1.0), 1.0 / n)


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
