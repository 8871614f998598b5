"""Least squares with an l1 penalty along a path, from products of columns: covariance updates.

    F(w) = w G w / 2 - c w + p / 2 + l1 |w|_1 + l2/2 |w|^2

with G the products of the columns, c those with the target, and p the target's square. After
that nothing depends on the number of rows of the data. This pays if F is minimised many times and
there are no more columns than rows.

In cross-validation, G without a fold is that of all rows less that of the fold.

References
----------
Friedman, Hastie, Tibshirani (2010). Regularization Paths for Generalized Linear Models via
Coordinate Descent (covariance updates).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.samplers.compiled import CompiledSampler
from tombola.solvers.gap import ROUNDING, Penalty
from tombola.solvers.lasso.quadratic import minimise_quadratic
from tombola.solvers.lasso.rounds import Minimum, Rounds
from tombola.state import Floats

__all__ = ["CovarianceRun", "Moments"]

Places = NDArray[np.int64]

ROWS = 1024  # of the data, that are converted at a time
MOST = 1e3  # a difference of sums is at least 1 / MOST of one of them: rounding stays small


class Moments:
    """Weighted sums over rows: of x - m, of y - k, and of their products.

    Parameters
    ----------
    values : ndarray of shape (n, d)
    targets, weights : ndarray of shape (n,)
    centred : bool
        Whether m and k are the means of the rows, or 0.
    rows : ndarray, optional
        Which rows; by default all.
    centre : tuple of ndarray and float, optional
        Other m and k.
    """

    def __init__(
        self,
        values: NDArray[Any],
        targets: Floats,
        weights: Floats,
        *,
        centred: bool,
        rows: Places | None = None,
        centre: tuple[Floats, float] | None = None,
    ) -> None:
        self.values, self.targets, self.weights, self.centred = values, targets, weights, centred
        d = values.shape[1]
        y, s = (targets, weights) if rows is None else (targets[rows], weights[rows])
        self.total = s.sum()
        parts = [slice(at, at + ROWS) for at in range(0, y.size, ROWS)]
        chosen: list[Any] = parts if rows is None else [rows[part] for part in parts]
        if centre is None:
            first = np.zeros(d)
            for part, places in zip(parts if centred else [], chosen, strict=False):
                first += s[part] @ values[places]
            centre = first / self.total, float(s @ y / self.total) if centred else 0.0
        self.centre = centre
        y = y - centre[1]
        self.level, self.power = s @ y, s @ (y * y)
        self.first, self.pulls, self.products = np.zeros(d), np.zeros(d), np.zeros((d, d))
        with np.errstate(over="ignore", invalid="ignore"):
            for part, places in zip(parts, chosen, strict=True):
                roots = np.sqrt(s[part])
                scaled = (values[places] - centre[0]) * roots[:, None]
                self.first += roots @ scaled
                self.pulls += (roots * y[part]) @ scaled
                self.products += scaled.T @ scaled  # of a matrix with itself: half of the work

    def among(self, counts: NDArray[np.int64]) -> "Moments":
        """Return the moments of rows as often as counted: the difference, if that is quicker."""
        of, centred, rest = (self.values, self.targets), self.centred, np.flatnonzero(counts == 0)
        if 2 * rest.size < counts.size and counts.max() == 1:
            part = Moments(*of, self.weights, centred=centred, rows=rest, centre=self.centre)
            with np.errstate(invalid="ignore"):
                for name in ("total", "level", "power", "first", "pulls", "products"):
                    setattr(part, name, getattr(self, name) - getattr(part, name))
            squares, before = (np.append(m.products.diagonal(), m.power) for m in (part, self))
            if (MOST * squares >= before).all():
                return part
        rows = np.flatnonzero(counts)
        return Moments(*of, counts * self.weights, centred=centred, rows=rows)


class CovarianceRun(Rounds):
    """Minimise at one penalty after another; the solution and the working set are kept.

    Parameters
    ----------
    moments : Moments
        If they are centred, with an intercept.
    draws : callable
        Makes a sampler of k columns, for k.
    """

    def __init__(self, moments: Moments, draws: Callable[[int], CompiledSampler]) -> None:
        self.draws, total, d = draws, moments.total, moments.first.size
        centre, middle = moments.centre
        mean, level = np.zeros(d), 0.0
        if moments.centred:
            mean, level = moments.first / total, float(moments.level / total)
        self.centre, self.middle = centre + mean, middle + level
        with np.errstate(over="ignore", invalid="ignore"):
            self.gram = moments.products / total - np.outer(mean, mean)  # G
            self.pulls = moments.pulls / total - level * mean  # c
        self.power = max(float(moments.power / total) - level**2, 0.0)  # p
        super().__init__(d)
        self.block = np.empty((0, 0))  # G of the members, with room for more

    def here(self, gap: float, goal: float, rounds: int) -> Minimum:
        """Return the present point."""
        return Minimum(self.w.copy(), self.middle - float(self.centre @ self.w), gap, goal, rounds)

    def _look(self, penalty: Penalty) -> tuple[float, float, Floats]:
        """Return F, the bound that the residuals r prove, scaled to be feasible, and u.

        D(f r) = f r y - f^2 r r / 2 - sum_j max(|f u_j| - l1, 0)^2 / (2 l2)
        """
        w, support = self.w, np.flatnonzero(self.w)
        few = 2 * support.size < w.size  # a copy of their products is then quicker
        u = self.pulls - (w[support] @ self.gram[support] if few else self.gram @ w)
        crossed = self.power - float(self.pulls @ w)  # r y
        squared = max(crossed - float(u @ w), 0.0)  # r r
        bounds = [
            f * crossed - 0.5 * f * f * squared - penalty.conjugate(f * penalty.size(u))
            for f in penalty.factors(u, w)
        ]
        self.gradient = -u
        return 0.5 * squared + penalty.value(w), max(bounds) - ROUNDING * self.power, u

    def _step(self, primal: float, penalty: Penalty, enough: float) -> None:
        w, gradient = self.w[self.members], self.gradient[self.members]
        if w.size:
            minimise_quadratic(self.block, gradient, w, penalty, self.state, enough)
        self.w[self.members] = w + 0.0

    def _extend(self, u: Floats, penalty: Penalty, limit: float) -> bool:
        excess = penalty.size(u - penalty.l2 * self.w)
        excess[self.members] = -np.inf
        wrong = np.flatnonzero(excess > limit)
        if wrong.size:
            before, self.members = self.members.size, np.append(self.members, wrong)
            size = self.members.size
            if size > len(self.block):
                block = np.empty((min(2 * size, excess.size),) * 2)
                block[:before, :before] = self.block[:before, :before]
                self.block = block
            lines = self.gram[np.ix_(wrong, self.members)]
            self.block[before:size, :size] = lines
            self.block[:before, before:size] = lines[:, :before].T
            self.state = self.draws(size).state
        return wrong.size > 0
