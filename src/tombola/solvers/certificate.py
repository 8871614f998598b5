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
REFRESH = 32  # passes after which u is computed anew
NEAR, STIFF = 0.1, 100.0  # the pull is at least NEAR |x|^2, and STIFF strength / (mean curvature)
MOST = 1e3  # and at most this many times |x|^2 + strength
FIRM = 2.0  # the strength is at least this many times the mean of phi'' |x|^2, over n
SLOW = 0.95  # a pass that leaves more of the gap than this sets the centre back to w
LEAST, USUAL = 0.5, 2.0  # epochs of draws between two passes


@kernel
def survey(run: Any) -> None:
    """Pass over all rows once: residuals, bounds on the minimum, intercept, and the next pass."""
    progress, level, bounds = run.progress[0], run.level[0], run.bounds[0]
    before = bounds.gap
    if progress.passes % REFRESH == REFRESH - 1:
        level.total = rebuild(run, run.w[0])
        progress.item_gradients += run.duals.size
    primal, dual, curvature, trace = evaluate(run)
    if primal < bounds.primal:
        bounds.primal = primal
        keep_best(run)
    tighten(run, dual)
    set_strength(run, trace)
    if run.model.settings[0].intercept:
        level.pull = pull_for(run, curvature)
        level.intercept += level.pull * level.total  # the centre moves by pull * total
    progress.passes += 1
    progress.item_gradients += run.duals.size
    move_centre(run, bounds.gap > SLOW * before)
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
    """Return P, D less its rounding, and the means of phi'' and phi'' |x|^2; write the residuals.

    In the last mean long rows count as `longest`: their steps are exact, and need no strength.

    Where phi is not smooth, |a| stands for phi'': the share of rows that hold w where it is.
    """
    model, options, level, scratch = run.model, run.options[0], run.level[0], run.scratch
    weights, duals = model.weights, run.duals
    n = duals.size
    sign, ratio = heavier_side(run)
    for j in range(scratch.side.size):
        scratch.side[j] = 0.0
    losses = conjugates = terms = curvature = trace = 0.0
    for item in range(n):
        weight = weights[item]
        scratch.residuals[item] = 0.0
        if weight == 0.0:
            continue
        a, z = duals[item], margin(run, item)
        q = weight / level.scale * (run.centring.lengths[item] + level.pull)
        b = a if options.smooth else ascend(model, item, a, z, q)
        scratch.residuals[item] = residual(run, item, a, b, z)
        scratch.z[0] = z
        losses += weight * slopes(model, item, scratch.z, scratch.slope)
        bend = weight * (curve(model, item, z) if options.smooth else abs(a))
        curvature += bend
        trace += bend * min(run.centring.lengths[item], options.longest)
        if a * sign > 0.0:
            add_row(model.rows, item, weight / level.scale * a, scratch.side)
            a *= ratio
        term = weight * conjugate(model, item, a)
        conjugates += term
        terms += abs(term)
    l1, l2 = model.settings[0].l1, model.settings[0].l2
    penalty = dual_penalty = 0.0
    for j in range(scratch.side.size):
        w = soft(run.w[0, j] - level.total * run.centring.mean[j], level.threshold)
        penalty += 0.5 * l2 * w * w + l1 * abs(w)
        u = run.w[0, j] - (1.0 - level.share) * run.centre[0, j] - (1.0 - ratio) * scratch.side[j]
        w = soft(u, level.threshold) / level.share  # soft(v, l1 / lambda)
        dual_penalty += 0.5 * l2 * w * w
    allowance = ROUNDING * (terms / n + dual_penalty)
    dual = -conjugates / n - dual_penalty - allowance
    return losses / n + penalty, dual, curvature / n, trace / n


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
    run.level[0].total = (positive - negative) / run.level[0].scale
    if positive == negative:
        return 0.0, 1.0
    return (1.0, negative / positive) if positive > negative else (-1.0, positive / negative)


@kernel
def keep_best(run: Any) -> None:
    """Copy the present point, as a solution."""
    level, d = run.level[0], run.w.shape[1]
    for j in range(d):
        v = run.w[0, j] - level.total * run.centring.mean[j]
        run.best[0, j] = soft(v, level.threshold)
    if run.model.settings[0].intercept:
        run.best[0, d] = level.intercept


@kernel(inline=True)
def pull_for(run: Any, curvature: Any) -> Any:
    """Return the penalty of the augmented Lagrangian for a mean curvature of the losses."""
    length, strength = run.options[0].length, run.level[0].scale / run.duals.size
    stiff = STIFF * strength / curvature if curvature > 0.0 else math.inf
    return min(max(NEAR * length, stiff), MOST * (length + strength))


@kernel
def set_strength(run: Any, trace: Any) -> None:
    """Set lambda + kappa to suit the mean of phi'' |x|^2; w changes with it, b does not."""
    level, settings, n = run.level[0], run.model.settings[0], run.duals.size
    mean = run.centring.mean
    strength = max(settings.l2, FIRM * trace / n)
    share, ratio = settings.l2 / strength, level.scale / (strength * n)
    for j in range(mean.size):
        centre, before = run.centre[0, j], run.w[0, j]
        own = before - (1.0 - level.share) * centre
        run.w[0, j] = ratio * own + (1.0 - share) * centre
        moved = run.w[0, j] - before - (ratio - 1.0) * level.total * mean[j]
        level.intercept -= mean[j] * moved
    level.total *= ratio
    level.scale, level.share, level.threshold = strength * n, share, settings.l1 / strength


@kernel
def move_centre(run: Any, restart: Any) -> None:
    """Move the centre to w + beta (w - the last w), and u with it; to w, where progress is slow."""
    level, mean = run.level[0], run.centring.mean
    if level.share == 1.0:
        return
    root = math.sqrt(level.share)
    beta = 0.0 if restart else (1.0 - root) / (1.0 + root)
    for j in range(mean.size):
        w = soft(run.w[0, j] - level.total * mean[j], level.threshold)
        centre = w + beta * (w - run.previous[0, j])
        move = (1.0 - level.share) * (centre - run.centre[0, j])
        run.centre[0, j], run.previous[0, j] = centre, w
        run.w[0, j] += move
        level.intercept -= mean[j] * move


@kernel(inline=True)
def plan_next(run: Any, before: Any) -> None:
    """Set the draws until the next pass: as many as the gap is expected to take, within limits."""
    progress, bounds = run.progress[0], run.bounds[0]
    aim, needed = run.options[0].aim, math.inf
    if bounds.gap <= aim:
        needed = USUAL
    elif bounds.gap < before:
        fall = math.log(before / bounds.gap) / max(progress.since, 1)
        needed = math.log(bounds.gap / aim) / fall / run.duals.size
    epochs = min(max(needed, LEAST), USUAL)
    progress.due = progress.draws + math.ceil(epochs * run.duals.size)
