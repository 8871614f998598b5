"""Linear models that are fitted by draws of rows: solver, sampler, and the run of their parts."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from tombola.estimators.base import LinearModel, Part, draw_seeds
from tombola.estimators.watch import Watch
from tombola.problems.linear import LinearProblem
from tombola.problems.rows import squared_norms, transposed
from tombola.samplers import GroupVRB, Sampler
from tombola.samplers.registry import UNGROUPED, make_sampler
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad, Solver
from tombola.solvers.variance_reduced import by_curvature

__all__ = ["SOLVERS", "LinearEstimator"]

SOLVERS = ("saga", "svrg", "adagrad", "sgd")
REDUCED = ("saga", "svrg")  # variance-reduced: their losses go to zero
ADAGRAD_RATE = 0.3  # where none is given; see docs/decisions/estimator_defaults.md


@dataclass(kw_only=True, eq=False, repr=False)
class LinearEstimator(LinearModel):
    """A linear model that is fitted by draws of rows: `SGDClassifier` and `SGDRegressor`.

    It minimises (1/n) sum_i s_i loss_i + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2), with
    sample weights s of mean 1 and an intercept that is not penalised. One-vs-all classification
    solves one such problem for each row of `coef_`.
    """

    alpha: float = 1e-4
    l1_ratio: float = 0.0
    fit_intercept: bool = True
    solver: str = "saga"
    rate: float | None = None
    batch_size: int = 1
    max_iter: int = 100
    tol: float | None = 1e-3
    sampler: Any = "auto"
    random_state: Any = None

    samplers: ClassVar[tuple[str, ...]] = UNGROUPED

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left")],
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        "solver": [StrOptions(set(SOLVERS))],
        "rate": [None, Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "tol": [None, Interval(Real, 0, None, closed="left")],
        "sampler": [StrOptions(set(samplers)), Sampler, callable],
    }

    def make_solver(self, problem: LinearProblem, seed: int = 0) -> Solver:
        """Return the solver of a part; rates that are not given suit the problem."""
        rate, batch_size = self.rate, self.batch_size
        if self.solver == "adagrad":
            return AdaGrad(ADAGRAD_RATE if rate is None else rate, batch_size=batch_size)
        if self.solver == "saga":
            return SAGA(rate, batch_size=batch_size)
        if self.solver == "svrg":
            return SVRG(rate, batch_size=batch_size)
        if rate is None:
            smooth = float(problem.lipschitz().max()) + problem.l2
            rate = 1.0 / smooth if smooth > 0 else 1.0
        return SGD(rate, schedule="root", batch_size=batch_size)

    def make_sampler(self, problem: LinearProblem, seed: int = 0, groups: Any = None) -> Sampler:
        """Return the sampler of a part, new; saga and svrg have draws by curvature of their own."""
        reduced = self.solver in REDUCED
        own = partial(by_curvature, problem, seed) if reduced else None
        return make_sampler(self.sampler, problem.n, seed, groups, own=own, forget=reduced)

    def _run(
        self,
        parts: Sequence[Part],
        *,
        by: "LinearEstimator",
        fresh: bool,
        epochs: int,
        tol: float | None,
    ) -> None:
        """Minimise each part for some epochs, and set the fitted attributes.

        `by` makes the solvers and samplers: this estimator, or the one `_for_new_rows` returns.
        Unless `fresh`, it continues: from the solution, from the sums and rates of the solver,
        and from what was learnt about groups. (What was learnt about items is lost with them.)
        """
        if fresh:
            self._past: dict[str, Any] = {"calls": 0, "solver": None, "runs": [None] * len(parts)}
            self.t_ = 0
        past = self._past
        same = past["solver"] == by.solver
        seeds = draw_seeds(self.random_state, len(parts), past["calls"])
        solutions, gauges, runs, watches = [], [], [], []
        for k, (part, seed) in enumerate(zip(parts, seeds, strict=True)):
            problem = part.make()
            solver = by.make_solver(problem, seed)
            sampler = by.make_sampler(problem, seed, part.groups)
            before = past["runs"][k] or {"carried": None, "levels": {}}
            if isinstance(sampler, GroupVRB) and same:
                sampler.start_from(before["levels"])
            start = None if fresh else self._solution(k, problem)
            carried = before["carried"] if same else None
            if start is not None and carried is None and isinstance(solver, AdaGrad):
                carried = as_after_an_epoch(problem, start)
            name = None
            if self.verbose:
                name = "" if part.label is None else f"class {part.label}, "
            watch = Watch(problem, sampler, by.solver in REDUCED, tol, name, start)
            result = solver.minimize(
                problem,
                sampler=sampler,
                rounds=epochs * -(-problem.n // self.batch_size),
                start=start,
                carry=carried,
                until=watch,
            )
            if result.interrupted:
                raise KeyboardInterrupt
            self.t_ += result.rounds * self.batch_size
            levels = sampler.group_levels() if isinstance(sampler, GroupVRB) else {}
            runs.append(
                {"carried": result.state["carried"], "levels": {**before["levels"], **levels}}
            )
            solutions.append(result.solution.reshape(problem.outputs, -1))
            gauges.append(copy.deepcopy(sampler.gauge))
            watches.append(watch)
        self._past = {"calls": past["calls"] + 1, "solver": by.solver, "runs": runs}
        solution, d = np.concatenate(solutions), self.n_features_in_
        if is_regressor(self):  # one output, without an axis of its own
            solution = solution[0]
        self.coef_ = np.ascontiguousarray(solution[..., :d])
        free = solution[..., d].copy() if self.fit_intercept else np.zeros(solution.shape[:-1])
        self.intercept_ = free[()]
        self.gauge_ = gauges[0] if len(gauges) == 1 else gauges
        self.n_iter_ = max(watch.epoch for watch in watches)
        if tol is not None and not all(watch.converged for watch in watches):
            warnings.warn(
                f"{type(self).__name__} has not converged in max_iter={epochs} epochs: allow "
                "more of them, scale the columns of X, or try another rate",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _for_new_rows(self) -> "LinearEstimator":
        """Return the estimator whose solver and sampler `partial_fit` uses.

        saga and svrg would converge to the solution of the new rows alone: adagrad, at its
        default rate, takes their place.
        """
        if self.solver not in REDUCED:
            return self
        return type(self)(**{**self.get_params(deep=False), "solver": "adagrad", "rate": None})

    def _solution(self, k: int, problem: LinearProblem) -> NDArray[np.float64]:
        """Return the current solution of part k, in the shape that its solver takes."""
        d = self.n_features_in_
        coef, intercept = self.coef_.reshape(-1, d), np.reshape(self.intercept_, (-1, 1))
        both = np.hstack([coef, intercept]) if self.fit_intercept else coef
        rows = both if problem.outputs > 1 else both[k]
        return np.asarray(rows, dtype=np.float64)


def as_after_an_epoch(problem: LinearProblem, solution: NDArray[Any]) -> dict[str, Any]:
    """Return what AdaGrad would carry after an epoch at a solution: sum_i g_ij^2.

    AdaGrad then continues from the solution of another solver without moving far from it.
    """
    table = problem.evaluate(solution)[1] ** 2
    columns = transposed(problem.model.rows)
    squares = np.array([squared_norms(columns, np.ascontiguousarray(t)) for t in table.T])
    if problem.fit_intercept:
        squares = np.column_stack([squares, table.sum(axis=0)])
    return {"rounds": np.array(problem.n), "squares": squares, "square_sum": squares.sum()}
