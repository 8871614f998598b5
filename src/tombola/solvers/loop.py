"""The loop of the paper's Figure 1: draw, step, feed back. All solvers run in it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import by_type, kernel
from tombola.gauge import record_one
from tombola.samplers.compiled import draw_one, update_one

__all__ = ["advance", "step", "take_step"]


@by_type
def step(run: Any) -> Any:
    """Take the solver's step with the items drawn; return the first of a bad loss, or -1."""


@kernel
def advance(run: Any, board: Any, gauge_sums: NDArray[np.float64], n: Any, rounds: Any) -> Any:
    """Run rounds of Figure 1; return the place in the draw of the first bad loss, or -1."""
    for _ in range(rounds):
        for b in range(run.items.size):
            run.items[b], run.chances[b] = draw_one(board)
            run.importances[b] = 1.0 / (n * run.chances[b])
        wrong = step(run)
        if wrong >= 0:
            return wrong
        for b in range(run.items.size):
            record_one(gauge_sums, n, run.chances[b], run.losses[b])
            update_one(board, run.items[b], run.chances[b], run.losses[b])
    return -1


@kernel
def take_step(run: Any) -> Any:
    """Take one step, for the loop in Python."""
    return step(run)
