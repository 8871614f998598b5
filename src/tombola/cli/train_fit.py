"""The fit of `tombola train`: the plan of an estimator, run so that it can be interrupted."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tombola.checkpoint import CheckpointError
from tombola.cli.data import OpenData
from tombola.cli.errors import CommandError
from tombola.cli.progress import Progress
from tombola.estimators.base import Part, draw_seeds
from tombola.estimators.plan import Plan
from tombola.solvers import DivergenceError, Result, Trace

__all__ = ["Fit", "Outcome"]

SAVE_EVERY = 5.0  # seconds between two checkpoints; more where writing one takes long
EVALUATIONS = 20  # of the objective, in a run


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a part of the fit, without its tables of items."""

    name: str
    solution: Any
    trace: Any
    epochs: Any  # of each row of the trace
    seconds: float
    solver: str
    sampler: str
    gauge: Any
    gap: float | None  # relative duality gap, where the solver has one


class Fit:
    """The fit of a plan, part by part, with checkpoints.

    It ends in the model that ``plan.model().fit(X, y)`` fits, to the bit.

    Parameters
    ----------
    data : OpenData
        X is already prepared, so the plan has no scaling.
    plan : Plan
    """

    def __init__(self, data: OpenData, plan: Plan) -> None:
        self.data, self.plan = data, plan
        y: Any = data.y
        self.classes = np.unique(y) if plan.task == "classification" else None
        self.parts: list[Part] = plan.estimator.parts(data.X, y)
        self.outcomes: list[Outcome] = []
        self.parts[0].make()  # raises an error if X is unfit, before anything is written

    def run(self, folder: Path, *, resume: bool) -> None:
        """Minimise each part, with checkpoints in a folder; `resume` starts from them."""
        count = len(self.parts)
        seeds = draw_seeds(self.plan.estimator.random_state, count)
        for number, (part, seed) in enumerate(zip(self.parts, seeds, strict=True)):
            path = folder / f"{number}.npz"
            what = f"training, {number + 1} of {count}" if count > 1 else "training"
            with Progress(what) as progress:
                self.outcomes.append(self._minimise(part, seed, path, resume, progress))

    def _minimise(
        self, part: Part, seed: int, path: Path, resume: bool, progress: Progress
    ) -> Outcome:
        """Minimise a part, with checkpoints in a file."""
        estimator = self.plan.estimator
        problem = part.make()
        solver = estimator.make_solver(problem, seed)
        sampler = estimator.make_sampler(problem, seed, part.groups)
        rounds = estimator.count_rounds(problem, solver)
        before = _loaded(path) if resume and path.exists() else None
        saved, pause, paused = time.monotonic(), SAVE_EVERY, False

        def due(rounds: int, solution: Any, loss: float) -> bool:
            nonlocal paused
            paused = time.monotonic() >= saved + pause
            return paused

        while True:
            paused = False
            try:
                result = solver.minimize(
                    problem,
                    sampler=sampler,
                    rounds=rounds,
                    trace=EVALUATIONS if len(self.parts) == 1 else EVALUATIONS // 2,
                    resume=before,
                    progress=progress,
                    until=due,
                    every=max(1, rounds // 200),
                )
            except DivergenceError as error:
                raise CommandError(str(error)) from None
            if before is None or result.rounds > before.rounds:
                began = time.monotonic()
                result.save(path)
                saved = time.monotonic()
                pause = max(SAVE_EVERY, 20 * (saved - began))
            if result.interrupted:
                raise KeyboardInterrupt("interrupted; the same command with --resume continues")
            if not paused:  # at the last round, or within the solver's tolerance
                break
            before = result
        trace = Trace(**vars(result.trace))
        if trace.rounds[-1] < result.rounds:  # it ended before the last mark
            value = problem.value(result.solution)
            trace.add(result.rounds, result.item_gradients, result.seconds, value, math.nan)
        return Outcome(
            name=self._name(part),
            solution=result.solution,
            trace=trace,
            epochs=trace.rounds / solver.rounds_per_epoch(problem),
            seconds=result.seconds,
            solver=type(solver).__name__,
            sampler=type(sampler).__name__,
            gauge=sampler.gauge,
            gap=solver.gap(problem, result) if hasattr(solver, "gap") else None,
        )

    def _name(self, part: Part) -> str:
        if self.classes is None:
            return self.data.name
        return str(self.classes[1] if part.label is None else part.label)

    # --- the result ---------------------------------------------------------------------------

    @property
    def solution(self) -> Any:
        """The solutions of all parts, one per row; for clustering the centres."""
        if self.plan.task == "clustering":
            return self.outcomes[0].solution
        return np.stack([outcome.solution for outcome in self.outcomes])

    def model(self) -> dict[str, Any]:
        """Return the arrays that predict."""
        ready, w = self.data.preparation, self.solution
        arrays: dict[str, Any] = {"columns": np.array(self.data.columns, dtype=str)}
        if ready is not None:
            arrays |= {"fill": ready.fill, "mean": ready.mean, "scale": ready.scale}
        if self.plan.task == "clustering":
            return {**arrays, "centres": w}
        if self.classes is not None:
            arrays["classes"] = self.classes
        return {**arrays, "coef": w[:, :-1], "intercept": w[:, -1]}

    def trace(self) -> tuple[list[str], list[list[Any]]]:
        """Return the columns and the rows of the trace, part by part."""
        names = ["problem", "epoch", "rounds", "item_gradients", "seconds", "objective",
                 "variance_ratio"]  # fmt: skip
        rows: list[list[Any]] = []
        for outcome in self.outcomes:
            columns = (outcome.epochs, *vars(outcome.trace).values())
            numbers = zip(*(column.tolist() for column in columns), strict=True)
            rows += [[outcome.name, *row] for row in numbers]
        return names, rows


def _loaded(path: Path) -> Result:
    try:
        return Result.load(path)
    except CheckpointError as error:
        raise CommandError(f"the saved run cannot be continued: {error}") from None
