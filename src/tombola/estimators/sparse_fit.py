"""What `Lasso`, `ElasticNet`, `LassoCV` and `lasso_path` share: least squares by working sets."""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from tombola.estimators.base import (
    FEW,
    LinearModel,
    LinearPrediction,
    checked_weights,
    checks_parameters,
    draw_seeds,
    one_column,
)
from tombola.problems.least_squares import LeastSquares
from tombola.problems.linear import Settings
from tombola.problems.linear import checked_weights as normalised
from tombola.problems.rows import Dense, check_places
from tombola.samplers.compiled import CompiledSampler
from tombola.samplers.registry import UNGROUPED
from tombola.solvers.gap import Penalty
from tombola.solvers.lasso.columns import DenseDesign, as_design
from tombola.solvers.lasso.covariance import CovarianceRun
from tombola.solvers.lasso.rounds import Minimum, WorkingRun
from tombola.solvers.lasso.working_sets import drawing
from tombola.state import cell

__all__ = [
    "SparseFit",
    "SparseRegressor",
    "alpha_grid",
    "checked_alphas",
    "checked_columns",
    "warn_of_gap",
]

Floats = NDArray[np.float64]

MANY = 10  # alphas of a path, from which on the products of its columns pay
SMALLEST = 1e-15  # of a grid, where no column matters


