"""Linear models that are fitted by draws of rows: parameters, solver, sampler, and their parts."""

import functools
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import MethodType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.parallel import Parallel, delayed

from tombola.estimators.base import LinearModel, Part, draw_seeds
from tombola.estimators.early_stopping import HeldOut, split_rows
from tombola.estimators.familiar import check_values, check_words
from tombola.estimators.part_fit import PartFit, Past, Task, fit_part
from tombola.estimators.solver_table import (
    CERTIFIED,
    DESCENTS,
    SOLVERS,
    check_solver,
    choose_solver,
    own_sampler,
)
from tombola.problems.linear import LinearProblem
from tombola.samplers import Sampler
from tombola.samplers.registry import UNGROUPED, make_sampler
from tombola.solvers import Solver

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
class LinearEstimator(LinearModel):
    """A linear model that is fitted by draws of rows: `LinearClassifier` and `LinearRegressor`.

    It minimises (1/n) sum_i s_i loss_i + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2), with
    sample weights s of mean 1 and an intercept that is not penalised. One-vs-rest classification
    solves one such problem for each row of `coef_`.
    """

    alpha: float = 1e-4
    l1_ratio: float = 0.0
    fit_intercept: bool = True
    solver: str = "auto"
    sampler: Any = "auto"
    max_iter: int = 100
    tol: float | None = 1e-4
    random_state: Any = None
    rate: float | None = None
    batch_size: int = 1
    average: bool = False
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5

    samplers: ClassVar[tuple[str, ...]] = UNGROUPED

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "solver": [StrOptions({"auto", *SOLVERS})],
        "sampler": [StrOptions(set(samplers)), Sampler, callable],
        "tol": [None, Interval(Real, 0, None, closed="left")],
        "rate": [None, Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "average": ["boolean"],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    }

    # --- parameters ---------------------------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as in scikit-learn."""
        check_words(params, type(self).__name__, ValueError)
        super().set_params(**params)
        return self

    def _validate_params(self) -> None:
        given = self.get_params(deep=False)
        check_values(given, type(self).__name__)
        super()._validate_params()
        for name, default in OF_DESCENTS.items():
            if given[name] != default and self.solver not in DESCENTS:
                raise ValueError(
                    f'{name}={given[name]!r} is for solver="sgd" or "adagrad", got '
                    f'solver="{self.solver}"'
                )

    def _check_partial_fit(self) -> None:
        """Raise a ValueError that names a parameter that needs all rows at once."""
        if self.early_stopping:
            raise ValueError("early_stopping=True needs all rows at once: it is for fit alone")

    # --- what a fit is made of ----------------------------------------------------------------

    def solver_name(self, problem: LinearProblem) -> str:
        """Return the name of the solver of a part: what "auto" stands for."""
        if self.solver == "auto":
            return choose_solver(problem)
        check_solver(self.solver, problem)
        return self.solver

    def make_solver(self, problem: LinearProblem, seed: int = 0) -> Solver:
        """Return the solver of a part; rates that are not given suit the problem."""
        return SOLVERS[self.solver_name(problem)](self, problem, seed)

    def make_sampler(self, problem: LinearProblem, seed: int = 0, groups: Any = None) -> Sampler:
        """Return the sampler of a part, new; "auto" is the solver's own, where it has one."""
        name = self.solver_name(problem)
        own = own_sampler(name, problem, seed)
        forget = name not in DESCENTS  # losses go to zero
        return make_sampler(self.sampler, problem.n, seed, groups, own=own, forget=forget)

    def count_rounds(
        self, problem: LinearProblem, solver: Solver, epochs: int | None = None
    ) -> int:
        """Return the rounds of some epochs, by default `max_iter`."""
        epochs = self.max_iter if epochs is None else epochs
        return epochs * solver.rounds_per_epoch(problem)

    # --- the fit ------------------------------------------------------------------------------

    def _fit_rows(
        self,
        parts_of: Callable[..., list[Part]],
        X: Any,
        y: Any,
        weights: NDArray[np.float64],
        fresh: bool,
    ) -> None:
        """Fit rows that are all there are; some of them are held out for early stopping.

        ``parts_of(X, y, weights)`` are the problems.
        """
        if not self.early_stopping:
            self._run(parts_of(X, y, weights), fresh=fresh, epochs=self.max_iter)
            return
        numeric = is_regressor(self)
        train, held = split_rows(
            y, self.validation_fraction, not numeric and y.ndim == 1,
            check_random_state(self.random_state),
        )  # fmt: skip
        checks = parts_of(X[held], y[held], weights[held])
        self._run(
            parts_of(X[train], y[train], weights[train]),
            fresh=fresh,
            epochs=self.max_iter,
            held=[HeldOut(X[held], part.make(), numeric) for part in checks],
        )

    def _run(
        self,
        parts: Sequence[Part],
        *,
        fresh: bool,
        epochs: int,
        held: Sequence[HeldOut] | None = None,
        stops: bool = True,
    ) -> None:
        """Minimise each part for some epochs, and set the fitted attributes.

        Unless `fresh`, it continues: from the solution, from the sums and rates of the solver,
        and from what was learnt about groups. (What was learnt about items is lost with them.)
        """
        if fresh:
            self._calls, self.t_ = 0, 0
        past: Sequence[Past | None] = [] if fresh else self._past
        if len(past) != len(parts):
            past = [None] * len(parts)
        tol = (self.tol or None) if stops else None
        tasks = [
            Task(
                part=part,
                seed=seed,
                start=None if fresh else self._solution(k, len(parts)),
                past=past[k],
                epochs=epochs,
                tol=tol,
                held=None if held is None else held[k],
            )
            for k, (part, seed) in enumerate(
                zip(parts, draw_seeds(self.random_state, len(parts), self._calls), strict=True)
            )
        ]
        fits = self._fit_all(tasks)
        self._calls += 1
        self._past: list[Past | None] = [fit.past for fit in fits]
        self._set_fitted(fits)
        if long := next((fit.long for fit in fits if fit.long), ""):
            self._warn_of_rows(long)
        elif not all(fit.converged for fit in fits):
            self._warn(epochs, tol, max(fit.gap for fit in fits))

    def _fit_all(self, tasks: Sequence[Task]) -> list[PartFit]:
        """Fit all parts, in threads; when one fails, or on Ctrl-C, all of them end."""
        ended, n_jobs = threading.Event(), getattr(self, "n_jobs", None)

        def go_on(done: int, rounds: int) -> None:
            if ended.is_set():
                raise Ended

        try:
            fits: list[PartFit] = Parallel(n_jobs=n_jobs, require="sharedmem")(
                delayed(fit_part)(self, task, go_on) for task in tasks
            )
        finally:
            ended.set()
        return fits

    def _set_fitted(self, fits: Sequence[PartFit]) -> None:
        """Set the attributes that end in an underscore."""
        solution, d = np.concatenate([fit.solution for fit in fits]), self.n_features_in_
        if is_regressor(self):  # one output, without an axis of its own
            solution = solution[0]
        self.coef_ = np.ascontiguousarray(solution[..., :d])
        free = solution[..., d].copy() if self.fit_intercept else np.zeros(solution.shape[:-1])
        self.intercept_ = free[()]
        one = len(fits) == 1
        self.dual_gap_ = fits[0].gap if one else np.array([fit.gap for fit in fits])
        self.gauge_ = fits[0].gauge if one else [fit.gauge for fit in fits]
        self.n_iter_ = max(fit.epochs for fit in fits)
        self.solver_ = fits[0].past.solver
        self.t_ += sum(fit.draws for fit in fits)

    def _warn(self, epochs: int, tol: float | None, gap: float) -> None:
        """Warn that `max_iter` epochs were too few."""
        reached = "" if np.isnan(gap) else f" (relative duality gap {gap:.2g}, tol={tol:g})"
        last = "or scale the columns of X"
        if self.solver in DESCENTS:
            last = "scale the columns of X, or try another rate"
        warnings.warn(
            f"{type(self).__name__} has not converged in max_iter={epochs} epochs{reached}: allow "
            f"more of them, {last}",
            ConvergenceWarning,
            stacklevel=7,
        )

    def _warn_of_rows(self, long: str) -> None:
        """Warn that long rows kept the solver far from the optimum."""
        other = "" if self.solver_ in CERTIFIED else ', or use solver="newton" or "sdca"'
        warnings.warn(
            f'{type(self).__name__} with solver="{self.solver_}" has stopped before the optimum, '
            f"maybe far from it: {long}, and steps short enough for such rows are too short for "
            f"the others. Scale or leave out these rows{other}",
            ConvergenceWarning,
            stacklevel=7,
        )

    def _solution(self, k: int, parts: int) -> NDArray[np.float64]:
        """Return the current solution of part k, in the shape that its solver takes."""
        d = self.n_features_in_
        coef, intercept = self.coef_.reshape(-1, d), np.reshape(self.intercept_, (-1, 1))
        both = np.hstack([coef, intercept]) if self.fit_intercept else coef
        rows = both if parts == 1 and len(both) > 1 else both[k]
        return np.asarray(rows, dtype=np.float64)


class Ended(Exception):  # noqa: N818
    """Another part of the fit has failed, or Ctrl-C was pressed."""
