"""The rounds of `WorkingSets`, at one penalty after another.

Slopes are dual variables, a_i = -phi'(z_i), and u_j = (1/n) sum_i s_i a_i x_ij. Scaled by a factor
that makes them feasible, they prove (`tombola.solvers.gap`)

    min F >= D(a) = -(1/n) sum_i s_i phi*(-a_i) - sum_j max(|u_j| - l1, 0)^2 / (2 l2)

D is strongly concave, so its maximum a* is near a if F - D is small, and u* is near u. If
|u_j| < l1 for every u that close, w_j = 0 at the minimum: gap-safe screening.

References
----------
Fercoq, Gramfort, Salmon (2015). Mind the Duality Gap: Safer Rules for the Lasso.
Ndiaye, Fercoq, Gramfort, Salmon (2017). Gap Safe Screening Rules for Sparsity Enforcing Penalties.
Tibshirani, Bien, Friedman, Hastie, Simon, Taylor, Tibshirani (2012). Strong rules for discarding
predictors in lasso-type problems.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.problems.least_squares import LeastSquaresModel
from tombola.problems.linear import Linear
from tombola.problems.rows import Dense
from tombola.random import Stream
from tombola.samplers.compiled import CompiledSampler
from tombola.samplers.shuffle import Shuffle
from tombola.solvers.gap import ROUNDING, Penalty, balanced, dual_value
from tombola.solvers.lasso.columns import DenseDesign, Design
from tombola.solvers.lasso.quadratic import (
    FEW,
    decrease_left,
    minimise_by_columns,
    minimise_quadratic,
    new_model,
)
from tombola.state import Floats

__all__ = ["Minimum", "Rounds", "WorkingRun", "best_bound", "may_matter"]

Places = NDArray[np.int64]

FEWEST = 100  # columns that join at a time, if as many are wrong
LIMIT = 2048  # columns whose matrix of products is formed, at most
SMALL = 512  # columns whose matrix is formed, however few entries they have
RATIO = 2.0  # beyond, it is formed for at most this many columns per entry of a column
SHARE = 1e-3  # of the gap: how far from the minimum of its model a step may end
HALVINGS = 40  # of a step, at most
LEAST, PER_COLUMN = 2000, 20  # rows of the first sample: at least, and for each column
MOST = 0.5  # of the rows: a larger sample is all of them
KEPT = 0.1  # of what a step has gained: if more is left, the next one has curvatures of its own
CAUTIOUS = 0.1  # after a step that was cut to less, the next one uses the largest curvature
FALL = 1e-4  # of what the slopes promise: how far F must fall, at least
SLACK = 1e-13  # of the squares of a column: more than rounding takes from them
PATIENCE = 5  # rounds without progress, after which rounding is the limit


class Minimum(NamedTuple):
    """What a run has reached: F is at most `gap` above its minimum, where `goal` was wanted."""

    w: Floats
    intercept: float
    gap: float
    goal: float
    rounds: int


class Rounds:
    """Rounds at one penalty after another: look around, let columns join, take a step.

    Attributes
    ----------
    w : ndarray of shape (d,)
        The solution.
    members : ndarray
        The columns of the working set.
    """

    def __init__(self, d: int) -> None:
        self.w, self.members = np.zeros(d), np.empty(0, dtype=np.int64)
        self.l1 = math.inf  # the last one of a path

    def minimise(
        self,
        penalty: Penalty,
        *,
        goal: float,
        rounds: int,
        report: Callable[[int, float, int], None] | None = None,
    ) -> Minimum:
        """Minimise F to a gap of `goal`, in at most this many rounds; l1 must be above 0.

        `report` is called with the rounds done, the gap and the size of the working set.
        """
        self._move(np.maximum(self.w, 0.0) if penalty.positive else self.w)
        along, limit = math.isfinite(self.l1), penalty.l1
        if along:  # strong rule: |u_j| is likely to grow no faster than l1 falls
            limit = max(min(2.0 * penalty.l1 - self.l1, penalty.l1), 0.0)
        self.l1 = penalty.l1
        lower, least, last = 0.0, math.inf, math.inf
        share, idle, turn = SHARE, 0, 0
        while True:
            primal, bound, u = self._look(penalty)
            lower = max(lower, bound)
            gap = max(primal * (1.0 + ROUNDING) - lower, 0.0)
            if report is not None:
                report(turn, gap, self.members.size)
            idle = 0 if gap < 0.99 * least or primal < last - SHARE * gap else idle + 1
            least, last = min(gap, least), primal
            # along a path, the solution before is not taken again if columns are few
            done = gap <= goal and (turn > 0 or not along or self.members.size > FEW)
            if done or turn == rounds or idle == PATIENCE or not math.isfinite(gap):
                break
            turn += 1
            if not self._extend(u, penalty, limit if turn == 1 else penalty.l1):
                share *= 0.1  # all that is left is within the working set
            self._step(primal, penalty, share * gap)
        return self.here(gap, goal, turn)

    def _move(self, w: Floats) -> None:
        """Go to a point with the same columns, or fewer."""
        self.w = w

    def _look(self, penalty: Penalty) -> tuple[float, float, Floats]:
        """Return F, a lower bound on its minimum, and u."""
        raise NotImplementedError

    def _extend(self, u: Floats, penalty: Penalty, limit: float) -> bool:
        """Add columns with |u_j| above the limit; return whether there were any."""
        raise NotImplementedError

    def _step(self, primal: float, penalty: Penalty, enough: float) -> None:
        """Minimise F on the working set, or a model of it."""
        raise NotImplementedError

    def here(self, gap: float, goal: float, rounds: int) -> Minimum:
        """Return the present point."""
        raise NotImplementedError


class WorkingRun(Rounds):
    """A linear problem, to be minimised at one penalty after another.

    The solution, the working set and, for least squares, its matrix of products are kept from one
    penalty to the next.

    Parameters
    ----------
    design : Design
        The data by columns.
    model : Linear
        The loss, with targets and sample weights; its rows are not read.
    curvature : float
        The largest second derivative of the loss.
    fit_intercept : bool
    draws : callable
        Makes a sampler of k columns, for k.
    seed : int
        For samples of rows.
    """

    def __init__(
        self,
        design: Design,
        model: Linear,
        *,
        curvature: float,
        fit_intercept: bool,
        draws: Callable[[int], CompiledSampler] = Shuffle,
        seed: int = 0,
    ) -> None:
        self.seed = seed
        self.design, self.curvature, self.fit_intercept = design, curvature, fit_intercept
        # without its rows, the kernels are compiled once for all kinds of data
        self.model = model._replace(rows=Dense(np.zeros((1, 1))))
        self.exact = isinstance(model, LeastSquaresModel)  # the quadratic model is F itself
        self.draws, self.cautious = draws, False
        n, d, weights = design.n, design.d, model.weights
        self.means = np.zeros(d)
        if fit_intercept and isinstance(design, DenseDesign):
            self.means = design.dot(weights, np.arange(d)) / weights.sum()
        self._lengths: Floats | None = None
        super().__init__(d)
        self.intercept = 0.0  # with columns less their means
        self.z, self.slopes, self.curves = np.empty(n), np.empty(n), np.empty(n)
        self.losses, self.current = 0.0, False  # current: whether these are of the present point
        self.gained = 0.0  # by the last step
        self.samples = 0  # drawn so far; each has twice as many rows as the one before
        self._choose(np.empty(0, dtype=np.int64))

    def start(self, w: Floats, intercept: float) -> None:
        """Go to a point."""
        self.l1, self.w = math.inf, np.array(w, dtype=np.float64)
        self.intercept = float(intercept + self.means @ self.w)
        self.current = False
        self._choose(np.flatnonzero(self.w))

    @property
    def lengths(self) -> Floats:
        """The roots of (1/n) sum_i s_i (x_ij - mean_j)^2, with an allowance for rounding."""
        if self._lengths is None:
            weights, n = self.model.weights, self.design.n
            squares = self.design.squares(weights)
            centred = np.maximum(squares - weights.sum() * self.means**2, 0.0)
            self._lengths = np.sqrt((centred + SLACK * squares) / n)
        return self._lengths

    def _move(self, w: Floats) -> None:
        self.current = self.current and bool((self.w == w).all())
        self.w, support = w, np.flatnonzero(w)
        if self.has_matrix(support.size) and not self.has_matrix(self.members.size):
            self._choose(support)
        self.among = np.arange(self.design.d)  # those that have not been screened

    def _look(self, penalty: Penalty) -> tuple[float, float, Floats]:
        primal = self._survey(penalty)
        duals = -self.slopes
        if self.fit_intercept:
            duals = balanced(duals, self.model.weights, self.exact)
        u = self.correlate(duals, self.among)
        bound = best_bound(self.model, duals, u, self.w[self.among], penalty)
        self.near, self.factor = primal - bound.value, bound.factor
        return primal, bound.value, u

    def here(self, gap: float, goal: float, rounds: int) -> Minimum:
        """Return the present point."""
        return Minimum(
            self.w.copy(), float(self.intercept - self.means @ self.w), gap, goal, rounds
        )

    def _survey(self, penalty: Penalty) -> float:
        """Compute z, slopes and curvatures at the present point; return F."""
        if not self.current:
            self.z = self.block.combine(self.w[self.members])
            if self.exact and self.fit_intercept:
                weights = self.model.weights
                self.intercept = float(weights @ (self.model.targets - self.z) / weights.sum())
            self.z += self.intercept
            self.losses = survey(self.model, self.z, self.slopes, self.curves)
            self.current = True
        return float(self.losses / self.design.n + penalty.value(self.w))

    def correlate(self, duals: Floats, among: Places) -> Floats:
        """Return u_j = (1/n) sum_i s_i a_i (x_ij - mean_j)."""
        pulls = self.model.weights * duals
        products = self.design.dot(pulls, among) - pulls.sum() * self.means[among]
        return np.asarray(products / self.design.n)

    # --- the working set ------------------------------------------------------------------------

    def _choose(self, members: Places) -> None:
        """Begin a working set with these columns."""
        self.members = members
        self.block = self.design.block(self.means)
        self.block.add(members)
        self.h: Floats = np.empty(0)  # the curvatures of the quadratic model
        self.centre: Floats = np.empty(0)  # the means of the members in them
        self.products, self.known = np.empty((0, 0)), 0  # known: rows that hold

    def _extend(self, u: Floats, penalty: Penalty, limit: float) -> bool:
        among = self.among
        if self.design.by_columns:  # else a product with some columns is as long as with all
            lengths = self.lengths[among]
            kept = may_matter(self.factor * u, lengths, self.near, self.curvature, penalty)
            self.among = among = among[kept]
            u = u[kept]
        excess = penalty.size(u - penalty.l2 * self.w[among])
        outside = np.ones(self.design.d, dtype=bool)
        outside[self.members] = False
        wrong = np.flatnonzero((excess > limit) & outside[among])
        quota = max(FEWEST, int(np.count_nonzero(self.w)))
        if wrong.size > quota:
            wrong = np.sort(wrong[np.argpartition(-excess[wrong], quota)[:quota]])
        self.members = np.append(self.members, among[wrong])
        self.block.add(among[wrong])
        return wrong.size > 0

    # --- the step -------------------------------------------------------------------------------

    def _step(self, primal: float, penalty: Penalty, enough: float) -> None:
        """Minimise the quadratic model on the working set, and go there, or towards it.

        An intercept is at its best for every w, which centres the columns by the curvatures.
        """
        weights, size = self.model.weights, self.members.size
        pulls, before = weights * self.slopes, self.w[self.members]
        after = before.copy()
        if self.has_matrix(size):
            gradient = self._model(pulls, before, penalty)
            if size:
                minimise_quadratic(
                    self.products, gradient, after, penalty, self.draws(size).state, enough
                )
        else:
            self._renew()
            model = new_model(
                self.block.lines, self.block.places, self.h, pulls, self.centre,
                self.block.squares(self.h),
            )  # fmt: skip
            minimise_by_columns(model, after, penalty, self.draws(size).state, enough)
        total, shift, share = float(self.h.sum()), 0.0, 1.0
        if self.fit_intercept and total > 0.0:
            shift = -float(pulls.sum() / total + self.centre @ (after - before))
        if self.exact:
            self.current = False
        else:
            share = self._share(primal, after - before, shift, penalty)
            self.cautious = not self.cautious and share < CAUTIOUS
        self.w[self.members] = (after if share == 1.0 else before + share * (after - before)) + 0.0
        self.intercept += share * shift
        if self.current:
            self.gained = primal - self._survey(penalty)

    def has_matrix(self, size: int) -> bool:
        """Return whether a model of this many columns is minimised from its matrix.

        Otherwise it is minimised by columns, which is cheaper.
        """
        width = self.block.entries / max(self.members.size, 1)
        return size <= min(LIMIT, max(SMALL, RATIO * width))

    def _model(self, pulls: Floats, w: Floats, penalty: Penalty) -> Floats:
        """Bring the quadratic model up to date; return its gradient.

        Its curvatures are kept while the last step has left little to gain: a gradient takes less
        time than a matrix.
        """
        n, known, total = self.design.n, self.known, pulls.sum()
        dots = self.block.dot(pulls)
        old = self.cautious or known == 0
        if not old and not self.exact:
            gradient = (dots[:known] - total * self.centre[:known]) / n
            left = decrease_left(self.products, gradient, w[:known], penalty)
            old = left > KEPT * self.gained
        if old:
            self._renew()
        elif self.centre.size < w.size:
            self._centre()
        self._update_products()
        return np.asarray((dots - total * self.centre) / n)

    def _renew(self) -> None:
        """Take the curvatures of the present point, of all rows or of a sample of them."""
        h = self.model.weights * (self.curvature if self.cautious else self.curves)
        size = max(LEAST, PER_COLUMN * self.members.size) << self.samples
        if not self.exact and size < MOST * h.size:
            keep_some(h, size / h.sum(), Stream(self.seed, (self.samples,)).words(h.size))
            self.samples += 1
        self.h, self.known = h, 0
        self._centre()

    def _centre(self) -> None:
        """Compute the means of the members, in the curvatures of the model."""
        total = float(self.h.sum())
        free = self.fit_intercept and total > 0.0
        self.centre = self.block.dot(self.h) / total if free else np.zeros(self.members.size)

    def _update_products(self) -> None:
        """Compute G = (1/n) sum_i h_i (a_i - mean)(a_i - mean)' as far as it is not known."""
        size, begin, mean = self.members.size, self.known, self.centre
        if size > len(self.products):
            room = np.empty((size + size // 2, size + size // 2))
            room[:begin, :begin] = self.products[:begin, :begin]
            self.products = room
        if begin < size:
            self.block.fill_products(self.h, begin, self.products)
            fresh = self.products[begin:size, :size]
            fresh -= np.outer(self.h.sum() * mean[begin:], mean)
            fresh /= self.design.n
            self.products[:begin, begin:size] = fresh[:, :begin].T
        self.known = size

    def _share(self, primal: float, step: Floats, shift: float, penalty: Penalty) -> float:
        """Return the first of 1, 1/2, 1/4, ... at which F falls as promised, else 0."""
        n, ahead, before = self.design.n, self.block.combine(step) + shift, self.w[self.members]
        others = penalty.value(self.w) - penalty.value(before)
        promise = float((self.model.weights * self.slopes) @ ahead) / n
        promise += penalty.value(before + step) - penalty.value(before)
        size = 1.0
        for _ in range(HALVINGS):
            z = self.z + size * ahead
            losses = survey(self.model, z, self.slopes, self.curves)
            value = losses / n + others + penalty.value(before + size * step)
            if value <= primal * (1.0 + ROUNDING) + FALL * size * promise:
                self.z, self.losses = z, losses
                return size
            size *= 0.5
        self.current = False
        return 0.0


class Bound(NamedTuple):
    """A lower bound on the minimum, and the factor of the dual variables that prove it."""

    value: float
    factor: float


def best_bound(model: Linear, duals: Floats, u: Floats, w: Floats, penalty: Penalty) -> Bound:
    """Return the better of two bounds: of a itself if l2 > 0, and of a scaled to |u| <= l1."""
    a = duals[:, None]
    factors = penalty.factors(u, w)
    return max(Bound(dual_value(model, a, u, factor, penalty), factor) for factor in factors)


def may_matter(
    u: Floats, lengths: Floats, gap: float, curvature: float, penalty: Penalty
) -> NDArray[np.bool_]:
    """Return which w_j may be other than 0 at the minimum.

    Parameters
    ----------
    u : ndarray
        Of the dual point whose bound is `gap` below the objective.
    lengths : ndarray
        The roots of (1/n) sum_i s_i x_ij^2; with an intercept, of columns less their means.
    gap, curvature : float
        -phi* is strongly concave with 1 / curvature, so (1/n) sum_i s_i (a_i - a*_i)^2 is at most
        2 curvature gap.
    penalty : Penalty
    """
    reach = lengths * math.sqrt(2.0 * curvature * max(gap, 0.0))
    return np.asarray(penalty.size(u) + reach >= penalty.l1)


@kernel
def keep_some(h: Floats, rate: float, words: NDArray[np.uint64]) -> None:
    """Keep h_i with probability p = min(1, rate h_i), as h_i / p; else 0."""
    for i in range(h.size):
        p = rate * h[i]
        if p < 1.0:
            h[i] = 1.0 / rate if words[i] * 2.0**-64 < p else 0.0


@kernel
def survey(model: Linear, z: Floats, slope: Floats, curves: Floats) -> Any:
    """Return the sum of s_i phi(z_i); write phi' and phi''."""
    total = 0.0
    for i in range(z.size):
        total += model.weights[i] * model.slopes(i, z[i : i + 1], slope[i : i + 1])
        curves[i] = model.curve(i, z[i])
    return total
