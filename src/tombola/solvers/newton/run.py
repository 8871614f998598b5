"""The state of `Newton`: a pass over all rows, then the minimum over the rows drawn."""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.samplers.compiled import Compiled
from tombola.solvers.newton.state import TWICE, NewtonState
from tombola.solvers.newton.step import fill_scores, minimise_sample, step_over_all, survey_rows
from tombola.state import Floats

__all__ = ["NewtonRun"]

BACK, CUTS = 0.25, 30  # a step that raises P is cut to this share, at most this many times
MEMORY = 0.5  # of the scores at the point before a cut
SAME = 1e-12  # values this close, relatively, are equal up to rounding


class NewtonRun(NewtonState):
    """A pass over all rows, then the minimum over the rows drawn."""

    def step(self) -> Any:
        """Move w to the minimum over the rows drawn; return -1: no loss is bad."""
        progress, batch = self.progress[0], self.batch
        progress.rounds += 1
        for b in range(batch.items.size):
            batch.losses[b] = self.survey.scores[batch.items[b]]
        if progress.cut == TWICE:
            step_over_all(self)
        else:
            minimise_sample(self, progress.passes > 0)
        progress.ahead = 1
        return -1

    def look(self) -> Any:
        """Look at all rows; at w = 0 without a pass, since all products are the intercept."""
        progress = self.progress[0]
        if self.ended():
            return False
        if progress.passes == 0 and progress.ahead == 0:
            glance(self)
        else:
            settle(self)
        return True

    def tell(self, state: Compiled) -> None:
        """Tell the sampler how much each row matters."""
        state.update_all(self.survey.scores)

    def seen(self) -> Floats:
        """Return how much each row matters, as of the last pass."""
        return self.survey.scores


@kernel
def glance(run: NewtonState) -> None:
    """Write slopes and curvatures where all inner products are the intercept."""
    model, survey, w = run.model, run.survey, run.w[0]
    z = w[w.size - 1] if model.settings[0].intercept else 0.0
    for item in range(survey.slopes.size):
        survey.slopes[item] = model.weights[item] * model.slope(item, z)
        survey.curves[item] = model.weights[item] * model.curve(item, z)
    fill_scores(run, 0.0)


@kernel
def settle(run: NewtonState) -> None:
    """Pass over all rows at w; where P has risen, go back towards the best point until it falls.

    Rows that mattered at the points left behind are drawn in the next sample, too: without them it
    would lead there again.
    """
    progress, bounds, w, best = run.progress[0], run.bounds[0], run.w, run.best
    for cuts in range(CUTS):
        primal, dual = survey_rows(run)
        progress.passes += 1
        if math.isfinite(primal):
            fill_scores(run, MEMORY if cuts > 0 else 0.0)
        if dual > bounds.dual:  # not where it is not a number
            bounds.dual = dual
        if primal <= bounds.primal:
            for j in range(w.shape[1]):
                best[0, j] = w[0, j]
            bounds.primal = primal
        if primal <= bounds.primal * (1.0 + SAME):
            break
        for j in range(w.shape[1]):
            w[0, j] = best[0, j] + BACK * (w[0, j] - best[0, j])
    progress.ahead = 0
    if progress.cut < TWICE:
        progress.cut = progress.cut + 1 if cuts > 0 else 0
    bounds.dual = min(bounds.dual, bounds.primal)
    bounds.gap = bounds.primal - bounds.dual
