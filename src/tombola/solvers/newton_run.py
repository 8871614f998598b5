"""The state of `Newton`: a pass over all rows, then the minimum over the rows drawn."""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.checkpoint import CheckpointError
from tombola.compiling import kernel
from tombola.compiling.records import Record
from tombola.problems.linear import curve, slope
from tombola.samplers.compiled import update_all
from tombola.solvers.loop import Batch
from tombola.solvers.newton_step import (
    Sample,
    Scratch,
    Survey,
    fill_scores,
    minimise_sample,
    step_over_all,
    survey_rows,
)
from tombola.solvers.run import Limits, Run

__all__ = ["NewtonRun"]

BACK, CUTS = 0.25, 30  # a step that raises P is cut to this share, so many times at most
TWICE = 2  # after so many steps in succession that were cut, all rows take the place of samples
MEMORY = 0.5  # of the scores at the point before a cut
SAME = 1e-12  # values this close, relatively, are equal up to rounding


class _Parts(NamedTuple):
    batch: Batch
    progress: Record  # rounds; item_gradients: rows visited; passes; ahead: whether w is beyond
    # the last pass, or is a start that no pass has seen; cut: how many steps in succession were
    # cut, TWICE from there on
    model: Any
    options: Record  # tolerance: of the gap
    w: NDArray[np.float64]  # (1, width)
    best: NDArray[np.float64]  # (1, width): the solution that has the value bounds.primal
    bounds: Record  # on the minimum: primal, dual; gap
    survey: Survey
    sample: Sample
    scratch: Scratch


class NewtonRun(_Parts, Run):
    """A pass over all rows, then the minimum over the rows drawn."""

    __slots__ = ()

    derived = ("batch", "model", "options", "survey", "sample", "scratch")
    limits: ClassVar[Limits] = {
        "progress.passes": (0, "progress.item_gradients"),
        "progress.ahead": (0, 1),
        "progress.cut": (0, TWICE),
        "bounds.dual": (-math.inf, "bounds.primal"),
        "bounds.gap": (0.0, math.inf),
    }

    @staticmethod
    def step(run: Any) -> Any:
        """Move w to the minimum over the rows drawn; return -1: no loss is bad."""
        progress, batch = run.progress[0], run.batch
        progress.rounds += 1
        for b in range(batch.items.size):
            batch.losses[b] = run.survey.scores[batch.items[b]]
        if progress.cut == TWICE:
            step_over_all(run)
        else:
            minimise_sample(run, progress.passes > 0)
        progress.ahead = 1
        return -1

    @staticmethod
    def look(run: Any) -> Any:
        """Look at all rows; at w = 0 without a pass, since all products are the intercept."""
        progress = run.progress[0]
        if run.bounds[0].gap <= run.options[0].tolerance:
            return False
        if progress.passes == 0 and progress.ahead == 0:
            glance(run)
        else:
            settle(run)
        return True

    @staticmethod
    def tell(run: Any, state: Any) -> None:
        """Tell the sampler how much each row matters."""
        update_all(state, run.survey.scores)

    @staticmethod
    def ended(run: Any) -> Any:
        """Return whether the gap is within the tolerance."""
        return run.bounds[0].gap <= run.options[0].tolerance

    def seen(self) -> NDArray[np.float64]:
        """Return how much each row matters, as of the last pass."""
        return self.survey.scores

    def check(self, saved: Any) -> None:
        """Raise a CheckpointError that names the first thing in `saved` that cannot be loaded."""
        super().check(saved)
        bounds = saved["bounds"]
        if not bounds["gap"] >= (bounds["primal"] - bounds["dual"]) * (1.0 - 1e-9):
            raise CheckpointError("cannot resume: bounds.gap is less than primal - dual")


@kernel
def glance(run: Any) -> None:
    """Write slopes and curvatures where all inner products are the intercept."""
    model, survey, w = run.model, run.survey, run.w[0]
    z = w[w.size - 1] if model.settings[0].intercept else 0.0
    for item in range(survey.slopes.size):
        survey.slopes[item] = model.weights[item] * slope(model, item, z)
        survey.curves[item] = model.weights[item] * curve(model, item, z)
    fill_scores(run, 0.0)


@kernel
def settle(run: Any) -> None:
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
