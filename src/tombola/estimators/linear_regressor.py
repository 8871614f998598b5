"""Linear regression, fitted by draws of rows."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from tombola.estimators.base import (
    LinearPrediction,
    Part,
    checked_rows,
    checked_weights,
    checks_parameters,
    one_column,
)
from tombola.estimators.familiar import names_ours
from tombola.estimators.linear import LinearEstimator, of_descents
from tombola.problems import EpsilonInsensitive, Huber, LeastSquares

__all__ = ["LinearRegressor"]

PROBLEMS: dict[str, Any] = {
    "squared_error": LeastSquares,
    "huber": Huber,
    "epsilon_insensitive": EpsilonInsensitive,
}


@names_ours
@dataclass(eq=False, repr=False)
class LinearRegressor(LinearPrediction, RegressorMixin, LinearEstimator):
    """Least squares, Huber or support vector regression, by adaptive draws of rows.

        (1/n) sum_i s_i loss(x_i w + b - y_i) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    By default it is solved by Newton's method on samples where rows are many and short, and by
    dual coordinate ascent elsewhere. Rows that matter most are drawn most often, there is no rate
    to choose, and the duality gap says when to stop.

    Parameters
    ----------
    loss : {"squared_error", "huber", "epsilon_insensitive"}, default="squared_error"
        Of a residual r: r^2 / 2; the same up to epsilon and then linear; max(0, |r| - epsilon).
    epsilon : float, optional
        For the last two losses, in the unit of y; by default 1.35 and 0.1.
    alpha : float, default=1e-4
        The strength of the penalty; the alpha of scikit-learn's Ridge is alpha n.
    l1_ratio : float, default=0.0
        The share of l1 in the penalty, from 0 (ridge) to 1 (lasso).
    fit_intercept : bool, default=True
        Whether to fit b, which is not penalised.
    solver : {"auto", "newton", "sdca", "saga", "svrg", "adagrad", "sgd"}, default="auto"
        "auto" is newton (Newton's method on samples of rows) where rows are many for their length,
        30 for each column or more, with l1_ratio=0 and not for the epsilon-insensitive loss.
        Otherwise it is sdca (dual coordinate ascent), which needs alpha above 0 and l1_ratio below
        1. With l1_ratio=1 `fit` goes by columns in place of rows (`tombola.solvers.WorkingSets`).
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
    max_iter : int, default=100
        Epochs: of n draws each, for newton one pass over all rows and one sample.
    tol : float or None, default=1e-4
        The relative duality gap at which newton, sdca, saga and svrg stop: the objective is then
        above its minimum by at most tol times its value at w = 0 with the best intercept. (Where
        alpha is 0 there is no such gap: saga and svrg stop when no coefficient has moved in an
        epoch by more than tol times the largest one.) adagrad and sgd stop when, for 5 epochs, the
        objective as estimated from the draws has not fallen by tol relative to the best one. None
        or 0: after max_iter epochs.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` continues from the last solution; adagrad and sgd continue with the rates
        that were reached.
    verbose : int, default=0
        Above 0, a line is printed for each epoch.
    rate : float, optional
        For adagrad and sgd: by default 0.3 for adagrad; for sgd 1 / (max L + alpha) at first, with
        L the curvature of the loss of a row, falling as 1 / sqrt(t).
    batch_size : int, default=1
        For adagrad and sgd.
    average : bool, default=False
        For adagrad and sgd: whether the solution is the average of the iterates.
    early_stopping : bool, default=False
        For adagrad and sgd: whether to hold rows out, stop when R squared on them has not risen by
        tol for `n_iter_no_change` epochs, and keep the best solution.
    validation_fraction : float, default=0.1
        The share of rows held out for early stopping.
    n_iter_no_change : int, default=5
        For early stopping.

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
    (array([1., 2., 4.]), 3.0)
    >>> y[:20] += 1000.0
    >>> LinearRegressor("huber", random_state=0).fit(X, y).coef_.round(1)
    array([1., 2., 4.])
    """

    loss: str = "squared_error"
    _: KW_ONLY
    epsilon: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearEstimator._parameter_constraints,
        "loss": [StrOptions(set(PROBLEMS))],
        "epsilon": [None, Interval(Real, 0, None, closed="left")],
    }

    def _fit(self, X: Any, y: Any, weights: NDArray[np.float64], again: bool) -> None:
        if again:
            self._check_warm_start(X.shape[1])
        self._fit_rows(self.parts, X, y, weights, fresh=not again)

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
        self._run(parts, fresh=fresh, epochs=1, stops=False)
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
        if self.epsilon is not None:
            if self.loss == "squared_error":
                raise ValueError(
                    f'epsilon={self.epsilon!r} is for loss="huber" or "epsilon_insensitive", got '
                    'loss="squared_error"'
                )
            settings["epsilon"] = self.epsilon
        return [Part(None, partial(PROBLEMS[self.loss], X, y, **settings), None)]
