"""Runs that move only the columns of the rows drawn, for sparse rows with many columns.

What the regulariser and the mean gradient do to a column in the rounds since it was last touched
has a closed form. A column catches up when a row needs it again: lazy, or just-in-time, updates.

If a column w_j sees v -> c_s soft(v, a_s) in rounds s, with c_s = 1 / (1 + rate_s l2) and
a_s = rate_s l1, the product P of the c_s and the sum Q of a_s / (P before s) are enough: from
round s_0 to now, v -> (P / P_0) soft(v, P_0 (Q - Q_0)).
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.solvers.descent.estimate import (
    GradientRun,
    add_item,
    move_intercept,
    replace_slopes,
)
from tombola.solvers.descent.rates import DIAGONAL, NORM, current_rate, diagonal_step
from tombola.solvers.proximal import repeated_prox, soft
from tombola.state import Cell, Floats, Ints, Record, State, array, derived, real

__all__ = ["TINY", "LazyColumns", "LazyRun", "Number", "Totals", "Touched"]

TINY = 2.0**-300  # a product of shrinkages below this makes all columns catch up


class Totals(Record):
    """What all columns have seen since they last caught up."""

    shrinkage: float = real("P", TINY, 1.0, default=1.0)
    threshold: float = real("Q", default=0.0)


class LazyColumns(State):
    """Of each column, when it was last touched, and the totals of that round."""

    last: Ints = array("the round", 0, "progress.rounds")
    shrinkage: Floats = array("P_0", TINY, 1.0)
    threshold: Floats = array("Q_0", 0.0, "totals.threshold")


class Number(Record):
    """How many columns are touched."""

    columns: int = derived("their number", default=0)


class Touched(State):
    """The columns of the rows drawn, and their number."""

    columns: Ints = derived("the columns")
    number: Cell[Number]


class LazyRun(GradientRun):
    """w_j <- prox(w_j - rate g_j) for the columns of the rows drawn; the others wait.

    Columns of w are as they were when last touched.
    """

    totals: Cell[Totals]
    columns: LazyColumns
    touched: Touched = derived("scratch space")

    def visit(self, b: int) -> Any:
        """Bring the columns of item b of the batch up to date, and add it to the estimate."""
        number = self.touched.number[0]
        count = number.columns if b > 0 else 0
        number.columns = catch_up(self, self.batch.items[b], count)
        return add_item(self, b)

    def settle(self, now: int) -> None:
        """Bring every column to where it is after round `now`."""
        catch_up_all(self, now)

    def lower_rate(self, rate: float) -> None:
        """Lower the rate, after all columns have caught up at the old one."""
        catch_up_all(self, self.progress[0].rounds - 1)
        self.rates[0].rate = rate

    def move(self) -> None:
        """Set w to prox(w - rate g) in the columns touched."""
        move_touched(self, self.touched.number[0].columns)
        if self.options[0].replaces_slopes:
            replace_slopes(self)

    def iterate(self) -> Floats:
        """Return the present iterate, a copy: every column up to date."""
        out = self.w.copy()
        fill_iterate(self, out)
        return out


@kernel(inline=True)
def move_touched(run: LazyRun, count: Any) -> None:
    """Set w to prox(w - rate g) in the first `count` columns touched, and g to zero."""
    settings, rates, totals = run.model.settings[0], run.rates[0], run.totals[0]
    w, g, squares = run.w, run.g, run.squares
    outputs = w.shape[0]
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
        own = rate * run.paces[j] if run.paces.size > 0 else rate
        for k in range(outputs):
            if diagonal:
                squares[k, j] += g[k, j] * g[k, j]
                root = math.sqrt(squares[k, j])
                w[k, j] = diagonal_step(w[k, j], g[k, j], root, own, l1, l2)
            else:
                w[k, j] = soft(w[k, j] - own * g[k, j], own * l1) / (1.0 + own * l2)
            g[k, j] = 0.0
        run.columns.shrinkage[j] = totals.shrinkage
        run.columns.threshold[j] = totals.threshold
    if totals.shrinkage < TINY:
        catch_up_all(run, run.progress[0].rounds)
    if settings.intercept:
        for k in range(outputs):
            move_intercept(run, k, rate)


@kernel(inline=True)
def add_mean_gradient(run: LazyRun, count: Any) -> None:
    """Add mean_i grad_i(y) to g in the columns touched, and in the intercept."""
    g, mean_gradient, last = run.g, run.stored.mean_gradient, run.w.shape[1] - 1
    for k in range(g.shape[0]):
        for c in range(count):
            j = run.touched.columns[c]
            g[k, j] += mean_gradient[k, j]
        if run.model.settings[0].intercept:
            g[k, last] += mean_gradient[k, last]


@kernel(inline=True)
def squared_length(run: LazyRun, count: Any) -> Any:
    """Return |g|^2, where g is zero but in the columns touched and the intercept."""
    g, total, last = run.g, 0.0, run.w.shape[1] - 1
    for k in range(g.shape[0]):
        for c in range(count):
            total += g[k, run.touched.columns[c]] ** 2
        if run.model.settings[0].intercept:
            total += g[k, last] ** 2
    return total


@kernel(inline=True)
def catch_up(run: LazyRun, item: int, count: Any) -> Any:
    """Bring the columns of a row up to date and note them as touched; return how many are."""
    t, rows, last = run.progress[0].rounds, run.model.rows, run.columns.last
    for c in range(rows.first(item), rows.end(item)):
        j = rows.column(c)
        if last[j] != t:
            for k in range(run.w.shape[0]):
                run.w[k, j] = current_value(run, k, j, t - 1)
            last[j] = t
            run.touched.columns[count] = j
            count += 1
    return count


@kernel(inline=True)
def current_value(run: LazyRun, k: Any, j: Any, now: Any) -> Any:
    """Return w[k, j] as it is after round `now`, in which it was not touched."""
    settings, chosen, totals = run.model.settings[0], run.rates[0].rate, run.totals[0]
    l1, l2, v = settings.l1, settings.l2, run.w[k, j]
    if run.paces.size > 0:
        chosen *= run.paces[j]
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
def catch_up_all(run: LazyRun, now: Any) -> None:
    """Bring every column to where it is after round `now`, and reset the totals.

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
def fill_iterate(run: LazyRun, out: Floats) -> None:
    """Write every column as it is now; the run stays as it is."""
    for k in range(out.shape[0]):
        for j in range(run.columns.last.size):
            out[k, j] = current_value(run, k, j, run.progress[0].rounds)
