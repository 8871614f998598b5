"""The fit of one part of a linear model: one problem, solved as the estimator chooses."""

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.estimators.base import Part
from tombola.estimators.long_rows import describe_long_rows, is_far
from tombola.estimators.stopping import EarlyStopping, HeldOut, Watch
from tombola.problems.linear import LinearProblem
from tombola.problems.rows import squared_norms, transposed
from tombola.samplers import GroupVRB
from tombola.solvers import AdaGrad, Result
from tombola.solvers.choice import Choice
from tombola.solvers.descent.adagrad import SquaresCarried

__all__ = ["PartFit", "Past", "Task", "fit_part"]


LONG = 10.0  # a row this many times as long as the median one can keep a solver from its goal ...
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
    epochs: int | None  # as in `choose` of the estimator
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
    """Minimise a part, as the estimator chooses."""
    part, start, past = task.part, task.start, task.past
    problem = part.make()
    choice: Choice = model.choose(problem, task.seed, part.groups, epochs=task.epochs)
    label = None
    if model.verbose:
        label = "" if part.label is None else f"class {part.label}, "
    if choice.stop == "columns":
        return fit_columns(problem, choice, start, label, progress)
    solver, sampler, tol = choice.solver, choice.sampler, choice.tol
    same = past is not None and past.solver == choice.name
    levels = past.levels if past is not None else {}
    if isinstance(sampler, GroupVRB) and same:
        sampler.start_from(levels)
    carried = past.carried if past is not None and same else None
    if start is not None and carried is None and isinstance(solver, AdaGrad):
        carried = as_after_an_epoch(problem, start)
    if choice.stop == "certified":
        result = minimise_certified(problem, choice, start, label, progress)
        epochs = max(-(-result.rounds // choice.epoch), 1)
        gap = solver.gap(problem, result)
        solution, converged = result.solution, tol is None or gap <= tol
    else:
        watch: Any
        if task.held is not None:
            watch = EarlyStopping(task.held, tol, model.n_iter_no_change, label)
        else:
            watch = Watch(problem, sampler, choice.stop == "reduced", tol, label, start)
        result = solver.minimize(
            problem, sampler=sampler, rounds=choice.rounds, start=start, carry=carried,
            until=watch, progress=progress,
        )  # fmt: skip
        raise_interrupt(result)
        epochs, converged = watch.epoch, tol is None or watch.converged
        gap = watch.gap if choice.stop == "reduced" else math.nan
        solution = result.solution if task.held is None else watch.solution
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
        gauge=copy.deepcopy(sampler.gauge),
        draws=sampler.gauge.count,
        epochs=epochs,
        gap=float(gap),
        converged=converged,
        long=long,
    )


def fit_columns(
    problem: LinearProblem,
    choice: Choice,
    start: NDArray[np.float64] | None,
    label: str | None,
    progress: Callable[[int, int], None] | None,
) -> PartFit:
    """Minimise a part by working sets of columns; with a label, print the gap in each round."""

    def report(turn: int, gap: float, size: int) -> None:
        if progress is not None:
            progress(turn, choice.rounds)
        if label is not None:
            print(f"{label}round {turn}: duality gap {gap:.3g}, {size} columns")

    result = choice.solver.minimize(problem, rounds=choice.rounds, start=start, report=report)
    return PartFit(
        solution=result.solution.reshape(1, -1),
        past=Past(choice.name, {}, {}),
        gauge=None,
        draws=0,
        epochs=max(result.rounds, 1),
        gap=result.gap,
        converged=result.gap <= choice.solver.tol,
    )


def minimise_certified(
    problem: LinearProblem,
    choice: Choice,
    start: NDArray[np.float64] | None,
    label: str | None,
    progress: Callable[[int, int], None] | None,
) -> Result:
    """Run a solver that ends by itself; with a label it pauses each epoch to print the gap."""
    solver, rounds = choice.solver, choice.rounds
    every = rounds if label is None else choice.epoch
    begin: dict[str, Any] = {"start": start}
    done = epoch = 0
    while True:
        done, epoch = min(done + every, rounds), epoch + 1
        result: Result = solver.minimize(
            problem, sampler=choice.sampler, rounds=done, progress=progress, **begin
        )
        if label is not None:
            gap = solver.gap(problem, result)
            print(f"{label}epoch {epoch}: round {result.rounds}, relative duality gap {gap:.3g}")
        raise_interrupt(result)
        if result.rounds < done or done == rounds:
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
