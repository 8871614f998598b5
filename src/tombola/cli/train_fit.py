"""The fit of `tombola train`: the estimator's own, observed, with checkpoints to resume from."""

import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tombola.cli.data import OpenData
from tombola.cli.errors import CommandError
from tombola.cli.output import as_cell
from tombola.cli.progress import Progress
from tombola.cli.runs import PartRecord
from tombola.datasets import DataError
from tombola.estimators.base import Observer, Part
from tombola.estimators.plan import Plan
from tombola.estimators.stopping import Watch, WatchState
from tombola.solvers import DivergenceError, Result, Trace
from tombola.solvers.gap import relative_gap, unit_of
from tombola.solvers.lasso.working_sets import SparseResult
from tombola.state import (
    CheckpointError,
    Floats,
    Scope,
    array,
    mapping,
    nested,
    optional,
    real,
)
from tombola.state.archive import File

__all__ = ["Recorder", "Trained", "fit", "marks_of"]

STEPS = 1000  # of the progress of a part
SAVE_EVERY = 5.0  # seconds between two checkpoints; more if writing one takes long
QUARTERS = 4  # evaluations in the first epoch
EACH = 10  # epochs that are each followed by an evaluation; later ones are rarer
GROWTH = 1.15  # of the epochs from one evaluation to the next
TRACE = ("problem", "epoch", "rounds", "item_gradients", "seconds", "objective", "variance_ratio",
         "gap", "held_out_loss")  # fmt: skip


def marks_of(epochs: int, rounds_per_epoch: int) -> list[int]:
    """Return the rounds at which to evaluate: often at first, and always at the last one.

    A run may end at any epoch, so that evaluations at equal distances would miss a short one.

    Examples
    --------
    >>> marks_of(3, 100)
    [0, 25, 50, 75, 100, 200, 300]
    >>> marks_of(30, 1)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 23, 27, 30]
    """
    marks = [round(rounds_per_epoch * k / QUARTERS) for k in range(QUARTERS)]
    epoch = 1
    while epoch < epochs:
        marks.append(epoch * rounds_per_epoch)
        epoch = epoch + 1 if epoch < EACH else math.ceil(GROWTH * epoch)
    return sorted({*marks, epochs * rounds_per_epoch})


# --- checkpoints --------------------------------------------------------------------------------


class RowsState(File):
    """A fit by rows: the result so far, what its stopping rule knows, and what was noted."""

    kind = "Rows"
    result: Mapping[str, Any] = mapping("as `tombola.solvers.Result` declares it")
    rule: WatchState | None = optional(nested("what the stopping rule knows", WatchState))
    gaps: Mapping[str, float] = mapping("by rounds", real("relative", -math.inf, math.inf))
    losses: Mapping[str, float] = mapping("by rounds", real("held out", -math.inf, math.inf))

    def fault(self, scope: Scope) -> str:
        """Return what does not fit the result, the stopping rule or the marks of a run."""
        if (self.rule is None) != (scope.find("shape") == ()):
            return "rule must be there, unless the solver ends by itself"
        if not {*self.gaps, *self.losses} <= scope.find("marks").keys():
            return "gaps and losses must be those at marks"
        rounds = self.result.get("rounds")
        late = self.rule is not None and type(rounds) is int and self.rule.epoch > rounds
        return "rule.epoch must be at most the rounds of the result" if late else ""


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


# --- the observer of a part ---------------------------------------------------------------------


