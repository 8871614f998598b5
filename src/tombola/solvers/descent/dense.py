"""Runs that move every coordinate in every round: O(d) a round."""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.solvers.descent.estimate import GradientRun, move_intercept, replace_slopes
from tombola.solvers.descent.rates import DIAGONAL, NORM, current_rate, diagonal_step
from tombola.solvers.descent.run import StoringOptions
from tombola.solvers.proximal import soft
from tombola.state import Cell, Floats, array, derived

__all__ = ["DenseOptions", "DenseRun"]


class DenseOptions(StoringOptions):
    """The parameters of a run that moves every coordinate."""

    radius: float = derived("the radius of the ball around 0 that w stays in")
    averaging: int = derived("0: no average of the iterates, 1: with equal weights, 2: weights t")


class DenseRun(GradientRun):
    """w <- prox(w - rate g), coordinate by coordinate."""

    options: Cell[DenseOptions] = derived("the parameters")
    average: Floats = array("the average of the iterates; empty unless asked for")

    def move(self) -> None:
        """Set w to prox(w - rate g)."""
        options = self.options[0]
        if options.averaging > 0:
            add_to_average(self.w, self.average, options.averaging, self.progress[0].rounds)
        move_all(self)
        if options.replaces_slopes:
            replace_slopes(self)

    def solution(self) -> Floats:
        """Return the average of the iterates if that is asked for, else the present one."""
        return self.average.copy() if self.average.size and self.rounds else self.iterate()


@kernel(inline=True)
def move_all(run: DenseRun) -> None:
    """Set w to prox(w - rate g), and g to zero."""
    options, settings, stored = run.options[0], run.model.settings[0], run.stored
    w, g, squares = run.w, run.g, run.squares
    outputs, width = w.shape
    last = width - settings.intercept
    if stored.table.size > 0:
        for k in range(outputs):
            for j in range(width):
                g[k, j] += stored.mean_gradient[k, j]
    measured = run.paces.size > 0
    if measured and last < width:
        for k in range(outputs):
            for j in range(last):
                g[k, j] -= run.centres[j] * g[k, last]
    if options.schedule == NORM:
        run.rates[0].square_sum += squared_length(g, run.paces)
    rate, l1, l2 = current_rate(run), settings.l1, settings.l2
    for k in range(outputs):
        if measured:
            move_measured(run, k, last, rate)
        elif options.schedule == DIAGONAL:
            move_diagonal(w[k], g[k], squares[k], last, rate, l1, l2)
        else:
            move_plain(w[k], g[k], last, rate, l1, l2)
        if last < width:
            move_intercept(run, k, rate)
    if options.radius < math.inf:
        project(w, options.radius)


@kernel(fast=True)
def move_plain(w: Any, g: Any, columns: Any, rate: Any, l1: Any, l2: Any) -> None:
    """Set w to prox(w - rate g), with one rate for all columns."""
    shrink = 1.0 / (1.0 + rate * l2)
    if l1 > 0.0:
        for j in range(columns):
            w[j] = soft(w[j] - rate * g[j], rate * l1) * shrink
            g[j] = 0.0
    else:
        for j in range(columns):
            w[j] = (w[j] - rate * g[j]) * shrink
            g[j] = 0.0


@kernel(fast=True)
def move_diagonal(w: Any, g: Any, squares: Any, columns: Any, rate: Any, l1: Any, l2: Any) -> None:
    """Set w to prox(w - rate / sqrt(sum g^2) g), with a rate for each column."""
    if l1 > 0.0:
        for j in range(columns):
            squares[j] += g[j] * g[j]
            w[j] = diagonal_step(w[j], g[j], math.sqrt(squares[j]), rate, l1, l2)
            g[j] = 0.0
    else:
        for j in range(columns):
            squares[j] += g[j] * g[j]
            root = math.sqrt(squares[j])
            w[j] = (w[j] * root - rate * g[j]) / (root + rate * l2) if root > 0.0 else w[j]
            g[j] = 0.0


@kernel
def move_measured(run: DenseRun, k: int, columns: Any, rate: Any) -> None:
    """Set w of output k to prox(w - rate g), with a rate for each column.

    The intercept makes up for the centres, c = b + m w: what the steps do to m w is taken from b.
    """
    w, g, settings, moved = run.w[k], run.g[k], run.model.settings[0], 0.0
    for j in range(columns):
        before, root = w[j], 1.0
        if run.options[0].schedule == DIAGONAL:
            run.squares[k, j] += g[j] * g[j]
            root = math.sqrt(run.squares[k, j])
        w[j] = diagonal_step(before, g[j], root, rate * run.paces[j], settings.l1, settings.l2)
        moved += run.centres[j] * (w[j] - before)
        g[j] = 0.0
    if columns < w.size:
        w[columns] -= moved


@kernel(inline=True)
def squared_length(g: Any, paces: Any) -> Any:
    """Return |g|^2, with relative rates of columns as their weights."""
    total = 0.0
    for k in range(g.shape[0]):
        for j in range(g.shape[1]):
            total += g[k, j] ** 2 * (paces[j] if j < paces.size else 1.0)
    return total


@kernel
def project(w: Any, radius: Any) -> None:
    """Project w, intercept included, onto the ball of this radius around 0."""
    total = 0.0
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            total += w[k, j] * w[k, j]
    if total > radius * radius:
        factor = radius / math.sqrt(total)
        for k in range(w.shape[0]):
            for j in range(w.shape[1]):
                w[k, j] *= factor


@kernel(inline=True)
def add_to_average(w: Any, average: Any, averaging: Any, t: Any) -> None:
    """Include w_t in the average of w_1 to w_t: with equal weights (1), or weights t (2)."""
    share = averaging / (t + averaging - 1.0)
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            average[k, j] += share * (w[k, j] - average[k, j])
