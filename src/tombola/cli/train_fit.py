"""The fit of `tombola train`: the plan of an estimator, run so that it can be interrupted."""

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

from tombola.cli.data import OpenData
from tombola.cli.progress import Progress
from tombola.cli.train_part import Job, Outcome, minimise
from tombola.cli.train_rule import Held
from tombola.estimators.base import Part, draw_seeds
from tombola.estimators.plan import Plan
from tombola.solvers.base import interruptions

__all__ = ["Fit"]

INTERRUPTED = "interrupted; the same command with --resume continues"
STEPS = 1000  # of the progress of a part


class Fit:
    """The fit of a plan, part by part, with checkpoints.

    It ends in the model that ``plan.model().fit(X, y)`` fits, to the bit.

    Parameters
    ----------
    data : OpenData
        X is already prepared, so the plan has no scaling.
    plan : Plan
    jobs : int, default=1
        Threads, over the parts; the model does not depend on it. Each keeps the tables of one
        part in memory, and all share the rows.
    """

    def __init__(self, data: OpenData, plan: Plan, jobs: int = 1) -> None:
        self.data, self.plan, self.jobs = data, plan, jobs
        y: Any = data.y
        self.classes = np.unique(y) if plan.task == "classification" else None
        self.parts: list[Part] = plan.estimator.parts(data.X, y)
        self.names = [self._name(part) for part in self.parts]
        self.outcomes: list[Outcome] = []
        self.parts[0].make()  # raises an error if X is unfit, before anything is written
        self._lock = threading.Lock()
        self._stops: Callable[[], bool] = lambda: False  # whether all parts are to pause

    def run(self, folder: Path, *, resume: bool) -> None:
        """Minimise all parts, with checkpoints in a folder; `resume` starts from them.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, with all parts saved.
        """
        count = len(self.parts)
        seeds = draw_seeds(self.plan.estimator.random_state, count)
        done = [0.0] * count
        what = f"training, {count} classes" if count > 1 else "training"
        with Progress(what) as progress:

            def make(k: int) -> Job:
                def tell(share: float) -> bool:
                    with self._lock:
                        done[k] = max(done[k], share)
                        progress(round(STEPS * sum(done)), STEPS * count)
                    return self._stops()

                path, held = folder / f"{k}.npz", self._held_part(k)
                return Job(self.parts[k], seeds[k], path, resume, held, tell)

            try:
                several = min(self.jobs, count) > 1
                found = self._in_threads(make) if several else self._in_turn(make)
            except KeyboardInterrupt:  # between two parts
                raise KeyboardInterrupt(INTERRUPTED) from None
        if len(found) < count or None in found:
            raise KeyboardInterrupt(INTERRUPTED)
        self.outcomes = [outcome for outcome in found if outcome is not None]

    def _in_turn(self, make: Any) -> list[Outcome | None]:
        """Minimise one part after the other, until one is interrupted."""
        found: list[Outcome | None] = []
        for k in range(len(self.parts)):
            found.append(minimise(self.plan.estimator, make(k)))
            if found[-1] is None:
                break
        return found

    def _in_threads(self, make: Any) -> list[Outcome | None]:
        """Minimise parts side by side; on Ctrl-C, or when one fails, all of them pause and save."""
        failed = threading.Event()

        def work(k: int) -> Outcome | None:
            if self._stops():
                return None
            try:
                return minimise(self.plan.estimator, make(k))
            except BaseException:
                failed.set()
                raise

        with interruptions() as interrupted, ThreadPoolExecutor(self.jobs) as pool:
            self._stops = lambda: interrupted() or failed.is_set()
            tasks = [pool.submit(work, k) for k in range(len(self.parts))]
            while not all(task.done() for task in tasks):
                wait(tasks, timeout=0.1)  # Ctrl-C is noted meanwhile
        return [task.result() for task in tasks]

    def _held_part(self, k: int) -> Held | None:
        """Return a part of the rows held out, of classes that were trained on."""
        X, y, estimator = self.data.X_test, self.data.y_test, self.plan.estimator
        if X is None:
            return None
        if self.classes is None or y is None:
            return Held(estimator.parts(X, y)[k].make())
        known = np.isin(y, self.classes)
        if not known.any():
            return None
        if not known.all():
            X, y = X[known], y[known]
        return Held(estimator.parts(X, y, classes=self.classes)[k].make())

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
                 "variance_ratio", "gap", "held_out_loss"]  # fmt: skip
        rows: list[list[Any]] = []
        for name, outcome in zip(self.names, self.outcomes, strict=True):
            columns = (outcome.epochs, *vars(outcome.trace).values(), outcome.gaps, outcome.held)
            numbers = zip(*(column.tolist() for column in columns), strict=True)
            rows += [[name, *row] for row in numbers]
        return names, rows

    def record(self) -> list[dict[str, Any]]:
        """Return how each part ended, for the record of the run; None for what is not known."""
        return [
            {
                "problem": name,
                "solver": outcome.solver,
                "sampler": outcome.sampler,
                "epochs": float(outcome.epochs[-1]),
                "seconds": outcome.seconds,
                "objective": float(outcome.trace.objective[-1]),
                "rule": outcome.rule,
                "ended": bool(outcome.ended),
                "gap": _known(outcome.gap),
                "objective_at_0": _known(outcome.unit),
                "second_moment_ratio": _known(outcome.second_moment),
            }
            for name, outcome in zip(self.names, self.outcomes, strict=True)
        ]


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