class Recorder(Observer):
    """Keeps the fit of a part: its checkpoints in a file, its trace, and how it ended.

    `held` is the same part of the rows held out, and `tell` is called with the share done.
    """

    record: PartRecord  # how the part ended
    rows: list[dict[str, Any]]  # the trace from the start to the end; NaN for what is not known

    def __init__(
        self, name: str, path: Path, resume: bool, held: Any, tell: Callable[[float], None]
    ) -> None:
        self.name, self.path, self.resume, self.held, self.tell = name, path, resume, held, tell
        self.gaps: dict[int, float] = {}
        self.losses: dict[int, float] = {}
        self.seconds: dict[int, float] = {}  # by columns; by rows the trace of the result has them

    def begin(self, problem: Any, choice: Any, rule: Any) -> Any:
        """Return the saved result, if it is to be continued."""
        self.problem, self.choice = problem, choice
        self.rule = rule if isinstance(rule, Watch) else None
        self.by_columns = choice.stop == "columns"
        self.unit = math.nan if choice.stop == "batches" else unit_of(problem)
        if not self.by_columns:
            self.marks = marks_of(choice.rounds // choice.epoch, choice.epoch)
        self.due, self.began = time.monotonic() + SAVE_EVERY, time.perf_counter()
        if not (self.resume and self.path.exists()):
            return None
        try:
            return self.loaded_columns() if self.by_columns else self.loaded_rows()
        except CheckpointError as error:
            raise CommandError(f"the saved run cannot be continued: {error}") from None

    def progress(self, share: float) -> bool:
        """Pass the share on; return whether a checkpoint is due."""
        self.tell(share)
        return time.monotonic() >= self.due and not self.by_columns

    def epoch(self, rounds: int, solution: Any, gap: float) -> None:
        """Note the gap, if it is known, and at marks the loss on the rows held out."""
        if self.by_columns:
            self.seconds[rounds] = time.perf_counter() - self.began
            self.gaps[rounds] = gap / self.unit
        elif rounds in self.marks:
            known = self.rule is not None and self.rule.reduced and self.rule.tol is not None
            self.note(rounds, solution, self.rule.gap if self.rule and known else math.nan)

    def note(self, rounds: int, solution: Any, gap: float) -> None:
        """Note the gap, and the mean loss on the rows held out, without the penalty."""
        self.gaps[rounds] = float(gap)
        if self.held is not None and rounds not in self.losses:
            penalty = getattr(self.held, "penalty", lambda solution: 0.0)
            self.losses[rounds] = float(self.held.value(solution)) - float(penalty(solution))

    def keep(self, result: Any) -> None:
        """Write the checkpoint."""
        began = time.monotonic()
        if self.by_columns:
            self.epoch(result.rounds, None, result.gap * self.unit)
            self.gaps[result.rounds] = float(result.gap)
            columns = {"rounds": self.gaps, "gaps": self.gaps.values(),
                       "seconds": self.seconds.values()}  # fmt: skip
            ColumnsState(
                **{name: np.array([*it], dtype=np.float64) for name, it in columns.items()},
                gap=float(result.gap), solution=result.solution,
            ).save(self.path)  # fmt: skip
        else:
            RowsState(
                result=result.state_dict(), rule=None if self.rule is None else self.rule.state(),
                gaps=_by_rounds(self.gaps), losses=_by_rounds(self.losses),
            ).save(self.path)  # fmt: skip
        now = time.monotonic()
        self.due = now + max(SAVE_EVERY, 20 * (now - began))

    def loaded_rows(self) -> Result:
        """Return the saved result; set the stopping rule and the notes to what they were then."""
        marks = {str(mark): mark for mark in self.marks}
        shape = () if self.rule is None else self.rule.solution.shape
        saved = RowsState.load(self.path, shape=shape, marks=marks)
        try:
            result = Result.from_state_dict(saved.result)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"{self.path} is not a sound result: {error}") from None
        if self.rule is not None and saved.rule is not None:
            self.rule.restore(saved.rule)
        self.gaps = {marks[mark]: gap for mark, gap in saved.gaps.items()}
        self.losses = {marks[mark]: loss for mark, loss in saved.losses.items()}
        return result

    def loaded_columns(self) -> SparseResult:
        """Return the saved result; only a finished part has one."""
        saved = ColumnsState.load(self.path, problem=self.problem, most=self.choice.rounds)
        rounds = saved.rounds.astype(np.int64).tolist()
        self.gaps = dict(zip(rounds, saved.gaps.tolist(), strict=True))
        self.seconds = dict(zip(rounds, saved.seconds.tolist(), strict=True))
        return SparseResult(saved.solution, saved.gap, rounds[-1])

    def end(self, result: Any, gap: float, converged: bool) -> None:
        """Note how the part ended."""
        self.tell(1.0)
        choice, problem, stop = self.choice, self.problem, self.choice.stop
        if stop == "descent":
            gap = relative_gap(problem, result.solution)
        self.note(result.rounds, result.solution, gap)
        trace = self.trace_by_columns(result) if self.by_columns else Trace(**vars(result.trace))
        if trace.rounds[-1] < result.rounds:  # it ended before the last mark
            value = problem.value(result.solution)
            trace.add(result.rounds, result.item_gradients, result.seconds, value, math.nan)
        known = [(self.gaps.get(int(it), math.nan), self.losses.get(int(it), math.nan))
                 for it in trace.rounds]  # fmt: skip
        columns = [it.tolist() for it in (trace.rounds / choice.epoch, *vars(trace).values())]
        self.rows = [
            dict(zip(TRACE, (self.name, *row, *more), strict=True))
            for *row, more in zip(*columns, known, strict=True)
        ]
        batches = stop == "batches" or not choice.tol
        drawn = stop not in ("columns", "certified")
        rule = {"descent": "objective", "batches": "batches"}.get(stop, "gap")
        last, moment = self.rows[-1], result.sampler.gauge.second_moment_ratio if drawn else None
        self.record = PartRecord(
            problem=self.name, solver=type(choice.solver).__name__,
            sampler="Shuffle" if self.by_columns else type(choice.sampler).__name__,
            epochs=last["epoch"], seconds=last["seconds"], objective=last["objective"],
            rule="change" if stop == "reduced" and math.isnan(gap) else rule,
            ended=bool(result.rounds < choice.rounds if batches else converged),
            gap=_known(gap), objective_at_0=_known(self.unit), second_moment_ratio=_known(moment),
        )  # fmt: skip

    def trace_by_columns(self, result: SparseResult) -> Trace:
        """Return the trace of a fit by columns, whose objective is computed at its end only."""
        rounds = np.array([*self.gaps])
        unknown = np.full(len(rounds), math.nan)
        objective = unknown.copy()
        objective[-1] = self.problem.value(result.solution)
        seconds = np.array([*self.seconds.values()])
        return Trace(rounds, rounds * self.problem.n, seconds, objective, unknown)


