"""One step of `SDCA`: the exact maximum of the dual over one variable.

With lambda = l2, weights s_i and dual variables a_i, a run keeps

    v = (1/(lambda n)) sum_i s_i a_i x_i,      w = soft(v, l1 / lambda)

A step on row i replaces a_i by the b that maximises

    -phi*(-b) - b z - q/2 (b - a_i)^2,         z = x_i w,   q = s_i |x_i|^2 / (lambda n)

which is the dual itself for l1 = 0, else a lower bound of it.

Where rows are long and curved for their number, lambda is small for dual ascent, and the objective
is minimised with kappa/2 |w - y|^2 added, for a centre y that every pass moves (Catalyst). With
strength = lambda + kappa and share = lambda / strength, strength takes the place of lambda above,

    w = soft(u, l1 / strength),      u = (1/(strength n)) sum_i s_i a_i x_i + (1 - share) y

and u is what a run keeps.

An intercept without penalty makes sum_i s_i a_i = 0 a constraint of the dual. It is treated by an
augmented Lagrangian: a step acts as if rows had one more column, of the value sqrt(pull), whose
weight is regularised towards a centre; every pass moves that centre to where the weight is. Where
l1 = 0, rows are centred besides. That changes the meaning of the intercept alone, shortens rows,
and makes the intercept nearly independent of w. With `total` = (1/(strength n)) sum_i s_i a_i,

    w = u - total * mean,      z = x_i u - total * (x_i mean) + intercept

The objective may have a linear term, -<tilt, (w, b)>. It acts as a row whose dual variable is held:
tilt / strength is part of u and total.
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.solvers.dual.state import DualState
from tombola.state import Floats

__all__ = ["fill_residuals", "margin", "rebuild", "residual", "visit"]


@kernel(inline=True)
def margin(run: DualState, item: int) -> Any:
    """Return z = x_i w + b."""
    level = run.level[0]
    if level.threshold > 0.0:
        return run.model.rows.soft_dot(item, run.w[0], level.threshold) + level.intercept
    product = run.model.rows.dot(item, run.w[0])
    return product - level.total * run.centring.products[item] + level.intercept


@kernel(inline=True)
def visit(run: DualState, item: int) -> Any:
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
def residual(run: DualState, item: int, a: Any, b: Any, z: Any) -> Any:
    """Return s_i |kappa_i| sqrt(|x_i|^2 + strength n / (c s_i)), AdaSDCA's weight of a row.

    kappa_i = a_i + phi'(z_i) is the dual residual, and phi is c-smooth. Where phi is not smooth,
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
def fill_residuals(run: DualState, out: Floats) -> None:
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
def rebuild(run: DualState, out: Floats) -> Any:
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
