"""Runs without l1: all columns shrink together, by one factor that is kept apart from w.

*SGD* keeps w as a multiple of one vector, w = factor v:

    w - rate g = factor (v - rate / factor g),   then   factor <- factor / (1 + rate l2)

*SAGA and SVRG*, on sparse rows, keep it as a multiple of v and one of the mean gradient m, which
all columns drift by:

    w = factor v - drift m

A round, w <- (w - rate (m + d x)) / (1 + rate l2) with the importance and the change of slopes in
d, changes both numbers, and v in the columns of the rows drawn. A change of m in those columns is
made up for in v.

So a round takes O(entries of the rows drawn), for any number of columns. The intercept is kept as
it is.
"""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.problems.linear import weighted_slopes
from tombola.solvers.descent.estimate import StoringRun
from tombola.solvers.descent.rates import SEARCHED, current_rate, rate_is_due
from tombola.solvers.descent.run import DescentRun
from tombola.state import Cell, Floats, Record, derived, real

__all__ = ["SMALL", "TINY", "Drift", "DriftRun", "Scale", "ScaledRun"]

TINY = 2.0**-300  # a factor below this is multiplied into v
SMALL = 2.0**-30  # the same if there is a drift, which is subtracted from it


class Scale(Record):
    """What w is a multiple of v by."""

    factor: float = real("the factor of v", TINY, 1.0, default=1.0)


class ScaledRun(DescentRun):
    """w <- (w - rate g) / (1 + rate l2), with w = factor * v; the part `w` is v."""

    scale: Cell[Scale]

    def step(self) -> Any:
        """Compute slopes and losses; return the position of the first bad loss, or -1."""
        model, w, batch, scratch = self.model, self.w, self.batch, self.scratch
        progress, scale, settings = self.progress[0], self.scale[0], model.settings[0]
        size, outputs = scratch.slopes.shape
        last = w.shape[1] - 1
        progress.rounds += 1
        progress.item_gradients += size
        for b in range(size):
            item = batch.items[b]
            for k in range(outputs):
                scratch.z[k] = scale.factor * model.rows.dot(item, w[k])
                if settings.intercept:
                    scratch.z[k] += w[k, last]
            weight, squared = model.weights[item], 0.0
            loss = weight * model.slopes(item, scratch.z, scratch.slopes[b])
            progress.loss_sum += batch.importances[b] / size * loss
            for k in range(outputs):  # as `weighted_slopes`, in one loop
                scratch.slopes[b, k] *= weight
                squared += scratch.slopes[b, k] * scratch.slopes[b, k]
            batch.losses[b] = math.sqrt(squared) * model.norms[item]
            if not batch.losses[b] < math.inf:
                return b
        return -1

    def move(self) -> None:
        """Set w to (w - rate g) / (1 + rate l2)."""
        model, w, batch, scratch = self.model, self.w, self.batch, self.scratch
        scale, settings = self.scale[0], model.settings[0]
        size, outputs = scratch.slopes.shape
        last = w.shape[1] - 1
        rate = current_rate(self)
        for b in range(size):
            for k in range(outputs):
                amount = rate * batch.importances[b] / size * scratch.slopes[b, k]
                model.rows.add_row(batch.items[b], -amount / scale.factor, w[k])
                if settings.intercept:
                    w[k, last] -= amount
        scale.factor /= 1.0 + rate * settings.l2
        if scale.factor < TINY:
            for k in range(outputs):
                for j in range(w.shape[1] - settings.intercept):
                    w[k, j] *= scale.factor
            scale.factor = 1.0

    def iterate(self) -> Floats:
        """Return the present iterate, a copy."""
        w = self.w.copy()
        w[:, : w.shape[1] - self.model.settings[0].intercept] *= self.scale[0].factor
        return w


class Drift(Record):
    """What w is made of, besides v and m."""

    factor: float = real("the factor of v", SMALL, 1.0, default=1.0)
    drift: float = real("the factor of -m", default=0.0)


