"""Linear regression, fitted by draws of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

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
from tombola.estimators.familiar import names_ours
from tombola.estimators.linear_estimator import LinearEstimator, of_descents
from tombola.estimators.parameters import RegressionLoss

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
    C : float, optional
        scikit-learn's name of the penalty, alpha = 1 / (C n); give one of the two.
    solver : {"auto", "newton", "sdca", "saga", "svrg", "adagrad", "sgd"}, default="auto"
        "auto" is newton (Newton's method, on samples of rows if they are many) for smooth losses
        with l1_ratio=0: if there are 30 rows or more for each column, if there are few of both, if
        alpha is 0, or if sdca would be slow, as with columns in large units. Otherwise it is
        sdca (dual coordinate ascent), which needs alpha above 0 and l1_ratio below 1. With
        l1_ratio=1 `fit` goes by columns in place of rows (`tombola.solvers.WorkingSets`).
        Elsewhere it is saga, or adagrad for the epsilon-insensitive loss. All but adagrad and
        sgd converge without a tuned rate; these two can go on with new rows by `partial_fit`.
    sampler : str, Sampler or callable, default="auto"
        How rows are drawn. "auto" is the solver's own rule. newton and sdca: half in shuffled
        order, half by how much each row matters (`tombola.Latest`), which is its curvature
        and slope for newton and its dual residual for sdca. saga and svrg: half by
        the curvature of their loss, which allows larger steps. adagrad and sgd: "vrb", which is
        `VRB`. Other names: "epoch-vrb" (`EpochVRB`, shuffled epochs whose items are chosen),
        "shuffle" (shuffled epochs), "uniform"; saga and svrg need independent draws, so they
        refuse the first two. A sampler over the rows of X is left unchanged: a new one is made
        with its parameters and seed. A function (n, seed, groups) returns a sampler; its groups
        are None.
    warm_start : bool, default=False
        Whether `fit` continues from the last solution; adagrad and sgd continue with the rates
        that were reached.
    early_stopping : bool, default=False
        For adagrad and sgd: whether to hold rows out, stop when R squared on them has not risen by
        tol for `n_iter_no_change` epochs, and keep the best solution.
    validation_fraction : float, default=0.1
        The share of rows held out for early stopping.
    l1_ratio, fit_intercept, max_iter, tol, random_state, verbose, rate, batch_size, average, \
n_iter_no_change
        As in `LinearClassifier`.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
    intercept_ : float
    dual_gap_ : float
        The relative duality gap that was reached, as in `tol`; NaN for adagrad and sgd.
    solver_ : str
        The solver that was used.
    gauge_ : Gauge
        The worth of the sampling for estimates of gradients, which sdca does not make. None where
        no rows were drawn.
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
    >>> y = X @ [1.0, 2.0, 4.0] + 3.0
    >>> model = LinearRegressor(random_state=0).fit(X, y)
    >>> model.coef_.round(2), round(float(model.intercept_), 2)
    (array([1.  , 2.  , 3.99]), 3.0)
    >>> y[:20] += 1000.0
    >>> LinearRegressor("huber", random_state=0).fit(X, y).coef_.round(1)
    array([1., 2., 4.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        **RegressionLoss._parameter_constraints,
    }

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
