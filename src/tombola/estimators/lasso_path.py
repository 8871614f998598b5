"""The lassos of many penalties, each from the last one; the best of them by cross-validation."""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval
from sklearn.utils.parallel import Parallel, delayed

from tombola.estimators.base import checked_weights, checks_parameters, draw_seeds
from tombola.estimators.sparse_fit import Floats, SparseFit, SparseModel, checked_columns
from tombola.solvers.lasso.working_sets import drawing
from tombola.validation import number, positive_count

__all__ = ["LassoCV", "lasso_path"]

SMALLEST = 1e-15  # of a grid, where no column matters


def lasso_path(
    X: Any,
    y: ArrayLike,
    *,
    eps: float = 1e-3,
    alphas: Any = 100,
    positive: bool = False,
    tol: float = 1e-6,
    max_iter: int = 1000,
    return_n_iter: bool = False,
) -> tuple[NDArray[Any], ...]:
    """Return the lassos of many alphas, without an intercept, each started from the last one.

    The working set and its matrix of products are kept along the path. Parameters and results
    are those of scikit-learn's `lasso_path`.

    Parameters
    ----------
    X : array-like or sparse matrix, shape (n, d)
        Columns of mean 0, as `y`, where an intercept is meant.
    y : array-like, shape (n,)
    eps : float, default=1e-3
        The smallest alpha over the largest.
    alphas : int or array-like, default=100
        How many alphas, evenly spaced in their logarithm, down from the least one for which all
        coefficients are 0; or the alphas.
    positive : bool, default=False
        Whether coefficients must not be negative.
    tol : float, default=1e-6
        Each lasso stops when its duality gap is at most tol times the mean of y^2.
    max_iter : int, default=1000
        Rounds for each alpha, at most.
    return_n_iter : bool, default=False
        Whether to return the numbers of rounds, too.

    Returns
    -------
    alphas : ndarray of shape (k,)
        In falling order.
    coefs : ndarray of shape (d, k)
    dual_gaps : ndarray of shape (k,)
    n_iters : ndarray of shape (k,)
        Where `return_n_iter`.

    Examples
    --------
    >>> X, y = [[1.0, 2.0], [2.0, 1.0], [-3.0, -3.0]], [1.0, 2.0, -3.0]
    >>> alphas, coefs, gaps = lasso_path(X, y, alphas=[0.5, 0.1])
    >>> alphas, coefs.round(2)
    (array([0.5, 0.1]), array([[0.89, 0.98],
           [0.  , 0.  ]]))
    """
    if not 0.0 < eps < 1.0:
        raise ValueError(f"eps must be above 0 and below 1, got {eps!r}")
    if np.ndim(alphas) == 0:
        alphas = positive_count("alphas", alphas, "penalties")
    if not 0.0 <= number("tol", tol) < math.inf:
        raise ValueError(f"tol must be finite and not negative, got {tol!r}")
    max_iter = positive_count("max_iter", max_iter, "rounds")
    X, y = checked_columns(BaseEstimator(), X, y)
    fit = SparseFit(
        X, y, checked_weights(None, X), fit_intercept=False, positive=positive,
        draws=drawing("auto", 0),
    )  # fmt: skip
    grid = alpha_grid(fit, alphas, eps)
    found = list(fit.path(grid, tol=tol, max_iter=max_iter))
    coefs = np.stack([each.w for each in found], axis=1)
    gaps = np.array([each.gap for each in found])
    if not return_n_iter:
        return grid, coefs, gaps
    return grid, coefs, gaps, np.array([max(each.rounds, 1) for each in found])


@dataclass(kw_only=True, eq=False, repr=False)
class LassoCV(SparseModel):
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
    cv: Any = None
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseModel._parameter_constraints,
        "eps": [Interval(Real, 0, 1, closed="neither")],
        "alphas": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
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
        self._set_fitted(best, whole.unit)
        return self


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
