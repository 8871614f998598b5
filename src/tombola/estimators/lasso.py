"""The lasso and the elastic net, by working sets."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.estimators.base import checked_weights, checks_parameters, draw_seeds
from tombola.estimators.lasso_path import enet_path, lasso_path
from tombola.estimators.parameters import FROM_0, SHARE, names_ours, one_of, parameter
from tombola.estimators.sparse_fit import SparseModel, checked_columns, warn_unconverged
from tombola.samplers.registry import UNGROUPED
from tombola.solvers.lasso.working_sets import drawing

__all__ = ["ElasticNet", "Lasso", "SparseRegressor"]


@dataclass(eq=False, repr=False)
class SparseRegressor(SparseModel):
    """Least squares with an l1 penalty: `Lasso` and `ElasticNet`."""

    alpha: float = parameter(1.0, FROM_0)
    _: KW_ONLY
    sampler: Any = parameter("auto", one_of(*UNGROUPED, "cyclic"), callable)
    warm_start: bool = parameter(False, "boolean")

    l1_ratio = 1.0

    @checks_parameters
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model; return self.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            float32 or float64, in C or Fortran order, and CSC are not copied.
        y : array-like, shape (n,) or (n, k)
            Several columns are k models, each fitted alone.
        sample_weight : array-like, shape (n,), optional
            A weight of 2 is the same as the row twice.
        """
        X, y = checked_columns(self, X, y)
        targets = np.ascontiguousarray(np.atleast_2d(y.T))
        starts = self._starts((len(targets), X.shape[1]))
        weights = checked_weights(sample_weight, X)
        draws = drawing(self.sampler, draw_seeds(self.random_state, 1)[0])
        found = []
        for target, start in zip(targets, starts, strict=True):
            fit = self._on(X, target, weights, draws)
            if start is not None:
                fit.start(start)
            report = print_round if self.verbose else None
            one = fit.minimise(self.alpha, self.l1_ratio, report=report)
            rounds = one.rounds if start is not None else max(one.rounds, 1)
            found.append(one._replace(rounds=rounds))
        several: Any = [np.array(column) for column in zip(*found, strict=True)]
        if len(found) == 1:
            several = found[0]
        self.coef_, intercept, self.dual_gap_, _, self.n_iter_ = several
        self.intercept_ = intercept if self.fit_intercept else 0.0
        warn_unconverged(type(self).__name__, found, self.max_iter)
        return self

    def _starts(self, shape: tuple[int, int]) -> Any:
        """Return the coefficients to start from, of each column of y; None for zeros."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return [None] * shape[0]
        if np.size(self.coef_) != shape[0] * shape[1] or np.shape(self.coef_)[-1:] != shape[1:]:
            raise ValueError(
                f"warm_start needs the shape of the last fit: coef_ has shape "
                f"{np.shape(self.coef_)}, got {shape[1]} columns of X and {shape[0]} of y"
            )
        return np.reshape(self.coef_, shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def print_round(turn: int, gap: float, size: int) -> None:
    """Print the duality gap after a round, and the size of the working set."""
    print(f"round {turn}: duality gap {gap:.6g}, {size} columns")


@names_ours
class Lasso(SparseRegressor):
    """Least squares with an l1 penalty, on few columns at a time.

        (1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + alpha |w|_1

    The objective, parameters and attributes are those of scikit-learn's `Lasso`; the solver is
    `tombola.solvers.WorkingSets`, which stops by the duality gap.

    Parameters
    ----------
    alpha : float, default=1.0
        The strength of the penalty. With 0 it is least squares, solved by scikit-learn's
        `LinearRegression`.
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
        Whether `fit` starts from `coef_`: that of the last fit, or one that you have set.
    verbose : int, default=0
        Above 0, a line is printed for each round.
    precompute, copy_X, selection
        Those of scikit-learn. They are accepted, and cannot change the result: products of columns
        are computed if they pay, X is never overwritten, and `sampler` says how columns are drawn.

    Attributes
    ----------
    coef_ : ndarray of shape (d,), or (k, d) for k columns of y
        Of the type of X, float32 or float64.
    sparse_coef_ : sparse array of shape (k, d)
    intercept_ : float, or ndarray of shape (k,)
    dual_gap_ : float, or ndarray of shape (k,)
        The duality gap at the end: the objective is at most this far from its minimum.
    n_iter_ : int, or ndarray of shape (k,)
        Rounds run; 0 if a warm start was within `tol`.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

    Notes
    -----
    X is not copied as a whole: the columns of the working set are, in float64. For dense data
    the order does not matter; sparse data is used by columns (CSC). `Lasso.path` is `lasso_path`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> model = Lasso(0.1, random_state=0).fit(X, 3 * X[:, 1] + 1)
    >>> model.coef_.round(1), round(float(model.intercept_), 1)
    (array([0. , 2.9, 0. , 0. , 0. ]), 1.0)
    """

    path: ClassVar[Callable[..., tuple[NDArray[Any], ...]]] = staticmethod(lasso_path)


@names_ours
@dataclass(kw_only=True, eq=False, repr=False)
class ElasticNet(SparseRegressor):
    """Least squares with an elastic net penalty, on few columns at a time.

        (1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    The objective, parameters and attributes are those of scikit-learn's `ElasticNet`. The other
    parameters and the attributes are explained in `Lasso`.

    Parameters
    ----------
    alpha : float, default=1.0
        The strength of the penalty. With 0 it is least squares, as in `Lasso`.
    l1_ratio : float, default=0.5
        The share of l1 in the penalty, from 0 to 1. With 0 it is ridge regression, which starts at
        the solution of scikit-learn's `Ridge`.
    fit_intercept, max_iter, tol, positive, sampler, random_state, warm_start, verbose, \
precompute, copy_X, selection
        As in `Lasso`.

    Attributes
    ----------
    coef_, sparse_coef_, intercept_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> model = ElasticNet(0.1, random_state=0).fit(X, 3 * X[:, 1] + 1)
    >>> model.coef_.round(1), round(float(model.intercept_), 1)
    (array([0. , 2.8, 0. , 0. , 0. ]), 1.0)
    """

    l1_ratio: float = parameter(0.5, SHARE)

    path: ClassVar[Callable[..., tuple[NDArray[Any], ...]]] = staticmethod(enet_path)
