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

__all__ = ["Bowl", "Descent", "Sample", "bowl_over"]

STEPS = 20  # of Newton's method on a sample, at most
ENOUGH = 0.01  # it ends when a step is expected to gain this share of what the first one was
FAR = 0.5  # ... or this share of a tolerance, if there is one: the certificate then is as good
CHEAP = 2**19  # products in a Hessian that is computed for each step
SLOW = 0.1  # a step that leaves more of the gain than this is followed by a new Hessian
ARMIJO, HALVINGS, ROUNDED = 1e-4, 30, 1e-14  # of a step: what it must gain, and rounding
RIDGE = 1e-9  # added to the curvature of the intercept, times the weight of the sample: it may be 0
TURNS, CLOSE = 60, 0.03  # of conjugate gradients: at most, and the share that may be left
LEFT = 0.01  # of a chance that a step foresees to be negative
LIKELY = 2.0  # times the tolerance: a step that gains this little may prove to be the last
WORTH, SOME = 8, 512  # it is preconditioned by some rows, which costs about two turns, or SOME
TALL = 64  # rows for each column, from which on that pays for one output
PATIENCE = 20  # turns after which all rows are taken for that
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

    def step(self, gradient: Floats, tolerance: float = 0.0) -> tuple[Floats, float]:
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

    def inverse(self) -> "Bowl":
        """Return the same with the inverse of its matrix, for `times`."""
        return self._replace(matrix=np.asarray(np.linalg.inv(self.matrix), dtype=np.float64))

    def times(self, vector: Floats) -> Floats:
        """Return H^-1 times a vector, for an inverse."""
        d, out = self.scales.size, np.empty_like(vector)
        rest = vector[:d] - self.means * vector[d] if self.mass > 0.0 else vector[:d]
        out[:d] = self.scales * (self.matrix @ (self.scales * rest))
        if self.mass > 0.0:
            out[d] = vector[d] / self.mass - self.means @ out[:d]
        return out


class Bowls:
    """The Hessian of a sample: products with it, and steps by conjugate gradients.

    They are preconditioned by a block for each class. The mean over classes, which no loss depends
    on, is apart from them: there the Hessian is l2.

    Attributes
    ----------
    turns : int
        Products that the last step took.
    """

    def __init__(self, sample: "Sample", curves: Floats, blocks: list[Bowl]) -> None:
        self.sample, self.curves, self.blocks, self.turns = sample, curves, blocks, 0
        self.classes, self.all_count = curves.ndim == 2, bool(sample.factors.all())

    def times(self, vectors: Floats) -> Floats:
        """Return the Hessian times vectors of shape (width,) or (K, width)."""
        sample, d, out = self.sample, self.sample.d, np.zeros_like(vectors)
        out[..., :d] = sample.l2 * vectors[..., :d]
        for where, matrix in blocks(sample.rows):
            p, bent = self.curves[where], matrix @ vectors[..., :d].T
            if sample.intercept:
                bent += vectors[..., d]
            if not self.all_count:
                bent[sample.factors[where] == 0.0] = 0.0  # it may have overflowed
            bent *= p
            if self.classes:  # curves are chances
                bent -= p * bent.sum(axis=1, keepdims=True)
            shares = bent.T * sample.factors[where]
            out[..., :d] += shares @ matrix
            if sample.intercept:
                out[..., d] += shares.sum(axis=-1)
        return out

    def step(self, gradient: Floats, tolerance: float = 0.0) -> tuple[Floats, float]:
        """Return about -H^-1 g, and what it would gain of a quadratic, twice.

        If that is about the tolerance, g + H s gets so small that s proves how close w + s is.
        """
        d, step, rest = self.sample.d, np.zeros_like(gradient), -gradient
        gain, last = 0.0, self.sample.l2 * tolerance  # of |g + H s|^2
        if self.classes:
            mean = gradient.mean(axis=0)
            rest += mean
        towards = self.conditioned(rest)
        direction, square = towards, float(np.vdot(rest, towards))
        goal = CLOSE**2 * square
        for self.turns in range(1, TURNS + 1):
            bent = self.times(direction)
            curvature = float(np.vdot(direction, bent))
            left = rest[..., :d]
            more = square > goal or (gain <= LIKELY * tolerance and np.vdot(left, left) > last)
            if not (more and 0.0 < curvature < math.inf):
                break
            gain += square**2 / curvature
            step += square / curvature * direction
            rest -= square / curvature * bent
            towards = self.conditioned(rest)
            square, before = float(np.vdot(rest, towards)), square
            direction = towards + square / before * direction
        if self.classes:
            step -= step.mean(axis=0)
            if self.sample.l2 > 0.0:
                step[:, :d] -= mean[:d] / self.sample.l2
        return step, -float(np.vdot(gradient, step))

    def conditioned(self, vectors: Floats) -> Floats:
        """Return vectors times the inverses of the blocks."""
        if not self.classes:
            return self.blocks[0].times(vectors)
        found = [block.times(row) for block, row in zip(self.blocks, vectors, strict=True)]
        return np.array(found)


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


