"""The lassos of many penalties, each from the last one."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from tombola.estimators.base import checked_weights
from tombola.estimators.sparse_fit import SparseFit, alpha_grid, checked_columns
from tombola.solvers.lasso.working_sets import drawing
from tombola.validation import number, positive_count

__all__ = ["lasso_path"]


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
