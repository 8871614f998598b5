"""The lasso, by working sets."""

from dataclasses import dataclass

from tombola.estimators.sparse_fit import SparseRegressor

__all__ = ["Lasso"]


@dataclass(eq=False, repr=False)
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

    alpha: float = 1.0

    def _penalty(self) -> tuple[float, float]:
        return self.alpha, 1.0
