"""What the runs of several experiments have in common."""

import time
from collections.abc import Callable
from typing import Any

__all__ = ["minimize", "timed"]


def minimize(solver: Any, problem: Any, **options: Any) -> Any:
    """Run a solver; raise KeyboardInterrupt if Ctrl-C stopped it, since rows would be missing."""
    result = solver.minimize(problem, **options)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function makes, and the seconds it takes without compilation."""
    make()  # compiles
    began = time.perf_counter()
    made = make()
    return made, time.perf_counter() - began
