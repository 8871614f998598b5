"""The models of many penalties, each from the last one; the best of them by cross-validation."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import Interval
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.parallel import Parallel, delayed

from tombola.estimators.base import checked_weights, checks_parameters, draw_seeds, one_column
from tombola.estimators.parameters import COUNT, SHARE, check_words, names_ours, parameter
from tombola.estimators.sparse_fit import SparseFit, SparseModel, checked_columns, warn_unconverged
from tombola.solvers.lasso.rounds import Minimum
from tombola.solvers.lasso.working_sets import drawing
from tombola.state import Floats
from tombola.validation import not_negative, positive_count, share

__all__ = ["ElasticNetCV", "LassoCV", "SparseModelCV", "enet_path", "lasso_path"]

SMALLEST = 1e-15  # of a grid, where no column matters
UNUSED = {
    "precompute", "Xy", "copy_X", "coef_init", "selection", "random_state", "check_input",
}  # fmt: skip


def enet_path(
    X: Any,
    y: ArrayLike,
    *,
    l1_ratio: float = 0.5,
    eps: float = 1e-3,
    alphas: Any = 100,
    positive: bool = False,
    tol: float = 1e-6,
    max_iter: int = 1000,
    verbose: int = 0,
    return_n_iter: bool = False,
    **others: Any,
) -> tuple[NDArray[Any], ...]:
    """Return the elastic nets of many alphas, without an intercept, each from the last one.

    The working set and its matrix of products are kept along the path. Parameters and results
    are those of scikit-learn's `enet_path`.

    Parameters
    ----------
    X : array-like or sparse matrix, shape (n, d)
        Columns of mean 0, as `y`, where an intercept is meant.
    y : array-like, shape (n,)
    l1_ratio : float, default=0.5
        The share of l1 in the penalty, from 0 to 1; with 0, alphas have to be given.
    eps : float, default=1e-3
        The smallest alpha over the largest.
    alphas : int or array-like, default=100
        How many alphas, evenly spaced in their logarithm, down from the least one for which all
        coefficients are 0; or the alphas.
    positive : bool, default=False
        Whether coefficients must not be negative.
    tol : float, default=1e-6
        Each model stops when its duality gap is at most tol times the mean of y^2.
    max_iter : int, default=1000
        Rounds for each alpha, at most.
    verbose : int, default=0
        Above 0, a line is printed for each alpha.
    return_n_iter : bool, default=False
        Whether to return the numbers of rounds, too.
    **others
        precompute, Xy, copy_X, coef_init, selection, random_state and check_input are accepted,
        and cannot change the result.

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
    >>> alphas, coefs, gaps = enet_path(X, y, alphas=[0.5, 0.1])
    >>> alphas, coefs.round(2)
    (array([0.5, 0.1]), array([[0.75, 0.93],
           [0.17, 0.06]]))
    """
    check_words(others, "enet_path")
    if unknown := sorted(others.keys() - UNUSED):
        raise TypeError(f"enet_path has no parameter {unknown[0]}")
    l1_ratio = share("l1_ratio", l1_ratio)
    if not 0.0 < eps <= 1.0:
        raise ValueError(f"eps must be above 0 and at most 1, got {eps!r}")
    if np.ndim(alphas) == 0:
        alphas = positive_count("alphas", alphas, "penalties")
    tol = not_negative("tol", tol)
    max_iter = positive_count("max_iter", max_iter, "rounds")
    model = SparseModel(fit_intercept=False, positive=positive, tol=tol, max_iter=max_iter)
    X, y = checked_columns(model, X, y)
    fit = model._on(X, one_column(y), checked_weights(None, X), drawing("auto", 0))
    grid = alpha_grid(fit, alphas, l1_ratio, eps)
    fit.sum_up(grid.size)
    found = list(fit.path(grid, l1_ratio, print_alpha if verbose else None))
    warn_unconverged("enet_path", found, max_iter, level=3)
    coefs = np.stack([each.w for each in found], axis=1)
    gaps = np.array([each.gap for each in found])
    if not return_n_iter:
        return grid, coefs, gaps
    return grid, coefs, gaps, np.array([max(each.rounds, 1) for each in found])


def lasso_path(X: Any, y: ArrayLike, **settings: Any) -> tuple[NDArray[Any], ...]:
    """Return the lassos of many alphas, without an intercept, each started from the last one.

    This is `enet_path` with l1_ratio=1; the other parameters and the results are the same.

    Examples
    --------
    >>> X, y = [[1.0, 2.0], [2.0, 1.0], [-3.0, -3.0]], [1.0, 2.0, -3.0]
    >>> alphas, coefs, gaps = lasso_path(X, y, alphas=[0.5, 0.1])
    >>> alphas, coefs.round(2)
    (array([0.5, 0.1]), array([[0.89, 0.98],
           [0.  , 0.  ]]))
    """
    return enet_path(X, y, **{**settings, "l1_ratio": 1.0})


def print_alpha(alpha: float, found: Minimum) -> None:
    """Print what was reached at an alpha."""
    print(f"alpha {alpha:.6g}: duality gap {found.gap:.6g}, {found.rounds} rounds")


@dataclass(kw_only=True, eq=False, repr=False)
class SparseModelCV(SparseModel):
    """A model with the penalty of least error in cross-validation: `LassoCV`, `ElasticNetCV`."""

    eps: float = parameter(1e-3, Interval(Real, 0, 1, closed="right"))
    alphas: Any = parameter(100, COUNT, "array-like")
    cv: Any = parameter(None, "cv_object")
    n_jobs: int | None = parameter(None, Integral, None)

    l1_ratio = 1.0

    @checks_parameters
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Choose the penalty, and fit the model with it to all rows; return self.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
        y : array-like, shape (n,)
        sample_weight : array-like, shape (n,), optional
            For fits and for the errors of a fold; folds count equally.
        **params
            For the splitter `cv`, such as groups: by scikit-learn's metadata routing, if that is
            enabled.
        """
        _raise_for_params(params, self, "fit")
        X, y = checked_columns(self, X, y)
        y, weights = one_column(y), checked_weights(sample_weight, X)
        draws = drawing("auto", draw_seeds(self.random_state, 1)[0])
        whole = self._on(X, y, weights, draws)
        ratios = [share(f"l1_ratio[{k}]", r) for k, r in enumerate(np.atleast_1d(self.l1_ratio))]
        grids = [alpha_grid(whole, self.alphas, ratio, self.eps) for ratio in ratios]
        report = print_alpha if self.verbose else None
        whole.sum_up(sum(map(np.size, grids)))

        def paths(train: NDArray[np.int64], test: NDArray[np.int64]) -> Any:
            fold = whole.among(np.bincount(np.arange(y.size)[train], minlength=y.size))
            found = [
                each
                for ratio, grid in zip(ratios, grids, strict=True)
                for each in fold.path(grid, ratio, report)
            ]
            w = np.stack([each.w for each in found], axis=1)
            errors = whole.rows[test] @ w
            errors += np.array([each.intercept for each in found]) - y[test, None]
            np.square(errors, out=errors)
            errors = np.average(errors, axis=0, weights=weights[test])
            return [each._replace(w=np.empty(0)) for each in found], errors

        split: Any = {}
        if _routing_enabled():
            routed = process_routing(self, "fit", sample_weight=sample_weight, **params)
            split = routed.splitter.split
        splits = list(check_cv(self.cv).split(X, y, **split))
        for k, (_, test) in enumerate(splits):
            if not weights[test].any():
                raise ValueError(f"sample_weight is 0 for all rows that fold {k} leaves out")
        folds = Parallel(n_jobs=self.n_jobs, require="sharedmem")(
            delayed(paths)(train, test) for train, test in splits
        )
        fits, errors = zip(*folds, strict=True)
        mse = np.reshape(errors, (-1, len(ratios), len(grids[0])))
        k, place = divmod(int(mse.mean(axis=0).argmin()), len(grids[0]))
        (best,) = whole.path(grids[k][place : place + 1], ratios[k])
        mse, several = np.moveaxis(mse, 0, 2), len(grids) > 1
        self.alpha_, self.l1_ratio_ = float(grids[k][place]), ratios[k]
        self.mse_path_ = mse if several else mse[0]
        self.alphas_ = np.array(grids) if several and np.ndim(self.alphas) == 0 else grids[0]
        self.coef_, self.intercept_ = best.w, best.intercept
        self.dual_gap_, self.n_iter_ = best.gap, max(best.rounds, 1)
        warn_unconverged(type(self).__name__, [*chain(*fits), best], self.max_iter)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata is passed on: that of the splitter."""
        mapping = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(splitter=check_cv(self.cv), method_mapping=mapping)


@names_ours
class LassoCV(SparseModelCV):
    """`Lasso` with the alpha of a path whose mean squared error in cross-validation is least.

    Parameters and attributes are those of scikit-learn's `LassoCV`. On dense data with no more
    columns than rows, products of columns are computed once: those without a fold are the
    difference, and no rows are copied.

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
    verbose : int, default=0
        Above 0, a line is printed for each alpha.
    fit_intercept, max_iter, tol, positive, random_state, precompute, copy_X, selection
        As in `Lasso`; `max_iter` and `tol` are for each alpha.

    Attributes
    ----------
    alpha_ : float
        The alpha chosen.
    alphas_ : ndarray of shape (k,)
        The alphas tried, in falling order.
    mse_path_ : ndarray of shape (k, folds)
        The mean squared errors on the rows left out.
    coef_, sparse_coef_, intercept_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
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

    path: ClassVar[Callable[..., tuple[NDArray[Any], ...]]] = staticmethod(lasso_path)


