"""Newton steps on w with a Hessian from a sample of rows: for SDCA where it is ill-conditioned.

At the best point so far, with z_i its inner products and h_i = phi''(z_i),

    (lambda I + sum_i s_i h_i x_i x_i' / (n p_i k)) step = -gradient,     k rows drawn by p

is solved roughly by conjugate gradients, with p_i ~ s_i h_i (|x_i|^2 + mean |x|^2): rows that
curve the objective most. Rows are centred, and there is one more column, of ones, for an intercept.
A pass over all rows at the new point yields the objective, the gradient, and the dual point
a_i = -phi'(z_i), made feasible as in `tombola.solvers.certificate`, with its lower bound.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, new_record
from tombola.compiling.records import Record
from tombola.problems.linear import conjugate, curve, slopes
from tombola.problems.rows import add_row, add_squares, dot
from tombola.solvers.certificate import ROUNDING, tighten

__all__ = ["IDLE", "Newton", "Workspace", "new_newton", "newton_step"]

SHARE, MULTIPLE = 0.05, 20  # rows in a sample: this share of n, and so many times the columns
ENOUGH = 0.1  # conjugate gradients end at this share of the first residual
ITERATIONS = 100  # or after so many products
ARMIJO = 1e-4
HALVINGS = 20
STEPS, PRODUCTS = 6.0, 12.0  # the usual number of steps, and of products in each
IDLE, LITTLE = 6, 0.7  # steps in a row that leave more than this share of the gap end the turn
IMPATIENCE = 4.0  # after which SDCA is given so many times more epochs
LARGEST, SMALLEST = 2.0**900, 2.0**-500
GOLDEN = 0.6180339887498949


class Vectors(NamedTuple):
    """Scratch of conjugate gradients, (width,) each, the intercept last."""

    step: NDArray[np.float64]
    residual: NDArray[np.float64]
    direction: NDArray[np.float64]
    product: NDArray[np.float64]
    diagonal: NDArray[np.float64]


class Newton(NamedTuple):
    """The inner products and the gradient of the best point; empty where no steps are taken."""

    turn: Record  # active; taken: steps; fresh: whether margins and gradient are of the best point;
    # idle: steps in a row with little progress; patience: epochs of visits that SDCA may need, by
    # its progress, before such steps are tried
    margins: NDArray[np.float64]  # (n,)
    gradient: NDArray[np.float64]  # (width,)


class Workspace(NamedTuple):
    """Scratch of a step: the trial point and its margins, and the sample."""

    trial: NDArray[np.float64]  # (width,)
    margins: NDArray[np.float64]  # (n,)
    sides: NDArray[np.float64]  # (2, d): sums of s_i a_i x_i / n, by the sign of a_i
    rows: NDArray[np.int64]  # (k,): the sample
    factors: NDArray[np.float64]  # (k,): s_i h_i / (n p_i k)
    vectors: Vectors


def sample_size(n: int, width: int) -> int:
    """Return the number of rows in a sample, n where a sample would not be much less."""
    size = max(math.ceil(SHARE * n), MULTIPLE * width)
    return size if 2 * size < n else n


def new_newton(n: int, d: int, width: int, possible: bool) -> tuple[Newton, Workspace]:
    """Return the state before the first step, and scratch."""
    n, d, width = (n, d, width) if possible else (0, 0, 0)
    size = sample_size(n, width)
    patience = STEPS * (1.0 + PRODUCTS * size / max(n, 1))
    newton = Newton(
        turn=new_record(active=0, taken=0, fresh=0, idle=0, patience=patience),
        margins=np.zeros(n),
        gradient=np.zeros(width),
    )
    workspace = Workspace(
        trial=np.zeros(width),
        margins=np.zeros(n),
        sides=np.zeros((2, d)),
        rows=np.zeros(size, dtype=np.int64),
        factors=np.zeros(size),
        vectors=Vectors(*(np.zeros(width) for _ in range(5))),
    )
    return newton, workspace


@kernel
def newton_step(run: Any) -> None:
    """Move the best point by one step, or look around it first; end the turn where it stalls."""
    newton, bounds = run.newton, run.bounds[0]
    turn, before = newton.turn[0], bounds.gap
    if not turn.fresh:
        move_trial(run, 0.0)
        value, bound = look_around(run)
    else:
        slope = solve(run, draw_sample(run))
        move_trial(run, 1.0)
        value, bound = look_around(run)
        if not value <= bounds.primal + ARMIJO * slope:
            move_trial(run, shorter(run, slope))
            value, bound = look_around(run)
        turn.taken += 1
    if value <= bounds.primal or not turn.fresh:
        accept(run)
        bounds.primal = min(value, bounds.primal)
        turn.fresh = 1
    else:  # the gradient is that of the trial
        turn.fresh = 0
    tighten(run, bound)
    turn.idle = turn.idle + 1 if bounds.gap > LITTLE * before else 0
    if turn.idle >= IDLE:
        turn.active = turn.fresh = turn.idle = 0
        turn.patience = min(IMPATIENCE * turn.patience, LARGEST)


@kernel
def move_trial(run: Any, factor: Any) -> None:
    """Set the trial point to the best one plus a multiple of the step."""
    trial, step = run.work.trial, run.work.vectors.step
    for j in range(trial.size):
        trial[j] = run.best[0, j] + (factor * step[j] if factor > 0.0 else 0.0)


@kernel
def accept(run: Any) -> None:
    """Make the trial point the best one."""
    for j in range(run.work.trial.size):
        run.best[0, j] = run.work.trial[j]
    for item in range(run.newton.margins.size):
        run.newton.margins[item] = run.work.margins[item]


@kernel
def look_around(run: Any) -> Any:
    """Pass over all rows at the trial point; return P and a bound; write margins and gradient.

    The dual variables a_i = -phi'(z_i) are left in the scratch of residuals.
    """
    model, newton, work, scratch = run.model, run.newton, run.work, run.scratch
    duals = scratch.residuals
    intercept, l2 = model.settings[0].intercept, model.settings[0].l2
    trial, sides, n, d = work.trial, work.sides, duals.size, work.sides.shape[1]
    for j in range(d):
        sides[0, j] = sides[1, j] = 0.0
    losses = positive = negative = penalty = 0.0
    for item in range(n):
        scratch.z[0] = dot(model.rows, item, trial) + (trial[d] if intercept else 0.0)
        work.margins[item] = scratch.z[0]
        weight = model.weights[item]
        losses += weight * slopes(model, item, scratch.z, scratch.slope)
        duals[item] = a = -scratch.slope[0]
        positive += weight * max(a, 0.0) / n
        negative -= weight * min(a, 0.0) / n
        if weight * a != 0.0:
            add_row(model.rows, item, weight * a / n, sides[0 if a > 0.0 else 1])
    for j in range(d):
        newton.gradient[j] = l2 * trial[j] - sides[0, j] - sides[1, j]
        penalty += 0.5 * l2 * trial[j] * trial[j]
    ratios = 1.0, 1.0
    if intercept:
        newton.gradient[d] = negative - positive
        smaller = min(positive, negative)
        ratios = (
            smaller / positive if positive > 0.0 else 1.0,
            smaller / negative if negative > 0.0 else 1.0,
        )
    bound = size = 0.0
    for item in range(n):
        a = duals[item] * (ratios[0] if duals[item] > 0.0 else ratios[1])
        term = model.weights[item] * conjugate(model, item, a) / n
        bound -= term
        size += abs(term)
    for j in range(d):
        w = ratios[0] * sides[0, j] + ratios[1] * sides[1, j]
        bound -= 0.5 * w * w / l2
        size += 0.5 * w * w / l2
    run.progress[0].item_gradients += n
    return losses / n + penalty, bound - ROUNDING * size


@kernel
def shorter(run: Any, slope: Any) -> Any:
    """Return a factor for the step at which P is low enough: from the margins alone, no rows."""
    model, newton, work, scratch = run.model, run.newton, run.work, run.scratch
    n, d, l2 = newton.margins.size, work.sides.shape[1], model.settings[0].l2
    factor = 1.0
    for _ in range(HALVINGS):
        factor *= 0.5
        value = 0.0
        for item in range(n):
            there = work.margins[item]
            scratch.z[0] = newton.margins[item] + factor * (there - newton.margins[item])
            value += model.weights[item] * slopes(model, item, scratch.z, scratch.slope) / n
        for j in range(d):
            w = run.best[0, j] + factor * work.vectors.step[j]
            value += 0.5 * l2 * w * w
        if value <= run.bounds[0].primal + ARMIJO * factor * slope:
            break
    return factor


@kernel
def draw_sample(run: Any) -> Any:
    """Draw rows by how much they curve the objective, systematically; return how many differ."""
    newton, work, lengths = run.newton, run.work, run.centring.lengths
    rows, factors, n, size = work.rows, work.factors, newton.margins.size, work.rows.size
    usual = max(run.options[0].length, SMALLEST)
    total = 0.0
    for item in range(n):
        total += curvature_of(run, item) * (lengths[item] + usual)
    distance = total / size
    point = distance * (GOLDEN * (newton.turn[0].taken + 1) % 1.0)
    passed, count = 0.0, 0
    for item in range(n):
        bend = curvature_of(run, item)
        if size == n:
            rows[count], factors[count] = item, bend / n
            count += 1
            continue
        passed += bend * (lengths[item] + usual)
        times = 0
        while point < passed and times < size:
            point += distance
            times += 1
        if times > 0 and count < size:
            rows[count], factors[count] = item, times * distance / (n * (lengths[item] + usual))
            count += 1
    return count


@kernel(inline=True)
def curvature_of(run: Any, item: Any) -> Any:
    """Return s_i phi'' at the best point."""
    return run.model.weights[item] * curve(run.model, item, run.newton.margins[item])


@kernel
def solve(run: Any, count: Any) -> Any:
    """Write the step, by preconditioned conjugate gradients; return its slope, gradient * step."""
    newton, work, mean = run.newton, run.work, run.centring.mean
    intercept = run.model.settings[0].intercept
    step, residual, direction, product, diagonal = work.vectors
    width, d = step.size, work.sides.shape[1]
    fill_diagonal(run, count)
    first = norm = 0.0
    for j in range(width):
        step[j] = 0.0
        residual[j] = -newton.gradient[j]
        if intercept and j < d:  # of centred rows
            residual[j] += mean[j] * newton.gradient[d]
        direction[j] = residual[j] / diagonal[j]
        norm += residual[j] * direction[j]
    first = norm
    for _ in range(ITERATIONS):
        multiply(run, count)
        bend = 0.0
        for j in range(width):
            bend += direction[j] * product[j]
        if not bend > 0.0:
            break
        length, before, norm = norm / bend, norm, 0.0
        for j in range(width):
            step[j] += length * direction[j]
            residual[j] -= length * product[j]
            norm += residual[j] * residual[j] / diagonal[j]
        if norm <= ENOUGH * ENOUGH * first:
            break
        for j in range(width):
            direction[j] = residual[j] / diagonal[j] + norm / before * direction[j]
    slope = 0.0
    for j in range(d):
        if intercept:
            step[d] -= mean[j] * step[j]
    for j in range(width):
        slope += newton.gradient[j] * step[j]
    return slope


@kernel
def fill_diagonal(run: Any, count: Any) -> None:
    """Write the diagonal of the sampled Hessian of centred rows."""
    work, mean, rows = run.work, run.centring.mean, run.model.rows
    diagonal, sums, total = work.vectors.diagonal, work.vectors.product, 0.0
    for j in range(diagonal.size):
        diagonal[j] = sums[j] = 0.0
    for c in range(count):
        add_squares(rows, work.rows[c], work.factors[c], diagonal)
        add_row(rows, work.rows[c], work.factors[c], sums)
        total += work.factors[c]
    for j in range(mean.size):
        diagonal[j] += mean[j] * (mean[j] * total - 2.0 * sums[j])
        diagonal[j] = max(diagonal[j], 0.0) + run.model.settings[0].l2
    if run.model.settings[0].intercept:
        diagonal[mean.size] = max(total, SMALLEST)
    run.progress[0].item_gradients += count


@kernel
def multiply(run: Any, count: Any) -> None:
    """Write the product of the sampled Hessian of centred rows and the direction."""
    work, mean, rows = run.work, run.centring.mean, run.model.rows
    direction, product, d = work.vectors.direction, work.vectors.product, mean.size
    intercept = run.model.settings[0].intercept
    shift = direction[d] if intercept else 0.0
    for j in range(d):
        shift -= mean[j] * direction[j]
        product[j] = run.model.settings[0].l2 * direction[j]
    total = 0.0
    for c in range(count):
        along = work.factors[c] * (dot(rows, work.rows[c], direction) + shift)
        add_row(rows, work.rows[c], along, product)
        total += along
    for j in range(d):
        product[j] -= total * mean[j]
    if intercept:
        product[d] = total
    run.progress[0].item_gradients += count
