"""A run of `Newton`: a pass over all rows, then the minimum over the rows drawn.

The pass at w has, with slopes phi'_i and curvatures phi''_i at the inner products,

    P(w),    its gradient g,    and the dual point a_i = -phi'_i

which bounds the minimum from below. The sample then stands for all rows: with m rows drawn by p,

    F_m(w) = sum_b s_b phi_b(x_b w) / (m n p_b)

and the next w minimises F_m + l2/2 |w|^2 + c w, where c = g - (the gradient of F_m + l2/2 |w|^2)
corrects the sample's gradient to the exact one. A sample of n rows is all rows, once each: the next
w is then the minimum of P.
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.samplers.compiled import Compiled
from tombola.solvers.certified import CertifiedRun
from tombola.solvers.gap import ROUNDING
from tombola.solvers.newton.cholesky import factorise, substitute
from tombola.solvers.run import Progress
from tombola.state import Cell, Floats, Ints, State, derived, integer

__all__ = ["NewtonProgress", "NewtonRun", "Sample", "Scratch", "Survey", "survey_rows"]

TWICE = 2  # after this many steps in succession that were cut, all rows take the place of samples
BACK, CUTS = 0.25, 30  # a step that raises P is cut to this share, at most this many times
MEMORY = 0.5  # of the scores at the point before a cut
SAME = 1e-12  # values this close, relatively, are equal up to rounding
STEPS = 20  # of Newton's method on a sample, at most
ENOUGH = 0.01  # it ends when a step is expected to gain this share of what the first one was
SLOW = 0.1  # a step that leaves more of the gain than this is followed by a new Hessian
NESTED = 16  # rows in a sample for each column, at least, for which its first eighth leads the way
ARMIJO, HALVINGS, ROUNDED = 1e-4, 30, 1e-15  # of a step: what it must gain, and rounding
RIDGE = 1e-9  # added to the intercept's diagonal entry, times the weight of the sample: it may be 0


class NewtonProgress(Progress):
    """How far a run is; item gradients are rows visited."""

    passes: int = integer("passes over all rows", 0, "item_gradients", default=0)
    ahead: int = integer("1 if w is beyond the last pass, or a start that no pass has seen", 0, 1)
    cut: int = integer(
        "how many steps in succession were cut, TWICE from there on", 0, TWICE, default=0
    )


class Survey(State):
    """What a pass saw of each row, (n,) each."""

    slopes: Floats = derived("s_i phi'")
    curves: Floats = derived("s_i phi''")
    reaches: Floats = derived("sqrt(|x_i|^2 + mean |x|^2), the same for all passes")
    scores: Floats = derived("how much the row matters")


class Sample(State):
    """The rows drawn, (m,) each."""

    items: Ints = derived("all rows in order if m = n")
    factors: Floats = derived("s_b / (n p_b)")
    z: Floats = derived("x_b w")
    moves: Floats = derived("x_b step")


class Scratch(State):
    """Memory for a pass and for the minimum over a sample."""

    z: Floats = derived("(1,)")
    slope: Floats = derived("(1,)")
    sides: Floats = derived("(2, d): sums of s_i a_i x_i, by the sign of a_i")
    gradient: Floats = derived("(width,): of P")
    correction: Floats = derived("(width,): c")
    model_gradient: Floats = derived("(width,)")
    hessian: Floats = derived("(width, width): its lower triangle")
    step: Floats = derived("(width,)")
    block: Floats = derived("(8, width)")


class NewtonRun(CertifiedRun):
    """A pass over all rows, then the minimum over the rows drawn."""

    progress: Cell[NewtonProgress]
    survey: Survey = derived("what the last pass saw, written before each draw")
    sample: Sample = derived("the rows drawn")
    scratch: Scratch = derived("scratch space")

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


# --- the pass -----------------------------------------------------------------------------------


@kernel
def glance(run: NewtonRun) -> None:
    """Write slopes and curvatures at w = 0, where all inner products are the intercept."""
    model, survey, w = run.model, run.survey, run.w[0]
    z = w[w.size - 1] if model.settings[0].intercept else 0.0
    for item in range(survey.slopes.size):
        survey.slopes[item] = model.weights[item] * model.slope(item, z)
        survey.curves[item] = model.weights[item] * model.curve(item, z)
    fill_scores(run, 0.0)


@kernel
def settle(run: NewtonRun) -> None:
    """Pass over all rows at w; if P has risen, go back towards the best point until it falls.

    Rows that mattered at the points left behind are drawn in the next sample, too: without them it
    would lead there again.
    """
    progress, bounds, w, best = run.progress[0], run.bounds[0], run.w, run.best
    for cuts in range(CUTS):
        primal, dual = survey_rows(run)
        progress.passes += 1
        if math.isfinite(primal):
            fill_scores(run, MEMORY if cuts > 0 else 0.0)
        if dual > bounds.dual:  # not if it is not a number
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


@kernel(inline=True)
def add_exactly(total: Any, lost: Any, term: int) -> Any:
    """Return a sum with one more term, and what rounding took from it (Kahan's summation).

    The rounding of a plain sum of n terms grows with n, up to 1e-11 in a pass over 3e5 rows.
    """
    term -= lost
    after = total + term
    return after, (after - total) - term


@kernel
def survey_rows(run: NewtonRun) -> Any:
    """Pass over all rows at w; return P and a lower bound; write gradient, slopes and curvatures.

    With an intercept, a dual point has sum_i s_i a_i = 0: the heavier sign is scaled down by a
    ratio r, which changes phi* by at most a factor of r, as phi*(0) = 0.
    """
    model, survey, w = run.model, run.survey, run.w[0]
    intercept, l2 = model.settings[0].intercept, model.settings[0].l2
    sides, gradient = run.scratch.sides, run.scratch.gradient
    n, d = survey.slopes.size, sides.shape[1]
    constant = w[d] if intercept else 0.0
    for j in range(d):
        sides[0, j] = sides[1, j] = 0.0
    losses = positive = negative = above = below = 0.0
    lost = lost_above = lost_below = 0.0  # by rounding
    for item in range(n):
        weight = model.weights[item]
        if weight == 0.0:
            continue
        z = model.rows.dot(item, w) + constant
        run.scratch.z[0] = z
        loss = weight * model.slopes(item, run.scratch.z, run.scratch.slope)
        slope = weight * run.scratch.slope[0]
        losses, lost = add_exactly(losses, lost, loss)
        survey.slopes[item] = slope
        survey.curves[item] = weight * model.curve(item, z)
        conjugate = slope * z - loss  # phi(z) + phi*(-a) = -a z
        if slope < 0.0:
            positive -= slope
            above, lost_above = add_exactly(above, lost_above, conjugate)
            model.rows.add_row(item, -slope, sides[0])
        elif slope > 0.0:
            negative += slope
            below, lost_below = add_exactly(below, lost_below, conjugate)
            model.rows.add_row(item, -slope, sides[1])
        else:
            above, lost_above = add_exactly(above, lost_above, conjugate)
    up = down = 1.0
    if intercept:
        gradient[d] = (negative - positive) / n
        up = negative / positive if positive > negative else 1.0
        down = positive / negative if negative > positive else 1.0
    penalty = dual_penalty = 0.0
    for j in range(d):
        gradient[j] = l2 * w[j] - (sides[0, j] + sides[1, j]) / n
        penalty += 0.5 * l2 * w[j] * w[j]
        v = (up * sides[0, j] + down * sides[1, j]) / n
        dual_penalty += 0.5 * v * v / l2
    run.progress[0].item_gradients += n
    conjugates = (up * above + down * below) / n
    size = abs(conjugates) + losses / n + dual_penalty
    return losses / n + penalty, -conjugates - dual_penalty - ROUNDING * size


@kernel
def fill_scores(run: NewtonRun, memory: Any) -> None:
    """Write how much each row matters: half by its curvature, half by its slope.

    The sample's Hessian has the least noise with p ~ phi'' |x|^2, its gradient with |phi'| |x|.
    A mean length is added to that of each row, so that short rows are drawn too. The earlier scores
    count with a factor `memory`.
    """
    survey, scores = run.survey, run.survey.scores
    slopes, curves, reaches = survey.slopes, survey.curves, survey.reaches
    by_curve = by_slope = 0.0
    for item in range(scores.size):
        by_curve += curves[item] * reaches[item] * reaches[item]
        by_slope += abs(slopes[item]) * reaches[item]
    curve_unit = 1.0 / by_curve if by_curve > 0.0 else 0.0
    slope_unit = 1.0 / by_slope if by_slope > 0.0 else 0.0
    for item in range(scores.size):
        reach = reaches[item]
        score = reach * (curve_unit * curves[item] * reach + slope_unit * abs(slopes[item]))
        scores[item] = score + memory * scores[item] if memory > 0.0 else score


# --- the minimum over a sample ------------------------------------------------------------------


@kernel
def minimise_sample(run: NewtonRun, corrected: Any) -> None:
    """Move w to the minimum over the rows drawn, by Newton's method.

    Without a correction, it is the minimum of F_m + l2/2 |w|^2. The first eighth of the rows, a
    sample too, then leads most of the way, if that helps.
    """
    sample, scratch, w, batch = run.sample, run.scratch, run.w[0], run.batch
    m, width = batch.items.size, scratch.step.size
    whole = m == run.survey.slopes.size
    for b in range(m):
        item = b if whole else batch.items[b]
        sample.items[b] = item
        sample.factors[b] = run.model.weights[item] * (1.0 if whole else batch.importances[b])
    for j in range(width):
        scratch.correction[j] = 0.0
    if not (corrected or whole) and m >= NESTED * width:
        for j in range(width):
            scratch.gradient[j] = w[j]  # to go back to
        before = place(run, m)
        descend(run, m // 8, False)
        if place(run, m) > before:
            for j in range(width):
                w[j] = scratch.gradient[j]
    place(run, m)
    descend(run, m, corrected)


@kernel
def place(run: NewtonRun, m: int) -> Any:
    """Write the inner products of the first m rows drawn; return F_m + l2/2 |w|^2."""
    sample, scratch, w = run.sample, run.scratch, run.w[0]
    value = 0.0
    for b in range(m):
        sample.z[b] = 0.0
        if sample.factors[b] > 0.0:
            item = sample.items[b]
            sample.z[b] = scratch.z[0] = product(run, item, w)
            value += sample.factors[b] * run.model.slopes(item, scratch.z, scratch.slope) / m
    for j in range(scratch.sides.shape[1]):
        value += 0.5 * run.model.settings[0].l2 * w[j] * w[j]
    return value


@kernel
def descend(run: NewtonRun, m: int, corrected: Any) -> None:
    """Take steps of Newton's method on the first m rows drawn, from where `place` has been.

    The Hessian is computed again if the last step has left more than a tenth of the gain.
    """
    scratch, w = run.scratch, run.w[0]
    l2, width, d = run.model.settings[0].l2, scratch.step.size, scratch.sides.shape[1]
    first = last = 0.0
    for turn in range(STEPS):
        renew = turn == 0
        fill_gradient(run, m)
        if renew and corrected:
            for j in range(width):
                own = scratch.model_gradient[j] + (l2 * w[j] if j < d else 0.0)
                scratch.correction[j] = scratch.gradient[j] - own
        for j in range(width):
            scratch.model_gradient[j] += scratch.correction[j] + (l2 * w[j] if j < d else 0.0)
        gain = math.inf if renew else solve(run)
        if gain > SLOW * last:
            fill_hessian(run, m)
            factorise(scratch.hessian)
            gain = solve(run)
        if not 0.0 < gain < math.inf:
            break
        factor = move_along(run, m, gain)
        for j in range(width):
            w[j] += factor * scratch.step[j]
        for b in range(m):
            run.sample.z[b] += factor * run.sample.moves[b]
        run.progress[0].item_gradients += m
        first, last = max(first, gain), gain
        if gain <= ENOUGH * first or factor == 0.0:
            break


@kernel(inline=True)
def product(run: NewtonRun, item: int, vector: Floats) -> Any:
    """Return the inner product of a row, with a one for the intercept, and a vector."""
    constant = vector[vector.size - 1] if run.model.settings[0].intercept else 0.0
    return run.model.rows.dot(item, vector) + constant


@kernel
def fill_gradient(run: NewtonRun, m: int) -> None:
    """Write the gradient of F_m."""
    model, sample, scratch = run.model, run.sample, run.scratch
    gradient, d = scratch.model_gradient, scratch.sides.shape[1]
    for j in range(gradient.size):
        gradient[j] = 0.0
    for b in range(m):
        item = sample.items[b]
        if sample.factors[b] == 0.0:
            continue
        scratch.z[0] = sample.z[b]
        model.slopes(item, scratch.z, scratch.slope)
        slope = sample.factors[b] * scratch.slope[0] / m
        model.rows.add_row(item, slope, gradient)
        if model.settings[0].intercept:
            gradient[d] += slope


@kernel
def fill_hessian(run: NewtonRun, m: int) -> None:
    """Write the Hessian of F_m + l2/2 |w|^2: its lower triangle."""
    model, sample, scratch = run.model, run.sample, run.scratch
    clear(scratch.hessian)
    bends, total = sample.moves[:m], 0.0  # moves are scratch until the step is known
    for b in range(m):
        bends[b] = 0.0
        if sample.factors[b] > 0.0:
            bends[b] = sample.factors[b] * model.curve(sample.items[b], sample.z[b]) / m
        total += sample.factors[b] / m
    model.rows.add_outers(sample.items[:m], bends, scratch.block, scratch.hessian)
    regularise(run, total)


@kernel
def step_over_all(run: NewtonRun) -> None:
    """Take Newton's step with the Hessian of all rows, from what the last pass has seen."""
    sample, scratch, curves, w = run.sample, run.scratch, run.survey.curves, run.w[0]
    n, total = curves.size, 0.0
    clear(scratch.hessian)
    for start in range(0, n, sample.z.size):
        count = min(sample.z.size, n - start)
        for b in range(count):
            sample.items[b] = start + b
            sample.moves[b] = curves[start + b] / n
            total += run.model.weights[start + b] / n
        items, bends = sample.items[:count], sample.moves[:count]
        run.model.rows.add_outers(items, bends, scratch.block, scratch.hessian)
    regularise(run, total)
    factorise(scratch.hessian)
    for j in range(w.size):
        scratch.model_gradient[j] = scratch.gradient[j]
    solve(run)
    for j in range(w.size):
        w[j] += scratch.step[j]
    run.progress[0].item_gradients += n


@kernel(inline=True)
def clear(hessian: Floats) -> None:
    """Write zeros in the lower triangle."""
    for j in range(hessian.shape[0]):
        for k in range(j + 1):
            hessian[j, k] = 0.0


@kernel(inline=True)
def regularise(run: NewtonRun, total: Any) -> None:
    """Add l2, and a ridge for an intercept without curvature."""
    hessian, d = run.scratch.hessian, run.scratch.sides.shape[1]
    for j in range(d):
        hessian[j, j] += run.model.settings[0].l2
    if run.model.settings[0].intercept:
        hessian[d, d] += RIDGE * total


@kernel
def solve(run: NewtonRun) -> Any:
    """Write the step, -H^-1 g; return what it would gain of a quadratic, twice."""
    scratch = run.scratch
    for j in range(scratch.step.size):
        scratch.step[j] = -scratch.model_gradient[j]
    substitute(scratch.hessian, scratch.step)
    gain = 0.0
    for j in range(scratch.step.size):
        gain -= scratch.model_gradient[j] * scratch.step[j]
    return gain


@kernel
def move_along(run: NewtonRun, m: int, gain: Any) -> Any:
    """Return how far to go along the step: 1, or the first half of it that decreases enough."""
    sample, scratch = run.sample, run.scratch
    for b in range(m):
        sample.moves[b] = 0.0
        if sample.factors[b] > 0.0:
            sample.moves[b] = product(run, sample.items[b], scratch.step)
    before = value_along(run, m, 0.0)
    factor = 1.0
    for _ in range(HALVINGS):
        if value_along(run, m, factor) <= before - ARMIJO * factor * gain + ROUNDED * abs(before):
            return factor
        factor *= 0.5
    return 0.0


@kernel
def value_along(run: NewtonRun, m: int, factor: Any) -> Any:
    """Return F_m + l2/2 |w|^2 + c w at w + factor step."""
    sample, scratch, w = run.sample, run.scratch, run.w[0]
    value = 0.0
    for b in range(m):
        scratch.z[0] = sample.z[b] + factor * sample.moves[b]
        loss = run.model.slopes(sample.items[b], scratch.z, scratch.slope)
        value += sample.factors[b] * loss / m
    for j in range(w.size):
        there = w[j] + factor * scratch.step[j]
        value += scratch.correction[j] * there
        if j < scratch.sides.shape[1]:
            value += 0.5 * run.model.settings[0].l2 * there * there
    return value