@names_ours
@dataclass(kw_only=True, eq=False, repr=False)
class ElasticNetCV(SparseModelCV):
    """`ElasticNet` with the penalty whose mean squared error in cross-validation is least.

    Parameters and attributes are those of scikit-learn's `ElasticNetCV`.

    Parameters
    ----------
    l1_ratio : float or array-like, default=0.5
        The share of l1 in the penalty, from 0 to 1, or shares to choose from. For 0 alphas must be
        given.
    eps, alphas, cv, n_jobs, verbose, fit_intercept, max_iter, tol, positive, random_state, \
precompute, copy_X, selection
        As in `LassoCV`.

    Attributes
    ----------
    alpha_, l1_ratio_ : float
        The penalty chosen.
    alphas_ : ndarray of shape (k,) or (shares, k)
        The alphas tried, in falling order; those of each share if they were not given.
    mse_path_ : ndarray of shape (k, folds) or (shares, k, folds)
        The mean squared errors on the rows left out.
    coef_, sparse_coef_, intercept_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        Of the model on all rows, as in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 30))
    >>> model = ElasticNetCV(l1_ratio=[0.5, 1.0], alphas=20)
    >>> model = model.fit(X, X[:, 2] + 0.1 * rng.normal(size=100))
    >>> model.l1_ratio_, model.mse_path_.shape
    (1.0, (2, 20, 5))
    """

    l1_ratio: Any = parameter(0.5, SHARE, "array-like")

    path: ClassVar[Callable[..., tuple[NDArray[Any], ...]]] = staticmethod(enet_path)


def alpha_grid(fit: SparseFit, alphas: Any, l1_ratio: float, eps: float) -> Floats:
    """Return falling alphas: as many as a number says, or those given."""
    if np.ndim(alphas) == 0:
        largest = fit.largest_alpha(l1_ratio)
        if largest <= SMALLEST:
            return np.full(int(alphas), SMALLEST)
        return np.geomspace(largest, largest * eps, num=int(alphas))
    if np.ndim(alphas) > 1 or np.size(alphas) == 0:
        raise ValueError(f"alphas must be a number or a list of them, got shape {np.shape(alphas)}")
    given = [not_negative(f"alphas[{k}]", alpha) for k, alpha in enumerate(alphas)]
    return np.sort(given)[::-1]
