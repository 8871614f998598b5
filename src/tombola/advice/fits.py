"""Fit the models to their end: seconds, objective and score of each."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import average_precision_score
from threadpoolctl import threadpool_limits

from tombola.advice.data import Data
from tombola.advice.models import Candidate
from tombola.advice.parts import Model
from tombola.advice.verdict import ARRIVED, is_settled
from tombola.advice.written import call_of

__all__ = ["clock", "final_score", "fit_all", "score_of"]

SEEDS = 5  # of clusterings: the median of their objectives decides who has arrived
REPEATS = 3  # fits that are timed at first, where they are short
SHORT = 0.3  # seconds
LONGEST = 15  # fits that are timed at most, where it is close

# Processor time, so that other programs do not count; the time of day where that is coarse.
clock = time.thread_time
if time.get_clock_info("thread_time").resolution > 1e-5:
    clock = time.perf_counter


class Entry:
    """A candidate, what it has reached, and the times of its fits."""

    def __init__(self, candidate: Candidate, data: Data, seed: int) -> None:
        self.candidate, self.data, self.seed = candidate, data, seed
        self.rows = data.rows()
        self.times: list[float] = []
        self.converged = True
        self.fitted = self.fit(seed)
        if candidate.library == "tombola":  # that one may have compiled
            self.times.clear()
            self.fit(seed)
        self.objectives = [objective_of(self.fitted, candidate.family, *self.rows, data)]
        if data.task == "clustering":
            for more in range(1, SEEDS):
                other = self.fit(seed + more, timed=False)
                self.objectives.append(objective_of(other, candidate.family, *self.rows, data))

    @property
    def seconds(self) -> float:
        """The least time of a fit."""
        return min(self.times)

    def fit(self, seed: int, timed: bool = True) -> Any:
        """Fit the model, on one thread, and note the time."""
        X, y = self.rows
        model = self.candidate.model(seed)
        with threadpool_limits(1), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            began = clock()
            model.fit(X) if y is None else model.fit(X, y)
            took = clock() - began
        self.converged = not any(issubclass(w.category, ConvergenceWarning) for w in said)
        if timed:
            self.times.append(max(took, 1e-9))
        return model


def fit_all(
    candidates: Sequence[Candidate],
    data: Data,
    seed: int,
    allowed: float,
    progress: Callable[[], None],
) -> list[Model]:
    """Fit all candidates; repeat those whose times decide and are close, for `allowed` seconds."""
    entries = []
    for candidate in candidates:
        entries.append(Entry(candidate, data, seed))
        progress()
    for turn in range(1, REPEATS):
        for entry in entries:
            if len(entry.times) <= turn and entry.seconds * REPEATS < SHORT:
                entry.fit(seed)
    share = data.X.shape[0] / data.n
    began = clock()
    models = _models(entries)
    while clock() - began < allowed:
        close = [
            entry for entry, model in zip(entries, models, strict=True)
            if not is_settled(model, models, share) and len(entry.times) < LONGEST
        ]  # fmt: skip
        if not close:
            break
        for entry in close:
            entry.fit(seed)
        models = _models(entries)
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
                passes=passes_of(entry.fitted),
                seconds=entry.seconds,
                repeats=len(entry.times),
                objective=entry.objectives[0],
                left=left,
                score=score_of(entry.fitted, data),
                converged=entry.converged,
                arrived=bool(left <= tolerance),
            )
        )
    return found


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


def final_score(candidate: Candidate, data: Data, seed: int) -> tuple[float, float]:
    """Fit a model to all rows; return its score and the seconds that it took."""
    model = candidate.model(seed)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = clock()
        model.fit(data.X) if data.y is None else model.fit(data.X, data.y)
        took = clock() - began
    return score_of(model, data), took


def passes_of(model: Any) -> int:
    """Return the iterations of a fitted model; 1 for a direct solution."""
    inner = getattr(model, "regressor_", model)
    parts = getattr(inner, "estimators_", [inner])
    counts = [getattr(part, "n_iter_", None) for part in parts]
    return int(sum(1 if count is None else np.sum(count) for count in counts))


def coefficients(model: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return weights of shape (K, d) and intercepts of shape (K,), in the unit of y."""
    if hasattr(model, "estimators_"):  # one-vs-rest
        pairs = [coefficients(part) for part in model.estimators_]
        return np.vstack([w for w, _ in pairs]), np.concatenate([b for _, b in pairs])
    if hasattr(model, "regressor_"):  # a standardised target
        weights, free = coefficients(model.regressor_)
        scaler = model.transformer_
        return weights * scaler.scale_[0], free * scaler.scale_[0] + scaler.mean_[0]
    weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    return weights, np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64))


def objective_of(model: Any, family: str, X: Any, y: Any, data: Data) -> float:
    """Return the objective of a fitted model on X and y; infinite where it is not a number."""
    if family == "squared distance":
        return -float(model.score(X)) / float(X.shape[0])
    weights, free = coefficients(model)
    with np.errstate(over="ignore", invalid="ignore"):
        margins = np.asarray(X @ weights.T) + free
        norm = np.abs(weights).sum() if data.penalty.l1 else 0.5 * (weights**2).sum()
        found = float(_losses(margins, family, y).mean() + data.penalty.of(data.n) * norm)
    return found if np.isfinite(found) else np.inf


def constant_objective(family: str, y: Any) -> float:
    """Return the objective of the best constant prediction."""
    if family == "least squares":
        return float(np.var(y)) / 2.0
    shares = np.unique(y, return_counts=True)[1] / len(y)
    if family == "softmax":
        return float(-(shares * np.log(shares)).sum())
    sides = shares[:1] if len(shares) == 2 else shares
    return float(-(sides * np.log(sides) + (1 - sides) * np.log1p(-sides)).sum())


def _losses(margins: NDArray[np.float64], family: str, y: Any) -> NDArray[np.float64]:
    """Return the loss of each row."""
    if family == "least squares":
        return np.asarray((margins[:, 0] - y) ** 2 / 2.0)
    labels, numbers = np.unique(y, return_inverse=True)
    if family == "softmax":
        rows = np.arange(len(numbers))
        return np.asarray(logsumexp(margins, axis=1) - margins[rows, numbers])
    sides = np.arange(1, 2) if len(labels) == 2 else np.arange(len(labels))
    signs = np.where(numbers[:, None] == sides, 1.0, -1.0)
    return np.asarray(np.logaddexp(0.0, -signs * margins).sum(axis=1))
