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
DIRECT = 2**21  # ... up to which steps of one output do not take conjugate gradients
SLOW = 0.1  # a step that leaves more of the gain than this is followed by a new Hessian
ARMIJO, HALVINGS, ROUNDED = 1e-4, 30, 1e-14  # of a step: what it must gain, and rounding
RIDGE = 1e-9  # added to the curvature of the intercept, times the weight of the sample: it may be 0
TURNS, ALONE = 60, 100  # of conjugate gradients, at most: with classes, and for one output, ...
WIDEST = 4096  # ... where a Hessian of so many columns takes the place of those that took them all
CLOSE, CLOSER = 0.1, 0.03  # the share that they may leave; for one output, whose turns cost less
LEFT = 0.01  # of a chance that a step foresees to be negative
LIKELY = 2.0  # times the tolerance: a step that gains this little may prove to be the last
# they are preconditioned over some rows: WORTH n / d, SOME, or RICH d, the most of them; in a basis
# of its own up to d^2 = TURNED n K
WORTH, SOME, RICH, TURNED = 8, 512, 2, 8
# one output takes them with at least TALL rows for each column, or at least WIDE columns
TALL, WIDE = 64, 512
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


class Basis(NamedTuple):
    """Columns R of coefficients, w = R v, in which a Hessian is nearly diagonal.

    Over some rows, z = u v + an intercept, with entries u that are uncorrelated, have a mean of 0
    and are orthogonal in the penalty.
    """

    places: Ints  # some rows of a sample, evenly spaced
    factors: Floats  # what they count; the same sum as those of the sample
    rows: Rows  # their entries u
    matrix: Floats | None  # R, (d, d); None: the identity
    centre: Floats  # (d,): what was subtracted from the rows before R
    penalty: Floats  # (d,): the diagonal of R' R l2
    lack: Floats  # (d,): that of the mean squares of columns that these rows lack

    @classmethod
    def of(cls, sample: "Sample", classes: int) -> "Basis":
        """Return the basis of a sample; R = I if another one costs more than about 20 products."""
        m, d, l2 = sample.factors.size, sample.d, sample.l2
        turned = d * d <= TURNED * m * classes
        size = max(SOME, WORTH * m // d, RICH * d if turned else 0)
        counting = np.flatnonzero(sample.factors)  # others may overflow
        places = counting[:: max(1, counting.size // size)]
        rows, factors = taken(sample.rows, places), sample.factors[places]
        factors *= sample.factors.sum() / (factors.sum() or 1.0)
        total = float(factors.sum()) or 1.0
        sums, seen = moments(rows, factors)
        whole = seen if places.size == m else moments(sample.rows, sample.factors)[1]
        lack = np.where(whole > 2.0 * seen, whole, 0.0)  # a column may be 0 in all of these rows
        centre, penalty, matrix = np.zeros(d), np.full(d, l2), None
        if turned or isinstance(rows, Dense):
            centre = sums / total * sample.intercept
            entries = filled(rows) - centre
            if turned:
                ridge = l2 + lack + FLOORS[1] * total * centre**2
                matrix = turn((entries.T * factors) @ entries + np.diag(ridge), l2)
                entries = entries @ matrix
                penalty, lack = l2 * (matrix**2).sum(axis=0), lack @ matrix**2
            rows = Dense(entries)
        return cls(places, factors, rows, matrix, centre, penalty, lack / total)


def moments(rows: Rows, factors: Floats) -> tuple[Floats, Floats]:
    """Return the sum of rows times factors of shape (m,) or (K, m), and that of their squares."""
    sums, squares = np.zeros((2, *factors.shape[:-1], shape_of(rows)[1]))
    for where, matrix in blocks(rows):
        square = matrix**2 if isinstance(rows, Dense) else matrix.power(2)
        sums += factors[..., where] @ matrix
        squares += factors[..., where] @ square
    return sums, squares


def filled(rows: Rows) -> Floats:
    """Return rows as an array."""
    if isinstance(rows, Dense):
        return np.asarray(rows.values, dtype=np.float64)
    out = np.zeros(shape_of(rows))
    out[np.repeat(np.arange(len(out)), np.diff(rows.starts)), rows.columns] = rows.values
    return out


def turn(square: Floats, l2: float) -> Floats:
    """Return an R for which R' A R = 1, and R' R is diagonal if l2 > 0.

    It does not depend on the units of columns.
    """
    scales = 1.0 / np.sqrt(np.maximum(square.diagonal(), SMALLEST))
    square *= scales
    square *= scales[:, None]
    square[np.diag_indices_from(square)] = 1.0 + FLOORS[1]
    if not np.isfinite(square).all():
        return np.diag(scales)
    inverse = np.linalg.inv(np.linalg.cholesky(square)).T
    found = np.linalg.eigh((inverse.T * (l2 * scales**2)) @ inverse)[1]
    return np.asarray(scales[:, None] * (inverse @ found), dtype=np.float64)


class Bowls:
    """The Hessian of a sample: products with it, and steps by conjugate gradients.

    They are preconditioned by its diagonal in a `Basis`, for each class. The mean over classes,
    which no loss depends on, is apart from that: there the Hessian is l2.

    Attributes
    ----------
    turns : int
        Products that the last step took.
    """

    def __init__(self, sample: "Sample", curves: Floats, basis: Basis) -> None:
        self.sample, self.curves, self.basis, self.turns = sample, curves, basis, 0
        self.classes, self.all_count = curves.ndim == 2, bool(sample.factors.all())
        bends = curves[basis.places]
        bends = ((bends * (1.0 - bends)).T if self.classes else bends[None]) * basis.factors
        total = float(basis.factors.sum()) or 1.0
        self.mass = bends.sum(axis=1, keepdims=True) + RIDGE * total
        sums, squares = moments(basis.rows, bends)
        self.means = sums / self.mass * sample.intercept
        variances = np.maximum(squares - self.mass * self.means**2, FLOORS[1] * squares)
        self.diagonal = np.maximum(variances + basis.penalty + self.mass * basis.lack, SMALLEST)

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
        goal = (CLOSE if self.classes else CLOSER) ** 2 * square
        most = TURNS if self.classes else ALONE
        for self.turns in range(1, most + 1):
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
        """Return the inverse of the diagonal times vectors."""
        d, basis, given = self.sample.d, self.basis, np.atleast_2d(vectors)
        out, level = np.empty_like(given), given[:, d:] if self.sample.intercept else 0.0
        rest = given[:, :d] - level * basis.centre
        rest = rest if basis.matrix is None else rest @ basis.matrix
        rest = (rest - level * self.means) / self.diagonal
        out[:, :d] = rest if basis.matrix is None else rest @ basis.matrix.T
        if self.sample.intercept:
            out[:, d] = given[:, d] / self.mass[:, 0] - (self.means * rest).sum(axis=1)
            out[:, d] -= out[:, :d] @ basis.centre
        if self.classes:
            out -= out.mean(axis=0)
        return out.reshape(vectors.shape)


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
    direct: bool = False  # whether steps of one output have a Hessian, however many columns

    def __post_init__(self) -> None:
        settings = self.model.settings[0]
        self.d, self.l2, self.intercept = shape_of(self.rows)[1], settings.l2, settings.intercept

    @classmethod
    def of(cls, model: Linear, items: Ints, factors: Floats) -> "Sample":
        """Return the sample of some rows, as a copy: dense ones unless they are short."""
        rows = taken(model.rows, items)
        if isinstance(rows, Sparse) and mean_entries(rows) * SHORT >= rows.shape[1]:
            rows = Dense(filled(rows))
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

        With many columns, and for several classes, it is a `Bowls`, in the basis of the one before.
        """
        m, several = self.factors.size, curves.ndim == 2
        large = self.d >= 2 * WORTH and (m >= TALL * self.d or self.d >= WIDE)
        if not several and (self.direct or not large or m * self.d**2 <= DIRECT):
            return self.bowl_of(self.rows, self.factors * curves)
        classes = curves.shape[1] if several else 1
        basis = before.basis if isinstance(before, Bowls) else Basis.of(self, classes)
        return Bowls(self, curves, basis)

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
                if isinstance(bowl, Bowls) and bowl.turns == ALONE and self.d <= WIDEST:
                    self.direct, bowl = True, self.bowl_of(self.rows, self.factors * curves)
                    step, gain = bowl.step(gradient)
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
