"""Runs of SGD without l1: all columns shrink alike, so w is kept as a multiple of one number.

    w = c v:   w - rate g = c (v - rate / c g),   then   c <- c / (1 + rate l2)

A round takes O(entries of the rows drawn), with rows of any kind. The intercept is kept as it is.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling.records import Record
from tombola.problems.linear import slopes
from tombola.problems.rows import add_row, dot, prefetch_row
from tombola.solvers.estimate import Scratch
from tombola.solvers.loop import Batch
from tombola.solvers.rates import RATE_LIMITS, current_rate
from tombola.solvers.run import Limits, Run

__all__ = ["TINY", "ScaledRun"]

TINY = 2.0**-300  # below this, the scale is multiplied into w


class _Parts(NamedTuple):
    batch: Batch
    progress: Record  # rounds, item_gradients, loss_sum
    model: Any
    options: Record  # schedule, convexity
    rates: Record
    w: NDArray[np.float64]  # v, of shape (outputs, width)
    scale: Record  # factor: c
    scratch: Scratch


class ScaledRun(_Parts, Run):
    """w <- (w - rate g) / (1 + rate l2), with w = factor * v."""

    __slots__ = ()

    derived = ("batch", "model", "options", "scratch")
    limits: ClassVar[Limits] = {
        **RATE_LIMITS,
        "scale.factor": (TINY, 1.0),
    }

    @staticmethod
    def step(run: Any) -> Any:
        """Compute slopes and losses; return the position of the first bad loss, or -1."""
        model, w, batch, scratch = run.model, run.w, run.batch, run.scratch
        progress, scale, settings = run.progress[0], run.scale[0], model.settings[0]
        size, outputs = scratch.slopes.shape
        last = w.shape[1] - 1
        progress.rounds += 1
        progress.item_gradients += size
        for b in range(size):
            item = batch.items[b]
            for k in range(outputs):
                scratch.z[k] = scale.factor * dot(model.rows, item, w[k])
                if settings.intercept:
                    scratch.z[k] += w[k, last]
            weight = model.weights[item]
            loss = weight * slopes(model, item, scratch.z, scratch.slopes[b])
            progress.loss_sum += batch.importances[b] / size * loss
            squared = 0.0
            for k in range(outputs):
                scratch.slopes[b, k] *= weight
                squared += scratch.slopes[b, k] * scratch.slopes[b, k]
            batch.losses[b] = math.sqrt(squared) * model.norms[item]
            if not batch.losses[b] < math.inf:
                return b
        return -1

    @staticmethod
    def move(run: Any) -> None:
        """Set w to (w - rate g) / (1 + rate l2)."""
        model, w, batch, scratch = run.model, run.w, run.batch, run.scratch
        scale, settings = run.scale[0], model.settings[0]
        size, outputs = scratch.slopes.shape
        last = w.shape[1] - 1
        rate = current_rate(run)
        for b in range(size):
            for k in range(outputs):
                amount = rate * batch.importances[b] / size * scratch.slopes[b, k]
                add_row(model.rows, batch.items[b], -amount / scale.factor, w[k])
                if settings.intercept:
                    w[k, last] -= amount
        scale.factor /= 1.0 + rate * settings.l2
        if scale.factor < TINY:
            for k in range(outputs):
                for j in range(w.shape[1] - settings.intercept):
                    w[k, j] *= scale.factor
            scale.factor = 1.0

    @staticmethod
    def prefetch_item(run: Any, item: Any) -> None:
        """Prefetch the row."""
        prefetch_row(run.model.rows, item)

    def iterate(self) -> NDArray[np.float64]:
        """Return the present iterate, a copy."""
        w = self.w.copy()
        w[:, : w.shape[1] - self.model.settings["intercept"][0]] *= self.scale["factor"][0]
        return w
