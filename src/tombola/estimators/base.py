"""What the estimators share: samplers of rows, and the run of a linear model."""

import copy
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from tombola.problems.linear import LinearProblem
from tombola.problems.rows import squared_norms, transposed
from tombola.samplers import GroupVRB, Sampler
from tombola.samplers.registry import make_sampler
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad, Solver
from tombola.solvers.variance_reduced import by_curvature

__all__ = [
    "ADAGRAD_RATE",
    "DrawingEstimator",
    "LinearEstimator",
    "LinearPrediction",
    "checked_rows",
    "draw_seeds",
    "make_row_sampler",
]

SETTLE = ("saga", "svrg")  # solvers whose losses go to zero
ADAGRAD_RATE = 0.3  # where none is given; see docs/decisions/estimator_defaults.md
PATIENCE = 5  # epochs without progress after which AdaGrad and SGD stop
FEW = 2**20  # entries; 64-bit indices of so few are copied to 32 bits, see checked_rows


# --- samplers -----------------------------------------------------------------------------------


def make_row_sampler(
    choice: Any, problem: LinearProblem, seed: int, groups: Any, solver: str
) -> Sampler:
    """Return the sampler over the rows of a linear model that `sampler` asks for.

    "auto" is what was fastest by the clock. With adagrad and sgd: `GroupVRB` over the class
    labels, or `VRB`. With saga and svrg, which leave little variance to reduce, rows are drawn by
    how curved they are, since that allows larger steps (`by_curvature`).
    """
    if choice == "auto" and solver in SETTLE:
        return by_curvature(problem, seed)
    return make_sampler(choice, problem.n, seed, groups, forget=solver in SETTLE)


def draw_seeds(random_state: Any, count: int, calls: int = 0) -> list[int]:
    """Return seeds for samplers: other ones in each call of `partial_fit`, same `random_state`."""
    rng = check_random_state(random_state)
    return [int(seed) + (calls << 64) for seed in rng.randint(2**31, size=count)]


NO_TARGET = "no_validation"  # scikit-learn's word for: there is no y, and none is needed


def checked_rows(estimator: Any, X: Any, y: Any = NO_TARGET, *, reset: bool, **others: Any) -> Any:
    """Return X (and y) validated: float32 or float64, C order or CSR, no copy where it is that.

    64-bit indices of a small sparse matrix become 32-bit ones: the kernels are compiled for
    each kind, which takes longer.
    """
    alone = isinstance(y, str) and y == NO_TARGET
    checked = validate_data(
        estimator, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C",
        reset=reset, **others,
    )  # fmt: skip
    rows = checked if alone else checked[0]
    wide = hasattr(rows, "tocsr") and rows.indices.dtype == np.int64
    if wide and rows.nnz < FEW and max(rows.shape) < 2**31:
        parts = (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32))
        rows = type(rows)(parts, shape=rows.shape)
    return rows if alone else (rows, checked[1])


# --- linear models ------------------------------------------------------------------------------


