"""Runs that move only the columns of the rows drawn, for sparse rows with many columns.

What the regulariser and the mean gradient do to a column in the rounds since it was last touched
has a closed form. A column catches up when a row needs it again: lazy, or just-in-time, updates.

Where a column w_j sees v -> c_s soft(v, a_s) in rounds s, with c_s = 1 / (1 + rate_s l2) and
a_s = rate_s l1, the product P of the c_s and the sum Q of a_s / (P before s) are enough: from
round s_0 to now, v -> (P / P_0) soft(v, P_0 (Q - Q_0)).
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.compiling.records import Record
from tombola.problems.rows import column, end, first, prefetch_row
from tombola.solvers.closed_form import repeated_prox, soft
from tombola.solvers.estimate import Scratch, StoredSlopes, add_item, replace_slopes, take_snapshot
from tombola.solvers.loop import Batch
from tombola.solvers.rates import (
    DIAGONAL,
    NORM,
    RATE_LIMITS,
    SEARCHED,
    current_rate,
    diagonal_step,
)
from tombola.solvers.run import Limits, Run
from tombola.solvers.search import SEARCH_LIMITS, examined_rate, rate_is_due, renewed_rate

__all__ = ["TINY", "LazyColumns", "LazyRun", "Touched"]

TINY = 2.0**-300  # a product of shrinkages below this makes all columns catch up


class LazyColumns(NamedTuple):
    """Of each column, when it was last touched, and the totals of that round."""

    last: NDArray[np.int64]  # the round
    shrinkage: NDArray[np.float64]  # P_0
    threshold: NDArray[np.float64]  # Q_0


class Touched(NamedTuple):
    """The columns of the rows drawn, and their number."""

    columns: NDArray[np.int64]
    number: Record  # columns


class _Parts(NamedTuple):
    batch: Batch
    progress: Record  # rounds, item_gradients, loss_sum
    model: Any
    options: Record  # schedule, convexity, snapshot_every, replaces_slopes,
    # curvature, period
    rates: Record
    search: Record  # smoothness, squares, sums, largest; see `tombola.solvers.search`
    w: NDArray[np.float64]  # (outputs, width); columns as they were when last touched
    squares: NDArray[np.float64]  # sum of g_j^2; empty unless the schedule is DIAGONAL
    stored: StoredSlopes
    columns: LazyColumns
    totals: Record  # shrinkage: P; threshold: Q; since all columns last caught up
    g: NDArray[np.float64]  # the estimate; zero between rounds
    scratch: Scratch
    touched: Touched  # scratch


class LazyRun(_Parts, Run):
    """w_j <- prox(w_j - rate g_j) for the columns of the rows drawn; the others wait."""

    __slots__ = ()

    derived = ("batch", "model", "options", "g", "scratch", "touched")
    limits: ClassVar[Limits] = {
        **RATE_LIMITS,
        **SEARCH_LIMITS,
        "squares": (0.0, math.inf),
        "totals.shrinkage": (TINY, 1.0),
        "totals.threshold": (0.0, math.inf),
        "columns.last": (0, "progress.rounds"),
        "columns.shrinkage": (TINY, 1.0),
        "columns.threshold": (0.0, "totals.threshold"),
    }

    @staticmethod
    def step(run: Any) -> Any:
        """Compute the estimate and the losses; return the position of the first bad loss, or -1."""
        progress, options, losses = run.progress[0], run.options[0], run.batch.losses
        if options.schedule == SEARCHED and rate_is_due(run):
            catch_up_all(run, progress.rounds)  # at the old rate
            run.rates[0].rate = renewed_rate(run)
        if options.snapshot_every > 0 and progress.rounds % options.snapshot_every == 0:
            catch_up_all(run, progress.rounds)
            take_snapshot(run)
        progress.rounds += 1
        progress.item_gradients += losses.size
        count = 0
        for b in range(losses.size):
            count = catch_up(run, run.batch.items[b], count)
            losses[b] = add_item(run, b)
            if not losses[b] < math.inf:
                return b
            if options.schedule == SEARCHED:
                rate = examined_rate(run, b)
                if rate < run.rates[0].rate:
                    catch_up_all(run, progress.rounds - 1)  # at the old rate
                    run.rates[0].rate = rate
        run.touched.number[0].columns = count
        return -1

    @staticmethod
    def move(run: Any) -> None:
        """Set w to prox(w - rate g) in the columns touched."""
        move_touched(run, run.touched.number[0].columns)
        if run.options[0].replaces_slopes:
            replace_slopes(run)

    @staticmethod
    def prefetch_item(run: Any, item: Any) -> None:
        """Prefetch the row."""
        prefetch_row(run.model.rows, item)

    def iterate(self) -> NDArray[np.float64]:
        """Return the present iterate, a copy: every column up to date."""
        out = self.w.copy()
        fill_iterate(self, out)
        return out


@kernel(inline=True)
def move_touched(run: Any, count: Any) -> None:
    """Set w to prox(w - rate g) in the first `count` columns touched, and g to zero."""
    settings, rates, totals = run.model.settings[0], run.rates[0], run.totals[0]
    w, g, squares = run.w, run.g, run.squares
    outputs, last = w.shape[0], w.shape[1] - 1
    diagonal = run.options[0].schedule == DIAGONAL
    if run.stored.table.size > 0:
        add_mean_gradient(run, count)
    if run.options[0].schedule == NORM:
        rates.square_sum += squared_length(run, count)
    rate, l1, l2 = current_rate(run), settings.l1, settings.l2
    if not diagonal:
        totals.threshold += rate * l1 / totals.shrinkage
        totals.shrinkage /= 1.0 + rate * l2
    for c in range(count):
        j = run.touched.columns[c]
        for k in range(outputs):
            if diagonal:
                squares[k, j] += g[k, j] * g[k, j]
                root = math.sqrt(squares[k, j])
                w[k, j] = diagonal_step(w[k, j], g[k, j], root, rate, l1, l2)
            else:
                w[k, j] = soft(w[k, j] - rate * g[k, j], rate * l1) / (1.0 + rate * l2)
            g[k, j] = 0.0
        run.columns.shrinkage[j] = totals.shrinkage
        run.columns.threshold[j] = totals.threshold
    if totals.shrinkage < TINY:
        catch_up_all(run, run.progress[0].rounds)
    if settings.intercept:
        for k in range(outputs):
            if diagonal:
                squares[k, last] += g[k, last] * g[k, last]
                root = math.sqrt(squares[k, last])
                w[k, last] = diagonal_step(w[k, last], g[k, last], root, rate, 0.0, 0.0)
            else:
                w[k, last] -= rate * g[k, last]
            g[k, last] = 0.0


@kernel(inline=True)
def add_mean_gradient(run: Any, count: Any) -> None:
    """Add mean_i grad_i(y) to g in the columns touched, and in the intercept."""
    g, mean_gradient, last = run.g, run.stored.mean_gradient, run.w.shape[1] - 1
    for k in range(g.shape[0]):
        for c in range(count):
            j = run.touched.columns[c]
            g[k, j] += mean_gradient[k, j]
        if run.model.settings[0].intercept:
            g[k, last] += mean_gradient[k, last]


@kernel(inline=True)
def squared_length(run: Any, count: Any) -> Any:
    """Return |g|^2, where g is zero but in the columns touched and the intercept."""
    g, total, last = run.g, 0.0, run.w.shape[1] - 1
    for k in range(g.shape[0]):
        for c in range(count):
            total += g[k, run.touched.columns[c]] ** 2
        if run.model.settings[0].intercept:
            total += g[k, last] ** 2
    return total


@kernel(inline=True)
def catch_up(run: Any, item: Any, count: Any) -> Any:
    """Bring the columns of a row up to date and note them as touched; return how many are."""
    t, rows, last = run.progress[0].rounds, run.model.rows, run.columns.last
    for c in range(first(rows, item), end(rows, item)):
        j = column(rows, c)
        if last[j] != t:
            for k in range(run.w.shape[0]):
                run.w[k, j] = current_value(run, k, j, t - 1)
            last[j] = t
            run.touched.columns[count] = j
            count += 1
    return count


@kernel(inline=True)
def current_value(run: Any, k: Any, j: Any, now: Any) -> Any:
    """Return w[k, j] as it is after round `now`, in which it was not touched."""
    settings, chosen, totals = run.model.settings[0], run.rates[0].rate, run.totals[0]
    l1, l2, v = settings.l1, settings.l2, run.w[k, j]
    rounds = now - run.columns.last[j]
    if run.stored.table.size > 0:
        step = chosen * run.stored.mean_gradient[k, j]
        return repeated_prox(v, rounds, step, chosen * l1, 1.0 / (1.0 + chosen * l2))
    if run.options[0].schedule == DIAGONAL:
        if run.squares[k, j] == 0.0 or rounds == 0:
            return v
        rate = chosen / math.sqrt(run.squares[k, j])
        return repeated_prox(v, rounds, 0.0, rate * l1, 1.0 / (1.0 + rate * l2))
    then = run.columns.shrinkage[j]
    threshold = then * (totals.threshold - run.columns.threshold[j])
    return soft(v, threshold) * (totals.shrinkage / then)


@kernel
def catch_up_all(run: Any, now: Any) -> None:
    """Bring every column to where it is after round `now`, and begin the totals anew.

    Columns that the present round has touched are there already.
    """
    columns, totals = run.columns, run.totals[0]
    for j in range(columns.last.size):
        if columns.last[j] <= now:
            for k in range(run.w.shape[0]):
                run.w[k, j] = current_value(run, k, j, now)
            columns.last[j] = now
        columns.shrinkage[j], columns.threshold[j] = 1.0, 0.0
    totals.shrinkage, totals.threshold = 1.0, 0.0


@kernel
def fill_iterate(run: Any, out: NDArray[np.float64]) -> None:
    """Write every column as it is now; the run stays as it is."""
    for k in range(out.shape[0]):
        for j in range(run.columns.last.size):
            out[k, j] = current_value(run, k, j, run.progress[0].rounds)
