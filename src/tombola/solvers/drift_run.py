"""Runs of SAGA and SVRG without l1 on sparse rows: all columns shrink and drift alike.

Between two visits a column changes by the regulariser and the mean gradient m alone, so w is kept
as a multiple of one vector and a multiple of m:

    w = factor v - drift m

A round, w <- (w - rate (m + d x)) / (1 + rate l2) with the importance and the change of slopes in
d, changes both numbers, and v in the columns of the rows drawn. A change of m in those columns is
made up for in v. So a round takes O(entries of the rows drawn), for any number of columns. The
intercept is kept as it is.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.compiling.records import Record
from tombola.problems.linear import slopes
from tombola.problems.rows import prefetch_row
from tombola.solvers.estimate import Scratch, StoredSlopes, take_snapshot
from tombola.solvers.loop import Batch
from tombola.solvers.rates import RATE_LIMITS, SEARCHED
from tombola.solvers.run import Limits, Run
from tombola.solvers.search import SEARCH_LIMITS, examined_rate, rate_is_due, renewed_rate

__all__ = ["SMALL", "DriftRun"]

SMALL = 2.0**-30  # a factor below this is multiplied into v, and the drift with it


class _Parts(NamedTuple):
    batch: Batch
    progress: Record  # rounds, item_gradients, loss_sum
    model: Any
    options: Record  # schedule, convexity, snapshot_every, replaces_slopes, curvature, period
    rates: Record
    search: Record  # smoothness, squares, sums, largest; see `tombola.solvers.search`
    w: NDArray[np.float64]  # v, of shape (outputs, width)
    level: Record  # factor, drift
    stored: StoredSlopes
    scratch: Scratch
    changes: NDArray[np.float64]  # scratch, (B, outputs): of the slopes of the rows drawn


class DriftRun(_Parts, Run):
    """w <- (w - rate g) / (1 + rate l2), with w = factor v - drift m."""

    __slots__ = ()

    derived = ("batch", "model", "options", "scratch", "changes")
    limits: ClassVar[Limits] = {
        **RATE_LIMITS,
        **SEARCH_LIMITS,
        "level.factor": (SMALL, 1.0),
        "level.drift": (0.0, math.inf),
    }

    @staticmethod
    def step(run: Any) -> Any:
        """Compute slopes and losses; return the position of the first bad loss, or -1."""
        progress, options, losses = run.progress[0], run.options[0], run.batch.losses
        if rate_is_due(run):
            settle(run)  # so that errors of rounding do not add up
            if options.schedule == SEARCHED:
                run.rates[0].rate = renewed_rate(run)
        if options.snapshot_every > 0 and progress.rounds % options.snapshot_every == 0:
            settle(run)
            take_snapshot(run)
        progress.rounds += 1
        progress.item_gradients += losses.size
        for b in range(losses.size):
            losses[b] = visit(run, b)
            if not losses[b] < math.inf:
                return b
            if options.schedule == SEARCHED:
                run.rates[0].rate = examined_rate(run, b)
        return -1

    @staticmethod
    def move(run: Any) -> None:
        """Set w to (w - rate g) / (1 + rate l2), and replace stored slopes (SAGA)."""
        move_rows(run)
        if run.level[0].factor < SMALL:
            settle(run)

    @staticmethod
    def prefetch_item(run: Any, item: Any) -> None:
        """Prefetch the row."""
        prefetch_row(run.model.rows, item)

    def iterate(self) -> NDArray[np.float64]:
        """Return the present iterate, a copy."""
        w, columns = self.w.copy(), int(self.model.rows.shape[1])
        level, mean = self.level[0], self.stored.mean_gradient
        w[:, :columns] = level.factor * w[:, :columns] - level.drift * mean[:, :columns]
        return w


@kernel(inline=True)
def visit(run: Any, b: Any) -> Any:
    """Compute slopes, loss and change of an item; return |grad_b(w) - grad_b(y)|."""
    model, w, stored, scratch = run.model, run.w, run.stored, run.scratch
    level, item, last = run.level[0], run.batch.items[b], w.shape[1] - 1
    weight, squared = model.weights[item], 0.0
    for k in range(scratch.z.size):
        v, m = two_dots(model.rows, item, w[k], stored.mean_gradient[k])
        scratch.z[k] = level.factor * v - level.drift * m
        if model.settings[0].intercept:
            scratch.z[k] += w[k, last]
    scratch.losses[b] = weight * slopes(model, item, scratch.z, scratch.slopes[b])
    for k in range(scratch.z.size):
        scratch.slopes[b, k] *= weight
        run.changes[b, k] = scratch.slopes[b, k] - stored.table[item, k]
        squared += run.changes[b, k] * run.changes[b, k]
    share = run.batch.importances[b] / run.batch.items.size
    run.progress[0].loss_sum += share * scratch.losses[b]
    return math.sqrt(squared) * model.norms[item]


@kernel(inline=True)
def move_rows(run: Any) -> None:
    """Take the step, in the columns of the rows drawn; an item drawn twice is stored once."""
    model, w, stored, level = run.model, run.w, run.stored, run.level[0]
    size, outputs = run.changes.shape
    n, last, rate = stored.table.shape[0], w.shape[1] - 1, run.rates[0].rate
    shrink = 1.0 / (1.0 + rate * model.settings[0].l2)
    step = rate / level.factor
    if model.settings[0].intercept:
        for k in range(outputs):
            w[k, last] -= rate * stored.mean_gradient[k, last]
    level.factor *= shrink
    level.drift = shrink * (level.drift + rate)
    ratio = level.drift / level.factor
    for b in range(size):
        item, share = run.batch.items[b], run.batch.importances[b] / size
        for k in range(outputs):
            replaced = 0.0
            if run.options[0].replaces_slopes:
                replaced = (run.scratch.slopes[b, k] - stored.table[item, k]) / n
                stored.table[item, k] = run.scratch.slopes[b, k]
            change = share * run.changes[b, k]
            add_to_two(
                model.rows, item, ratio * replaced - step * change, w[k],
                replaced, stored.mean_gradient[k],
            )  # fmt: skip
            if model.settings[0].intercept:
                w[k, last] -= rate * change
                stored.mean_gradient[k, last] += replaced


@kernel
def settle(run: Any) -> None:
    """Write w to v, with a factor of 1 and no drift."""
    w, mean, level = run.w, run.stored.mean_gradient, run.level[0]
    for k in range(w.shape[0]):
        for j in range(w.shape[1] - run.model.settings[0].intercept):
            w[k, j] = level.factor * w[k, j] - level.drift * mean[k, j]
    level.factor, level.drift = 1.0, 0.0


@kernel(inline=True)
def two_dots(rows: Any, item: Any, v: Any, m: Any) -> Any:
    """Return the inner products of a row with two vectors."""
    first = second = 0.0
    for entry in range(np.uint64(rows.starts[item]), np.uint64(rows.starts[item + 1])):
        j, x = np.uint64(rows.columns[entry]), rows.values[entry]
        first += x * v[j]
        second += x * m[j]
    return first, second


@kernel(inline=True)
def add_to_two(rows: Any, item: Any, a: Any, v: Any, b: Any, m: Any) -> None:
    """Add a times a row to v, and b times the row to m."""
    for entry in range(np.uint64(rows.starts[item]), np.uint64(rows.starts[item + 1])):
        j, x = np.uint64(rows.columns[entry]), rows.values[entry]
        v[j] += a * x
        m[j] += b * x
