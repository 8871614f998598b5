"""Linear models that are fitted by draws of rows: parameters, parts, and the fit of all parts."""

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MethodType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from tombola.estimators.base import (
    DrawingEstimator,
    Part,
    checked_rows,
    checked_weights,
    checks_parameters,
    draw_seeds,
)
from tombola.estimators.parameters import (
    COUNT,
    POSITIVE,
    LinearParameters,
    check_values,
    check_words,
    one_of,
    parameter,
)
from tombola.estimators.part_fit import PartFit, Past, Stopped, Task, fit_part
from tombola.estimators.stopping import HeldOut, split_rows
from tombola.problems.linear import LinearProblem
from tombola.solvers.base import interruptions
from tombola.solvers.choice import DESCENTS, STOPS, Choice, choose

__all__ = ["LinearEstimator", "of_descents"]

OF_DESCENTS = {"rate": None, "batch_size": 1, "average": False, "early_stopping": False}


class of_descents:  # noqa: N801
    """A method that only estimators with solver="sgd" or "adagrad" have.

    Elsewhere it is an AttributeError that says so; that of scikit-learn's `available_if` would not.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        functools.update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, estimator: Any, kind: Any = None) -> Callable[..., Any]:
        if estimator is None:
            return self.method
        if estimator.solver not in DESCENTS:
            raise AttributeError(
                f'{self.method.__name__} needs solver="sgd" or "adagrad", got '
                f'solver="{estimator.solver}"'
            )
        return MethodType(self.method, estimator)


@dataclass(kw_only=True, eq=False, repr=False)
class LinearEstimator(LinearParameters, DrawingEstimator):
    """A linear model that is fitted by draws of rows: `LinearClassifier` and `LinearRegressor`.

    It minimises (1/n) sum_i s_i loss_i + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2), with
    sample weights s of mean 1 and an intercept that is not penalised. One-vs-rest classification
    solves one such problem for each row of `coef_`.
    """

    solver: str = parameter("auto", one_of("auto", *STOPS))
    rate: float | None = parameter(None, POSITIVE, None)
    batch_size: int = parameter(1, COUNT)
    average: bool = parameter(False, "boolean")
    early_stopping: bool = parameter(False, "boolean")
    validation_fraction: float = parameter(0.1, Interval(Real, 0, 1, closed="neither"))
    n_iter_no_change: int = parameter(5, COUNT)

    # --- parameters ---------------------------------------------------------------------------

    @classmethod
    @functools.cache
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters, inspected once: it takes long for a small fit."""
        names: list[str] = super()._get_param_names()
        return names

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as in scikit-learn."""
        check_words(params, type(self).__name__, ValueError)
        super().set_params(**params)
        return self

    def _validate_params(self) -> None:
        check_values(vars(self), type(self).__name__)
        super()._validate_params()
        for name, default in OF_DESCENTS.items():
            given = getattr(self, name)
            if given != default and self.solver not in DESCENTS:
                raise ValueError(
                    f'{name}={given!r} is for solver="sgd" or "adagrad", got solver="{self.solver}"'
                )

    def _check_partial_fit(self) -> None:
        """Raise a ValueError that names a parameter that needs all rows at once."""
        if self.early_stopping:
            raise ValueError("early_stopping=True needs all rows at once: it is for fit alone")
        if self.alpha is None:
            given = "the default, 1 / n," if self.C is None else f"C={self.C!r}"
            raise ValueError(f"partial_fit needs alpha: {given} depends on the number of all rows")

    # --- the fit ------------------------------------------------------------------------------

    @checks_parameters
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model; return self.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            C-ordered float32 and float64, and CSR, are not copied.
        y : array-like, shape (n,)
            Numbers; for `LinearClassifier` labels of any kind, or an indicator matrix of shape
            (n, K), dense or sparse.
        sample_weight : array-like, shape (n,), optional
            A weight of 2 is the same as the row twice.
        """
        again = self.warm_start and hasattr(self, "coef_")
        numeric = is_regressor(self)
        X, y = checked_rows(self, X, y, reset=True, y_numeric=numeric, multi_output=True)
        weights = None if sample_weight is None else checked_weights(sample_weight, X)
        y, parts_of = self._targets(y, X.shape[1], again)
        if not self.early_stopping:
            self._run(parts_of(X, y, weights), fresh=not again)
            return self
        train, out = split_rows(
            y, self.validation_fraction, not numeric and y.ndim == 1,
            check_random_state(self.random_state),
        )  # fmt: skip
        checks, parts = (
            parts_of(X[rows], y[rows], None if weights is None else weights[rows])
            for rows in (out, train)
        )
        held = [HeldOut(X[out], part.make(), numeric) for part in checks]
        self._run(parts, fresh=not again, held=held)
        return self

    def _targets(self, y: Any, columns: int, again: bool) -> tuple[Any, Callable[..., list[Part]]]:
        """Return checked targets, and what makes the parts of some rows: (X, y, weights).

        If `again`, the fit continues from the last solution.
        """
        raise NotImplementedError

    def _maker(
        self, X: Any, sample_weight: NDArray[np.float64] | None, normalise: bool
    ) -> Callable[..., Callable[[], LinearProblem]]:
        """Return what returns, for targets, what makes the problem of these rows."""
        total = X.shape[0] if sample_weight is None else sample_weight.sum()
        own, settings = self._problem(float(total))
        settings |= {"sample_weight": sample_weight, "normalise": normalise}

        def make(y: Any, kind: Any = own, **others: Any) -> Callable[[], LinearProblem]:
            return functools.partial(kind, X, y, **settings, **others)

        return make

    def choose(
        self,
        problem: LinearProblem,
        seed: int = 0,
        groups: Any = None,
        *,
        epochs: int | None = None,
    ) -> Choice:
        """Return how `fit` solves a problem: solver, sampler and rounds, all of them new.

        Parameters
        ----------
        problem : LinearProblem
            Of a part: see `parts`.
        seed : int, default=0
        groups : array-like of shape (n,), optional
            Those of the part.
        epochs : int, optional
            Run this many, all of them, without a tolerance; by default at most `max_iter`,
            until within `tol`.
        """
        return choose(
            problem, solver=self.solver, sampler=self.sampler,
            tol=self.tol if epochs is None else None,
            epochs=self.max_iter if epochs is None else epochs,
            seed=seed, groups=groups, rate=self.rate, batch_size=self.batch_size,
            average=self.average,
        )  # fmt: skip

    def _run(
        self,
        parts: Sequence[Part],
        *,
        fresh: bool,
        epochs: int | None = None,
        held: Sequence[HeldOut] | None = None,
    ) -> None:
        """Minimise each part, in threads, and set the fitted attributes; `epochs` as in `choose`.

        Unless `fresh`, it continues: from the solution, from the sums and rates of the solver,
        and from what was learnt about groups. (What was learnt about items is lost with them.)
        When one part fails, or on Ctrl-C, all of them end.
        """
        if fresh or not hasattr(self, "_past"):  # or begun by setting coef_
            self._calls, self.t_ = 0, 0
            self._past: list[Past | None] = []
        past: Sequence[Past | None] = [] if fresh else self._past
        if len(past) != len(parts):
            past = [None] * len(parts)
        seeds = draw_seeds(self.random_state, len(parts), self._calls)
        tasks = [
            Task(
                part=part,
                seed=seeds[k],
                start=None if fresh else self._solution(k, len(parts)),
                past=past[k],
                epochs=epochs,
                held=None if held is None else held[k],
            )
            for k, part in enumerate(parts)
        ]
        failures: list[BaseException] = []

        def attempt(k: int, task: Task) -> PartFit | None:
            try:
                return None if stop() else fit_part(self, task, self.observe(k, task.part), stop)
            except Stopped:
                return None
            except BaseException as error:
                failures.append(error)
                return None

        with interruptions() as interrupted:

            def stop() -> bool:
                return bool(failures) or interrupted()

            found: list[PartFit | None]
            if len(tasks) == 1:
                found = [attempt(0, tasks[0])]
            else:
                threads = Parallel(n_jobs=getattr(self, "n_jobs", None), require="sharedmem")
                found = threads(delayed(attempt)(k, task) for k, task in enumerate(tasks))
        if failures:
            raise failures[0]
        if interrupted():
            raise KeyboardInterrupt
        fits = [fit for fit in found if fit is not None]
        self._calls += 1
        self._past = [fit.past for fit in fits]
        self._set_fitted(fits)
        self._warn(fits)

    def _set_fitted(self, fits: Sequence[PartFit]) -> None:
        """Set the attributes that end in an underscore; coefficients have the type of X."""
        self._set_solution(np.concatenate([fit.solution for fit in fits]), fits[0].dtype)
        one = len(fits) == 1
        self.dual_gap_ = fits[0].gap if one else np.array([fit.gap for fit in fits])
        self.gauge_ = fits[0].gauge if one else [fit.gauge for fit in fits]
        self.n_iter_ = max(fit.epochs for fit in fits)
        self.solver_ = fits[0].past.solver
        self.t_ += sum(fit.draws for fit in fits)

    def _warn(self, fits: Sequence[PartFit]) -> None:
        """Warn of long rows that kept a solver far from the optimum, of none, or of few epochs."""
        if long := next((fit.long for fit in fits if fit.long), ""):
            certified = STOPS[self.solver_] == "certified"
            other = "" if certified else ', or use solver="newton" or "sdca"'
            text = (
                f'with solver="{self.solver_}" has stopped before the optimum, maybe far from it: '
                f"{long}, and steps short enough for such rows are too short for the others. "
                f"Scale or leave out these rows{other}"
            )
        elif any(fit.endless for fit in fits):
            text = (
                "separates the classes, or nearly: without a penalty larger coefficients are "
                "always better, and these are large. Use alpha above 0"
            )
        elif not all(fit.converged for fit in fits):
            gap = max(fit.gap for fit in fits)
            reached = (
                "" if np.isnan(gap) else f" (relative duality gap {gap:.2g}, tol={self.tol:g})"
            )
            last = "or scale the columns of X"
            if self.solver in DESCENTS:
                last = "scale the columns of X, or try another rate"
            text = (
                f"has not converged in max_iter={self.max_iter} epochs{reached}: allow more of "
                f"them, {last}"
            )
        else:
            return
        warnings.warn(f"{type(self).__name__} {text}", ConvergenceWarning, stacklevel=5)

    def sparsify(self) -> Self:
        """Make `coef_` a sparse array, which is smaller if most coefficients are 0."""
        check_is_fitted(self)
        self.coef_ = sparse.csr_array(self.coef_)
        return self

    def densify(self) -> Self:
        """Make `coef_` an array again."""
        check_is_fitted(self)
        if sparse.issparse(self.coef_):
            coef = self.coef_.toarray()
            self.coef_ = coef.ravel() if is_regressor(self) else coef
        return self

    def _solution(self, k: int, parts: int) -> NDArray[np.float64]:
        """Return the current solution of part k, in the shape that its solver takes."""
        coef = self.coef_.toarray() if hasattr(self.coef_, "toarray") else np.asarray(self.coef_)
        coef = coef.reshape(-1, self.n_features_in_)
        intercept = np.broadcast_to(getattr(self, "intercept_", 0.0), len(coef))[:, None]
        both = np.hstack([coef, intercept]) if self.fit_intercept else coef
        rows = both if parts == 1 and len(both) > 1 else both[k]
        return np.asarray(rows, dtype=np.float64)
