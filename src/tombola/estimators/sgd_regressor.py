"""Linear regression, fitted by draws of rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils.validation import _check_sample_weight

from tombola.estimators.base import LinearEstimator, LinearPrediction, checked_rows
from tombola.problems import LeastSquares

__all__ = ["SGDRegressor"]


class SGDRegressor(LinearPrediction, RegressorMixin, LinearEstimator):
    """Least squares with l2 and l1 penalties, by draws of rows that matter.

        (1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + l2/2 |w|^2 + l1 |w|_1

    Rows are drawn more often where that makes steps larger or less noisy, and importances keep
    every step unbiased.

    Parameters
    ----------
    l2, l1 : float, default=1e-4 and 0.0
    fit_intercept : bool, default=True
    solver : {"saga", "svrg", "adagrad", "sgd"}, default="saga"
        saga needs no rate to be tuned and settles; adagrad is quicker to a rough solution.
    rate : float, optional
        By default 1 / (3 (max L / (n p) + l2)) for saga and svrg, with L how fast the gradient of
        a row changes and p its probability; 0.3 for adagrad; 1 / (max L + l2) at first for sgd
        (it falls as 1 / sqrt(t)).
    batch_size : int, default=1
    max_iter : int, default=100
        Epochs, of n draws each.
    tol : float or None, default=1e-3
        adagrad and sgd stop when the objective, as the draws see it, has for 5 epochs not fallen
        by tol relative to the best one; saga and svrg when no coefficient has moved in an epoch
        by more than tol times the largest one. None: after max_iter epochs.
    sampler : str, Sampler or callable, default="auto"
        "auto" is the fastest by the clock, as far as we know. With adagrad and sgd, and in
        `partial_fit`, "vrb". With saga and svrg, which have little variance left, rows of large L
        are drawn more often (half of the draws by L, half uniformly), which allows larger steps;
        all alike where no L is above twice the mean. Others: "shuffle" (not good with saga and
        svrg), "uniform". A sampler over as many items as X has rows: a fresh one with its
        parameters and its seed is used, and it stays as it is. Or a function (n, seed, groups)
        that returns one; its groups are None.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` goes on from the last solution, with the rates that were reached.
    verbose : int, default=0
        Above 0, a line is printed for each epoch.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
    intercept_ : float
    gauge_ : Gauge
        What the sampling was worth.
    n_iter_ : int
        Epochs done.
    t_ : int
        Draws, over all calls of `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray, where X had names

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = SGDRegressor(random_state=0).fit(X, X @ [1.0, 2.0, 4.0] + 3.0)
    >>> model.coef_.round(2), round(float(model.intercept_), 2)
    (array([1., 2., 4.]), 3.0)
    """

    def __init__(
        self,
        *,
        l2: float = 1e-4,
        l1: float = 0.0,
        fit_intercept: bool = True,
        solver: str = "saga",
        rate: float | None = None,
        batch_size: int = 1,
        max_iter: int = 100,
        tol: float | None = 1e-3,
        sampler: Any = "auto",
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.l2 = l2
        self.l1 = l1
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.rate = rate
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.sampler = sampler
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "SGDRegressor":
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            C-ordered float32 and float64, and CSR, are used where they lie.
        y : array-like, shape (n,)
        sample_weight : array-like, shape (n,), optional
            A weight of 2 is the same as the row twice.

        Returns
        -------
        self
        """
        again = self.warm_start and hasattr(self, "coef_")
        columns = self.coef_.size if again else None
        X, y = checked_rows(self, X, y, reset=True, y_numeric=True)
        if again and columns != X.shape[1]:
            raise ValueError("warm_start needs the number of columns of the last fit")
        return self._fit(X, y, sample_weight, not again, self.max_iter, self.tol)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "SGDRegressor":
        """Go on with one epoch over these rows, which may be new.

        With saga and svrg, whose tables belong to rows, it steps by adagrad, at its default rate.
        Sample weights count over all calls: 2 here is as much as twice the row there.

        The solution and the rates that were reached are kept. Parameters as in `fit`.
        """
        fresh = not hasattr(self, "coef_")
        X, y = checked_rows(self, X, y, reset=fresh, y_numeric=True)
        return self._fit(X, y, sample_weight, fresh, 1, None, new_rows=True)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        fresh: bool,
        epochs: int,
        tol: float | None,
        new_rows: bool = False,
    ) -> "SGDRegressor":
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

        def make() -> Any:
            problem = LeastSquares(
                X, y, l2=self.l2, l1=self.l1, sample_weight=weights, normalise=not new_rows,
                intercept=self.fit_intercept,
            )  # fmt: skip
            return problem, None

        self._run([make], [""], fresh=fresh, epochs=epochs, tol=tol, new_rows=new_rows)
        return self

    def _set_solution(self, solution: NDArray[np.float64]) -> None:
        super()._set_solution(solution)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
