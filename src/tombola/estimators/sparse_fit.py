"""What lassos, elastic nets, their paths and their cross-validation share: fits by columns."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, Ridge

from tombola.estimators.base import AcceptsSparse, LinearPrediction, checked_rows
from tombola.estimators.parameters import COUNT, FROM_0, Declared, one_of, parameter
from tombola.problems.least_squares import LeastSquares
from tombola.problems.linear import Settings
from tombola.problems.linear import checked_weights as normalised
from tombola.problems.rows import Dense
from tombola.samplers.compiled import CompiledSampler
from tombola.solvers.gap import Penalty
from tombola.solvers.lasso.columns import DenseDesign, as_design
from tombola.solvers.lasso.covariance import CovarianceRun, Moments
from tombola.solvers.lasso.rounds import Minimum, WorkingRun
from tombola.state import Floats, cell
from tombola.validation import not_negative

__all__ = ["SparseFit", "SparseModel", "checked_columns", "warn_unconverged"]

OVERFLOW = "X holds numbers so large or so small that a fit overflows: scale its columns"
MANY = 10  # alphas of a path, from which on the products of its columns pay


def checked_columns(estimator: Any, X: Any, y: Any) -> tuple[Any, NDArray[np.float64]]:
    """Return X and y validated: X dense in either order, or compressed sparse columns."""
    X, y = checked_rows(
        estimator, X, y, reset=True, accept_sparse="csc", order=None, y_numeric=True,
        multi_output=True,
    )  # fmt: skip
    return X, np.asarray(y.toarray() if hasattr(y, "toarray") else y, dtype=np.float64)


class SparseFit:
    """(1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + penalty, at one penalty after another.

    X, y and weights are validated; weights of 0 leave rows out, as in cross-validation. `draws`
    makes the sampler of k columns, for k. A fit ends when its duality gap is at most tol times the
    mean of (y - mean)^2.
    """

    moments: Moments | None = None  # sums over rows, if paths are computed from them

    def __init__(
        self,
        X: Any,
        y: Floats,
        weights: Floats,
        *,
        fit_intercept: bool,
        positive: bool,
        draws: Callable[[int], CompiledSampler],
        tol: float,
        max_iter: int,
    ) -> None:
        self.fit_intercept, self.positive, self.draws = fit_intercept, positive, draws
        self.tol, self.max_iter = tol, max_iter
        self.X, self.design = X, as_design(X)
        weights = normalised(weights, y.size)
        with np.errstate(over="ignore", invalid="ignore"):
            self.middle = float(np.average(y, weights=weights)) if fit_intercept else 0.0
            self.y = y - self.middle
            self._weigh(weights)
        if not np.isfinite(self.unit):
            raise ValueError("y holds numbers so large that their squares overflow: scale it")

    def _weigh(self, weights: Floats) -> None:
        """Set the weights of rows, and what they change."""
        self.weights = normalised(weights, self.y.size)
        level = np.average(self.y, weights=self.weights) if self.fit_intercept else 0.0
        self.unit = float(np.average((self.y - level) ** 2, weights=self.weights))

    @cached_property
    def rows(self) -> Any:
        """X, from which rows are quickly taken."""
        return self.X.tocsr() if hasattr(self.X, "tocsr") else self.X

    def among(self, counts: NDArray[np.int64]) -> "SparseFit":
        """Return the same problem for rows as often as counted, as in cross-validation."""
        fold, weights = copy(self), counts * self.weights
        vars(fold).pop("run", None)
        if self.moments is not None:
            fold.moments = self.moments.among(counts)
        else:
            some = np.flatnonzero(counts)
            fold.X, fold.y, weights = self.rows[some], self.y[some], weights[some]
            fold.design = as_design(fold.X)
        fold._weigh(weights)
        return fold

    @cached_property
    def run(self) -> WorkingRun:
        """The problem on the data."""
        model = LeastSquares.model_class(
            rows=Dense(np.zeros((1, 1))),
            targets=self.y,
            weights=self.weights,
            norms=np.zeros(1),
            settings=cell(Settings(l1=0.0, l2=0.0, intercept=int(self.fit_intercept))),
        )
        return WorkingRun(
            self.design, model, curvature=1.0, fit_intercept=self.fit_intercept, draws=self.draws
        )

    def sum_up(self, fits: int) -> None:
        """Sum up the rows, if that pays for this number of fits."""
        design = self.design
        if isinstance(design, DenseDesign) and fits >= MANY and design.d <= design.n:
            self.moments = Moments(
                design.values, self.y, self.weights, centred=self.fit_intercept
            )  # fmt: skip

    def start(self, w: ArrayLike) -> None:
        """Go to a point, where the intercept is at its best."""
        self.run.start(np.asarray(w, dtype=np.float64), 0.0)

    def largest_alpha(self, l1_ratio: float) -> float:
        """Return the least alpha of a model without columns."""
        if l1_ratio == 0.0:
            raise ValueError("alphas must be given for l1_ratio=0: no alpha leaves out all columns")
        pull = self.run.correlate(self.run.model.targets, np.arange(self.run.design.d))
        return max(float(Penalty(0.0, 0.0, self.positive).size(pull).max()), 0.0) / l1_ratio

    def minimise(self, alpha: float, l1_ratio: float, run: Any = None, **others: Any) -> Minimum:
        """Minimise at a penalty, from the last solution; if given, by a `run` on products.

        Other arguments are those of `WorkingRun.minimise`.
        """
        alpha = not_negative("alpha", alpha)
        penalty = Penalty(alpha * l1_ratio, alpha * (1.0 - l1_ratio), self.positive)
        settings = {"goal": self.tol * self.unit, "rounds": self.max_iter, **others}
        with np.errstate(over="ignore", invalid="ignore"):
            if penalty.l1 == 0.0 and not self.positive:
                found = self._without_l1(penalty, settings)
            else:
                found = (run if run and penalty.l1 > 0.0 else self.run).minimise(
                    penalty, **settings
                )
            w = found.w.astype(self.X.dtype)
        if not (np.isfinite(w).all() and np.isfinite([found.intercept, found.gap]).all()):
            raise ValueError(OVERFLOW)
        return found._replace(w=w, intercept=found.intercept + self.middle)

    def _without_l1(self, penalty: Penalty, settings: dict[str, Any]) -> Minimum:
        """Minimise without l1: a linear system, solved by scikit-learn.

        Without l2 it is solved again for the residuals r: if v is the least-squares fit to them, F
        falls by v X'r / (2 n) from w to w + v, its minimum.
        """
        if not np.isfinite(self.run.lengths).all():
            raise ValueError(OVERFLOW)
        X, l2 = self.X.astype(np.float64), penalty.l2
        solver = "lsqr" if hasattr(X, "tocsr") else "auto"
        kind: Any = partial(Ridge, l2 * self.y.size, tol=1e-14, solver=solver)
        if l2 == 0.0 and solver == "auto":
            kind = LinearRegression
        first, second = (kind(fit_intercept=self.fit_intercept) for _ in "12")
        first.fit(X, self.y, self.weights)
        if l2 > 0.0:
            self.start(first.coef_)
            return self.run.minimise(penalty, **settings)
        residuals = self.y - first.predict(X)
        step = second.fit(X, residuals, self.weights).coef_
        fall = 0.5 * abs(float(step @ self.run.correlate(residuals, np.arange(step.size))))
        self.run.start(first.coef_ + step, first.intercept_ + second.intercept_)
        return self.run.here(fall, self.tol * self.unit, 1)

    def path(
        self,
        alphas: Floats,
        l1_ratio: float,
        report: Callable[[float, Minimum], None] | None = None,
    ) -> Iterator[Minimum]:
        """Yield the models of falling alphas, each from the last one."""
        run = None
        if self.moments is not None and l1_ratio > 0.0:
            run = CovarianceRun(self.moments, self.draws)
        for alpha in alphas:
            found = self.minimise(float(alpha), l1_ratio, run=run)
            if report is not None:
                report(float(alpha), found)
            yield found


def warn_unconverged(who: str, fits: Sequence[Minimum], max_iter: int, level: int = 4) -> None:
    """Warn of fits that have not reached their tolerance, at a level above this function."""
    late = [fit for fit in fits if not fit.gap <= fit.goal]
    if not late:
        return
    worst = max(late, key=lambda fit: fit.gap / fit.goal if fit.goal > 0.0 else np.inf)
    limit = f"max_iter={max_iter} rounds" if worst.rounds >= max_iter else "rounding is the limit"
    where = f" in {len(late)} of {len(fits)} fits" if len(fits) > 1 else ""
    warnings.warn(
        f"{who} has not converged{where} ({limit}): the duality gap is {worst.gap:.3g}, above "
        f"the {worst.goal:.3g} that tol asks for",
        ConvergenceWarning,
        stacklevel=level,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class SparseModel(LinearPrediction, RegressorMixin, AcceptsSparse, Declared):
    """What `Lasso`, `ElasticNet` and their cross-validation have in common: parameters."""

    fit_intercept: bool = parameter(True, "boolean")
    max_iter: int = parameter(1000, COUNT)
    tol: float = parameter(1e-6, FROM_0)
    positive: bool = parameter(False, "boolean")
    random_state: Any = parameter(None, "random_state")
    verbose: int = parameter(0, "verbose")
    precompute: Any = parameter("auto", "boolean", one_of("auto"), "array-like")
    copy_X: bool = parameter(True, "boolean")  # noqa: N815
    selection: str = parameter("cyclic", one_of("cyclic", "random"))

    def _on(self, X: Any, y: Floats, weights: Floats, draws: Any) -> SparseFit:
        """Return the fit of these rows, with the parameters of the model."""
        return SparseFit(
            X, y, weights, fit_intercept=self.fit_intercept, positive=self.positive,
            draws=draws, tol=self.tol, max_iter=self.max_iter,
        )  # fmt: skip

    @property
    def sparse_coef_(self) -> Any:
        """The coefficients as a sparse array, (outputs, d)."""
        return sparse.csr_array(np.atleast_2d(self.coef_))
