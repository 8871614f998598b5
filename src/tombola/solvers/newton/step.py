"""The two halves of a round of `Newton`: a pass over all rows, and the minimum over a sample.

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
from tombola.solvers.newton.cholesky import factorise, substitute
from tombola.solvers.newton.state import NewtonState
from tombola.state import Floats

__all__ = ["fill_scores", "minimise_sample", "step_over_all", "survey_rows"]

ROUNDING = 1e-12  # of the lower bound, relative to the size of its terms
STEPS = 20  # of Newton's method on a sample, at most
ENOUGH = 0.01  # it ends when a step is expected to gain this share of what the first one was
SLOW = 0.1  # a step that leaves more of the gain than this is followed by a new Hessian
NESTED = 16  # rows in a sample for each column, at least, where its first eighth leads the way
ARMIJO, HALVINGS, SAME = 1e-4, 30, 1e-15
RIDGE = 1e-9  # added to the intercept's diagonal entry, times the weight of the sample: it may be 0


@kernel(inline=True)
def add_exactly(total: Any, lost: Any, term: int) -> Any:
    """Return a sum with one more term, and what rounding took from it (Kahan's summation).

    The rounding of a plain sum of n terms grows with n, up to 1e-11 in a pass over 3e5 rows.
    """
    term -= lost
    after = total + term
    return after, (after - total) - term


@kernel
def survey_rows(run: NewtonState) -> Any:
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
def fill_scores(run: NewtonState, memory: Any) -> None:
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


@kernel
def minimise_sample(run: NewtonState, corrected: Any) -> None:
    """Move w to the minimum over the rows drawn, by Newton's method.

    Without a correction, it is the minimum of F_m + l2/2 |w|^2. The first eighth of the rows, a
    sample too, then leads most of the way, where that helps.
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
def place(run: NewtonState, m: int) -> Any:
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
def descend(run: NewtonState, m: int, corrected: Any) -> None:
    """Take steps of Newton's method on the first m rows drawn, from where `place` has been.

    The Hessian is computed again where the last step has left more than a tenth of the gain.
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
def product(run: NewtonState, item: int, vector: Floats) -> Any:
    """Return the inner product of a row, with a one for the intercept, and a vector."""
    constant = vector[vector.size - 1] if run.model.settings[0].intercept else 0.0
    return run.model.rows.dot(item, vector) + constant


@kernel
def fill_gradient(run: NewtonState, m: int) -> None:
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
def fill_hessian(run: NewtonState, m: int) -> None:
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
def step_over_all(run: NewtonState) -> None:
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
def regularise(run: NewtonState, total: Any) -> None:
    """Add l2, and a ridge for an intercept without curvature."""
    hessian, d = run.scratch.hessian, run.scratch.sides.shape[1]
    for j in range(d):
        hessian[j, j] += run.model.settings[0].l2
    if run.model.settings[0].intercept:
        hessian[d, d] += RIDGE * total


@kernel
def solve(run: NewtonState) -> Any:
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
def move_along(run: NewtonState, m: int, gain: Any) -> Any:
    """Return how far to go along the step: 1, or the first half of it that decreases enough."""
    sample, scratch = run.sample, run.scratch
    for b in range(m):
        sample.moves[b] = 0.0
        if sample.factors[b] > 0.0:
            sample.moves[b] = product(run, sample.items[b], scratch.step)
    before = value_along(run, m, 0.0)
    factor = 1.0
    for _ in range(HALVINGS):
        if value_along(run, m, factor) <= before - ARMIJO * factor * gain + SAME * abs(before):
            return factor
        factor *= 0.5
    return 0.0


@kernel
def value_along(run: NewtonState, m: int, factor: Any) -> Any:
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
