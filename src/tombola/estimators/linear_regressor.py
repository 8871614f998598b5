"""Linear regression, fitted by draws of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from tombola.estimators.base import (
    LinearPrediction,
    Part,
    checked_rows,
    checked_weights,
    checks_parameters,
    one_column,
)
from tombola.estimators.linear_estimator import LinearEstimator, of_descents
from tombola.estimators.parameters import RegressionLoss, names_ours

__all__ = ["LinearRegressor"]


@names_ours
@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegressor(LinearPrediction, RegressorMixin, RegressionLoss, LinearEstimator):
    """Least squares, Huber or support vector regression, by adaptive draws of rows.

        (1/n) sum_i s_i loss(x_i w + b - y_i) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    By default it is solved by Newton's method, on samples where rows are many, or by dual
    coordinate ascent where rows are long. Rows that matter most are drawn most often, there is no
    rate to choose, and the duality gap says when to stop.

    Parameters
    ----------
    loss : {"squared_error", "huber", "epsilon_insensitive"}, default="squared_error"
        Of a residual r: r^2 / 2; the same up to epsilon and then linear; max(0, |r| - epsilon).
    epsilon : float, optional
        For the last two losses, in the unit of y; by default 1.35 and 0.1.
    alpha : float, optional
        The strength of the penalty, by default 1 / n: the model of scikit-learn's `Ridge`, whose
        alpha is alpha n. With sample weights, n is their sum. If it is 0 and columns are dependent,
        there are many optima, and this is one of them; `Lasso(alpha=0)` finds the shortest.
    sampler : str, Sampler or callable, default="auto"
        As in `LinearClassifier`, but there are no classes to draw by: "auto" is "vrb" for adagrad
        and sgd, and a function (n, seed, groups) gets None for the groups.
    C, l1_ratio, fit_intercept, solver, max_iter, tol, random_state, warm_start, verbose, rate, \
batch_size, average, early_stopping, validation_fraction, n_iter_no_change
        As in `LinearClassifier`. What holds there for the hinge loss holds for the
        epsilon-insensitive one, and early stopping goes by R squared.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
    intercept_, dual_gap_ : float
    solver_, gauge_, n_iter_, t_, n_features_in_, feature_names_in_
        As in `LinearClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> y = X @ [1.0, 2.0, 4.0] + 3.0
    >>> model = LinearRegressor(random_state=0).fit(X, y)
    >>> model.coef_.round(2), round(float(model.intercept_), 2)
    (array([1.  , 2.  , 3.99]), 3.0)
    >>> y[:20] += 1000.0
    >>> LinearRegressor("huber", random_state=0).fit(X, y).coef_.round(1)
    array([1., 2., 4.])
    """

    def _targets(self, y: Any, columns: int, again: bool) -> tuple[Any, Callable[..., list[Part]]]:
        if again:
            self._check_warm_start(columns)
        return one_column(y), self.parts

    @of_descents
    @checks_parameters
    def partial_fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> "LinearRegressor":
        """Continue with one epoch over these rows, which may be new; for adagrad and sgd.

        The solution and the rates that were reached are kept. Sample weights are not normalised:
        they count in the same unit over all calls. Parameters are those of `fit`.
        """
        self._check_partial_fit()
        fresh = not hasattr(self, "coef_")
        X, y = checked_rows(self, X, y, reset=fresh, y_numeric=True, multi_output=True)
        parts = self.parts(X, one_column(y), checked_weights(sample_weight, X), normalise=False)
        self._run(parts, fresh=fresh, epochs=1)
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
        return [Part(None, self._maker(X, sample_weight, normalise)(y), None)]
