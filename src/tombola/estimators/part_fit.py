"""The fit of one part of a linear model: one problem, solver and sampler."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.estimators.base import Part
from tombola.estimators.early_stopping import EarlyStopping, HeldOut
from tombola.estimators.long_rows import describe_long_rows, is_far
from tombola.estimators.solver_table import CERTIFIED, DESCENTS, REDUCED
from tombola.estimators.watch import Watch
from tombola.problems.linear import LinearProblem
from tombola.problems.rows import squared_norms, transposed
from tombola.samplers import GroupVRB, Sampler
from tombola.solvers import AdaGrad, Result, WorkingSets
from tombola.solvers.descent.adagrad import SquaresCarried

__all__ = ["PartFit", "Past", "Task", "fit_part"]


LONG = 10.0  # a row that many times as long as the median one can keep a solver from its goal ...
LONG_FOR_A_RATE = 3.0  # ... and one with a rate, which the longest row determines


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
    epochs: int
    tol: float | None
    held: HeldOut | None


class PartFit(NamedTuple):
    """What was fitted."""

    solution: NDArray[np.float64]  # (outputs, width)
    past: Past
    gauge: Any
    draws: int
    epochs: int
    gap: float  # relative; nan where the solver has none
    converged: bool
    long: str = ""  # about long rows, where they may have kept the solver from its goal


def fit_part(model: Any, task: Task, progress: Callable[[int, int], None] | None) -> PartFit:
    """Minimise a part, by the solver and the sampler that the estimator makes for it."""
    part, start, past, tol = task.part, task.start, task.past, task.tol
    problem = part.make()
    if goes_by_columns(model, problem, task):
        return fit_columns(model, problem, task, progress)
    name = model.solver_name(problem)
    solver = model.make_solver(problem, task.seed)
    sampler = model.make_sampler(problem, task.seed, part.groups)
    same = past is not None and past.solver == name
    levels = past.levels if past is not None else {}
    if isinstance(sampler, GroupVRB) and same:
        sampler.start_from(levels)
    carried = past.carried if past is not None and same else None
    if start is not None and carried is None and isinstance(solver, AdaGrad):
        carried = as_after_an_epoch(problem, start)
    label = None
    if model.verbose:
        label = "" if part.label is None else f"class {part.label}, "
    settings: dict[str, Any] = {"sampler": sampler, "start": start, "progress": progress}
    rounds = model.count_rounds(problem, solver, task.epochs)
    if name in CERTIFIED:
        result = minimise_certified(solver, problem, rounds, label, **settings)
        raise_interrupt(result)
        epochs = max(-(-result.rounds // solver.rounds_per_epoch(problem)), 1)
        gap = solver.gap(problem, result)
        solution, converged = result.solution, tol is None or gap <= tol
    else:
        watch: Any
        if task.held is not None:
            watch = EarlyStopping(task.held, tol, model.n_iter_no_change, label)
        else:
            watch = Watch(problem, sampler, name in REDUCED, tol, label, start)
        result = solver.minimize(problem, rounds=rounds, carry=carried, until=watch, **settings)
        raise_interrupt(result)
        epochs, converged = watch.epoch, tol is None or watch.converged
        gap = watch.gap if name in REDUCED else math.nan
        solution = result.solution if task.held is None else watch.solution
    long = ""
    if tol is not None and (name in DESCENTS or not converged):
        least = LONG_FOR_A_RATE if name in DESCENTS else LONG
        long = describe_long_rows(problem, least, numbered=task.held is None)
        if converged and long and not is_far(problem, solution, least):
            long = ""
    if isinstance(sampler, GroupVRB):
        levels = {**levels, **sampler.group_levels()}
    return PartFit(
        solution=solution.reshape(problem.outputs, -1),
        past=Past(name, result.state["carried"], levels),
        gauge=copy.deepcopy(sampler.gauge),
        draws=sampler.gauge.count,
        epochs=epochs,
        gap=float(gap),
        converged=converged,
        long=long,
    )


def goes_by_columns(model: Any, problem: LinearProblem, task: Task) -> bool:
    """Return whether a part is fitted by columns: l1 alone, a smooth loss, and nothing asked for.

    Row by row takes longer: scikit-learn's saga 4 to 36 times as long, where it arrived at all.
    """
    plain = model.solver == model.sampler == "auto" and task.held is None and task.tol is not None
    dual = problem.has_dual and math.isfinite(problem.curvature)
    return bool(plain and dual and problem.l1 > 0 and problem.l2 == 0)


def fit_columns(
    model: Any,
    problem: LinearProblem,
    task: Task,
    progress: Callable[[int, int], None] | None,
) -> PartFit:
    """Minimise a part by working sets of columns."""
    label = "" if task.part.label is None else f"class {task.part.label}, "

    def report(turn: int, gap: float, size: int) -> None:
        if progress is not None:
            progress(turn, task.epochs)
        if model.verbose:
            print(f"{label}round {turn}: duality gap {gap:.3g}, {size} columns")

    solver = WorkingSets(tol=task.tol or 0.0, seed=task.seed)
    result = solver.minimize(problem, rounds=task.epochs, start=task.start, report=report)
    return PartFit(
        solution=result.solution.reshape(1, -1),
        past=Past("working_sets", {}, {}),
        gauge=None,
        draws=0,
        epochs=max(result.rounds, 1),
        gap=result.gap,
        converged=result.gap <= solver.tol,
    )


def minimise_certified(
    solver: Any,
    problem: LinearProblem,
    rounds: int,
    label: str | None,
    *,
    sampler: Sampler,
    start: NDArray[np.float64] | None,
    progress: Callable[[int, int], None] | None,
) -> Result:
    """Run a solver that ends by itself; with a label it pauses each epoch to print the gap."""
    every = rounds if label is None else solver.rounds_per_epoch(problem)
    begin: dict[str, Any] = {"start": start}
    done = epoch = 0
    while True:
        done, epoch = min(done + every, rounds), epoch + 1
        result: Result = solver.minimize(
            problem, sampler=sampler, rounds=done, progress=progress, **begin
        )
        if label is not None:
            gap = solver.gap(problem, result)
            print(f"{label}epoch {epoch}: round {result.rounds}, relative duality gap {gap:.3g}")
        if result.interrupted or result.rounds < done or done == rounds:
            return result
        begin = {"resume": result}


def raise_interrupt(result: Result) -> None:
    """Raise the KeyboardInterrupt that ended a run."""
    if result.interrupted:
        raise KeyboardInterrupt


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
