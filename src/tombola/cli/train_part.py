"""One part of the fit of `tombola train`: minimised as the estimator does, with checkpoints."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tombola import checkpoint
from tombola.checkpoint import CheckpointError
from tombola.cli.errors import CommandError
from tombola.cli.train_rule import Book, Held, marks_of
from tombola.entries import Entry
from tombola.estimators.base import Part
from tombola.estimators.part_fit import Task, goes_by_columns
from tombola.estimators.solver_table import CERTIFIED, REDUCED
from tombola.estimators.watch import Watch
from tombola.solvers import DivergenceError, Result, Trace, WorkingSets
from tombola.solvers.gap import relative_gap, unit_of

__all__ = ["Job", "Outcome", "minimise"]

SAVE_EVERY = 5.0  # seconds between two checkpoints; more where writing one takes long


@dataclass(frozen=True, eq=False)
class Job:
    """A part to minimise, and where its checkpoints are.

    Attributes
    ----------
    part : Part
    seed : int
    path : Path
        Of the checkpoint.
    resume : bool
        Whether to start from the checkpoint, if there is one.
    held : Held or None
        The same part of the rows held out.
    progress : callable
        Called with the share that is done; returns whether to stop.
    """

    part: Part
    seed: int
    path: Path
    resume: bool
    held: Held | None
    progress: Callable[[float], bool]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a part of the fit, without its tables of items.

    Attributes
    ----------
    solution : ndarray
    trace : Trace
        From the start to the end.
    epochs, gaps, held : ndarray
        For each row of the trace: epochs, relative duality gaps and losses on the rows held out;
        NaN where they are not known.
    seconds : float
    solver, sampler : str
        The names of their classes.
    second_moment : float
        Of the draws, over that of uniform ones; NaN where no gradients are estimated.
    rule : str
        What ends it: "gap", "change" (of the coefficients), "objective" or "batches".
    ended : bool
        Whether that happened, before the last epoch or in it.
    gap : float
        The relative duality gap at the end, NaN where there is none.
    unit : float
        What it is relative to: the objective at w = 0 with the best intercept; NaN for clusters.
    """

    solution: Any
    trace: Trace
    epochs: Any
    gaps: Any
    held: Any
    seconds: float
    solver: str
    sampler: str
    second_moment: float
    rule: str
    ended: bool
    gap: float
    unit: float


def minimise(model: Any, job: Job) -> Outcome | None:
    """Minimise a part as the estimator does; return None where it was told to stop."""
    problem = job.part.make()
    task = Task(job.part, job.seed, None, None, model.max_iter, _tolerance(model), None)
    if hasattr(model, "solver") and goes_by_columns(model, problem, task):
        return _by_columns(model, problem, job)
    return _by_rows(model, problem, job)


def _tolerance(model: Any) -> float | None:
    return model.tol or None


# --- by rows ------------------------------------------------------------------------------------


@dataclass
class Pauses:
    """When a run pauses: to save, or because it was told to stop."""

    rounds: int
    tell: Callable[[float], bool]
    due: float = field(default_factory=lambda: time.monotonic() + SAVE_EVERY)
    paused: bool = False
    stopped: bool = False

    def __call__(self, done: int, rounds: int) -> bool:
        """Report progress; return whether to pause."""
        self.stopped = self.tell(done / max(rounds, 1)) or self.stopped
        self.paused = self.stopped or time.monotonic() >= self.due
        return self.paused


def _by_rows(model: Any, problem: Any, job: Job) -> Outcome | None:
    """Minimise by draws of rows."""
    linear = hasattr(model, "solver")
    name = model.solver_name(problem) if linear else "kmeans"
    solver = model.make_solver(problem, job.seed)
    sampler = model.make_sampler(problem, job.seed, job.part.groups)
    rounds, epoch = model.count_rounds(problem, solver), solver.rounds_per_epoch(problem)
    watch = None
    if linear and name not in CERTIFIED:
        watch = Watch(problem, sampler, name in REDUCED, _tolerance(model), None, None)
    marks = marks_of(model.max_iter, epoch)
    book = Book(marks, watch, job.held)
    before = _loaded(job.path, book) if job.resume and job.path.exists() else None
    pauses = Pauses(rounds, job.progress)
    result = before
    while not book.converged:
        pauses.paused = False
        try:
            result = solver.minimize(
                problem, sampler=sampler, rounds=rounds, trace=marks, resume=before,
                progress=pauses, until=book,
            )  # fmt: skip
        except DivergenceError as error:
            raise CommandError(str(error)) from None
        idle = before is not None and result.rounds == before.rounds
        if not idle:
            began = time.monotonic()
            _save(job.path, result, book)
            now = time.monotonic()
            pauses.due = now + max(SAVE_EVERY, 20 * (now - began))
        if result.interrupted or pauses.stopped:
            return None
        if idle or not pauses.paused:  # at the last round, or within the solver's tolerance
            break
        before = result
    assert result is not None
    job.progress(1.0)
    trace = Trace(**vars(result.trace))
    if trace.rounds[-1] < result.rounds:  # it ended before the last mark
        value = problem.value(result.solution)
        trace.add(result.rounds, result.item_gradients, result.seconds, value, math.nan)
    gap, rule = math.nan, "batches"
    if name in CERTIFIED:
        gap, rule = solver.gap(problem, result), "gap"
    elif linear:
        gap = relative_gap(problem, result.solution)
        rule = "objective" if name not in REDUCED else "change" if math.isnan(gap) else "gap"
    book.note(result.rounds, result.solution, gap)
    certified = name in CERTIFIED and model.tol
    return Outcome(
        solution=result.solution,
        trace=trace,
        epochs=trace.rounds / epoch,
        gaps=book.column(trace.rounds, book.gaps),
        held=book.column(trace.rounds, book.losses),
        seconds=result.seconds,
        solver=type(solver).__name__,
        sampler=type(sampler).__name__,
        second_moment=math.nan if name in CERTIFIED else sampler.gauge.second_moment_ratio,
        rule=rule,
        ended=gap <= model.tol if certified else book.converged or result.rounds < rounds,
        gap=gap,
        unit=unit_of(problem) if linear else math.nan,
    )


