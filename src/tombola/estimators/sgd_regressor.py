"""Linear regression, fitted by draws of rows."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin, _fit_context

from tombola.estimators.base import LinearPrediction, Part, checked_rows, checked_weights
from tombola.estimators.linear import LinearEstimator
from tombola.problems import LeastSquares

__all__ = ["SGDRegressor"]


class SGDRegressor(LinearPrediction, RegressorMixin, LinearEstimator):
    """Least squares with an elastic net penalty, by adaptive draws of rows.

        (1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    Rows are drawn more often where that allows larger or less noisy steps; importances keep
    every step unbiased.

    Parameters
    ----------
    alpha : float, default=1e-4
        The strength of the penalty.
    l1_ratio : float, default=0.0
        The share of l1 in the penalty, from 0 (ridge) to 1 (lasso).
    fit_intercept : bool, default=True
    solver : {"saga", "svrg", "adagrad", "sgd"}, default="saga"
        saga and svrg converge without a tuned rate; adagrad is quicker to a rough solution.
    rate : float, optional
        By default 1 / (3 (max L / (n p) + l2)) for saga and svrg, with L the Lipschitz constant
        of the gradient of a row, p its probability and l2 = alpha (1 - l1_ratio); 0.3 for
        adagrad; 1 / (max L + l2) at first for sgd, falling as 1 / sqrt(t).
    batch_size : int, default=1
    max_iter : int, default=100
        Epochs, of n draws each.
    tol : float or None, default=1e-3
        saga and svrg stop when no coefficient has moved in an epoch by more than tol times the
        largest one; adagrad and sgd when, for 5 epochs, the objective as estimated from the draws
        has not fallen by tol relative to the best one. None: after max_iter epochs.
    sampler : str, Sampler or callable, default="auto"
        How rows are drawn. "auto" is what was fastest by the clock. With saga and svrg: half of
        the draws by L, half uniformly, which allows larger steps; all uniformly where no L is
        above twice the mean. With adagrad and sgd, and in `partial_fit`: "vrb", which is `VRB`.
        Other names: "shuffle" (shuffled epochs; not recommended with saga and svrg), "uniform". A
        sampler over the rows of X is left unchanged: a new one is made with its parameters and
        seed. A function (n, seed, groups) returns a sampler; its groups are None.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` continues from the last solution, with the rates that were reached.
    verbose : int, default=0
        Above 0, a line is printed for each epoch.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
    intercept_ : float
    gauge_ : Gauge
        The worth of the sampling.
    n_iter_ : int
        Epochs run.
    t_ : int
        Draws, over all calls of `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> model = SGDRegressor(random_state=0).fit(X, X @ [1.0, 2.0, 4.0] + 3.0)
    >>> model.coef_.round(2), round(float(model.intercept_), 2)
    (array([1., 2., 4.]), 3.0)
    """

    def _fit(self, X: Any, y: Any, weights: NDArray[np.float64], again: bool) -> None:
        if again:
            self._check_warm_start(X.shape[1])
        parts = self.parts(X, y, weights)
        self._run(parts, by=self, fresh=not again, epochs=self.max_iter, tol=self.tol)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "SGDRegressor":
        """Continue with one epoch over these rows, which may be new; parameters as in `fit`.

        The solution and the rates that were reached are kept. With saga and svrg, whose tables
        belong to rows, it steps by adagrad at its default rate. Sample weights are not
        normalised: they count in the same unit over all calls.
        """
        fresh = not hasattr(self, "coef_")
        X, y = checked_rows(self, X, y, reset=fresh, y_numeric=True)
        parts = self.parts(X, y, checked_weights(sample_weight, X), normalise=False)
        self._run(parts, by=self._for_new_rows(), fresh=fresh, epochs=1, tol=None)
        return self

    def parts(
        self,
        X: Any,
        y: Any,
        sample_weight: NDArray[np.float64] | None = None,
        *,
        normalise: bool = True,
    ) -> list[Part]:
        """Return the problem that `fit` solves, in a list; X and y are already validated."""
        settings = {name: getattr(self, name) for name in ("alpha", "l1_ratio", "fit_intercept")}
        settings |= {"sample_weight": sample_weight, "normalise": normalise}
        return [Part(None, partial(LeastSquares, X, y, **settings), None)]