def _by_rounds(noted: dict[int, float]) -> dict[str, float]:
    return {str(rounds): value for rounds, value in noted.items() if not math.isnan(value)}


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


# --- the fit ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Trained:
    """What was trained: the fitted estimator, and what was recorded of each part."""

    data: OpenData
    plan: Plan
    model: Any
    recorders: list[Recorder]

    @property
    def trace(self) -> list[dict[str, Any]]:
        """The rows of the trace, part by part."""
        return [row for recorder in self.recorders for row in recorder.rows]

    def arrays(self) -> dict[str, Any]:
        """Return the arrays that predict."""
        ready, model = self.data.preparer, self.model
        arrays: dict[str, Any] = {"columns": np.array(self.data.columns, dtype=str)}
        if ready.kept_ is not None:
            arrays |= {"fill": ready.fill_, "mean": ready.mean_, "scale": ready.scale_}
        if self.plan.task == "clustering":
            return {**arrays, "centres": model.cluster_centers_}
        if self.plan.task == "classification":
            arrays["classes"] = model.classes_
        learnt = {"coef": np.atleast_2d(model.coef_), "intercept": np.atleast_1d(model.intercept_)}
        return {**arrays, **{name: it.astype(np.float64) for name, it in learnt.items()}}


def fit(data: OpenData, plan: Plan, jobs: int, folder: Path, *, resume: bool) -> Trained:
    """Fit the estimator of a plan to prepared rows, with a checkpoint of each part in a folder.

    `jobs` are threads, over the parts, which share the rows; the model does not depend on it.
    Ctrl-C leaves all parts saved.
    """
    classes = np.unique(data.y) if plan.task == "classification" else None  # type: ignore[arg-type]
    count = len(plan.estimator.parts(data.X, data.y))
    model = clone(plan.estimator)
    if classes is not None:
        model.set_params(n_jobs=jobs)
    recorders: dict[int, Recorder] = {}
    done, lock = [0.0] * count, threading.Lock()
    with Progress(f"training, {count} classes" if count > 1 else "training") as progress:

        def observe(k: int, part: Part) -> Recorder:
            def tell(share: float) -> None:
                with lock:
                    done[k] = max(done[k], share)
                    progress(round(STEPS * sum(done)), STEPS * count)

            label = data.name if part.label is None else part.label
            if classes is not None and len(classes) == 2:
                label = classes[1]
            held = _held_part(data, model, classes, k)
            name = as_cell(str(label))  # also in trace.csv
            recorders[k] = Recorder(name, folder / f"{k}.npz", resume, held, tell)
            return recorders[k]

        model.observe = observe
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the verdict says it
                model.fit(data.X, data.y)
        except DivergenceError as error:
            raise CommandError(str(error)) from None
        except ValueError as error:  # for example, numbers whose squares overflow
            raise DataError(str(error)) from None
    return Trained(data, plan, model, [recorders[k] for k in range(count)])


def _held_part(data: OpenData, model: Any, classes: Any, k: int) -> Any:
    """Return a part of the rows held out, of classes that were trained on; None without any."""
    X, y = data.X_test, data.y_test
    if X is None:
        return None
    if classes is None or y is None:
        return model.parts(X, y)[k].make()
    known = np.isin(y, classes)
    if not known.any():
        return None
    if not known.all():
        X, y = X[known], y[known]
    return model.parts(X, y, classes=classes)[k].make()
