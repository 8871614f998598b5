"""The lasso, by coordinate descent that draws its coordinates."""

import copy
import warnings
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from tombola.estimators.base import LinearModel, LinearPrediction, draw_seeds
from tombola.problems import LeastSquares
from tombola.samplers import Sampler
from tombola.samplers.registry import UNGROUPED, make_sampler
from tombola.solvers import CoordinateDescent, Cyclic
from tombola.solvers.gap import duality_gap

__all__ = ["Lasso"]


@dataclass(eq=False, repr=False)
class Lasso(LinearPrediction, RegressorMixin, LinearModel):
    """Least squares with an l1 penalty, or an elastic net, by adaptive draws of coordinates.

        (1/n) sum_i s_i (x_i w + b - y_i)^2 / 2 + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    Columns are drawn by `VRB`, which learns where steps are large. The draws affect the speed
    only, not the solution: the stopping rule is the duality gap.

    Parameters
    ----------
    alpha : float, default=0.1
        The strength of the penalty, above 0.
    l1_ratio : float, default=1.0
        The share of l1 in the penalty, above 0 and at most 1.
    fit_intercept : bool, default=True
    max_iter : int, default=1000
        Epochs, of one draw per coordinate.
    tol : float, default=1e-6
        It stops when the duality gap, an upper bound on the distance of the objective from its
        minimum, is below tol times the mean of (y - mean)^2.
    sampler : str, Sampler or callable, default="auto"
        How coordinates are drawn: "auto" and "vrb" (`VRB`), "shuffle", "uniform", or "cyclic" (in
        order). A sampler over the columns of X (and one item more with sparse X and an
        intercept) is left unchanged: a new one is made with its parameters and seed. A function
        (n, seed, groups) returns a sampler; its groups are None.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` starts from the last solution.
    verbose : int, default=0
        Above 0, a line is printed whenever the gap is computed.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
    intercept_ : float
    dual_gap_ : float
        The duality gap at the end.
    gauge_ : Gauge
        The worth of the sampling, for the feedback that the sampler got.
    n_iter_ : int
        Epochs run.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

    Notes
    -----
    The gap costs as much as an epoch: it is computed after 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, ...
    epochs. Dense X is copied twice: with centred columns if there is an intercept, and by columns.
    Sparse X is copied once, by columns; its intercept is one more coordinate, which is slower
    where columns have large means.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> model = Lasso(random_state=0).fit(X, 3 * X[:, 1] + 1)
    >>> model.coef_.round(1), round(float(model.intercept_), 1)
    (array([0. , 2.9, 0. , 0. , 0. ]), 1.0)
    """

    alpha: float = 0.1
    _: KW_ONLY
    l1_ratio: float = 1.0
    fit_intercept: bool = True
    max_iter: int = 1000
    tol: float = 1e-6
    sampler: Any = "auto"
    random_state: Any = None

    samplers = (*UNGROUPED, "cyclic")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "l1_ratio": [Interval(Real, 0, 1, closed="right")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "sampler": [StrOptions(set(samplers)), Sampler, callable],
    }

    def _fit(self, X: Any, y: Any, weights: NDArray[np.float64], again: bool) -> None:
        d = X.shape[1]
        if again:
            self._check_warm_start(d)
        if not weights.any():
            raise ValueError("all sample weights are 0: at least one must be positive")
        y = np.asarray(y, dtype=np.float64)
        middle = np.average(y, weights=weights) if self.fit_intercept else 0.0
        shift = np.zeros(d)
        free = bool(self.fit_intercept and hasattr(X, "tocsr"))
        if self.fit_intercept and not free:
            shift = np.average(X, axis=0, weights=weights)
            X = X - shift.astype(X.dtype)
        problem = LeastSquares(
            X, y - middle, alpha=self.alpha, l1_ratio=self.l1_ratio, sample_weight=weights,
            fit_intercept=free,
        )  # fmt: skip
        start = None
        if again:
            start = np.append(self.coef_, self.intercept_ - middle) if free else self.coef_
        items = d + free
        seed = draw_seeds(self.random_state, 1)[0]
        cyclic = {"cyclic": partial(Cyclic, items)}
        sampler = make_sampler(self.sampler, items, seed, extra=cyclic, what="coordinates")
        watch = _Watch(problem, float(np.average((y - middle) ** 2, weights=weights)), self)
        result = CoordinateDescent().minimize(
            problem, sampler=sampler, rounds=self.max_iter * items, start=start, until=watch
        )
        if result.interrupted:
            raise KeyboardInterrupt
        self.coef_ = result.solution[:d].copy()
        constant = result.solution[d] if free else -(shift @ self.coef_)
        self.intercept_ = float(middle + constant) if self.fit_intercept else 0.0
        self.dual_gap_ = watch.gap
        self.gauge_ = copy.deepcopy(sampler.gauge)
        self.n_iter_ = watch.epoch
        if not watch.converged:
            warnings.warn(
                f"Lasso has not converged in max_iter={self.max_iter} epochs: the duality gap is "
                f"{watch.gap:.3g}, above the {self.tol * watch.scale:.3g} that tol asks for",
                ConvergenceWarning,
                stacklevel=4,
            )


class _Watch:
    """The stopping rule, called after each epoch: computes the duality gap, ever more rarely."""

    def __init__(self, problem: LeastSquares, scale: float, lasso: Lasso) -> None:
        self.problem, self.scale = problem, scale
        self.goal, self.last, self.verbose = lasso.tol * scale, lasso.max_iter, lasso.verbose
        self.epoch, self.next = 0, 1
        self.gap, self.converged = np.inf, False

    def __call__(self, rounds: int, solution: NDArray[np.float64], loss: float) -> bool:
        """Return whether to stop."""
        self.epoch += 1
        if self.epoch == self.next or self.epoch == self.last:
            self.next = self.epoch + max(1, self.epoch // 4)
            self.gap = duality_gap(self.problem, solution)
            self.converged = bool(self.gap <= self.goal)
            if self.verbose:
                print(f"epoch {self.epoch}: duality gap {self.gap:.6g}")
        return self.converged
