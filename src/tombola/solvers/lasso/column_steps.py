"""Minimise the quadratic model of an objective by columns, where its matrix would be too large.

    Q(v) = p X v / n + sum_i h_i (x_i v - c)^2 / (2 n) + penalty(w + v)

with slopes p, curvatures h and, where there is an intercept, the best c for every v, which centres
the columns by their means in h. A step in w_j takes O(non-zeros of column j): t = p + h (X v) is
kept, and the part of the means apart from it.
"""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.problems.rows import Rows
from tombola.samplers.compiled import Compiled
from tombola.solvers.lasso.quadratic import SLOW
from tombola.solvers.lasso.screening import Penalty
from tombola.solvers.proximal import soft
from tombola.state import Cell, Floats, Ints, Record, State, cell, derived

__all__ = ["ColumnModel", "minimise_by_columns", "new_model"]

EPOCHS = 1000  # at most


class Sums(Record):
    """Sums over all rows."""

    slopes: float = derived("that of p")
    total: float = derived("that of h")
    moved: float = derived("sum_j v_j mean_j", default=0.0)


class ColumnModel(State):
    """The model of an objective on some columns; it is never saved."""

    lines: Rows = derived("the columns, as rows")
    places: Ints = derived("which of them")
    h: Floats = derived("(n,): curvatures")
    t: Floats = derived("(n,): p + h (X v), without the means")
    means: Floats = derived("those of the columns, in h; 0 without an intercept")
    smooth: Floats = derived("(1/n) sum_i h_i (x_ij - mean_j)^2")
    sums: Cell[Sums] = derived("sums over all rows")


def new_model(
    lines: Rows,
    places: Ints,
    h: Floats,
    slopes: Floats,
    means: Floats,
    squares: Floats,
) -> ColumnModel:
    """Return the model at v = 0; `squares` are the sums of h_i x_ij^2."""
    total = float(h.sum())
    smooth = np.maximum(squares - total * means * means, 1e-12 * squares) / h.size
    sums = cell(Sums(slopes=float(slopes.sum()), total=total))
    return ColumnModel(lines, places, h, slopes.copy(), means, smooth, sums)


def minimise_by_columns(
    model: ColumnModel, w: Floats, penalty: Penalty, state: Compiled, enough: float
) -> None:
    """Minimise Q in place, until a sweep decreases it by at most SLOW times `enough`."""
    for _ in range(EPOCHS):
        if sweep_columns(model, w, penalty, state) <= SLOW * enough:
            break


@kernel
def sweep_columns(model: ColumnModel, w: Floats, penalty: Penalty, state: Compiled) -> Any:
    """Minimise in as many coordinates as there are, drawn; return the decrease of Q."""
    n, sums, l1, l2 = model.t.size, model.sums[0], penalty.l1, penalty.l2
    decrease = 0.0
    for _ in range(w.size):
        c, probability = state.draw_one()
        line, mean, smooth = model.places[c], model.means[c], model.smooth[c]
        product = model.lines.dot(line, model.t)
        gradient = (product - mean * (sums.slopes + sums.total * sums.moved)) / n
        after = 0.0
        if smooth > 0.0:
            after = soft(smooth * w[c] - gradient, l1) / (smooth + l2)
            if penalty.positive and after < 0.0:
                after = 0.0
        change = after - w[c]
        twice = (smooth + l2) * change * change
        state.update_one(c, probability, math.sqrt(math.sqrt(twice)))
        if change != 0.0:
            decrease += 0.5 * twice
            w[c] = after
            model.lines.add_scaled(line, change, model.h, model.t)
            sums.moved += change * mean
    return decrease
