"""A run of `SDCA`: a step on each row drawn, and a pass over all rows now and then.

*The step* is the exact maximum of the dual over one variable. With lambda = l2, weights s_i and
dual variables a_i, a run keeps

    v = (1/(lambda n)) sum_i s_i a_i x_i,      w = soft(v, l1 / lambda)

A step on row i replaces a_i by the b that maximises

    -phi*(-b) - b z - q/2 (b - a_i)^2,         z = x_i w,   q = s_i |x_i|^2 / (lambda n)

which is the dual itself for l1 = 0, else a lower bound of it.

If rows are long and curved for their number, lambda is small for dual ascent, and the objective
is minimised with kappa/2 |w - y|^2 added, for a centre y that every pass moves (Catalyst). With
strength = lambda + kappa and share = lambda / strength, strength takes the place of lambda above,

    w = soft(u, l1 / strength),      u = (1/(strength n)) sum_i s_i a_i x_i + (1 - share) y

and u is what a run keeps.

An intercept without penalty makes sum_i s_i a_i = 0 a constraint of the dual. It is treated by an
augmented Lagrangian: a step acts as if rows had one more column, of the value sqrt(pull), whose
weight is regularised towards a centre; every pass moves that centre to the weight. If l1 = 0, rows
are also centred. That changes the meaning of the intercept alone, shortens rows, and makes the
intercept nearly independent of w. With `total` = (1/(strength n)) sum_i s_i a_i,

    w = u - total * mean,      z = x_i u - total * (x_i mean) + intercept

The objective may have a linear term, -<tilt, (w, b)>. It acts as a row whose dual variable is held:
tilt / strength is part of u and total.

*The pass* computes residuals, moves the intercept, and bounds the minimum. Any dual-feasible point
proves a lower bound on the minimum, D, and any primal point is an upper one, P. With an intercept
without penalty, feasible points have sum_i s_i a_i = 0: the dual of a fixed intercept is larger and
proves nothing about the joint minimum. So D is that of a copy in which the variables of the heavier
sign are scaled down until both signs balance, with its own w. If they cannot balance the linear
term of an objective, there is no D.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tombola.compiling import kernel, prefetch
from tombola.problems.linear import Linear
from tombola.samplers.compiled import Compiled
from tombola.solvers.certified import CertifiedRun, Goal
from tombola.solvers.dual.level import (
    Level,
    move_centre,
    penalties,
    pull_for,
    set_strength,
    write_solution,
)
from tombola.solvers.gap import ROUNDING
from tombola.solvers.proximal import soft
from tombola.solvers.run import Progress
from tombola.state import Cell, Floats, State, array, cell, count, derived, integer

__all__ = [
    "FIRM",
    "Centring",
    "DualOptions",
    "DualProgress",
    "DualRun",
    "Scratch",
    "evaluate",
    "fill_residuals",
    "heavier_side",
    "pass_over",
    "rebuild",
    "sides",
]

DRIFT = 1e-9  # how far a saved u may be from that of its dual variables, relative to its terms
REFRESH = 32  # passes after which u is computed from the dual variables
FIRM = 2.0  # the strength is at least this many times the mean of phi'' |x|^2, over n
SLOW = 0.95  # a pass that leaves more of the gap than this sets the centre back to w
LEAST, USUAL = 0.5, 2.0  # epochs of draws between two passes


class DualProgress(Progress):
    """How far a run is; item gradients are rows visited."""

    draws: int = integer("rows drawn", 0, "item_gradients", default=0)
    since: int = integer("rows drawn since the last pass", 0, "draws", default=0)
    due: int = count("the draws at which the next pass is")
    passes: int = integer("passes over all rows", 0, "item_gradients", default=0)


class DualOptions(Goal):
    """The parameters of a run, and what it needs of the problem."""

    smooth: int = derived("1 if the loss is smooth")
    roundness: float = derived("1/c for a c-smooth loss, else 0")
    length: float = derived("the mean |x|^2, in which long rows count as `longest`")
    longest: float = derived("the largest |x|^2 of usual rows")
    mean_squared: float = derived("|mean|^2")
    aim: float = derived("the gap that progress is measured against: the tolerance, or above it")


class Centring(State):
    """The mean of the rows, zero if they are not centred, and what follows from it."""

    mean: Floats = derived("(d,)")
    products: Floats = derived("x_i mean, (n,)")
    lengths: Floats = derived("|x_i - mean|^2, (n,)")


class Scratch(State):
    """Memory for a step and a pass."""

    z: Floats = derived("(1,)")
    slope: Floats = derived("(1,)")
    side: Floats = derived("(d,)")
    residuals: Floats = derived("(n,)")


class DualRun(CertifiedRun):
    """Steps on the rows drawn, one after the other; the part `w` is u, (1, d)."""

    progress: Cell[DualProgress]
    tilt: Floats = derived("(d + 1,): of a linear term; zeros, but for a part of a problem")
    options: Cell[DualOptions] = derived("the parameters")
    centring: Centring = derived("how the rows are centred")
    centre: Floats = array("y, (1, d)")
    previous: Floats = array("w at the last pass, (1, d)")
    duals: Floats = array("a, (n,)")
    level: Cell[Level]
    scratch: Scratch = derived("scratch space")

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
        """Pass over all rows, if that is due; return whether it was."""
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


# --- a step on one row --------------------------------------------------------------------------


@kernel(inline=True)
def margin(run: DualRun, item: int) -> Any:
    """Return z = x_i w + b."""
    level = run.level[0]
    if level.threshold > 0.0:
        return run.model.rows.soft_dot(item, run.w[0], level.threshold) + level.intercept
    product = run.model.rows.dot(item, run.w[0])
    return product - level.total * run.centring.products[item] + level.intercept


@kernel(inline=True)
def visit(run: DualRun, item: int) -> Any:
    """Take a step on a row; return its residual before the step."""
    model, level, duals = run.model, run.level[0], run.duals
    weight = model.weights[item]
    if weight == 0.0:
        return 0.0
    share = weight / level.scale
    a, z = duals[item], margin(run, item)
    b = model.ascend(item, a, z, share * (run.centring.lengths[item] + level.pull))
    seen = residual(run, item, a, b, z)
    change = share * (b - a)
    if change != 0.0:
        duals[item] = b
        model.rows.add_row(item, change, run.w[0])
        level.total += change
        # of b = pull * total, and of the -mean w in the intercept
        level.intercept += change * (
            level.pull + run.options[0].mean_squared - run.centring.products[item]
        )
    return seen


@kernel(inline=True)
def residual(run: DualRun, item: int, a: Any, b: Any, z: Any) -> Any:
    """Return s_i |kappa_i| sqrt(|x_i|^2 + strength n / (c s_i)), AdaSDCA's weight of a row.

    kappa_i = a_i + phi'(z_i) is the dual residual, and phi is c-smooth. If phi is not smooth,
    it is the change b - a_i, and 1/c is 0.
    """
    options = run.options[0]
    weight = run.model.weights[item]
    change = b - a
    if options.smooth:
        change = a + run.model.slope(item, z)
    length = run.centring.lengths[item] + run.level[0].pull
    return abs(change) * math.sqrt(
        weight * (weight * length + run.level[0].scale * options.roundness)
    )


@kernel
def fill_residuals(run: DualRun, out: Floats) -> None:
    """Write the residual of every row; the run stays as it is."""
    model, level = run.model, run.level[0]
    for item in range(out.size):
        out[item] = 0.0
        weight = model.weights[item]
        if weight > 0.0:
            a, z = run.duals[item], margin(run, item)
            q = weight / level.scale * (run.centring.lengths[item] + level.pull)
            out[item] = residual(run, item, a, model.ascend(item, a, z, q), z)


@kernel
def rebuild(run: DualRun, out: Floats) -> Any:
    """Write u as the dual variables have it, without the rounding errors of steps; return total."""
    scale, weights = run.level[0].scale, run.model.weights
    strength = scale / weights.size
    for j in range(out.size):
        out[j] = (1.0 - run.level[0].share) * run.centre[0, j] + run.tilt[j] / strength
    total = run.tilt[out.size] / strength
    for item in range(weights.size):
        share = weights[item] / scale * run.duals[item]
        if share != 0.0:
            run.model.rows.add_row(item, share, out)
            total += share
    return total


@kernel
def first_outside(model: Linear, duals: Floats) -> Any:
    """Return the first dual variable outside of its domain, or -1."""
    for item in range(duals.size):
        if not model.inside(item, duals[item]):
            return item
    return -1


# --- a pass over all rows -----------------------------------------------------------------------


@kernel
def survey(run: DualRun) -> None:
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
def tighten(run: DualRun, dual: Any) -> None:
    """Raise the lower bound on the minimum to this one, if it is larger."""
    bounds = run.bounds[0]
    bounds.dual = min(max(bounds.dual, dual), bounds.primal)
    bounds.gap = bounds.primal - bounds.dual


@kernel
def evaluate(run: DualRun) -> Any:
    """Return P, D less its rounding, and the means of phi'' and phi'' |x|^2; write the residuals.

    In the last mean long rows count as `longest`: their steps are exact, and need no strength.

    If phi is not smooth, |a| stands for phi'': the share of rows that hold w where it is.
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
def pass_over(run: DualRun, sign: Any, ratio: Any) -> Any:
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
def sides(run: DualRun) -> Any:
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
def plan_next(run: DualRun, before: Any) -> None:
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
