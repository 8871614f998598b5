"""The gradient estimate of SGD, AdaGrad, SAGA and SVRG, where it is kept as an array.

With B items drawn, u_b = 1 / (n p_b) their importances and y_i the stored slopes of item i (none
for SGD and AdaGrad; from the item's last visit for SAGA, from the last snapshot for SVRG):

    g = (1/B) sum_b u_b (grad_b(w) - grad_b(y)) + mean_i grad_i(y)       unbiased
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.problems.linear import item_slopes
from tombola.problems.rows import add_row

__all__ = [
    "Scratch",
    "StoredSlopes",
    "add_item",
    "new_scratch",
    "replace_slopes",
    "take_snapshot",
]


class StoredSlopes(NamedTuple):
    """The slopes y of all items and the mean of their gradients; empty for SGD and AdaGrad."""

    table: NDArray[np.float64]  # (n, outputs)
    mean_gradient: NDArray[np.float64]  # (outputs, width)


class Scratch(NamedTuple):
    """Space for slopes and losses of a batch, the inner products of one item, and other ones."""

    slopes: NDArray[np.float64]  # (B, outputs)
    losses: NDArray[np.float64]  # (B,)
    z: NDArray[np.float64]  # (outputs,)
    trial: NDArray[np.float64]  # (outputs,)
    trial_slopes: NDArray[np.float64]  # (outputs,)


def new_scratch(size: int, outputs: int) -> Scratch:
    """Return scratch space for batches of this size."""
    return Scratch(np.zeros((size, outputs)), np.zeros(size), *np.zeros((3, outputs)))


@kernel(inline=True)
def add_item(run: Any, b: Any) -> Any:
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
        add_row(model.rows, item, change, run.g[k])
        if model.settings[0].intercept:
            run.g[k, w.shape[1] - 1] += change
    return math.sqrt(squared) * model.norms[item]


@kernel
def take_snapshot(run: Any) -> None:
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
            add_row(model.rows, item, share, stored.mean_gradient[k])
            if model.settings[0].intercept:
                stored.mean_gradient[k, width - 1] += share


@kernel(inline=True)
def replace_slopes(run: Any) -> None:
    """y_b <- slopes of the items drawn (SAGA); an item drawn twice counts once."""
    model, stored, slopes = run.model, run.stored, run.scratch.slopes
    size, outputs = slopes.shape
    n = stored.table.shape[0]
    for b in range(size):
        item = run.batch.items[b]
        for k in range(outputs):
            change = (slopes[b, k] - stored.table[item, k]) / n
            stored.table[item, k] = slopes[b, k]
            add_row(model.rows, item, change, stored.mean_gradient[k])
            if model.settings[0].intercept:
                stored.mean_gradient[k, run.w.shape[1] - 1] += change