class DriftRun(StoringRun):
    """w <- (w - rate g) / (1 + rate l2), with w = factor v - drift m; the part `w` is v."""

    level: Cell[Drift]
    changes: Floats = derived("scratch, (B, outputs): of the slopes of the rows drawn")

    def visit(self, b: int) -> Any:
        """Compute slopes and change of item b of the batch; return |grad_b(w) - grad_b(y)|."""
        model, w, stored, scratch = self.model, self.w, self.stored, self.scratch
        level, item, last = self.level[0], self.batch.items[b], w.shape[1] - 1
        squared = 0.0
        for k in range(scratch.z.size):
            v, m = two_dots(model.rows, item, w[k], stored.mean_gradient[k])
            scratch.z[k] = level.factor * v - level.drift * m
            if model.settings[0].intercept:
                scratch.z[k] += w[k, last]
        loss = weighted_slopes(model, item, scratch.z, scratch.slopes[b])
        for k in range(scratch.z.size):
            self.changes[b, k] = scratch.slopes[b, k] - stored.table[item, k]
            squared += self.changes[b, k] * self.changes[b, k]
        share = self.batch.importances[b] / self.batch.items.size
        self.progress[0].loss_sum += share * loss
        return math.sqrt(squared) * model.norms[item]

    def settle(self, now: int) -> None:
        """Write w to v, with a factor of 1 and no drift."""
        multiply_out(self)

    def move(self) -> None:
        """Set w to (w - rate g) / (1 + rate l2), and replace stored slopes (SAGA).

        It changes v in the columns of the rows drawn; an item drawn twice is stored once.
        """
        model, w, stored, level = self.model, self.w, self.stored, self.level[0]
        size, outputs = self.changes.shape
        n, last, rate = stored.table.shape[0], w.shape[1] - 1, self.rates[0].rate
        shrink = 1.0 / (1.0 + rate * model.settings[0].l2)
        step = rate / level.factor
        if model.settings[0].intercept:
            for k in range(outputs):
                w[k, last] -= rate * stored.mean_gradient[k, last]
        level.factor *= shrink
        level.drift = shrink * (level.drift + rate)
        ratio = level.drift / level.factor
        for b in range(size):
            item, share = self.batch.items[b], self.batch.importances[b] / size
            for k in range(outputs):
                replaced = 0.0
                if self.options[0].replaces_slopes:
                    replaced = (self.scratch.slopes[b, k] - stored.table[item, k]) / n
                    stored.table[item, k] = self.scratch.slopes[b, k]
                change = share * self.changes[b, k]
                add_to_two(
                    model.rows, item, ratio * replaced - step * change, w[k],
                    replaced, stored.mean_gradient[k],
                )  # fmt: skip
                if model.settings[0].intercept:
                    w[k, last] -= rate * change
                    stored.mean_gradient[k, last] += replaced
        # so that rounding does not add up; if the rate is searched, the next round settles
        due = self.options[0].schedule != SEARCHED and rate_is_due(self)
        if level.factor < SMALL or due:
            multiply_out(self)

    def iterate(self) -> Floats:
        """Return the present iterate, a copy."""
        w = self.w.copy()
        columns = w.shape[1] - int(self.model.settings[0].intercept)
        level, mean = self.level[0], self.stored.mean_gradient
        w[:, :columns] = level.factor * w[:, :columns] - level.drift * mean[:, :columns]
        return w


@kernel
def multiply_out(run: DriftRun) -> None:
    """Write w to v, with a factor of 1 and no drift."""
    w, mean, level = run.w, run.stored.mean_gradient, run.level[0]
    for k in range(w.shape[0]):
        for j in range(w.shape[1] - run.model.settings[0].intercept):
            w[k, j] = level.factor * w[k, j] - level.drift * mean[k, j]
    level.factor, level.drift = 1.0, 0.0


@kernel(inline=True)
def two_dots(rows: Any, item: int, v: Any, m: Any) -> Any:
    """Return the inner products of a row with two vectors."""
    first = second = 0.0
    for entry in range(np.uint64(rows.starts[item]), np.uint64(rows.starts[item + 1])):
        j, x = np.uint64(rows.columns[entry]), rows.values[entry]
        first += x * v[j]
        second += x * m[j]
    return first, second


@kernel(inline=True)
def add_to_two(rows: Any, item: int, a: Any, v: Any, b: Any, m: Any) -> None:
    """Add a times a row to v, and b times the row to m."""
    for entry in range(np.uint64(rows.starts[item]), np.uint64(rows.starts[item + 1])):
        j, x = np.uint64(rows.columns[entry]), rows.values[entry]
        v[j] += a * x
        m[j] += b * x
