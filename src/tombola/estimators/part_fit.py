"""The fit of one part of a model: one problem, solved as the estimator chooses, and observed."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.estimators.base import Observer, Part
from tombola.estimators.long_rows import describe_long_rows, is_far
from tombola.estimators.stopping import EarlyStopping, HeldOut, Watch
from tombola.problems import Logistic, Softmax
from tombola.problems.linear import LinearProblem
from tombola.problems.rows import squared_norms, transposed
from tombola.samplers import GroupVRB, Sampler
from tombola.solvers import AdaGrad, Result
from tombola.solvers.choice import Choice
from tombola.solvers.descent.adagrad import SquaresCarried
from tombola.solvers.gap import best_constant

__all__ = ["PartFit", "Past", "Stopped", "Task", "fit_part", "run_rows"]


LONG = 10.0  # a row this many times as long as the median one can keep a solver from its goal ...
LONG_FOR_A_RATE = 3.0  # ... and one with a rate, which the longest row determines
FAINT = 1e-6  # of the objective: a smaller l1 penalty moves no coefficient to 0


class Stopped(Exception):  # noqa: N818
    """The fit of a part was stopped: another part failed, or Ctrl-C was pressed."""


class Past(NamedTuple):
    """What a fit leaves for the next one, of a part."""

    solver: str
    carried: dict[str, Any]  # the solver's sums and rates
    levels: dict[Any, Any]  # of groups


class Task(NamedTuple):
    """A part to fit: how, from where, and until when."""

    part: Part
    seed: int
    start: NDArray[np.float64] | None
    past: Past | None
    epochs: int | None  # as in `choose` of the estimator
    held: HeldOut | None


class PartFit(NamedTuple):
    """What was fitted."""

    solution: NDArray[np.float64]  # (outputs, width)
    past: Past
    epochs: int
    gap: float  # relative; nan where the solver has none
    converged: bool
    dtype: Any  # of X
    gauge: Any = None
    draws: int = 0
    endless: bool = False  # whether losses go to 0 as coefficients grow, without an optimum
    long: str = ""  # about long rows, where they may have kept the solver from its goal


def fit_part(model: Any, task: Task, observer: Observer, stop: Callable[[], bool]) -> PartFit:
    """Minimise a part, as the estimator chooses; raise `Stopped` once `stop` returns True."""
    part, start, past = task.part, task.start, task.past
    problem = part.make()
    choice: Choice = model.choose(problem, task.seed, part.groups, epochs=task.epochs)
    label = None
    if model.verbose:
        label = "" if part.label is None else f"class {part.label}, "
    if choice.stop == "columns":
        return fit_columns(problem, choice, start, label, observer, stop)
    unseen = type(observer) is Observer and label is None
    sampler: Any = None
    if unseen and choice.name == "newton":
        sampler = None if choice.solver.takes_all(problem) else choice.sampler
        if not isinstance(sampler, GroupVRB):
            return fit_by_newton(problem, choice, sampler, start, stop)
    sampler = choice.sampler
    solver, tol = choice.solver, choice.tol
    same = past is not None and past.solver == choice.name
    levels = past.levels if past is not None else {}
    if isinstance(sampler, GroupVRB) and same:
        sampler.start_from(levels)
    carried = past.carried if past is not None and same else None
    if start is not None and carried is None and isinstance(solver, AdaGrad):
        carried = as_after_an_epoch(problem, start)
    rule: Any = None
    endless = False
    if choice.stop != "certified" and task.held is not None:
        rule = EarlyStopping(task.held, tol, model.n_iter_no_change, label)
    elif choice.stop != "certified":
        rule = Watch(problem, sampler, choice.stop == "reduced", tol, label, start)
    begin = {"start": start, "carry": carried}
    result = run_rows(problem, choice, rule, observer, begin, label=label, stop=stop)
    if rule is None:
        epochs = max(-(-result.rounds // choice.epoch), 1)
        gap = solver.gap(problem, result)
        solution, converged = result.solution, tol is None or gap <= tol
        if math.isnan(gap):  # without a penalty
            converged = converged or result.rounds < choice.rounds
            endless = is_endless(problem, tol, result.state["parts"]["bounds"]["primal"])
    else:
        epochs, converged = rule.epoch, tol is None or rule.converged
        gap = rule.gap if choice.stop == "reduced" else math.nan
        solution = result.solution if task.held is None else rule.solution
    if problem.l1 > 0.0 and choice.stop == "descent" and task.epochs is None:
        solution = with_zeros(problem, solution)
    observer.end(result, gap, converged)
    sampler = result.sampler
    long, descent = "", choice.stop == "descent"
    if tol is not None and (descent or not converged):
        least = LONG_FOR_A_RATE if descent else LONG
        long = describe_long_rows(problem, least, numbered=task.held is None)
        if converged and long and not is_far(problem, solution, least):
            long = ""
    if isinstance(sampler, GroupVRB):
        levels = {**levels, **sampler.group_levels()}
    return PartFit(
        solution=solution.reshape(problem.outputs, -1),
        past=Past(choice.name, result.state["carried"], levels),
        gauge=copy.deepcopy(sampler.gauge) if sampler.gauge.count > 0 else None,
        draws=sampler.gauge.count,
        epochs=epochs,
        gap=float(gap),
        converged=converged,
        dtype=problem.model.rows.values.dtype,
        endless=endless,
        long=long,
    )


def ended(problem: LinearProblem, choice: Choice, found: Any, **others: Any) -> PartFit:
    """Return what was fitted by a solver that leaves nothing to the next fit."""
    return PartFit(
        solution=found.solution.reshape(problem.outputs, -1),
        past=Past(choice.name, {}, {}),
        epochs=max(found.rounds, 1),
        gap=found.gap,
        dtype=problem.model.rows.values.dtype,
        **others,
    )


def fit_by_newton(
    problem: LinearProblem,
    choice: Choice,
    sampler: Sampler | None,
    start: NDArray[np.float64] | None,
    stop: Callable[[], bool],
) -> PartFit:
    """Minimise a part that nobody observes: the short way, for a fit of milliseconds.

    All rows are taken without a sampler.
    """
    found = choice.solver.solve(problem, sampler, rounds=choice.rounds, start=start, stop=stop)
    if stop():
        raise Stopped
    tol, plain = choice.tol, problem.l2 == 0.0
    converged = tol is None or found.gap <= tol or (plain and found.rounds < choice.rounds)
    drawn = 0 if sampler is None else sampler.gauge.count
    return ended(
        problem, choice, found, converged=converged, draws=drawn,
        gauge=copy.deepcopy(sampler.gauge) if sampler is not None and drawn else None,
        endless=is_endless(problem, tol, found.primal),
        long="" if converged else describe_long_rows(problem, LONG, numbered=True),
    )  # fmt: skip


def is_endless(problem: LinearProblem, tol: float | None, value: float) -> bool:
    """Return whether losses go to 0 as coefficients grow, without an optimum."""
    if problem.alpha > 0.0 or tol is None or not isinstance(problem, Logistic | Softmax):
        return False
    return value <= tol * best_constant(problem)[1]


def with_zeros(problem: LinearProblem, solution: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a solution with as many of its smallest coefficients at 0 as does no harm.

    Solvers with a rate leave coefficients near 0 that are 0 at the optimum, unless the l1 penalty
    is faint. The number is found by bisection, with a pass over the rows for each objective.
    """
    sizes = np.abs(problem.as_matrix(solution)[:, : problem.d])
    steps, value = np.unique(sizes), problem.value(solution)
    if problem.l1 * sizes.sum() <= FAINT * value:
        return solution
    low, high = -1, steps.size  # of the steps that are 0, and of those that cannot be
    best = solution
    while high - low > 1:
        middle = (low + high) // 2
        found = problem.as_matrix(solution)
        found[:, : problem.d][sizes <= steps[middle]] = 0.0
        found = found.reshape(problem.shape)
        if problem.value(found) <= value:
            low, best = middle, found
        else:
            high = middle
    return best