def checked_columns(estimator: Any, X: Any, y: Any) -> tuple[Any, Floats]:
    """Return X and y validated: dense in either order, or compressed sparse columns."""
    X, y = validate_data(
        estimator, X, y, accept_sparse="csc", dtype=[np.float64, np.float32], y_numeric=True,
        multi_output=True,
    )  # fmt: skip
    if hasattr(X, "tocsc"):
        check_places(X.T, "X.T")
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        if X.indices.dtype == np.int64 and X.nnz < FEW and max(X.shape) < 2**31:
            parts = (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
            X = type(X)(parts, shape=X.shape)
    return X, one_column(y).astype(np.float64)


class SparseFit:
    """(1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + penalty, at one penalty after another.

    Parameters
    ----------
    X, y, weights
        Validated; weights of 0 leave rows out, as in cross-validation.
    fit_intercept, positive : bool
    draws : callable
        Makes the sampler of k columns, for k.
    """

    def __init__(
        self,
        X: Any,
        y: Floats,
        weights: Floats,
        *,
        fit_intercept: bool,
        positive: bool,
        draws: Callable[[int], CompiledSampler],
    ) -> None:
        weights = normalised(weights, y.size)
        self.positive = positive
        self.middle = float(np.average(y, weights=weights)) if fit_intercept else 0.0
        self.unit = float(np.average((y - self.middle) ** 2, weights=weights))
        model = LeastSquares.model_class(
            rows=Dense(np.zeros((1, 1))),
            targets=y - self.middle,
            weights=weights,
            norms=np.zeros(1),
            settings=cell(Settings(l1=0.0, l2=0.0, intercept=int(fit_intercept))),
        )
        self.run = WorkingRun(
            as_design(X), model, curvature=1.0, fit_intercept=fit_intercept, draws=draws
        )

    def start(self, w: ArrayLike, intercept: float) -> None:
        """Go to a point."""
        self.run.start(np.asarray(w, dtype=np.float64), intercept - self.middle)

    def largest_alpha(self) -> float:
        """Return the least alpha of a lasso without columns."""
        pull = self.run.correlate(self.run.model.targets, np.arange(self.run.design.d))
        return max(float(Penalty(0.0, 0.0, self.positive).size(pull).max()), 0.0)

    def minimise(
        self,
        alpha: float,
        l1_ratio: float,
        *,
        tol: float,
        max_iter: int,
        report: Callable[[int, float, int], None] | None = None,
    ) -> Minimum:
        """Minimise at a penalty, from the last solution."""
        penalty = Penalty(alpha * l1_ratio, alpha * (1.0 - l1_ratio), self.positive)
        goal = tol * self.unit
        found = self.run.minimise(penalty, goal=goal, rounds=max_iter, report=report)
        return found._replace(intercept=found.intercept + self.middle)

    def path(self, alphas: Floats, *, tol: float, max_iter: int) -> Iterator[Minimum]:
        """Yield the lassos of falling alphas, each from the last one."""
        run: Any = self.run
        if isinstance(run.design, DenseDesign) and alphas.size >= MANY:
            run = CovarianceRun(run)
        for alpha in alphas:
            penalty = Penalty(float(alpha), 0.0, self.positive)
            found = run.minimise(penalty, goal=tol * self.unit, rounds=max_iter)
            yield found._replace(intercept=found.intercept + self.middle)


def alpha_grid(fit: SparseFit, alphas: Any, eps: float) -> Floats:
    """Return falling alphas: as many as a number says, or those given."""
    if np.ndim(alphas) == 0:
        largest = fit.largest_alpha()
        if largest <= SMALLEST:
            return np.full(int(alphas), SMALLEST)
        return np.geomspace(largest, largest * eps, num=int(alphas))
    return checked_alphas(alphas)


def checked_alphas(alphas: Any) -> Floats:
    """Return penalties in falling order, or raise an error that names the first wrong one."""
    given = np.asarray(alphas, dtype=np.float64)
    if given.ndim != 1 or given.size == 0:
        raise ValueError(f"alphas must be a number or a list of them, got shape {given.shape}")
    wrong = ~((given > 0.0) & (given < math.inf))
    if wrong.any():
        position = int(wrong.argmax())
        raise ValueError(f"alphas[{position}] is {given[position]}: it must be finite and above 0")
    return np.asarray(np.sort(given)[::-1])


@dataclass(kw_only=True, eq=False, repr=False)
class SparseRegressor(LinearPrediction, RegressorMixin, LinearModel):
    """Least squares with an l1 penalty: `Lasso` and `ElasticNet`."""

    fit_intercept: bool = True
    max_iter: int = 1000
    tol: float = 1e-6
    positive: bool = False
    sampler: Any = "auto"
    random_state: Any = None

    samplers = (*UNGROUPED, "cyclic")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "positive": ["boolean"],
        "sampler": [StrOptions(set(samplers)), callable],
    }

    def _penalty(self) -> tuple[float, float]:
        """Return alpha, and the share of l1 in it."""
        raise NotImplementedError

    @checks_parameters
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            float32 or float64, in C or Fortran order, and CSC are not copied.
        y : array-like, shape (n,)
        sample_weight : array-like, shape (n,), optional
            A weight of 2 is the same as the row twice.

        Returns
        -------
        self
        """
        again = self.warm_start and hasattr(self, "coef_")
        X, y = checked_columns(self, X, y)
        if again:
            self._check_warm_start(X.shape[1])
        fit = SparseFit(
            X, y, checked_weights(sample_weight, X), fit_intercept=self.fit_intercept,
            positive=self.positive,
            draws=drawing(self.sampler, draw_seeds(self.random_state, 1)[0]),
        )  # fmt: skip
        if again:
            fit.start(self.coef_, self.intercept_)
        alpha, l1_ratio = self._penalty()
        found = fit.minimise(
            alpha, l1_ratio, tol=self.tol, max_iter=self.max_iter,
            report=print_round if self.verbose else None,
        )  # fmt: skip
        self.coef_, self.intercept_ = found.w, found.intercept if self.fit_intercept else 0.0
        self.dual_gap_, self.n_iter_ = found.gap, max(found.rounds, 1)
        warn_of_gap(self, found, fit.unit)
        return self


def warn_of_gap(estimator: Any, found: Minimum, unit: float) -> None:
    """Warn, on behalf of `fit`, where a fit has not reached its tolerance."""
    goal = estimator.tol * unit
    if found.gap <= goal:
        return
    limit = "rounding is the limit"
    if found.rounds == estimator.max_iter:
        limit = f"max_iter={estimator.max_iter} rounds"
    warnings.warn(
        f"{type(estimator).__name__} has not converged ({limit}): the duality gap is "
        f"{found.gap:.3g}, above the {goal:.3g} that tol asks for",
        ConvergenceWarning,
        stacklevel=4,
    )


def print_round(turn: int, gap: float, size: int) -> None:
    """Print the duality gap after a round, and the size of the working set."""
    print(f"round {turn}: duality gap {gap:.6g}, {size} columns")
