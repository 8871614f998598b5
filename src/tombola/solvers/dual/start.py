"""Where `SDCA` begins: centred rows, the best constant, and dual variables of a given point."""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.problems.linear import Linear, LinearProblem
from tombola.solvers.certified_run import Bounds
from tombola.solvers.dual.level import intercept_at, new_level
from tombola.solvers.dual.run import DualRun
from tombola.solvers.dual.state import Centring, DualOptions, DualProgress, Scratch
from tombola.solvers.dual.step import rebuild
from tombola.solvers.run import new_batch
from tombola.state import Floats, cell

__all__ = ["begin_at", "best_constant", "centred", "longest_usual", "mean_curvature", "new_run"]

LONG = 100.0  # a squared length this many times the median is that of a long row
AIM = 1e-6  # the tolerance that progress is measured against where none is given
TURNS = 200  # of the search for an intercept
WIDE = 40.0  # no intercept of a classifier is larger: exp(-40) is below the rounding of 1


def best_constant(problem: LinearProblem) -> tuple[float, float]:
    """Return the best intercept for w = 0, 0 without one, and the objective there."""
    if not problem.fit_intercept:
        return 0.0, value_of_constant(problem.model, 0.0)[0] / problem.n
    model, targets = problem.model, problem.model.targets
    if (np.abs(targets) == 1.0).all():  # two targets stand for all rows
        shares = np.bincount((targets > 0.0).astype(np.int8), model.weights, minlength=2)
        model = model._replace(targets=np.array([-1.0, 1.0]), weights=shares)
    low, high = min(-WIDE, targets.min()), max(WIDE, targets.max())
    below, above = value_of_constant(model, low)[1], value_of_constant(model, high)[1]
    for turn in range(TURNS):  # the sum of slopes rises: regula falsi and bisection, in turn
        middle = 0.5 * (low + high)
        if turn % 2 == 0 and above > below:
            middle = min(max(low - below * (high - low) / (above - below), low), high)
        if not low < middle < high:
            break
        _, slope = value_of_constant(model, middle)
        if slope < 0.0:
            low, below = middle, slope
        else:
            high, above = middle, slope
        if slope == 0.0:
            low, below = middle, slope
    ends = [(value_of_constant(model, end)[0] / problem.n, end) for end in (low, high)]
    value, intercept = min(ends)
    return float(intercept), float(value)


def centred(problem: LinearProblem) -> Centring:
    """Return the mean of the rows and their distances from it; 0 where rows are not centred.

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
    for power in range(12):
        shrunk = np.maximum(np.abs(0.5**power * v) - problem.l1 / problem.l2, 0.0)
        conjugates = conjugate_sum(run.model, run.duals, 0.5**power) / problem.n
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


@kernel(allocates=True)
def value_of_constant(model: Linear, b: Any) -> Any:
    """Return the sums of s_i phi and of s_i phi' where all inner products are b."""
    z, out = np.full(1, b), np.zeros(1)
    losses = sums = 0.0
    for item in range(model.targets.size):
        losses += model.weights[item] * model.slopes(item, z, out)
        sums += model.weights[item] * out[0]
    return losses, sums


@kernel
def fill_duals(run: DualRun, start: Floats) -> None:
    """Write a_i = -phi' at a point."""
    intercept = start[start.size - 1] if run.model.settings[0].intercept else 0.0
    for item in range(run.duals.size):
        z = run.model.rows.dot(item, start) + intercept
        run.duals[item] = -run.model.slope(item, z)


@kernel
def conjugate_sum(model: Linear, duals: Floats, factor: Any) -> Any:
    """Return the sum of s_i phi*(-factor a_i)."""
    total = 0.0
    for item in range(duals.size):
        total += model.weights[item] * model.conjugate(item, factor * duals[item])
    return total


@kernel
def mean_curvature(run: DualRun) -> Any:
    """Return the mean of s_i phi'' at w = 0; 1 where phi is not smooth."""
    if not run.options[0].smooth:
        return 1.0
    total = 0.0
    for item in range(run.duals.size):
        total += run.model.weights[item] * run.model.curve(item, run.level[0].intercept)
    return total / run.duals.size
