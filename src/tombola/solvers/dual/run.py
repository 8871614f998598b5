"""The state of `SDCA`: a step on each row drawn, and a pass over all rows now and then."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tombola.compiling import kernel, prefetch
from tombola.problems.linear import Linear, LinearProblem
from tombola.samplers.compiled import Compiled
from tombola.solvers.dual.full_pass import survey
from tombola.solvers.dual.level import Level
from tombola.solvers.dual.state import DualState
from tombola.solvers.dual.step import rebuild, visit
from tombola.state import Floats, cell

__all__ = ["DualRun", "at_best", "present"]

DRIFT = 1e-9  # how far a saved u may be from that of its dual variables, relative to its terms


class DualRun(DualState):
    """Steps on the rows drawn, one after the other, and a pass over all rows now and then."""

    def step(self) -> Any:
        """Take one step on each row drawn; return the position of the first bad loss, or -1."""
        progress, batch = self.progress[0], self.batch
        size = batch.items.size
        progress.rounds += 1
        progress.draws += size
        progress.since += size
        progress.item_gradients += size
        for b in range(size):
            batch.losses[b] = visit(self, batch.items[b])
            if not batch.losses[b] < math.inf:
                return b
        return -1

    def prefetch_item(self, item: int) -> None:
        """Prefetch what a step reads of a row."""
        prefetch(self.duals, item)
        prefetch(self.model.targets, item)
        prefetch(self.model.weights, item)
        prefetch(self.centring.lengths, item)
        prefetch(self.centring.products, item)
        self.model.rows.prefetch_row(item)

    def look(self) -> Any:
        """Pass over all rows, where that is due; return whether it was."""
        if self.progress[0].draws < self.progress[0].due:
            return False
        survey(self)
        return True

    def tell(self, state: Compiled) -> None:
        """Tell the sampler the residuals of all rows."""
        state.update_all(self.scratch.residuals)

    def seen(self) -> Floats:
        """Return the residuals of all rows at the last pass."""
        return self.scratch.residuals

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with duals, level and w, taken together."""
        duals, level, settings = saved["duals"], saved["level"], self.model.settings[0]
        place = int(first_outside(self.model, duals))
        if place >= 0:
            return f"duals[{place}] is {duals[place]}, which the loss does not allow"
        for name, penalty in (("share", settings.l2), ("threshold", settings.l1)):
            if not np.isclose(level[name] * level["scale"], penalty * duals.size):
                return f"level.{name} is not that of the scale"
        v = np.empty(self.w.size)
        parts = {"duals": duals, "centre": saved["centre"], "level": cell(Level(**level))}
        total = rebuild(self._replace(**parts), v)
        shares = self.model.weights / level["scale"] * np.abs(duals)
        most = float(shares @ np.maximum(self.model.norms, 1.0)) + np.abs(saved["centre"]).max()
        for name, given, right in (
            ("w", saved["w"][0], v),
            ("level.total", level["total"], total),
        ):
            if not np.abs(given - right).max() <= DRIFT * most:
                return f"{name} is not that of the duals"
        return super().fault(saved)


@kernel
def first_outside(model: Linear, duals: Floats) -> Any:
    """Return the first dual variable outside of its domain, or -1."""
    for item in range(duals.size):
        if not model.inside(item, duals[item]):
            return item
    return -1


def at_best(run: DualRun) -> bool:
    """Return whether the solution is the best point of all passes."""
    return bool(run.progress[0].since == 0)


def present(problem: LinearProblem, run: DualRun) -> Floats:
    """Return the present point, of shape (1, width)."""
    w = problem.as_matrix(None)
    v = run.w[0] - run.level[0].total * run.centring.mean
    w[0, : problem.d] = np.sign(v) * np.maximum(np.abs(v) - run.level[0].threshold, 0.0)
    if problem.fit_intercept:
        w[0, -1] = run.level[0].intercept
    return w
