"""Where `SDCA` begins: centred rows, and the dual variables of a given point."""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.problems.linear import Linear, LinearProblem
from tombola.solvers.certified import Bounds
from tombola.solvers.dual.level import intercept_at, new_level
from tombola.solvers.dual.run import Centring, DualOptions, DualProgress, DualRun, Scratch, rebuild
from tombola.solvers.gap import best_constant, conjugate_sum
from tombola.solvers.run import new_batch
from tombola.state import Floats, cell

__all__ = ["begin_at", "centred", "longest_usual", "mean_curvature", "new_run"]

LONG = 100.0  # a squared length this many times the median is that of a long row
AIM = 1e-6  # the tolerance that progress is measured against if none is given


def centred(problem: LinearProblem) -> Centring:
    """Return the mean of the rows and their distances from it; 0 if rows are not centred.

    Long rows are left out of the mean: one of them would move it far away from all the others.
    """
    mean, products = np.zeros(problem.d), np.zeros(problem.n)
    lengths = np.maximum(problem.model.norms**2 - problem.fit_intercept, 0.0)
    if problem.fit_intercept and problem.l1 == 0:
        usual = lengths <= longest_usual(lengths, problem.model.weights)
        fill_mean(problem.model, problem.model.weights * usual, mean)
        fill_products(problem.model, mean, products)
        lengths = np.maximum(lengths - 2.0 * products + mean @ mean, 0.0)
    return Centring(mean, products, lengths)


def longest_usual(lengths: Floats, weights: Floats) -> float:
    """Return the squared length above which a row is long: 100 times the median."""
    median = float(np.median(lengths[weights > 0])) if weights.any() else 0.0
    return LONG * median if median > 0 else np.inf


def new_run(problem: LinearProblem, batch_size: int, tol: float) -> DualRun:
    """Return a run at w = 0 and the best intercept, to a gap of `tol` times the objective there."""
    model, n, d = problem.model, problem.n, problem.d
    centring = centred(problem)
    intercept, value = best_constant(problem)
    longest = longest_usual(centring.lengths, model.weights)
    best = problem.as_matrix(None)
    if problem.fit_intercept:
        best[0, d] = intercept
    return DualRun(
        batch=new_batch(batch_size),
        progress=cell(DualProgress(due=-(-n // 2))),
        model=model,
        tilt=np.zeros(d + 1),
        options=cell(
            DualOptions(
                smooth=int(math.isfinite(problem.curvature)),
                roundness=1.0 / problem.curvature,
                length=float((model.weights * np.minimum(centring.lengths, longest)).sum() / n),
                longest=longest,
                mean_squared=float(centring.mean @ centring.mean),
                tolerance=tol * value,
                aim=max(tol, AIM) * value,
            )
        ),
        centring=centring,
        w=np.zeros((1, d)),
        centre=np.zeros((1, d)),
        previous=np.zeros((1, d)),
        duals=np.zeros(n),
        level=new_level(problem.l1, problem.l2, n, intercept),
        bounds=cell(Bounds(primal=value, gap=value)),
        best=best,
        scratch=Scratch(np.zeros(1), np.zeros(1), np.zeros(d), np.zeros(n)),
    )


def begin_at(problem: LinearProblem, run: DualRun, start: Floats) -> None:
    """Set the dual variables to -phi' at a point, times the power of 1/2 with the best dual."""
    fill_duals(run, start[0])
    total = rebuild(run, run.w[0])
    v, best, factor = run.w[0] / run.level[0].share, 0.0, 0.0
    duals, scratch = run.duals[:, None], np.empty(1)
    for power in range(12):
        shrunk = np.maximum(np.abs(0.5**power * v) - problem.l1 / problem.l2, 0.0)
        conjugates = conjugate_sum(run.model, duals, 0.5**power, scratch)[0] / problem.n
        dual = -conjugates - problem.l2 / 2 * float(shrunk @ shrunk)
        if dual > best:
            best, factor = dual, 0.5**power
    run.duals[:] *= factor
    run.centre[0] = run.previous[0] = start[0, : problem.d]
    run.w[:] = factor * run.w + (1.0 - run.level[0].share) * run.centre
    run.level[0].total = factor * total
    value = problem.value(start.reshape(problem.shape))
    if value < run.bounds[0].primal:
        run.best[:] = start
        run.bounds[0].primal = run.bounds[0].gap = value
    if problem.fit_intercept:
        run.level[0].intercept = intercept_at(run.level, run.centring.mean, run.w[0], start[0])


@kernel
def fill_mean(model: Linear, weights: Floats, out: Floats) -> None:
    """Write the mean of s_i x_i, over the mean of s_i."""
    total = 0.0
    for item in range(weights.size):
        total += weights[item]
    for item in range(weights.size):
        model.rows.add_row(item, weights[item] / total, out)


@kernel
def fill_products(model: Linear, mean: Floats, out: Floats) -> None:
    """Write x_i mean."""
    for item in range(out.size):
        out[item] = model.rows.dot(item, mean)


@kernel
def fill_duals(run: DualRun, start: Floats) -> None:
    """Write a_i = -phi' at a point."""
    intercept = start[start.size - 1] if run.model.settings[0].intercept else 0.0
    for item in range(run.duals.size):
        z = run.model.rows.dot(item, start) + intercept
        run.duals[item] = -run.model.slope(item, z)


@kernel
def mean_curvature(run: DualRun) -> Any:
    """Return the mean of s_i phi'' at w = 0; 1 if phi is not smooth."""
    if not run.options[0].smooth:
        return 1.0
    total = 0.0
    for item in range(run.duals.size):
        total += run.model.weights[item] * run.model.curve(item, run.level[0].intercept)
    return total / run.duals.size
