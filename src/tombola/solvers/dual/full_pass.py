"""The pass of `SDCA` over all rows: residuals, the intercept's turn, and the duality gap.

Any dual-feasible point proves a lower bound on the minimum, D, and any primal point is an upper
one, P. With an intercept without penalty, feasible points have sum_i s_i a_i = 0: the dual of a
fixed intercept is larger and proves nothing about the joint minimum. So D is that of a copy in
which the variables of the heavier sign are scaled down until both signs balance, with its own w.
Where they cannot balance the linear term of an objective, there is no D.
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.solvers.dual.level import (
    move_centre,
    penalties,
    pull_for,
    set_strength,
    write_solution,
)
from tombola.solvers.dual.state import DualState
from tombola.solvers.dual.step import margin, rebuild, residual
from tombola.solvers.proximal import soft

__all__ = [
    "FIRM",
    "REFRESH",
    "ROUNDING",
    "SLOW",
    "evaluate",
    "heavier_side",
    "pass_over",
    "sides",
    "survey",
]

ROUNDING = 1e-12  # of D, relative to the size of its terms
REFRESH = 32  # passes after which u is computed from the dual variables
FIRM = 2.0  # the strength is at least this many times the mean of phi'' |x|^2, over n
SLOW = 0.95  # a pass that leaves more of the gap than this sets the centre back to w
LEAST, USUAL = 0.5, 2.0  # epochs of draws between two passes


@kernel
def survey(run: DualState) -> None:
    """Pass over all rows once: residuals, bounds on the minimum, intercept, and the next pass."""
    progress, level, bounds = run.progress[0], run.level[0], run.bounds[0]
    before = bounds.gap
    if progress.passes % REFRESH == REFRESH - 1:
        level.total = rebuild(run, run.w[0])
        progress.item_gradients += run.duals.size
    primal, dual, curvature, trace = evaluate(run)
    if primal < bounds.primal:
        bounds.primal = primal
        write_solution(run.level, run.centring.mean, run.w[0], run.best[0])
    tighten(run, dual)
    n, settings = run.duals.size, run.model.settings[0]
    strength = max(settings.l2, FIRM * trace / n)
    set_strength(
        run.level, run.centring.mean, run.w[0], run.centre[0], strength, n, settings.l1, settings.l2
    )
    if settings.intercept:
        level.pull = pull_for(run.level, run.options[0].length, n, curvature)
        level.intercept += level.pull * level.total  # the centre moves by pull * total
    progress.passes += 1
    progress.item_gradients += run.duals.size
    slow = bounds.gap > SLOW * before
    move_centre(run.level, run.centring.mean, run.w[0], run.centre[0], run.previous[0], slow)
    plan_next(run, before)
    progress.since = 0


@kernel(inline=True)
def tighten(run: DualState, dual: Any) -> None:
    """Raise the lower bound on the minimum to this one, if it is larger."""
    bounds = run.bounds[0]
    bounds.dual = min(max(bounds.dual, dual), bounds.primal)
    bounds.gap = bounds.primal - bounds.dual


@kernel
def evaluate(run: DualState) -> Any:
    """Return P, D less its rounding, and the means of phi'' and phi'' |x|^2; write the residuals.

    In the last mean long rows count as `longest`: their steps are exact, and need no strength.

    Where phi is not smooth, |a| stands for phi'': the share of rows that hold w where it is.
    """
    n, d, settings, level = run.duals.size, run.w.shape[1], run.model.settings[0], run.level[0]
    sign, ratio, held = 0.0, 1.0, n * run.tilt[d]
    if settings.intercept:
        positive, negative = sides(run)
        level.total = (positive - negative + held) / level.scale
        sign, ratio = heavier_side(positive, negative, held)
    losses, conjugates, terms, curvature, trace = pass_over(run, sign, max(ratio, 0.0))
    penalty, dual_penalty = penalties(
        run.level, run.centring.mean, run.w[0], run.centre[0], run.scratch.side, ratio,
        settings.l1, settings.l2,
    )  # fmt: skip
    allowance = ROUNDING * (terms / n + dual_penalty)
    dual = -conjugates / n - dual_penalty - allowance if ratio >= 0.0 else -math.inf
    linear = run.tilt[d] * level.intercept
    for j in range(d):
        w = soft(run.w[0, j] - level.total * run.centring.mean[j], level.threshold)
        linear += run.tilt[j] * w
    return losses / n + penalty - linear, dual, curvature / n, trace / n


@kernel
def pass_over(run: DualState, sign: Any, ratio: Any) -> Any:
    """Return sums over all rows, where dual variables of a sign count times a ratio.

    The sums are those of s_i phi, s_i phi*, the absolute values of the latter, s_i phi'' and
    s_i phi'' |x|^2. Residuals are written, and that of s_i a_i x_i / scale over the given sign.
    """
    model, options, level, scratch = run.model, run.options[0], run.level[0], run.scratch
    weights, duals = model.weights, run.duals
    for j in range(scratch.side.size):
        scratch.side[j] = 0.0
    losses = conjugates = terms = curvature = trace = 0.0
    for item in range(duals.size):
        weight = weights[item]
        scratch.residuals[item] = 0.0
        if weight == 0.0:
            continue
        a, z = duals[item], margin(run, item)
        q = weight / level.scale * (run.centring.lengths[item] + level.pull)
        b = a if options.smooth else model.ascend(item, a, z, q)
        scratch.residuals[item] = residual(run, item, a, b, z)
        scratch.z[0] = z
        losses += weight * model.slopes(item, scratch.z, scratch.slope)
        bend = weight * (model.curve(item, z) if options.smooth else abs(a))
        curvature += bend
        trace += bend * min(run.centring.lengths[item], options.longest)
        if a * sign > 0.0:
            model.rows.add_row(item, weight / level.scale * a, scratch.side)
            a *= ratio
        term = weight * model.conjugate(item, a)
        conjugates += term
        terms += abs(term)
    return losses, conjugates, terms, curvature, trace


@kernel
def sides(run: DualState) -> Any:
    """Return the sums of s_i a_i over positive dual variables, and of -s_i a_i over the others."""
    positive = negative = 0.0
    for item in range(run.duals.size):
        amount = run.model.weights[item] * run.duals[item]
        positive += max(amount, 0.0)
        negative -= min(amount, 0.0)
    return positive, negative


@kernel(inline=True)
def heavier_side(positive: Any, negative: Any, held: Any) -> Any:
    """Return the sign of the dual variables to scale down, 0 for none, and the factor.

    With the amount that is held, both sides then sum to 0; a factor below 0: they cannot.
    """
    balance = positive - negative + held
    if balance == 0.0:
        return 0.0, 1.0
    if balance > 0.0:
        return 1.0, (negative - held) / positive if positive > 0.0 else -1.0
    return -1.0, (positive + held) / negative if negative > 0.0 else -1.0


@kernel(inline=True)
def plan_next(run: DualState, before: Any) -> None:
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
