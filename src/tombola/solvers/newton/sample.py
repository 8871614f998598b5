"""The minimum over the rows drawn, by Newton's method, in numpy.

With m rows drawn by p, which stand for all rows,

    F_m(w) = sum_b s_b phi_b(x_b w) / (m n p_b)

and the next w minimises F_m + l2/2 |w|^2 + c w, where c = g - (the gradient of F_m + l2/2 |w|^2)
corrects the sample's gradient to the exact one, g.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tombola.problems.linear import Linear
from tombola.problems.rows import (
    Dense,
    Rows,
    Sparse,
    blocks,
    mean_entries,
    products,
    shape_of,
    taken,
)
from tombola.state import Floats, Ints

__all__ = ["Bowl", "Sample", "bowl_over"]

STEPS = 20  # of Newton's method on a sample, at most
ENOUGH = 0.01  # it ends when a step is expected to gain this share of what the first one was
FAR = 1e-3  # ... or this share of a tolerance, if there is one
SLOW = 0.1  # a step that leaves more of the gain than this is followed by a new Hessian
ARMIJO, HALVINGS, ROUNDED = 1e-4, 30, 1e-14  # of a step: what it must gain, and rounding
RIDGE = 1e-9  # added to the curvature of the intercept, times the weight of the sample: it may be 0
FLOORS = (1e-14, 1e-11, 1e-8)  # added to the Hessian's diagonal, relative to it
SMALLEST = 1e-300  # of that diagonal
SHORT = 10  # rows with less than 1 / SHORT of all columns are multiplied as sparse ones


class Bowl(NamedTuple):
    """A positive definite Hessian, over columns centred by their means in its curvature.

    The intercept is then apart from the others.
    """

    matrix: Floats  # (d, d), with ones on its diagonal
    scales: Floats  # (d,): 1 over the roots of the diagonal that it had
    means: Floats  # (d,); zeros without an intercept
    mass: float  # the curvature of the intercept; 0 without one

    def step(self, gradient: Floats) -> tuple[Floats, float]:
        """Return -H^-1 g, and what it would gain of a quadratic, twice; not a number at worst."""
        d = self.scales.size
        rest = gradient[:d].copy()
        if self.mass > 0.0:
            rest -= self.means * gradient[d]
        step, matrix = np.empty_like(gradient), self.matrix
        for floor in FLOORS:
            matrix = self.matrix + floor * np.eye(d) if floor > FLOORS[0] else matrix
            try:
                step[:d] = -self.scales * np.linalg.solve(matrix, self.scales * rest)
            except np.linalg.LinAlgError:  # singular
                continue
            if self.mass > 0.0:
                step[d] = -gradient[d] / self.mass - self.means @ step[:d]
            gain = -float(gradient @ step)
            if 0.0 <= gain < math.inf:
                return step, gain
        return step, math.nan


def bowl_over(rows: Rows, bends: Floats, total: float, l2: float, intercept: bool) -> Bowl:
    """Return the Hessian of sum_i b_i (x_i w)^2 / 2 + l2/2 |w|^2 with bends b.

    Its diagonal is scaled to ones, so that it does not depend on the units of columns. `total` is
    the weight of the rows, for the ridge of the intercept.
    """
    d = shape_of(rows)[1]
    means, mass = np.zeros(d), 0.0
    if intercept:
        mass = float(bends.sum()) + RIDGE * total
        for where, matrix in blocks(rows):
            means += bends[where] @ matrix
        means /= mass or 1.0
    sparse = isinstance(rows, Sparse)
    products = sparse and mean_entries(rows) * SHORT < d
    square, roots = np.zeros((d, d)), np.sqrt(bends)
    for where, matrix in blocks(rows):
        if products:
            square += (matrix.T @ matrix.multiply(bends[where, None]).tocsr()).toarray()
            continue
        part = (matrix.toarray() if sparse else matrix) - means
        part *= roots[where, None]
        square += part.T @ part
    if products:
        square -= np.outer(mass * means, means)
    diagonal = square.reshape(-1)[:: d + 1]  # a view
    diagonal += l2
    scales = 1.0 / np.sqrt(np.maximum(diagonal, SMALLEST))
    square *= scales
    square *= scales[:, None]
    diagonal[:] = 1.0 + FLOORS[0]
    return Bowl(square, scales, means, mass)


@dataclass
class Sample:
    """Rows that stand for all rows, in F_m + l2/2 |w|^2."""

    rows: Rows
    model: Linear
    items: Any  # their numbers, or a slice of all
    factors: Floats  # s_b / (m n p_b)
    visits: int = 0  # rows that steps have visited

    @classmethod
    def of(cls, model: Linear, items: Ints, factors: Floats) -> "Sample":
        """Return the sample of some rows, as a copy: dense ones unless they are short."""
        rows = taken(model.rows, items)
        if isinstance(rows, Sparse) and mean_entries(rows) * SHORT >= rows.shape[1]:
            dense = np.zeros(shape_of(rows))
            places = np.repeat(np.arange(items.size), np.diff(rows.starts))
            dense[places, rows.columns] = rows.values
            rows = Dense(dense)
        return cls(rows, model, items, factors)

    def first(self, count: int) -> "Sample":
        """Return the first rows, as a sample of their own."""
        share = self.factors.size / count
        rows, items = taken(self.rows, np.arange(count)), self.items[:count]
        return Sample(rows, self.model, items, share * self.factors[:count])

    def products(self, w: Floats) -> Floats:
        """Return the inner products of the rows with w; 0 for rows that count nothing."""
        d = shape_of(self.rows)[1]
        z = products(self.rows, w[:d])
        if self.model.settings[0].intercept:
            z += w[d]
        if not self.factors.all():
            z[self.factors == 0.0] = 0.0  # it may have overflowed
        return z

    def penalty(self, w: Floats) -> float:
        """Return l2/2 |w|^2, without the intercept."""
        coefficients = w[: shape_of(self.rows)[1]]
        return 0.5 * self.model.settings[0].l2 * float(coefficients @ coefficients)

    def gradient(self, w: Floats, slopes: Floats) -> Floats:
        """Return the gradient of F_m + l2/2 |w|^2, for slopes at w."""
        d, shares, out = shape_of(self.rows)[1], self.factors * slopes, np.zeros_like(w)
        for where, matrix in blocks(self.rows):
            out[:d] += shares[where] @ matrix
        out[:d] += self.model.settings[0].l2 * w[:d]
        if self.model.settings[0].intercept:
            out[d] = shares.sum()
        return out

    def value(self, w: Floats) -> float:
        """Return F_m + l2/2 |w|^2."""
        losses = self.model.derivatives(self.items, self.products(w))[0]
        return float(self.factors @ losses) + self.penalty(w)

    def bowl(self, curves: Floats) -> Bowl:
        """Return the Hessian of F_m + l2/2 |w|^2, for second derivatives of the losses."""
        settings, total = self.model.settings[0], float(self.factors.sum())
        bends = self.factors * curves
        return bowl_over(self.rows, bends, total, settings.l2, bool(settings.intercept))

    def descend(self, w: Floats, exact: Floats | None = None, tolerance: float = 0.0) -> Floats:
        """Return the end of Newton's method from w, where the exact gradient is given, if any.

        The Hessian is computed again if the last step has left more than a tenth of the gain. With
        a tolerance, it ends after a step that was expected to gain far less than that.
        """
        z = self.products(w)
        losses, slopes, curves = self.model.derivatives(self.items, z)
        correction = np.zeros_like(w) if exact is None else exact - self.gradient(w, slopes)
        value = float(self.factors @ losses) + self.penalty(w) + float(correction @ w)
        bowl, first, last = None, 0.0, 0.0
        for _ in range(STEPS):
            gradient = self.gradient(w, slopes) + correction
            gain = math.inf
            if bowl is not None:
                step, gain = bowl.step(gradient)
            if bowl is None or not gain <= SLOW * last:
                bowl = self.bowl(curves)
                step, gain = bowl.step(gradient)
            if not 0.0 < gain < math.inf:
                break
            self.visits += self.factors.size
            moves, factor = self.products(step), 1.0
            for _ in range(HALVINGS if gain > ROUNDED * abs(value) else 1):
                there, ahead = w + factor * step, z + factor * moves
                losses, slopes, curves = self.model.derivatives(self.items, ahead)
                reached = float(self.factors @ losses) + self.penalty(there)
                reached += float(correction @ there)
                if reached <= value - ARMIJO * factor * gain + ROUNDED * abs(value):
                    break
                factor *= 0.5
            else:
                break  # rounding hides what is left
            w, z, value, first, last = there, ahead, reached, max(first, gain), gain
            if gain <= (FAR * tolerance if tolerance > 0.0 else ENOUGH * first):
                break
        return w