class Descent(NamedTuple):
    """The end of Newton's method on a sample."""

    w: Floats
    value: float  # of the sample's objective, its correction included
    duals: Floats | None = None  # inner products whose slopes are nearly stationary; None: unknown


@dataclass
class Sample:
    """Rows that stand for all rows, in F_m + l2/2 |w|^2."""

    rows: Rows
    model: Linear
    items: Any  # their numbers, or a slice of all
    factors: Floats  # s_b / (m n p_b)
    visits: int = 0  # rows that steps have visited

    def __post_init__(self) -> None:
        settings = self.model.settings[0]
        self.d, self.l2, self.intercept = shape_of(self.rows)[1], settings.l2, settings.intercept

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

    def eighth(self) -> "Sample":
        """Return an eighth of the rows, as a sample: the first ones drawn, or every eighth."""
        m, drawn = self.factors.size, not isinstance(self.items, slice)
        head = np.arange(m // 8) if drawn else np.arange(0, m, 8)
        items, factors = self.items[head] if drawn else head, self.factors[head] * (m / head.size)
        return Sample(taken(self.rows, head), self.model, items, factors)

    def products(self, w: Floats) -> Floats:
        """Return the inner products of the rows with w; 0 for rows that count nothing."""
        z = products(self.rows, w[..., : self.d])
        if self.intercept:
            z += w[..., self.d]
        if not self.factors.all():
            z[self.factors == 0.0] = 0.0  # it may have overflowed
        return z

    def penalty(self, w: Floats) -> float:
        """Return l2/2 |w|^2, without the intercept."""
        coefficients = w[..., : self.d]
        return 0.5 * self.l2 * float(np.vdot(coefficients, coefficients))

    def gradient(self, w: Floats, slopes: Floats) -> Floats:
        """Return the gradient of F_m + l2/2 |w|^2, for slopes at w."""
        out = self.combination(slopes.T * self.factors)
        out[..., : self.d] += self.l2 * w[..., : self.d]
        return out

    def combination(self, shares: Floats) -> Floats:
        """Return the sum of the rows times shares of shape (m,) or (K, m); ones are appended."""
        d, out = self.d, np.zeros((*shares.shape[:-1], self.d + bool(self.intercept)))
        for where, matrix in blocks(self.rows):
            out[..., :d] += shares[..., where] @ matrix
        if self.intercept:
            out[..., d] = shares.sum(axis=-1)
        return out

    def value(self, w: Floats) -> float:
        """Return F_m + l2/2 |w|^2."""
        losses = self.model.derivatives(self.items, self.products(w))[0]
        return float(self.factors @ losses) + self.penalty(w)

    def bowl(self, curves: Floats, before: Any = None) -> Any:
        """Return the Hessian of F_m + l2/2 |w|^2, for second derivatives or chances.

        With many columns, and for several classes, it is a `Bowls` preconditioned by some of the
        rows: by all if that was not enough before, or without a penalty, when columns that are 0
        in some rows would count for nothing.
        """
        m, every = self.factors.size, 1
        if self.l2 > 0.0 and not (isinstance(before, Bowls) and before.turns > PATIENCE):
            every = max(1, min(self.d // WORTH, m // SOME))
        several = curves.ndim == 2
        if not several and (every == 1 or m < TALL * self.d or m * self.d**2 <= CHEAP):
            return self.bowl_of(self.rows, self.factors * curves)
        some = np.arange(0, m - m % every, every)
        rows = taken(self.rows, some) if every > 1 else self.rows
        factors, part = self.factors[some] * every, curves[some]
        bends = (part * (1.0 - part)).T if several else part[None]
        return Bowls(self, curves, [self.bowl_of(rows, factors * c).inverse() for c in bends])

    def bowl_of(self, rows: Rows, bends: Floats) -> Bowl:
        """Return the Hessian of some rows, which stand for the sample."""
        total = float(self.factors.sum())
        return bowl_over(rows, bends, total, self.l2, bool(self.intercept))

    def gain(self, w: Floats) -> float:
        """Return what Newton's step from w would gain of a quadratic, twice."""
        _, slopes, curves = self.model.derivatives(self.items, self.products(w))
        return float(self.bowl(curves).step(self.gradient(w, slopes))[1])

    def descend(self, w: Floats, exact: Floats | None = None, tolerance: float = 0.0) -> Descent:
        """Return the end of Newton's method from w, where the exact gradient is given, if any.

        The Hessian is computed again if it costs little, or if the last step has left more than a
        tenth of the gain. With a tolerance, it ends after a step that was expected to gain far less
        than that.
        """
        z = self.products(w)
        losses, slopes, curves = self.model.derivatives(self.items, z)
        correction = np.zeros_like(w) if exact is None else exact - self.gradient(w, slopes)
        value = float(self.factors @ losses) + self.penalty(w) + float(np.vdot(correction, w))
        bowl: Any = None
        first = last = 0.0
        duals = None
        cheap = self.factors.size * self.d**2 <= CHEAP
        for _ in range(STEPS):
            gradient = self.gradient(w, slopes) + correction
            gain = math.inf
            if isinstance(bowl, Bowl) and not cheap:
                step, gain = bowl.step(gradient)
            if not gain <= SLOW * last:
                bowl = self.bowl(curves, bowl)
                step, gain = bowl.step(gradient, tolerance)
            if not 0.0 < gain < math.inf:
                break
            self.visits += self.factors.size
            moves, factor, before = self.products(step), 1.0, (slopes, curves)
            for _ in range(HALVINGS if gain > ROUNDED * abs(value) else 1):
                there, ahead = w + factor * step, z + factor * moves
                losses, slopes, curves = self.model.derivatives(self.items, ahead)
                reached = float(self.factors @ losses) + self.penalty(there)
                reached += float(np.vdot(correction, there))
                if reached <= value - ARMIJO * factor * gain + ROUNDED * abs(value):
                    break
                factor *= 0.5
            else:
                break  # rounding hides what is left
            w, z, value, first, last = there, ahead, reached, max(first, gain), gain
            enough = FAR * tolerance if tolerance > 0.0 else ENOUGH * first
            if gain <= max(enough, ROUNDED * abs(value)):
                if factor == 1.0 and tolerance > 0.0:
                    duals = forecast(*before, moves, z, slopes, curves)
                break
        return Descent(w, value, duals)


def forecast(
    slopes: Floats, curves: Floats, moves: Floats, z: Floats, now: Floats, bends: Floats
) -> Floats:
    """Return inner products whose slopes are those that Newton's step foresaw, about.

    The step w + s makes phi' + phi'' x s stationary. Those slopes prove more than the true ones at
    w + s, whose gradient is not 0: with l2 = 1/n, a thousand times as much.
    """
    if curves.ndim == 2:  # softmax: slopes are chances less the label
        foreseen = curves * (1.0 + moves - (curves * moves).sum(axis=1, keepdims=True))
        return np.log(np.maximum(foreseen, LEFT * bends))
    shift = (slopes + curves * moves - now) / np.maximum(bends, SMALLEST)
    return z + np.clip(shift, -1.0, 1.0)
