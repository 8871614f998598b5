"""What `Lasso`, `ElasticNet`, `LassoCV` and `lasso_path` share: least squares by working sets."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from tombola.estimators.base import AcceptsSparse, LinearPrediction, checked_rows, one_column
from tombola.problems.least_squares import LeastSquares
from tombola.problems.linear import Settings
from tombola.problems.linear import checked_weights as normalised
from tombola.problems.rows import Dense
from tombola.samplers.compiled import CompiledSampler
from tombola.solvers.gap import Penalty
from tombola.solvers.lasso.columns import DenseDesign, as_design
from tombola.solvers.lasso.covariance import CovarianceRun
from tombola.solvers.lasso.rounds import Minimum, WorkingRun
from tombola.state import cell

__all__ = ["SparseFit", "SparseModel", "checked_columns"]

Floats = NDArray[np.float64]

MANY = 10  # alphas of a path, from which on the products of its columns pay


def checked_columns(estimator: Any, X: Any, y: Any) -> tuple[Any, Floats]:
    """Return X and y validated: dense in either order, or compressed sparse columns."""
    X, y = checked_rows(
        estimator, X, y, reset=True, accept_sparse="csc", order=None, y_numeric=True,
        multi_output=True,
    )  # fmt: skip
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


@dataclass(kw_only=True, eq=False, repr=False)
class SparseModel(LinearPrediction, RegressorMixin, AcceptsSparse, BaseEstimator):
    """What `Lasso`, `ElasticNet` and `LassoCV` have in common: parameters and attributes."""

    fit_intercept: bool = True
    max_iter: int = 1000
    tol: float = 1e-6
    positive: bool = False
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "positive": ["boolean"],
        "random_state": ["random_state"],
    }

    def _set_fitted(self, found: Minimum, unit: float) -> None:
        """Set the attributes, and warn on behalf of `fit` if it has not reached its tolerance."""
        self.coef_, self.intercept_ = found.w, found.intercept if self.fit_intercept else 0.0
        self.dual_gap_, self.n_iter_ = found.gap, max(found.rounds, 1)
        goal = self.tol * unit
        if found.gap <= goal:
            return
        limit = "rounding is the limit"
        if found.rounds == self.max_iter:
            limit = f"max_iter={self.max_iter} rounds"
        warnings.warn(
            f"{type(self).__name__} has not converged ({limit}): the duality gap is "
            f"{found.gap:.3g}, above the {goal:.3g} that tol asks for",
            ConvergenceWarning,
            stacklevel=4,
        )
