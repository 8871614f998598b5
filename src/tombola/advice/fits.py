"""Fit the models to convergence, on growing parts of the rows: seconds, objective and score."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from tombola.advice.data import Data
from tombola.advice.models import Candidate, candidates, constant_objective, objective_of
from tombola.advice.script import call_of
from tombola.advice.verdict import Verdict, judge

__all__ = ["LEAST", "Model", "choose", "clock", "fit_all", "fit_once"]

ARRIVED = {"linear": 1e-3, "clustering": 0.05}  # the most that may be left, see `Model.left`
NEAR = 0.01  # families of objectives are equally good if their best scores differ by at most this
FASTER = 1 / 1.5  # a model is preferred to an earlier one if it takes less than this
LEAST = 0.1  # and saves as many seconds, on all rows
ERROR = 1.3  # a time may be wrong by this factor: that is its interval
SEEDS = 5  # of clusterings: the median of their objectives decides who has arrived
REPEATS, SHORT = 3, 0.3  # fits that are timed, if they take fewer seconds than this in all
SMALLEST, GROWTH = 2000, 4  # rows of the first rung, at least, and what the next ones have more
FAR = 8.0  # times as slow as the fastest one that arrived: no further rung
VISITS = 4e8  # entries that a solver of scikit-learn may visit

# Processor time, so that other programs do not count; the time of day where that is coarse.
clock = time.thread_time
if time.get_clock_info("thread_time").resolution > 1e-5:
    clock = time.perf_counter


@dataclass
class Model:
    """A model that was fitted to convergence, scikit-learn's or ours.

    Attributes
    ----------
    name : str
        Library and class, and the solver where there are several.
    label : str
        The call that makes it.
    library : {"scikit-learn", "tombola"}
    family : str
        The objective; only those of one family are compared by it.
    rows : int
        That it was fitted to.
    passes : int
        Iterations of the solver, as it counts them: the same in every run with the same seed.
    seconds : float
        Of processor time on one thread, for the fit: the least of those that were timed.
    objective : float
        On the rows that were fitted.
    left : float
        The distance to the lowest objective of the family, over the decrease from the best constant
        prediction to it (for clustering, over the lowest one; the median over seeds).
    score : float
        On the rows that were held out.
    converged : bool
        Whether it ended by itself, before its limit on passes.
    arrived : bool
        Whether `left` is small enough for a comparison of times.
    versus : Verdict or None
        Its time over that of the model that is advised; None if it has not arrived.
    """

    name: str
    label: str
    library: str
    family: str
    rows: int
    passes: int
    seconds: float
    objective: float
    left: float
    score: float
    converged: bool
    arrived: bool
    versus: Verdict | None = None


class Entry:
    """A candidate, what it has reached, and the times of its fits."""

    def __init__(self, candidate: Candidate, data: Data, seed: int) -> None:
        self.candidate, self.data = candidate, data
        self.rows = data.rows()
        self.times: list[float] = []
        self.converged = True
        self.fitted = self.fit(seed)
        self.compiling = 0.0
        if candidate.library == "tombola" and self.times[0] < SHORT * SEEDS:  # may have compiled
            first = self.times.pop()
            self.fit(seed)
            self.compiling = first - self.times[0]
        while len(self.times) < REPEATS and sum(self.times) < SHORT:
            self.fit(seed)
        self.objectives = [self.objective(self.fitted)]
        if data.task == "clustering" and self.seconds < SHORT:
            self.objectives += [self.objective(self.fit(seed + k)) for k in range(1, SEEDS)]

    @property
    def seconds(self) -> float:
        """The least time of a fit."""
        return min(self.times)

    def objective(self, model: Any) -> float:
        """Return the objective of a fitted model."""
        return objective_of(model, self.candidate.family, *self.rows, self.data.penalty)

    def fit(self, seed: int) -> Any:
        """Fit the model, on one thread, and note the time."""
        model, took, self.converged = fit_once(self.candidate, *self.rows, seed)
        self.times.append(max(took, 1e-9))
        return model


def fit_once(candidate: Candidate, X: Any, y: Any, seed: int) -> tuple[Any, float, bool]:
    """Fit a model; return it, the seconds that it took, and whether it converged."""
    model = candidate.model(seed)
    with threadpool_limits(1), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        began = clock()
        model.fit(X) if y is None else model.fit(X, y)
        took = clock() - began
    return model, took, not any(issubclass(w.category, ConvergenceWarning) for w in said)


def line_up(data: Data, n: int) -> list[Candidate]:
    """Return the models for n rows of the data, those that users have already first."""
    X = data.X
    entries = (X.nnz if hasattr(X, "tocsr") else X.size) / X.shape[0] * n
    classes = len(data.labels) if data.task == "classification" else 1
    passes = int(VISITS / (entries * (classes if classes > 2 else 1)))
    passes = max(100, min(passes, 1000)) // 10 * 10
    return candidates(
        data.task, data.penalty, n, X.shape[1], classes, data.n_clusters, passes
    )  # fmt: skip


def fit_all(
    data: Data, seed: int, budget: float, progress: Callable[[int, int], None] | None
) -> list[Model]:
    """Fit all models to a part of the rows, then those that are not far behind to more of them.

    `data` keeps the rows of the last part that there was time for. The clock has two says: no
    further part is begun if it would take longer than `budget` seconds, or 30 times as long as the
    fastest fit; and models that take `FAR` times as long as the fastest fall out.
    """
    every = data.X.shape[0]
    sizes = [every]
    while sizes[0] > GROWTH * SMALLEST:
        sizes.insert(0, sizes[0] // GROWTH)
    sizes = sizes[-4:]  # the first one is a 64th
    began, done = clock(), None
    for turn, size in enumerate(sizes):
        data.keep(size, seed)
        found = []
        for place, candidate in enumerate(line_up(data, data.n)):
            if done is None or place in done:
                found.append((place, Entry(candidate, data, seed)))
                if progress is not None:
                    progress(turn * 10 + len(found), 10 * len(sizes))
        models = _models([entry for _, entry in found])
        if size == every:
            break
        share = every / size
        arrived = [m for m in models if m.arrived]
        fastest = min(m.seconds for m in arrived)
        done = [
            place for (place, _), m in zip(found, models, strict=True)
            if m is arrived[0]
            or m.seconds < FAR * fastest or (m.seconds - fastest) * share < LEAST
        ]  # fmt: skip
        longest = sum(m.seconds for (place, _), m in zip(found, models, strict=True)
                      if place in done)  # fmt: skip
        left = max(budget, 30.0 * fastest * share) - (clock() - began)
        if 2.0 * GROWTH * longest > left:
            break
    return models


def _models(entries: Sequence[Entry]) -> list[Model]:
    """Return the results, with the distances to the lowest objective of each family."""
    found = []
    for entry in entries:
        candidate, data = entry.candidate, entry.data
        family = [e for e in entries if e.candidate.family == candidate.family]
        middle = float(np.median(entry.objectives))
        lowest = min(float(np.median(e.objectives)) for e in family)
        way = lowest
        if data.task != "clustering":
            way = constant_objective(candidate.family, entry.rows[1]) - lowest
        left = (middle - lowest) / way if way > 0 else 0.0
        tolerance = ARRIVED["clustering" if data.task == "clustering" else "linear"]
        found.append(
            Model(
                name=candidate.name,
                label=call_of(candidate.estimator),
                library=candidate.library,
                family=candidate.family,
                rows=data.n,
                passes=passes_of(entry.fitted),
                seconds=entry.seconds,
                objective=entry.objectives[0],
                left=left,
                score=score_of(entry.fitted, data),
                converged=entry.converged,
                arrived=bool(left <= tolerance),
            )
        )
    return found


def choose(models: Sequence[Model], share: float = 1.0) -> Model | None:
    """Return the model to use, None if none has converged within its limits; note `versus`.

    Models are in order of preference, those that users have already first. A later one is chosen if
    it takes less than 1 / 1.5 of the time, clearly, and saves a tenth of a second. Only models that
    have arrived at the lowest objective of their family are compared, and of several families those
    whose best score is near the best of all.

    Parameters
    ----------
    models : sequence of Model
    share : float, default=1.0
        All rows over those that were fitted: what seconds are multiplied by.
    """
    arrived = [m for m in models if m.arrived]
    if not any(m.converged for m in arrived):
        return None
    if len({m.family for m in arrived}) > 1:
        best = max(m.score for m in arrived)
        good = {m.family for m in arrived if m.score >= best - NEAR}
        arrived = [m for m in arrived if m.family in good]
    chosen = arrived[0]
    for other in arrived[1:]:
        saved = (chosen.seconds - other.seconds) * share
        if versus(other, chosen).pays and saved >= LEAST:
            chosen = other
    for model in arrived:
        model.versus = versus(model, chosen)
    return chosen


def versus(model: Model, other: Model) -> Verdict:
    """Return the verdict on the time of a model over that of another."""
    ratio = model.seconds / other.seconds
    low, high = ratio / ERROR, ratio * ERROR
    settle = "a quieter machine, more rows"
    return Verdict(judge((low, high), FASTER), ratio, low, high, FASTER, FASTER, settle=settle)


def score_of(model: Any, data: Data) -> float:
    """Return the score on the rows held out, as the printed code computes it."""
    if data.task == "clustering":
        return -float(model.score(data.X_test)) / float(data.X_test.shape[0])
    positive: Any = data.positive
    if positive is None:
        return float(model.score(data.X_test, data.y_test))
    margins = model.decision_function(data.X_test)
    signed = -margins if positive == data.labels[0] else margins
    return float(average_precision_score(np.asarray(data.y_test) == positive, signed))


def passes_of(model: Any) -> int:
    """Return the iterations of a fitted model; 1 for a direct solution."""
    inner = getattr(model, "regressor_", model)
    parts = getattr(inner, "estimators_", [inner])
    counts = [getattr(part, "n_iter_", None) for part in parts]
    return int(sum(1 if count is None else np.sum(count) for count in counts))