class DrawingEstimator(BaseEstimator):
    """An estimator that draws items: what all of them take and accept."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearPrediction:
    """Prediction by `coef_` and `intercept_`: `SGDRegressor` and `Lasso`."""

    coef_: NDArray[np.float64]
    intercept_: Any  # a number

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the prediction for each row."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        return np.asarray(safe_sparse_dot(X, self.coef_, dense_output=True) + self.intercept_)


class LinearEstimator(DrawingEstimator):
    """A linear model that is fitted by draws of rows: `SGDClassifier` and `SGDRegressor`.

    The minimum is that of (1/n) sum_i s_i loss_i + l2/2 |w|^2 + l1 |w|_1, with sample weights s
    of mean 1 and a free intercept; (binary or one-vs-all) classification has one such problem
    for each row of `coef_`.
    """

    samplers: tuple[str, ...] = ("auto", "vrb", "shuffle", "uniform")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DrawingEstimator._parameter_constraints,
        "l2": [Interval(Real, 0, None, closed="left")],
        "l1": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "solver": [StrOptions({"adagrad", "sgd", "saga", "svrg"})],
        "rate": [None, Interval(Real, 0, None, closed="neither")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "tol": [None, Interval(Real, 0, None, closed="left")],
        "sampler": [StrOptions(set(samplers)), Sampler, callable],
    }

    def _solver(self, name: str, problem: LinearProblem) -> Solver:
        """Return the solver; rates that are not given suit the problem."""
        rate, batch_size = self.rate, self.batch_size
        if name == "adagrad":
            given = rate is not None and name == self.solver
            return AdaGrad(rate if given else ADAGRAD_RATE, batch_size=batch_size)
        if name == "saga":
            return SAGA(rate, batch_size=batch_size)
        if name == "svrg":
            return SVRG(rate, batch_size=batch_size)
        if rate is None:
            smooth = float(problem.lipschitz().max()) + problem.l2
            rate = 1.0 / smooth if smooth > 0 else 1.0
        return SGD(rate, schedule="root", batch_size=batch_size)

    def _run(
        self,
        problems: Sequence[Callable[[], tuple[LinearProblem, NDArray[Any] | None]]],
        names: Sequence[str],
        *,
        fresh: bool,
        epochs: int,
        tol: float | None,
        new_rows: bool,
    ) -> None:
        """Minimise each problem for some epochs, and set the fitted attributes.

        Each of `problems` makes a problem and its groups.

        With `new_rows` (`partial_fit`) saga and svrg, which would settle at what these rows alone
        ask for, give way to adagrad.

        Unless `fresh`, it goes on: from the solution, from the sums and rates of the solver, and
        from what was learnt of the groups. (What was learnt of items is gone with them.)
        """
        if fresh:
            self._past: dict[str, Any] = {"calls": 0, "solver": None, "runs": [None] * len(names)}
            self.t_ = 0
        past = self._past
        solver = self.solver
        if new_rows and solver in SETTLE:
            solver = "adagrad"
        seeds = draw_seeds(self.random_state, len(names), past["calls"])
        solutions, gauges, runs, watches = [], [], [], []
        for k, (make, name) in enumerate(zip(problems, names, strict=True)):
            problem, groups = make()
            sampler = make_row_sampler(self.sampler, problem, seeds[k], groups, solver)
            before = past["runs"][k] or {"carried": None, "levels": {}}
            if isinstance(sampler, GroupVRB) and past["solver"] == solver:
                sampler.start_from(before["levels"])
            start = None if fresh else self._solution(k, problem)
            carried = before["carried"] if past["solver"] == solver else None
            if start is not None and carried is None and solver == "adagrad":
                carried = as_after_an_epoch(problem, start)
            watch = Watch(
                problem, sampler, solver in SETTLE, tol, name if self.verbose else None, start
            )
            result = self._solver(solver, problem).minimize(
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
        self._past = {"calls": past["calls"] + 1, "solver": solver, "runs": runs}
        self._set_solution(np.concatenate(solutions))
        self.gauge_ = gauges[0] if len(gauges) == 1 else gauges
        self.n_iter_ = max(watch.epoch for watch in watches)
        if tol is not None and not all(watch.converged for watch in watches):
            warnings.warn(
                f"{type(self).__name__} has not converged in max_iter={epochs} epochs: allow "
                "more of them, scale the columns of X, or try another rate",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _set_solution(self, solution: NDArray[np.float64]) -> None:
        """Set `coef_` and `intercept_` from an array of shape (outputs, width)."""
        d = self.n_features_in_
        self.coef_ = np.ascontiguousarray(solution[:, :d])
        free = np.zeros(len(solution))
        self.intercept_ = solution[:, d].copy() if self.fit_intercept else free

    def _solution(self, k: int, problem: LinearProblem) -> NDArray[np.float64]:
        """Return the present solution of problem k, as its solver wants it."""
        d = self.n_features_in_
        coef, intercept = self.coef_.reshape(-1, d), np.reshape(self.intercept_, (-1, 1))
        both = np.hstack([coef, intercept]) if self.fit_intercept else coef
        rows = both if problem.outputs > 1 else both[k]
        return np.asarray(rows, dtype=np.float64)


def as_after_an_epoch(problem: LinearProblem, solution: NDArray[Any]) -> dict[str, Any]:
    """Return what AdaGrad would carry after an epoch around a solution: sum_i g_ij^2.

    So that it goes on from a solution that another solver has found, and does not leave it.
    """
    table = problem.survey(solution)[1] ** 2
    columns = transposed(problem.model.rows)
    squares = np.array([squared_norms(columns, np.ascontiguousarray(t)) for t in table.T])
    if problem.intercept:
        squares = np.column_stack([squares, table.sum(axis=0)])
    return {"rounds": np.array(problem.n), "squares": squares, "square_sum": squares.sum()}


class Watch:
    """Looks at each epoch: prints a line, and says when to stop.

    SAGA and SVRG settle: they stop when no coefficient has moved, in an epoch, by more than tol
    times the largest one, and no intercept by more than tol times the largest entry. AdaGrad and
    SGD do not; they stop when, in 5 epochs, the objective has not fallen by tol, relative to the
    best epoch before. It is the average over the epoch as the draws saw it, which costs nothing.
    """

    def __init__(
        self,
        problem: LinearProblem,
        sampler: Sampler,
        settles: bool,
        tol: float | None,
        name: str | None,
        start: NDArray[np.float64] | None,
    ) -> None:
        self.problem, self.sampler, self.settles = problem, sampler, settles
        self.tol, self.name = tol, name
        self.epoch, self.idle, self.best = 0, 0, np.inf
        self.before = np.zeros(problem.shape) if start is None else start
        self.converged = False

    def __call__(self, rounds: int, solution: NDArray[np.float64], loss: float) -> bool:
        """Return whether to stop."""
        self.epoch += 1
        objective = loss + self.problem.penalty(solution)
        if self.name is not None:
            gauge = self.sampler.gauge
            print(
                f"{self.name}epoch {self.epoch}: objective {objective:.6g}, second moment over "
                f"uniform's {gauge.second_moment_ratio:.3g} ({gauge.mode})"
            )
        if self.tol is None:
            return False
        if self.settles:
            change, size = np.abs(solution - self.before), np.abs(solution)
            d = self.problem.d  # an intercept, behind, may be far larger than coefficients
            settled = change[..., :d].max() <= self.tol * size[..., :d].max()
            self.converged = bool(settled and change.max() <= self.tol * size.max())
            self.before = solution
        else:
            enough = objective <= self.best - self.tol * abs(self.best)
            self.idle = 0 if enough or self.epoch == 1 else self.idle + 1
            self.best = min(self.best, objective)
            self.converged = self.idle >= PATIENCE
        return self.converged
