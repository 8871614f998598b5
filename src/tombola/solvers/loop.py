"""The loop of the paper's Figure 1: draw, step, feed back. Every solver runs in it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import by_type, kernel
from tombola.compiling.records import Record
from tombola.gauge import record_one
from tombola.samplers.compiled import draw_one, update_one

__all__ = [
    "Batch",
    "advance",
    "ended",
    "look",
    "look_once",
    "move",
    "new_batch",
    "prefetch_item",
    "step",
    "step_once",
    "tell",
]


class Batch(NamedTuple):
    """The items drawn in a round, what is fed back for them, and the items of the next round."""

    items: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    importances: NDArray[np.float64]
    losses: NDArray[np.float64]  # written by the step
    next_items: NDArray[np.int64]
    next_probabilities: NDArray[np.float64]


def new_batch(size: int) -> Batch:
    """Return an empty batch of this size."""
    items, ones = np.zeros(size, dtype=np.int64), np.ones(size)
    return Batch(items, ones, ones.copy(), np.zeros(size), items.copy(), ones.copy())


@by_type
def step(run: Any) -> Any:
    """Compute the losses of the batch; return the position of the first bad one, or -1.

    The step may end here, or with `move`.
    """


@by_type
def move(run: Any) -> None:
    """Complete the step: what does not change the losses."""


@by_type
def prefetch_item(run: Any, item: Any) -> None:
    """Prefetch what the step reads of an item."""


@by_type
def look(run: Any) -> Any:
    """Look at all items, where the run does so now; return whether it did.

    It comes before the draw, and before `move`: a run has one or the other.
    """


@by_type
def tell(run: Any, state: Any) -> Any:
    """Tell the sampler what the run saw of all items."""


@by_type
def ended(run: Any) -> Any:
    """Return whether the run is as close to the optimum as it was asked to be."""


@kernel(releases_gil=True)
def advance(run: Any, state: Any, tally: Record, n: Any, rounds: Any) -> Any:
    """Run rounds with a compiled sampler; return the position of the first bad loss, or -1.

    The next items are drawn before the move, which hides the time to fetch them from memory. Other
    Python threads go on meanwhile.
    """
    batch, left = run.batch, rounds
    more = left > 0 and draw_ahead(run, state)
    while more:
        left -= 1
        take(batch, n)
        tally[0].rounds += 1
        wrong = step(run)
        if wrong >= 0:
            return wrong
        for b in range(batch.items.size):
            update_one(state, batch.items[b], batch.probabilities[b], batch.losses[b])
        more = left > 0 and draw_ahead(run, state)
        for b in range(batch.items.size):
            record_one(tally, n, batch.probabilities[b], batch.losses[b])
        move(run)
    return -1


@kernel(inline=True)
def draw_ahead(run: Any, state: Any) -> Any:
    """Draw the items of the next round; return whether there is one."""
    if look(run):
        tell(run, state)
    if ended(run):
        return False
    batch = run.batch
    for b in range(batch.items.size):
        batch.next_items[b], batch.next_probabilities[b] = draw_one(state)
        prefetch_item(run, batch.next_items[b])
    return True


@kernel(inline=True)
def take(batch: Batch, n: Any) -> None:
    """Begin the round of the items drawn ahead."""
    for b in range(batch.items.size):
        batch.items[b] = batch.next_items[b]
        batch.probabilities[b] = batch.next_probabilities[b]
        batch.importances[b] = 1.0 / (n * batch.probabilities[b])


@kernel
def look_once(run: Any) -> Any:
    """Look at all items if that is due, for samplers that are called from Python."""
    return look(run)


@kernel
def step_once(run: Any) -> Any:
    """Take one step, for samplers that are called from Python."""
    wrong = step(run)
    if wrong < 0:
        move(run)
    return wrong
