"""Linear regression of rows in partitions."""

from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.base import RegressorMixin

from tombola import estimators
from tombola.dask.linear_estimator import DaskLinear, Target, mean_errors
from tombola.dask.overview import Overview
from tombola.estimators.parameters import RegressionLoss

__all__ = ["LinearRegressor"]


@dataclass(eq=False, repr=False)
class LinearRegressor(RegressorMixin, RegressionLoss, DaskLinear):
    """Least squares, Huber or support vector regression, on a Dask array or data frame.

        (1/n) sum_i s_i loss(x_i w + b - y_i) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    It is fitted in rounds, as `tombola.dask.LinearClassifier` is.

    Parameters
    ----------
    loss, epsilon
        As in `tombola.estimators.LinearRegressor`. With the epsilon-insensitive loss, some rows of
        X are sent to the driver, and `local_epochs` is not used.
    alpha, C, l1_ratio, fit_intercept, sampler, local_epochs, max_iter, tol, random_state, \
verbose, client, checkpoint, checkpoint_every
        As in `tombola.dask.LinearClassifier`.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_features_in_, feature_names_in_
        As in `tombola.estimators.LinearRegressor`.
    n_iter_, progress_
        As in `tombola.dask.LinearClassifier`.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import make_regression
    >>> X, y = make_regression(1000, 5, noise=1.0, random_state=0)
    >>> X, y = da.from_array(X, chunks=(250, 5)), da.from_array(y, chunks=250)
    >>> model = LinearRegressor(random_state=0).fit(X, y)
    >>> model.dual_gap_ <= 1e-4, round(model.score(X, y), 3)
    (True, 1.0)
    """

    numeric: ClassVar[bool] = True
    local: ClassVar[Any] = estimators.LinearRegressor

    def _target(self, overview: Overview) -> Target:
        return Target()

    def predict(self, X: Any) -> Any:
        """Return the prediction for each row; lazy."""
        return self._lazily(X, "predict")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R squared; computed at once."""
        error, variance = mean_errors(self, X, y, sample_weight)
        return 1.0 - error / variance if variance > 0 else 0.0
