"""A round of SAGA and SVRG, and the gradient estimate if it is kept as an array.

With B items drawn, u_b = 1 / (n p_b) their importances and y_i the stored slopes of item i (none
for SGD and AdaGrad; from the item's last visit for SAGA, from the last snapshot for SVRG):

    g = (1/B) sum_b u_b (grad_b(w) - grad_b(y)) + mean_i grad_i(y)       unbiased
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.problems.linear import evaluate_items, item_slopes
from tombola.solvers.descent.rates import (
    DIAGONAL,
    SEARCHED,
    diagonal_step,
    examined_rate,
    rate_is_due,
    renewed_rate,
)
from tombola.solvers.descent.run import SearchingRun
from tombola.state import Floats, array, derived

__all__ = [
    "GradientRun",
    "StoringRun",
    "add_item",
    "move_intercept",
    "replace_slopes",
    "take_snapshot",
]


class StoringRun(SearchingRun):
    """A run that may store slopes (SAGA, SVRG), and search its rate."""

    def step(self) -> Any:
        """Visit the items drawn; return the position of the first bad loss, or -1."""
        progress, options, losses = self.progress[0], self.options[0], self.batch.losses
        if options.schedule == SEARCHED and rate_is_due(self):
            self.settle(progress.rounds)
            self.rates[0].rate = renewed_rate(self)
        if options.snapshot_every > 0 and progress.rounds % options.snapshot_every == 0:
            self.settle(progress.rounds)
            take_snapshot(self)
        progress.rounds += 1
        progress.item_gradients += losses.size
        for b in range(losses.size):
            losses[b] = self.visit(b)
            if not losses[b] < math.inf:
                return b
            if options.schedule == SEARCHED:
                rate = examined_rate(self, b)
                if rate < self.rates[0].rate:
                    self.lower_rate(rate)
        return -1

    def visit(self, b: int) -> Any:
        """Compute slopes and z of item b of the batch; return |grad_b(w) - grad_b(y)|."""
        raise NotImplementedError

    def settle(self, now: int) -> None:
        """Bring w to the iterate after round `now`, the last one; by default it is there."""

    def lower_rate(self, rate: float) -> None:
        """Lower the rate, within a round."""
        self.rates[0].rate = rate


class GradientRun(StoringRun):
    """A run that keeps the estimate of the gradient as an array."""

    squares: Floats = array("sum of g_j^2; empty unless the schedule is DIAGONAL", 0.0)
    g: Floats = derived("the estimate; zero between rounds")
    paces: Floats = derived("the rate of each column, relative to that of all; empty: 1")
    centres: Floats = derived("the centre of each column: see `tombola.problems.metric`")

    def visit(self, b: int) -> Any:
        """Add item b to the estimate."""
        return add_item(self, b)


@kernel(inline=True)
def add_item(run: GradientRun, b: int) -> Any:
    """Add u_b / B (grad_b(w) - grad_b(y)) to g; return |grad_b(w) - grad_b(y)|."""
    model, w, stored, scratch = run.model, run.w, run.stored, run.scratch
    size, outputs = scratch.slopes.shape
    item, share = run.batch.items[b], run.batch.importances[b] / size
    stores = stored.table.size > 0
    loss = item_slopes(model, w, item, scratch.z, scratch.slopes[b])
    run.progress[0].loss_sum += share * loss
    squared = 0.0
    for k in range(outputs):
        change = scratch.slopes[b, k] - (stored.table[item, k] if stores else 0.0)
        squared += change * change
        change *= share
        model.rows.add_row(item, change, run.g[k])
        if model.settings[0].intercept:
            run.g[k, w.shape[1] - 1] += change
    return math.sqrt(squared) * model.norms[item]


@kernel(inline=True)
def move_intercept(run: GradientRun, k: int, rate: Any) -> None:
    """Move the intercept of output k, which is not penalised, and set its g to zero."""
    w, g, last = run.w[k], run.g[k], run.w.shape[1] - 1
    if run.options[0].schedule == DIAGONAL:
        run.squares[k, last] += g[last] * g[last]
        root = math.sqrt(run.squares[k, last])
        w[last] = diagonal_step(w[last], g[last], root, rate, 0.0, 0.0)
    else:
        w[last] -= rate * g[last]
    g[last] = 0.0


@kernel
def take_snapshot(run: SearchingRun) -> None:
    """Store the slopes of all items at w, and the mean of their gradients."""
    stored, z = run.stored, run.scratch.z
    run.progress[0].item_gradients += stored.table.shape[0]
    evaluate_items(run.model, run.w, z, stored.table, z[:0], stored.mean_gradient)


@kernel(inline=True)
def replace_slopes(run: SearchingRun) -> None:
    """y_b <- slopes of the items drawn (SAGA); an item drawn twice counts once."""
    model, stored, slopes = run.model, run.stored, run.scratch.slopes
    size, outputs = slopes.shape
    n = stored.table.shape[0]
    for b in range(size):
        item = run.batch.items[b]
        for k in range(outputs):
            change = (slopes[b, k] - stored.table[item, k]) / n
            stored.table[item, k] = slopes[b, k]
            model.rows.add_row(item, change, stored.mean_gradient[k])
            if model.settings[0].intercept:
                stored.mean_gradient[k, run.w.shape[1] - 1] += change
