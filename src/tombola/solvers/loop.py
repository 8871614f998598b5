"""The loop of the paper's Figure 1: draw, step, feed back. Every solver runs in it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import by_type, kernel
from tombola.compiling.records import Record
from tombola.gauge import record_one
from tombola.samplers.compiled import draw_one, update_one

__all__ = ["Batch", "advance", "look_once", "new_batch", "step", "step_once"]


class Batch(NamedTuple):
    """The items drawn in a round, and what is fed back for them."""

    items: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    importances: NDArray[np.float64]
    losses: NDArray[np.float64]  # written by the step


def new_batch(size: int) -> Batch:
    """Return an empty batch of this size."""
    return Batch(np.zeros(size, dtype=np.int64), np.ones(size), np.ones(size), np.zeros(size))


@by_type
def step(run: Any) -> Any:
    """Take the solver's step with the batch; return the position of the first bad loss, or -1."""


@by_type
def look(run: Any) -> Any:
    """Look at all items, where the run does so now; return whether it did."""


@by_type
def tell(run: Any, state: Any) -> Any:
    """Tell the sampler what the run saw of all items."""


@by_type
def ended(run: Any) -> Any:
    """Return whether the run is as close to the optimum as it was asked to be."""


@kernel
def advance(run: Any, state: Any, tally: Record, n: Any, rounds: Any) -> Any:
    """Run rounds with a compiled sampler; return the position of the first bad loss, or -1."""
    batch = run.batch
    for _ in range(rounds):
        if look(run):
            tell(run, state)
        if ended(run):
            break
        tally[0].rounds += 1
        for b in range(batch.items.size):
            batch.items[b], batch.probabilities[b] = draw_one(state)
            batch.importances[b] = 1.0 / (n * batch.probabilities[b])
        wrong = step(run)
        if wrong >= 0:
            return wrong
        for b in range(batch.items.size):
            record_one(tally, n, batch.probabilities[b], batch.losses[b])
            update_one(state, batch.items[b], batch.probabilities[b], batch.losses[b])
    return -1


@kernel
def look_once(run: Any) -> Any:
    """Look at all items if that is due, for samplers that are called from Python."""
    return look(run)


@kernel
def step_once(run: Any) -> Any:
    """Take one step, for samplers that are called from Python."""
    return step(run)
