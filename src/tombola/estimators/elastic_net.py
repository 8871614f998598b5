"""The elastic net, by working sets."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval

from tombola.estimators.sparse_fit import SparseRegressor

__all__ = ["ElasticNet"]


@dataclass(eq=False, repr=False)
class ElasticNet(SparseRegressor):
    """Least squares with an elastic net penalty, on few columns at a time.

        (1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    The objective, parameters and attributes are those of scikit-learn's `ElasticNet`. The other
    parameters and the attributes are explained in `Lasso`.

    Parameters
    ----------
    alpha : float, default=1.0
        The strength of the penalty, above 0.
    l1_ratio : float, default=0.5
        The share of l1 in the penalty, above 0 and at most 1. (For 0, ridge regression, there is
        `LinearRegressor`.)
    fit_intercept, max_iter, tol, positive, sampler, random_state, warm_start, verbose
        As in `Lasso`.

    Attributes
    ----------
    coef_, intercept_, dual_gap_, n_iter_, n_features_in_, feature_names_in_
        As in `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> model = ElasticNet(0.1, random_state=0).fit(X, 3 * X[:, 1] + 1)
    >>> model.coef_.round(1), round(float(model.intercept_), 1)
    (array([0. , 2.8, 0. , 0. , 0. ]), 1.0)
    """

    alpha: float = 1.0
    _: KW_ONLY
    l1_ratio: float = 0.5

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SparseRegressor._parameter_constraints,
        "l1_ratio": [Interval(Real, 0, 1, closed="right")],
    }

    def _penalty(self) -> tuple[float, float]:
        return self.alpha, self.l1_ratio
