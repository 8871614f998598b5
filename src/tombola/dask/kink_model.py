"""The driver's model of an objective with kinks: a few rows as they are, the others by slopes.

With a_i = -phi' at a point, rows drawn with the probabilities pi_i (`tombola.dask.near_kinks`), and
R the rows drawn, the model of (1/n) sum_i s_i phi(x_i w) is

    (1/n) sum_R (s_i/pi_i) phi(x_i w) - <tilt, w>,
    tilt = (1/n) (sum_all s_i a_i x_i - sum_R (s_i/pi_i) a_i x_i)

It is unbiased at every w, has the slopes of all rows at the point, and is exact, up to a constant,
as long as no row crosses a kink that was not certain to be drawn. With the penalty, and kappa/2
|w - point|^2 where earlier steps went too far, it is minimised by the steps of `SDCA`.

The dual variables found, with -phi' in place of those of rows that were not certain, are ones for
all rows, so they prove a bound on the minimum of the objective itself.

Where very many rows are at a kink at the minimum, their dual variables are between the slopes of
its two sides. Then they are -phi' of the objective with kinks rounded over a small width h (in the
midst of a kink: the mean of both sides), whose minimum is at most h/8 away: it is found by Newton's
method (`untie`), and h goes to 0.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tombola.compiling import kernel
from tombola.dask.local import BATCH, take_steps
from tombola.dask.near_kinks import NearRows
from tombola.dask.overview import Setting, lower_bound
from tombola.dask.partition import stacked
from tombola.problems.linear import Linear
from tombola.solvers.dual.level import intercept_at, pull_for, set_strength
from tombola.solvers.dual.run import FIRM, DualRun, heavier_side, rebuild
from tombola.solvers.dual.start import new_run
from tombola.state import Floats

__all__ = ["KinkModel", "Least"]

RIDGE = 1e-10  # of the mean curvature, added to a Hessian
EPOCHS, DRAWS = 300.0, 3e6  # of a model, at most; ten times as many if it has all rows


class Least(NamedTuple):
    """The minimum of a model."""

    point: Floats
    fall: float  # how much less the model is there than at its own point
    bound: float  # on the minimum of the objective
    tied: (
        float  # an estimate of the share of rows at a kink there that were not certain to be drawn
    )


class KinkModel:
    """A model of an objective around a point, by rows of all partitions and sums of an `Extract`.

    If not `tilted`, it has only the slopes of the rows drawn.
    """

    def __init__(
        self,
        setting: Setting,
        point: Floats,
        near: list[NearRows],
        duals: Floats,
        conjugates: Floats,
        terms: float,
        tilted: bool,
    ) -> None:
        self.setting, self.point, self.terms, self.tilted = setting, point, terms, tilted
        self.total = duals.sum(axis=0)
        self.X = stacked([rows.X for rows in near])
        self.targets, self.weights, self.duals, self.probabilities = (
            np.concatenate([rows[k] for rows in near]) for k in range(1, 5)
        )
        self.tilt = np.zeros(setting.mean.size + 1)
        if tilted:
            drawn = self._sums(self.weights / self.probabilities * self.duals)
            self.tilt = (self.total - drawn) / setting.n
        self.sure = self.probabilities == 1.0
        self.losses = self._problem(self.weights).model
        own, mine = self._of_sure(self.duals)
        self.rest = duals - own, conjugates - mine  # the sums over rows that were not certain

    def minimise(self, kappa: float, tolerance: float, seed: int) -> Least:
        """Return the minimum of the model, up to a tolerance."""
        setting, d = self.setting, self.setting.mean.size
        alpha = setting.l1 + setting.softness + kappa
        problem = self._problem(
            self.weights / self.probabilities, alpha=alpha, l1_ratio=setting.l1 / alpha
        )
        tilt = self.tilt.copy()
        tilt[:d] += kappa * self.point[:d]
        run = new_run(problem, BATCH, 0.0)._replace(tilt=tilt)
        self._begin(problem, run, tolerance)
        epochs = max(EPOCHS, DRAWS / problem.n)
        take_steps(run, setting.sampler, seed, 10 * epochs if self.sure.all() else epochs)
        point = run.best[0].copy()
        fall = problem.value(self.point) - problem.value(point)
        fall -= float(tilt[: point.size] @ (self.point - point))
        tied = float(self._between(run.duals)[~self.sure].sum()) / setting.n
        return Least(point, fall, self._bound(run.duals), tied)

    def untie(self, width: float) -> tuple[Floats, float]:
        """Return the end of a Newton step, and a bound, with kinks rounded over a width.

        The gradient is that of all rows, the Hessian that of the rows drawn.
        """
        setting, d, size = self.setting, self.setting.mean.size, self.point.size
        bends = self._between(self.duals) / (width * setting.n)
        hessian = np.zeros((d + 1, d + 1))
        if sparse.issparse(self.X):
            hessian[:d, :d] = (self.X.T @ self.X.multiply(bends[:, None])).toarray()
        else:
            hessian[:d, :d] = self.X.T @ (bends[:, None] * self.X)
        hessian[d] = hessian[:, d] = self._sums(bends)
        penalty = np.append(np.full(d, setting.l2), 0.0)
        hessian[np.diag_indices(d + 1)] += penalty + RIDGE * np.trace(hessian) / (d + 1)
        gradient = penalty[:size] * self.point - self.total[:size] / setting.n
        step = np.linalg.lstsq(hessian[:size, :size], gradient, rcond=None)[0]
        return self.point - step, self._bound(self.duals)

    def _between(self, duals: Floats) -> Floats:
        """Return the weights of rows whose dual variables are between those of two sides."""
        sizes = np.abs(duals)
        inside = (sizes > 0.0) & (sizes < 1.0)
        return np.where(inside, self.weights / self.probabilities, 0.0)

    def _problem(self, weights: Floats, **options: float) -> Any:
        """Return the problem of the rows, as a mean over them in place of one over all rows."""
        return self.setting.kind(
            self.X, self.targets, sample_weight=self.targets.size / self.setting.n * weights,
            normalise=False, **{**self.setting.options, **options},
        )  # fmt: skip

    def _begin(self, problem: Any, run: DualRun, tolerance: float) -> None:
        """Begin at the point, with the slopes there as dual variables."""
        m, d, level = problem.n, problem.d, run.level
        run.options[0].tolerance = run.options[0].aim = tolerance
        run.bounds[0].primal = run.bounds[0].gap = math.inf
        run.bounds[0].dual = -math.inf
        run.progress[0].due = 0
        run.duals[:] = self.duals
        run.centre[0] = run.previous[0] = self.point[:d]
        level[0].total = rebuild(run, run.w[0])
        bends = run.model.weights * np.abs(run.duals)
        trace = float(bends @ np.minimum(run.centring.lengths, run.options[0].longest)) / m
        strength, mean = max(problem.l2, FIRM * trace / m), run.centring.mean
        set_strength(level, mean, run.w[0], run.centre[0], strength, m, problem.l1, problem.l2)
        if problem.fit_intercept:
            level[0].pull = pull_for(level, run.options[0].length, m, float(bends.sum()) / m)
            level[0].intercept = intercept_at(level, mean, run.w[0], self.point)

    def _bound(self, duals: Floats) -> float:
        """Return a bound on the minimum of the objective, by dual variables of the rows."""
        setting, d, n = self.setting, self.setting.mean.size, self.setting.n
        own, mine = self._of_sure(duals)
        sums, conjugates = self.rest[0] + own, self.rest[1] + mine
        if setting.options["fit_intercept"]:
            sign, ratio = heavier_side(sums[0, d], -sums[1, d], 0.0)
            side = 0 if sign > 0 else 1
            sums[side] *= ratio
            conjugates[side] *= ratio  # phi* is linear on either side, as phi is between kinks
        return lower_bound(setting, sums.sum(axis=0)[:d] / n, conjugates.sum(), self.terms)

    def _of_sure(self, duals: Floats) -> tuple[Floats, Floats]:
        """Return sums of s_i a_i (x_i, 1) and s_i phi*(-a_i) over rows that are sure, by sign."""
        terms = np.empty(duals.size)
        fill_conjugates(self.losses, duals, terms)
        amounts = self.weights * duals
        sides = [self.sure & (amounts > 0.0), self.sure & (amounts < 0.0)]
        return (
            np.array([self._sums(np.where(side, amounts, 0.0)) for side in sides]),
            np.array([self.weights[side] @ terms[side] for side in sides]),
        )

    def _sums(self, amounts: Floats) -> Floats:
        """Return the sum of the rows times amounts, and that of the amounts."""
        return np.append(np.asarray(self.X.T @ amounts, dtype=np.float64), amounts.sum())


@kernel
def fill_conjugates(model: Linear, duals: Floats, out: Floats) -> None:
    """Write phi*(-a_i)."""
    for item in range(duals.size):
        out[item] = model.conjugate(item, duals[item])