def fit_columns(
    problem: LinearProblem,
    choice: Choice,
    start: NDArray[np.float64] | None,
    label: str | None,
    observer: Observer,
    stop: Callable[[], bool],
) -> PartFit:
    """Minimise a part by working sets of columns; with a label, print the gap in each round."""

    def report(turn: int, gap: float, size: int) -> None:
        observer.progress(turn / choice.rounds)
        if stop():
            raise Stopped
        if observer.epoch is not None:
            observer.epoch(turn, None, gap)
        if label is not None:
            print(f"{label}round {turn}: duality gap {gap:.3g}, {size} columns")

    result = observer.begin(problem, choice, None)
    if result is None:
        result = choice.solver.minimize(problem, rounds=choice.rounds, start=start, report=report)
        observer.keep(result)
    converged = bool(result.gap <= choice.solver.tol)
    observer.end(result, result.gap, converged)
    return ended(problem, choice, result, converged=converged)


def run_rows(
    problem: Any,
    choice: Choice,
    rule: Any,
    observer: Observer,
    begin: dict[str, Any],
    *,
    label: str | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Minimise by draws of rows, to the last round or until the stopping rule ends it.

    It pauses when the observer asks for it, and with a label after each epoch of a solver that
    ends by itself, to print the gap. Pauses do not change the result.

    Parameters
    ----------
    problem, choice, observer, label
    rule : callable or None
        Called after each epoch, with an attribute `converged`; None if the solver ends by itself.
    begin : dict
        The arguments of `minimize` for a new run: start, carry.
    stop : callable
        Returns whether to stop. Then, and after Ctrl-C, the observer keeps what was reached, and
        `Stopped` or KeyboardInterrupt is raised.
    """
    solver, rounds = choice.solver, choice.rounds
    every = choice.epoch if label is not None and rule is None else rounds
    told, paused, epoch = 0, False, 0

    def progress(done: int, goal: int) -> bool:
        nonlocal paused
        paused = observer.progress(done / max(rounds, 1)) or stop()
        return paused

    def until(done: int, solution: NDArray[np.float64], loss: float) -> bool:
        ends = rule is not None and bool(rule(done, solution, loss))
        if observer.epoch is not None:
            observer.epoch(done, solution, math.nan)
        return ends

    result: Result | None = observer.begin(problem, choice, rule)
    if result is not None:
        begin, told = {"resume": result}, result.rounds
    while result is None or not (rule is not None and rule.converged):
        paused, goal = False, min(told + every, rounds)
        found: Result = solver.minimize(
            problem, sampler=choice.sampler, rounds=goal, progress=progress,
            trace=[mark for mark in observer.marks if mark <= goal],
            until=None if rule is None and observer.epoch is None else until, **begin,
        )  # fmt: skip
        idle = result is not None and found.rounds == told
        result, told, begin = found, found.rounds, {"resume": found}
        if not idle:
            observer.keep(result)
        if label is not None and rule is None:
            epoch += 1
            gap = solver.gap(problem, result)
            print(f"{label}epoch {epoch}: round {told}, relative duality gap {gap:.3g}")
        if result.interrupted:
            raise KeyboardInterrupt
        if stop():
            raise Stopped
        if idle or told == rounds or (told < goal and not paused):
            break
    return result


def as_after_an_epoch(problem: LinearProblem, solution: NDArray[Any]) -> dict[str, Any]:
    """Return what AdaGrad would carry after an epoch at a solution: sum_i g_ij^2.

    AdaGrad then continues from the solution of another solver without moving far from it.
    """
    table = problem.evaluate(solution)[1] ** 2
    columns = transposed(problem.model.rows)
    squares = np.array([squared_norms(columns, np.ascontiguousarray(t)) for t in table.T])
    if problem.fit_intercept:
        squares = np.column_stack([squares, table.sum(axis=0)])
    total = float(squares.sum())
    return SquaresCarried(rounds=problem.n, square_sum=total, squares=squares).to_dict()