def _save(path: Path, result: Result, book: Book) -> None:
    """Save a result, and what its stopping rule knows.

    The rule's file comes first and keeps what belongs to the result before: a crash between the
    two leaves a pair that fits.
    """
    before, now = book.saved, book.state(result.rounds)
    rules = [now] if before is None else [before, now]
    checkpoint.write(path.with_suffix(".rule"), {"class": "Rule", "rules": rules})
    result.save(path)
    book.saved = now


def _loaded(path: Path, book: Book) -> Result:
    """Return a saved result, and set the stopping rule to what it knew then."""
    try:
        result = Result.load(path)
        _load_rule(path.with_suffix(".rule"), book, result.rounds)
    except FileNotFoundError as error:
        raise CommandError(
            f"the saved run cannot be continued: {error.filename} is missing"
        ) from None
    except CheckpointError as error:
        raise CommandError(f"the saved run cannot be continued: {error}") from None
    return result


def _load_rule(path: Path, book: Book, rounds: int) -> None:
    """Set the stopping rule to what it knew after some rounds."""
    saved = Entry(checkpoint.read(path))
    try:
        saved.exactly("class", "Rule")
        fitting = [state for state in saved.entries("rules") if state.whole("rounds") == rounds]
        if not fitting:
            raise CheckpointError(f"it does not fit a result of {rounds} rounds")
        book.load(fitting[0])
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None


# --- by columns ---------------------------------------------------------------------------------


COLUMNS = ("rounds", "gaps", "seconds")


class Stopped(Exception):  # noqa: N818
    """The run was told to stop."""


def _by_columns(model: Any, problem: Any, job: Job) -> Outcome | None:
    """Minimise by working sets of columns; what was not finished begins anew."""
    unit, held, found = unit_of(problem), job.held, None
    if job.resume and job.path.exists():
        try:
            found = _loaded_columns(job.path, problem, model.max_iter)
        except CheckpointError as error:
            raise CommandError(f"the saved run cannot be continued: {error}") from None
    if found is None:
        solver = WorkingSets(tol=model.tol, seed=job.seed)
        began, seen = time.perf_counter(), []

        def report(turn: int, gap: float, size: int) -> None:
            seen.append((float(turn), gap / unit, time.perf_counter() - began))
            if job.progress(turn / model.max_iter):
                raise Stopped

        try:
            result = solver.minimize(problem, rounds=model.max_iter, report=report)
        except Stopped:
            return None
        seen.append((float(result.rounds), result.gap, time.perf_counter() - began))
        rows = np.array([row for k, row in enumerate(seen) if k == 0 or row[0] > seen[k - 1][0]])
        rows[-1] = seen[-1]
        found = {"solution": result.solution, "gap": float(result.gap)}
        found |= dict(zip(COLUMNS, np.ascontiguousarray(rows.T), strict=True))
        checkpoint.write(job.path, {"class": "Columns", **found})
    job.progress(1.0)
    rounds, gaps, seconds = (found[name] for name in COLUMNS)
    objective = np.full(len(rounds), math.nan)
    objective[-1] = problem.value(found["solution"])
    losses = np.full(len(rounds), math.nan)
    if held is not None:
        losses[-1] = held.loss(found["solution"])
    trace = Trace(
        rounds.astype(np.int64), (rounds * problem.n).astype(np.int64), seconds, objective,
        np.full(len(rounds), math.nan),
    )  # fmt: skip
    return Outcome(
        solution=found["solution"], trace=trace, epochs=rounds, gaps=gaps, held=losses,
        seconds=float(seconds[-1]), solver="WorkingSets", sampler="Shuffle",
        second_moment=math.nan, rule="gap", ended=found["gap"] <= model.tol, gap=found["gap"],
        unit=unit,
    )  # fmt: skip


def _loaded_columns(path: Path, problem: Any, most: int) -> dict[str, Any]:
    """Return what was saved of a fit by columns of at most `most` rounds, after checking it."""
    found = Entry(checkpoint.read(path))
    try:
        found.exactly("class", "Columns")
        rounds = found.numbers("rounds", None, least=0.0)
        found.require("rounds", len(rounds) > 0, "not empty")
        gaps, seconds = (found.numbers(name, len(rounds), least=0.0) for name in COLUMNS[1:])
        counts = (rounds == np.floor(rounds)) & (rounds <= most)
        rising = bool(counts.all() and (np.diff(rounds) > 0).all())
        found.require("rounds", rising, f"whole numbers to {most} in rising order")
        found.require("seconds", bool((np.diff(seconds) >= 0).all()), "in rising order")
        found.require("gap", found.number("gap") == gaps[-1], f"the last of gaps, {gaps[-1]}")
        solution = found.numbers("solution", *problem.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            sound = math.isfinite(problem.value(solution))
        found.require("solution", sound, "one with a finite objective")
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    return dict(found.value)
