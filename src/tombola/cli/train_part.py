"""One part of the fit of `tombola train`: minimised as the estimator does, with checkpoints."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tombola.cli.errors import CommandError
from tombola.cli.train_rule import Book, Held, RuleState, marks_of
from tombola.estimators.base import Part
from tombola.estimators.stopping import Watch
from tombola.solvers import DivergenceError, Result, Trace
from tombola.solvers.choice import Choice
from tombola.solvers.gap import relative_gap, unit_of
from tombola.state import CheckpointError, Floats, Scope, array, real
from tombola.state.archive import File

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
    """Minimise a part as the estimator does; return None if it was stopped."""
    problem = job.part.make()
    choice: Choice = model.choose(problem, job.seed, job.part.groups)
    run = _by_columns if choice.stop == "columns" else _by_rows
    return run(problem, choice, job)


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


def _by_rows(problem: Any, choice: Choice, job: Job) -> Outcome | None:
    """Minimise by draws of rows."""
    solver, sampler, rounds, stop = choice.solver, choice.sampler, choice.rounds, choice.stop
    watch = None
    if stop in ("reduced", "descent"):
        watch = Watch(problem, sampler, stop == "reduced", choice.tol, None, None)
    marks = marks_of(rounds // choice.epoch, choice.epoch)
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
    gap, certified = math.nan, stop == "certified"
    if certified:
        gap = solver.gap(problem, result)
    elif stop != "batches":
        gap = relative_gap(problem, result.solution)
    rule = {
        "certified": "gap",
        "reduced": "change" if math.isnan(gap) else "gap",
        "descent": "objective",
        "batches": "batches",
    }[stop]
    book.note(result.rounds, result.solution, gap)
    ended = book.converged or result.rounds < rounds
    if certified and choice.tol is not None:
        ended = gap <= choice.tol
    return Outcome(
        solution=result.solution,
        trace=trace,
        epochs=trace.rounds / choice.epoch,
        gaps=book.column(trace.rounds, book.gaps),
        held=book.column(trace.rounds, book.losses),
        seconds=result.seconds,
        solver=type(solver).__name__,
        sampler=type(sampler).__name__,
        second_moment=math.nan if certified else sampler.gauge.second_moment_ratio,
        rule=rule,
        ended=ended,
        gap=gap,
        unit=math.nan if stop == "batches" else unit_of(problem),
    )


def _save(path: Path, result: Result, book: Book) -> None:
    """Save a result, and what its stopping rule knows.

    The rule's file comes first and keeps what belongs to the result before: a crash between the
    two leaves a pair that fits.
    """
    before, now = book.saved, book.state(result.rounds)
    rules = RuleState(rules=[now] if before is None else [before, now])
    rules.save(path.with_suffix(".rule"))
    result.save(path)
    book.saved = now


def _loaded(path: Path, book: Book) -> Result:
    """Return a saved result, and set the stopping rule to what it knew then."""
    try:
        result = Result.load(path)
        book.load(path.with_suffix(".rule"), result.rounds)
    except FileNotFoundError as error:
        raise CommandError(
            f"the saved run cannot be continued: {error.filename} is missing"
        ) from None
    except CheckpointError as error:
        raise CommandError(f"the saved run cannot be continued: {error}") from None
    return result


# --- by columns ---------------------------------------------------------------------------------


class ColumnsState(File):
    """The result of a fit by columns."""

    kind = "Columns"
    rounds: Floats = array("at which the rest was noted", 0.0, "most")
    gaps: Floats = array("relative duality gaps", 0.0, shape=("rounds.size",))
    seconds: Floats = array("since the start", 0.0, shape=("rounds.size",))
    gap: float = real("the last of gaps")
    solution: Floats = array("at the end", shape="problem.shape")

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the order of a trace, or with the solution."""
        rounds = self.rounds
        if not rounds.size or (rounds != np.floor(rounds)).any() or (np.diff(rounds) <= 0).any():
            return "rounds must be whole numbers in rising order, at least one"
        if (np.diff(self.seconds) < 0).any():
            return "seconds must be in rising order"
        if self.gap != self.gaps[-1]:
            return f"gap must be the last of gaps, {self.gaps[-1]}"
        with np.errstate(over="ignore", invalid="ignore"):
            sound = math.isfinite(scope.find("problem").value(self.solution))
        return "" if sound else "solution must have a finite objective"


class Stopped(Exception):  # noqa: N818
    """The run was told to stop."""


def _by_columns(problem: Any, choice: Choice, job: Job) -> Outcome | None:
    """Minimise by working sets of columns; an unfinished run starts over."""
    unit, held, found = unit_of(problem), job.held, None
    if job.resume and job.path.exists():
        try:
            found = ColumnsState.load(job.path, problem=problem, most=choice.rounds)
        except CheckpointError as error:
            raise CommandError(f"the saved run cannot be continued: {error}") from None
    if found is None:
        began, seen = time.perf_counter(), []

        def report(turn: int, gap: float, size: int) -> None:
            seen.append((float(turn), gap / unit, time.perf_counter() - began))
            if job.progress(turn / choice.rounds):
                raise Stopped

        try:
            result = choice.solver.minimize(problem, rounds=choice.rounds, report=report)
        except Stopped:
            return None
        seen.append((float(result.rounds), result.gap, time.perf_counter() - began))
        rows = np.array([row for k, row in enumerate(seen) if k == 0 or row[0] > seen[k - 1][0]])
        rows[-1] = seen[-1]
        rounds, gaps, seconds = np.ascontiguousarray(rows.T)
        found = ColumnsState(
            rounds=rounds, gaps=gaps, seconds=seconds, gap=float(result.gap),
            solution=result.solution,
        )  # fmt: skip
        found.save(job.path)
    job.progress(1.0)
    rounds, solution = found.rounds, found.solution
    objective = np.full(len(rounds), math.nan)
    objective[-1] = problem.value(solution)
    losses = np.full(len(rounds), math.nan)
    if held is not None:
        losses[-1] = held.loss(solution)
    trace = Trace(
        rounds=rounds.astype(np.int64),
        item_gradients=(rounds * problem.n).astype(np.int64),
        seconds=found.seconds,
        objective=objective,
        variance_ratio=np.full(len(rounds), math.nan),
    )
    return Outcome(
        solution=solution, trace=trace, epochs=rounds, gaps=found.gaps, held=losses,
        seconds=float(found.seconds[-1]), solver="WorkingSets", sampler="Shuffle",
        second_moment=math.nan, rule="gap", ended=found.gap <= choice.solver.tol, gap=found.gap,
        unit=unit,
    )  # fmt: skip
