"""The loop of the paper's Figure 1: draw, step, feed back. Every solver runs in it."""

from typing import Any

from tombola.compiling import kernel
from tombola.gauge import Tally, record_one
from tombola.samplers.compiled import Compiled
from tombola.solvers.run import Batch, Run
from tombola.state import Cell

__all__ = ["advance", "look_once", "step_once"]


@kernel(releases_gil=True)
def advance(run: Run, state: Compiled, tally: Cell[Tally], n: Any, rounds: Any) -> Any:
    """Run rounds with a compiled sampler; return the position of the first bad loss, or -1.

    The next items are drawn before the move, which hides the time to fetch them from memory. Other
    Python threads go on meanwhile.
    """
    batch, left, drawn = run.batch, rounds, False
    while True:
        more = left > 0 and draw_ahead(run, state)
        if drawn:
            for b in range(batch.items.size):
                record_one(tally, n, batch.probabilities[b], batch.losses[b])
            run.move()
        if not more:
            return -1
        left, drawn = left - 1, True
        take(batch, n)
        tally[0].rounds += 1
        wrong = run.step()
        if wrong >= 0:
            return wrong
        for b in range(batch.items.size):
            state.update_one(batch.items[b], batch.probabilities[b], batch.losses[b])


@kernel(inline=True)
def draw_ahead(run: Run, state: Compiled) -> Any:
    """Draw the items of the next round; return whether there is one."""
    if run.look():
        run.tell(state)
    if run.ended():
        return False
    batch = run.batch
    for b in range(batch.items.size):
        batch.next_items[b], batch.next_probabilities[b] = state.draw_one()
        run.prefetch_item(batch.next_items[b])
    return True


@kernel(inline=True)
def take(batch: Batch, n: Any) -> None:
    """Begin the round of the items drawn ahead."""
    for b in range(batch.items.size):
        batch.items[b] = batch.next_items[b]
        batch.probabilities[b] = batch.next_probabilities[b]
        batch.importances[b] = 1.0 / (n * batch.probabilities[b])


@kernel
def look_once(run: Run) -> Any:
    """Look at all items if that is due, for samplers that are called from Python."""
    return run.look()


@kernel
def step_once(run: Run) -> Any:
    """Take one step, for samplers that are called from Python."""
    wrong = run.step()
    if wrong < 0:
        run.move()
    return wrong
