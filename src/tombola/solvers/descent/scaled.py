"""Runs of SGD without l1: all columns shrink by one factor, which is kept apart from w.

    w = c v:   w - rate g = c (v - rate / c g),   then   c <- c / (1 + rate l2)

A round takes O(entries of the rows drawn), with rows of any kind. The intercept is kept as it is.
"""

import math
from typing import Any

from tombola.solvers.descent.rates import current_rate
from tombola.solvers.descent.run import DescentRun
from tombola.state import Cell, Floats, Record, real

__all__ = ["TINY", "Scale", "ScaledRun"]

TINY = 2.0**-300  # below this, the scale is multiplied into w


class Scale(Record):
    """What w is a multiple of v by."""

    factor: float = real("c", TINY, 1.0, default=1.0)


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
            weight = model.weights[item]
            loss = weight * model.slopes(item, scratch.z, scratch.slopes[b])
            progress.loss_sum += batch.importances[b] / size * loss
            squared = 0.0
            for k in range(outputs):
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
