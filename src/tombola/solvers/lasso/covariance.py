"""Least squares with an l1 penalty along a path, from products of columns: covariance updates.

    F(w) = w G w / 2 - c w + p / 2 + l1 |w|_1 + l2/2 |w|^2

with G the products of the columns, c those with the target, and p the target's square. All of G is
computed at once if there are no more columns than rows; else the rows of G are, as their columns
join the working set. After that nothing depends on the number of rows of the data. This pays if
F is minimised many times.

References
----------
Friedman, Hastie, Tibshirani (2010). Regularization Paths for Generalized Linear Models via
Coordinate Descent (covariance updates).
Tibshirani, Bien, Friedman, Hastie, Simon, Taylor, Tibshirani (2012). Strong rules for discarding
predictors in lasso-type problems.
"""

import math

import numpy as np
from numpy.typing import NDArray

from tombola.solvers.gap import ROUNDING, Penalty
from tombola.solvers.lasso.columns import DenseDesign
from tombola.solvers.lasso.quadratic import minimise_quadratic
from tombola.solvers.lasso.rounds import FEWEST, PATIENCE, SHARE, Minimum, WorkingRun
from tombola.state import Floats

__all__ = ["CovarianceRun"]

Places = NDArray[np.int64]

ROWS = 1024  # of the data, that are converted at a time


class CovarianceRun:
    """Minimise at one penalty after another; the solution and the working set are kept.

    Parameters
    ----------
    run : WorkingRun
        Of least squares on dense data: its model, columns and draws are used.
    """

    def __init__(self, run: WorkingRun) -> None:
        assert isinstance(run.design, DenseDesign)
        self.values, self.means, self.draws = run.design.values, run.means, run.draws
        self.weights, targets = run.model.weights, run.model.targets
        self.pulls = run.correlate(targets, np.arange(run.design.d))  # c
        self.power = float(self.weights @ (targets * targets)) / targets.size  # p
        self.w = np.zeros(run.design.d)
        self.last = math.inf  # the l1 of the penalty before
        self.members = np.empty(0, dtype=np.int64)
        n, d = self.values.shape
        self.every = self._products(np.arange(d)) if d <= n else None  # G
        self.lines = np.empty((0, d))  # the rows of G, of the members
        self.block = np.empty((0, 0))  # the same, with the columns of the members only

    def minimise(self, penalty: Penalty, *, goal: float, rounds: int) -> Minimum:
        """Minimise F to a gap of `goal`, in at most this many rounds; l1 must be above 0."""
        if penalty.positive:
            self.w = np.maximum(self.w, 0.0)
        lower, least, share, idle, turn = 0.0, math.inf, SHARE, 0, 0
        limit = max(2.0 * penalty.l1 - self.last, 0.0)  # strong rule: below, w_j is likely 0
        while True:
            u = self.pulls - self.w[self.members] @ self.lines[: self.members.size]
            primal, bound = self._bounds(u, penalty)
            lower = max(lower, bound)
            gap = max(primal * (1.0 + ROUNDING) - lower, 0.0)
            idle = 0 if gap < 0.99 * least else idle + 1
            least = min(gap, least)
            if gap <= goal or turn == rounds or idle == PATIENCE or not math.isfinite(gap):
                break
            if not self._extend(u, penalty, penalty.l1 if turn else limit) and turn:
                share *= 0.1  # all that is left is within the working set
            turn += 1
            w, gradient = self.w[self.members], -u[self.members]
            if w.size:
                state = self.draws(w.size).state
                minimise_quadratic(self.block, gradient, w, penalty, state, share * gap)
            self.w[self.members] = w + 0.0
        self.last = penalty.l1
        return Minimum(self.w.copy(), -float(self.means @ self.w), gap, turn)

    def _bounds(self, u: Floats, penalty: Penalty) -> tuple[float, float]:
        """Return F, and the bound that the residuals r prove, scaled to be feasible.

        D(f r) = f r y - f^2 r r / 2 - sum_j max(|f u_j| - l1, 0)^2 / (2 l2)
        """
        w = self.w
        crossed = self.power - float(self.pulls @ w)  # r y
        squared = max(crossed - float(u @ w), 0.0)  # r r
        primal = 0.5 * squared + penalty.value(w)
        bounds = [
            f * crossed - 0.5 * f * f * squared - penalty.conjugate(f * penalty.size(u))
            for f in penalty.factors(u, w)
        ]
        return primal, max(bounds) - ROUNDING * self.power

    def _extend(self, u: Floats, penalty: Penalty, limit: float) -> bool:
        """Add the columns with |u_j| above the limit; return whether there are any.

        If their rows of G have to be computed, more join, those with the largest |u_j|: a
        product of matrices takes little longer with a hundred columns than with one, and others
        will be above the limit further down the path.
        """
        excess = penalty.size(u - penalty.l2 * self.w)
        excess[self.members] = -math.inf
        wrong = np.flatnonzero(excess > limit)
        if not wrong.size:
            return False
        if self.every is None:
            quota = min(max(FEWEST, self.members.size // 2), excess.size - self.members.size)
            wrong = np.sort(np.argpartition(-excess, quota - 1)[:quota])
        begin, size = self.members.size, self.members.size + wrong.size
        self.members = np.append(self.members, wrong)
        if size > len(self.lines):
            room = np.empty((size + size // 2, self.w.size))
            room[:begin] = self.lines[:begin]
            self.lines = room
        fresh = self._products(wrong) if self.every is None else self.every[wrong]
        self.lines[begin:size] = fresh
        block = np.empty((size, size))
        block[:begin, :begin] = self.block
        block[begin:] = self.lines[begin:size, self.members]
        block[:begin, begin:] = block[begin:, :begin].T
        self.block = block
        return True

    def _products(self, columns: Places) -> Floats:
        """Return (1/n) sum_i s_i (x_ij - mean_j)(x_i - mean), for some columns j."""
        n, d = self.values.shape
        out = np.zeros((columns.size, d))
        plain = self.values.dtype == np.float64 and (self.weights == 1.0).all()
        step = n if plain else ROWS
        for at in range(0, n, step):
            part = self.values[at : at + step]
            if not plain:
                part = part * np.sqrt(self.weights[at : at + step, None])
            chosen = part if columns.size == d else part[:, columns]
            out += chosen.T @ part  # of a matrix with itself: half of the work
        out -= np.outer(self.weights.sum() * self.means[columns], self.means)
        return np.asarray(out / n)
