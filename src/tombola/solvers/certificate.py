"""The pass of `SDCA` over all rows: residuals, the intercept's turn, and the duality gap.

Any dual-feasible point proves a lower bound on the minimum, D, and any primal point is an upper
one, P. With an intercept without penalty, feasible points have sum_i s_i a_i = 0: the dual of a
fixed intercept is larger and proves nothing about the joint minimum. So D is that of a copy in
which the variables of the heavier sign are scaled down until both signs balance, with its own w.
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.problems.linear import ascend, conjugate, curve, slopes
from tombola.problems.rows import add_row
from tombola.solvers.closed_form import soft
from tombola.solvers.dual_step import margin, rebuild, residual

__all__ = ["ROUNDING", "evaluate", "pull_for", "survey", "tighten"]

ROUNDING = 1e-12  # of D, relative to the size of its terms
REFRESH = 32  # passes after which v is computed anew
NEAR, STIFF = 0.1, 100.0  # the pull is at least NEAR |x|^2, and STIFF lambda / (mean curvature)
MOST = 1e3  # and at most this many times |x|^2 + lambda
LEAST, USUAL = 0.5, 2.0  # epochs of draws between two passes
DRAW = 3.0  # what the visit of a row drawn costs, in visits of a pass: memory in order, one product


@kernel
def survey(run: Any) -> None:
    """Pass over all rows once: residuals, bounds on the minimum, intercept, and the next pass."""
    progress, level, bounds = run.progress[0], run.level[0], run.bounds[0]
    before = bounds.gap
    if progress.passes % REFRESH == REFRESH - 1:
        level.total = rebuild(run, run.w[0])
        progress.item_gradients += run.duals.size
    primal, dual, curvature = evaluate(run)
    if primal < bounds.primal:
        bounds.primal = primal
        keep_best(run)
    tighten(run, dual)
    if run.model.settings[0].intercept:
        level.pull = pull_for(run, curvature)
        level.intercept += level.pull * level.total  # the centre moves by pull * total
    progress.passes += 1
    progress.item_gradients += run.duals.size
    plan_next(run, before)
    progress.since = 0


@kernel(inline=True)
def tighten(run: Any, dual: Any) -> None:
    """Raise the lower bound on the minimum to this one, if it is larger."""
    bounds = run.bounds[0]
    bounds.dual = min(max(bounds.dual, dual), bounds.primal)
    bounds.gap = bounds.primal - bounds.dual


@kernel
def evaluate(run: Any) -> Any:
    """Return P, D less its rounding, and the mean curvature; write the residuals."""
    model, options, scratch = run.model, run.options[0], run.scratch
    weights, duals = model.weights, run.duals
    n = duals.size
    sign, ratio = heavier_side(run)
    for j in range(scratch.side.size):
        scratch.side[j] = 0.0
    losses = conjugates = terms = curvature = 0.0
    for item in range(n):
        weight = weights[item]
        scratch.residuals[item] = 0.0
        if weight == 0.0:
            continue
        a, z = duals[item], margin(run, item)
        q = weight / options.scale * (run.centring.lengths[item] + run.level[0].pull)
        b = a if options.smooth else ascend(model, item, a, z, q)
        scratch.residuals[item] = residual(run, item, a, b, z)
        scratch.z[0] = z
        losses += weight * slopes(model, item, scratch.z, scratch.slope)
        curvature += weight * (curve(model, item, z) if options.smooth else abs(a))
        if a * sign > 0.0:
            add_row(model.rows, item, weight / options.scale * a, scratch.side)
            a *= ratio
        term = weight * conjugate(model, item, a)
        conjugates += term
        terms += abs(term)
    l1, l2 = model.settings[0].l1, model.settings[0].l2
    penalty = dual_penalty = 0.0
    for j in range(scratch.side.size):
        w = soft(run.w[0, j] - run.level[0].total * run.centring.mean[j], options.threshold)
        penalty += 0.5 * l2 * w * w + l1 * abs(w)
        w = soft(run.w[0, j] - (1.0 - ratio) * scratch.side[j], options.threshold)
        dual_penalty += 0.5 * l2 * w * w
    allowance = ROUNDING * (terms / n + dual_penalty)
    return losses / n + penalty, -conjugates / n - dual_penalty - allowance, curvature / n


@kernel
def heavier_side(run: Any) -> Any:
    """Return the sign of the dual variables to scale down, 0 for none, and the factor."""
    if not run.model.settings[0].intercept:
        return 0.0, 1.0
    positive = negative = 0.0
    for item in range(run.duals.size):
        amount = run.model.weights[item] * run.duals[item]
        positive += max(amount, 0.0)
        negative -= min(amount, 0.0)
    run.level[0].total = (positive - negative) / run.options[0].scale
    if positive == negative:
        return 0.0, 1.0
    return (1.0, negative / positive) if positive > negative else (-1.0, positive / negative)


@kernel
def keep_best(run: Any) -> None:
    """Copy the present point, as a solution."""
    level, d = run.level[0], run.w.shape[1]
    for j in range(d):
        v = run.w[0, j] - level.total * run.centring.mean[j]
        run.best[0, j] = soft(v, run.options[0].threshold)
    if run.model.settings[0].intercept:
        run.best[0, d] = level.intercept


@kernel(inline=True)
def pull_for(run: Any, curvature: Any) -> Any:
    """Return the penalty of the augmented Lagrangian for a mean curvature of the losses."""
    length, l2 = run.options[0].length, run.model.settings[0].l2
    stiff = STIFF * l2 / curvature if curvature > 0.0 else math.inf
    return min(max(NEAR * length, stiff), MOST * (length + l2))


@kernel(inline=True)
def plan_next(run: Any, before: Any) -> None:
    """Set the draws until the next pass: as many as the gap is expected to take, within limits.

    Where that is very many, Newton steps are tried instead.
    """
    progress, bounds = run.progress[0], run.bounds[0]
    aim, needed = run.options[0].aim, math.inf
    if bounds.gap <= aim:
        needed = USUAL
    elif bounds.gap < before:
        fall = math.log(before / bounds.gap) / max(progress.since, 1)
        needed = math.log(bounds.gap / aim) / fall / run.duals.size
    epochs = min(max(needed, LEAST), USUAL)
    progress.due = progress.draws + math.ceil(epochs * run.duals.size)
    turn, possible = run.newton.turn[0], run.newton.margins.size > 0
    if possible and progress.passes > 1 and needed * (DRAW + 1.0 / USUAL) > turn.patience:
        turn.active = 1
