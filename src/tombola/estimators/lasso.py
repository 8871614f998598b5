"""The lasso and the elastic net, by working sets."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from tombola.estimators.base import (
    DrawingEstimator,
    checked_weights,
    checks_parameters,
    draw_seeds,
)
from tombola.estimators.sparse_fit import SparseFit, SparseModel, checked_columns
from tombola.samplers.registry import UNGROUPED
from tombola.solvers.lasso.working_sets import drawing

__all__ = ["ElasticNet", "Lasso", "SparseRegressor"]


@dataclass(eq=False, repr=False)
class SparseRegressor(SparseModel, DrawingEstimator):
    """Least squares with an l1 penalty: `Lasso` and `ElasticNet`."""

    alpha: float = 1.0
    _: KW_ONLY
    sampler: Any = "auto"

    samplers = (*UNGROUPED, "cyclic")
    l1_ratio = 1.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DrawingEstimator._parameter_constraints,
        **SparseModel._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "sampler": [StrOptions(set(samplers)), callable],
    }

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
        found = fit.minimise(
            self.alpha, self.l1_ratio, tol=self.tol, max_iter=self.max_iter,
            report=print_round if self.verbose else None,
        )  # fmt: skip
        self._set_fitted(found, fit.unit)
        return self


def print_round(turn: int, gap: float, size: int) -> None:
    """Print the duality gap after a round, and the size of the working set."""
    print(f"round {turn}: duality gap {gap:.6g}, {size} columns")


class Lasso(SparseRegressor):
    """Least squares with an l1 penalty, on few columns at a time.

        (1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + alpha |w|_1

    The objective, parameters and attributes are those of scikit-learn's `Lasso`; the solver is
    `tombola.solvers.WorkingSets`, which stops by the duality gap.

    Parameters
    ----------
    alpha : float, default=1.0
        The strength of the penalty, above 0.
    fit_intercept : bool, default=True
    max_iter : int, default=1000
        Rounds, each with one product of all columns. Two to ten are usual.
    tol : float, default=1e-6
        It stops when the duality gap, an upper bound on the distance of the objective from its
        minimum, is at most tol times the mean of (y - mean)^2.
    positive : bool, default=False
        Whether coefficients must not be negative.
    sampler : str or callable, default="auto"
        How sweeps draw columns of the working set: "auto" and "shuffle" (shuffled sweeps), "vrb"
        (`VRB`, which learns where steps are large), "uniform", or "cyclic" (in order). It affects
        the speed only. A function (n, seed, groups) returns a compiled sampler of n columns; its
        groups are None.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` starts from the last solution.
    verbose : int, default=0
        Above 0, a line is printed for each round.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
    intercept_ : float
    dual_gap_ : float
        The duality gap at the end: the objective is at most this far from its minimum.
    n_iter_ : int
        Rounds run.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

    Notes
    -----
    X is not copied as a whole: the columns of the working set are, in float64. For dense data
    the order does not matter; sparse data is used by columns (CSC).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> model = Lasso(0.1, random_state=0).fit(X, 3 * X[:, 1] + 1)
    >>> model.coef_.round(1), round(float(model.intercept_), 1)
    (array([0. , 2.9, 0. , 0. , 0. ]), 1.0)
    """


@dataclass(kw_only=True, eq=False, repr=False)
class ElasticNet(SparseRegressor):
    """Least squares with an elastic net penalty, on few columns at a time.

        (1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    The objective, parameters and attributes are those of scikit-learn's `ElasticNet`. The other
    parameters and the attributes are explained in `Lasso`.

    Parameters
    ----------
    alpha : float, default=1.0
        The strength of the penalty, above 0.
    l1_ratio : float, default=0.5
        The share of l1 in the penalty, above 0 and at most 1. (For 0, ridge regression, there is
        `LinearRegressor`.)
    fit_intercept, max_iter, tol, positive, sampler, random_state, warm_start, verbose
        As in `Lasso`.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> model = ElasticNet(0.1, random_state=0).fit(X, 3 * X[:, 1] + 1)
    >>> model.coef_.round(1), round(float(model.intercept_), 1)
    (array([0. , 2.8, 0. , 0. , 0. ]), 1.0)
    """

    l1_ratio: float = 0.5

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseRegressor._parameter_constraints,
        "l1_ratio": [Interval(Real, 0, 1, closed="right")],
    }
