"""The lasso whose penalty is chosen by cross-validation."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval
from sklearn.utils.parallel import Parallel, delayed

from tombola.estimators.base import LinearPrediction, checked_weights, checks_parameters, draw_seeds
from tombola.estimators.sparse_fit import SparseFit, alpha_grid, checked_columns, warn_of_gap
from tombola.solvers.lasso.working_sets import drawing

__all__ = ["LassoCV"]


@dataclass(kw_only=True, eq=False, repr=False)
class LassoCV(LinearPrediction, RegressorMixin, BaseEstimator):
    """`Lasso` with the alpha of a path whose mean squared error in cross-validation is least.

    Parameters and attributes are those of scikit-learn's `LassoCV`. A fold is left out by sample
    weights of 0: no rows are copied, and the errors of all alphas come with the fits.

    Parameters
    ----------
    eps : float, default=1e-3
        The smallest alpha over the largest.
    alphas : int or array-like, default=100
        How many alphas, or the alphas.
    cv : int, cross-validation generator or iterable, default=None
        None is five folds.
    n_jobs : int, optional
        Threads over folds.
    fit_intercept, max_iter, tol, positive, random_state
        As in `Lasso`; `max_iter` and `tol` are for each alpha.

    Attributes
    ----------
    alpha_ : float
        The alpha chosen.
    alphas_ : ndarray of shape (k,)
        The alphas tried, in falling order.
    mse_path_ : ndarray of shape (k, folds)
        The mean squared errors on the rows left out.
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        Of the lasso with `alpha_` on all rows, as in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 30))
    >>> model = LassoCV(alphas=20).fit(X, X[:, 2] + 0.1 * rng.normal(size=100))
    >>> bool(model.coef_.argmax() == 2), model.mse_path_.shape
    (True, (20, 5))
    """

    eps: float = 1e-3
    alphas: Any = 100
    fit_intercept: bool = True
    max_iter: int = 1000
    tol: float = 1e-6
    cv: Any = None
    n_jobs: int | None = None
    positive: bool = False
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "eps": [Interval(Real, 0, 1, closed="neither")],
        "alphas": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "fit_intercept": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
        "positive": ["boolean"],
        "random_state": ["random_state"],
    }

    @checks_parameters
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose alpha, and fit the lasso with it to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
        y : array-like, shape (n,)
        sample_weight : array-like, shape (n,), optional
            For fits and for the errors of a fold; folds count equally.

        Returns
        -------
        self
        """
        X, y = checked_columns(self, X, y)
        weights = checked_weights(sample_weight, X)
        settings: dict[str, Any] = {
            "fit_intercept": self.fit_intercept,
            "positive": self.positive,
            "draws": drawing("auto", draw_seeds(self.random_state, 1)[0]),
        }
        stops: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        whole = SparseFit(X, y, weights, **settings)
        self.alphas_ = alpha_grid(whole, self.alphas, self.eps)

        def errors(train: NDArray[np.int64], test: NDArray[np.int64]) -> list[float]:
            counts = np.bincount(train, minlength=y.size)
            fold = SparseFit(X, y, counts * weights, **settings)
            left_out, truth = X[test], y[test]
            return [
                float(np.average((left_out @ w + b - truth) ** 2, weights=weights[test]))
                for w, b, *_ in fold.path(self.alphas_, **stops)
            ]

        found = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(errors)(train, test) for train, test in check_cv(self.cv).split(X, y)
        )
        self.mse_path_ = np.array(found).T
        self.alpha_ = float(self.alphas_[self.mse_path_.mean(axis=1).argmin()])
        best = whole.minimise(self.alpha_, 1.0, **stops)
        self.coef_, self.intercept_ = best.w, best.intercept if self.fit_intercept else 0.0
        self.dual_gap_, self.n_iter_ = best.gap, max(best.rounds, 1)
        warn_of_gap(self, best, whole.unit)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
