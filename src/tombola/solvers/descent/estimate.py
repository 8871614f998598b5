"""The gradient estimate of SGD, AdaGrad, SAGA and SVRG, where it is kept as an array.

With B items drawn, u_b = 1 / (n p_b) their importances and y_i the stored slopes of item i (none
for SGD and AdaGrad; from the item's last visit for SAGA, from the last snapshot for SVRG):

    g = (1/B) sum_b u_b (grad_b(w) - grad_b(y)) + mean_i grad_i(y)       unbiased
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.problems.linear import item_slopes
from tombola.solvers.descent.run import GradientRun, StoringRun

__all__ = ["add_item", "replace_slopes", "take_snapshot"]


@kernel(inline=True)
def add_item(run: GradientRun, b: int) -> Any:
    """Add u_b / B (grad_b(w) - grad_b(y)) to g; return |grad_b(w) - grad_b(y)|."""
    model, w, stored, scratch = run.model, run.w, run.stored, run.scratch
    size, outputs = scratch.slopes.shape
    item, share = run.batch.items[b], run.batch.importances[b] / size
    stores = stored.table.size > 0
    scratch.losses[b] = item_slopes(model, w, item, scratch.z, scratch.slopes[b])
    run.progress[0].loss_sum += share * scratch.losses[b]
    squared = 0.0
    for k in range(outputs):
        change = scratch.slopes[b, k] - (stored.table[item, k] if stores else 0.0)
        squared += change * change
        change *= share
        model.rows.add_row(item, change, run.g[k])
        if model.settings[0].intercept:
            run.g[k, w.shape[1] - 1] += change
    return math.sqrt(squared) * model.norms[item]


@kernel
def take_snapshot(run: StoringRun) -> None:
    """Store the slopes of all items at w, and the mean of their gradients."""
    model, w, stored = run.model, run.w, run.stored
    outputs, width = w.shape
    n = stored.table.shape[0]
    run.progress[0].item_gradients += n
    for k in range(outputs):
        for j in range(width):
            stored.mean_gradient[k, j] = 0.0
    for item in range(n):
        item_slopes(model, w, item, run.scratch.z, stored.table[item])
        for k in range(outputs):
            share = stored.table[item, k] / n
            model.rows.add_row(item, share, stored.mean_gradient[k])
            if model.settings[0].intercept:
                stored.mean_gradient[k, width - 1] += share


@kernel(inline=True)
def replace_slopes(run: StoringRun) -> None:
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
