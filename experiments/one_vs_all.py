"""One-vs-all logistic regression on VOC 2007 by AdaGrad, for `voc` and `hyper`."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.sweep import minimize, timed
from tombola import datasets
from tombola.problems import Logistic
from tombola.samplers import Sampler
from tombola.solvers import AdaGrad

__all__ = ["MARKS", "RATE", "Task", "average_precisions", "race", "tasks"]

RATE = 0.1  # of AdaGrad, as in the paper
MARKS = (50, 100, 200, 350, 500, 750, 1000, 1250, 1500, 1750, 2000, 2500, 3000, 3500, 4000, 4500,
         5000, 5500, 6000, 7000, 8000, 10000, 12500, 15000)  # draws: three epochs  # fmt: skip
SPLIT_SEED = 2007


class Task(NamedTuple):
    """One class against the rest, without images marked as difficult."""

    name: str
    X: NDArray[np.float32]
    y: NDArray[np.bool_]
    norms: NDArray[np.float64]  # of the rows of X
    held: NDArray[np.float32]
    truth: NDArray[np.bool_]


@functools.lru_cache(maxsize=1)
def _load(features: str, folder: Path | None) -> Any:
    return datasets.load(f"voc-{features}", folder)


def tasks(features: str, scaled: bool, validate: bool, folder: Path | None) -> Iterator[Task]:
    """Yield the twenty tasks.

    Parameters
    ----------
    features : {"efficientnet", "vgg19"}
    scaled : bool
        Whether to divide rows by the mean of their norms.
    validate : bool
        Whether to hold out a stratified fifth of trainval instead of the test images, for tuning.
    folder : Path or None
        The folder with the data.
    """
    data = _load(features, folder)
    X, held = (np.asarray(part, dtype=np.float32) for part in (data.X, data.X_test))
    if scaled:
        scale = np.float32(np.linalg.norm(X, axis=1).mean())
        X, held = X / scale, held / scale
    for column, name in enumerate(data.targets):
        labels, truth = data.y[:, column], data.y_test[:, column]
        rows, others = np.flatnonzero(labels), np.flatnonzero(truth)
        if validate:
            rng = np.random.default_rng([SPLIT_SEED, column])
            parts = [rng.permutation(rows[labels[rows] == sign]) for sign in (1, -1)]
            cut = [np.array_split(part, [len(part) // 5]) for part in parts]
            others, rows = (np.sort(np.concatenate([pair[k] for pair in cut])) for k in (0, 1))
            test, positive = X[others], labels[others] > 0
        else:
            test, positive = held[others], truth[others] > 0
        own = np.ascontiguousarray(X[rows])
        norms = np.linalg.norm(own.astype(np.float64), axis=1)
        yield Task(str(name), own, labels[rows] > 0, norms, test, positive)


def average_precisions(scores: NDArray[Any], positive: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the average precision at eleven points, as in VOC 2007, and as an area.

    The first is the mean, over the recalls 0, 0.1, ..., 1, of the best precision at that recall
    or a higher one. The second is the mean of the precisions at each positive.

    >>> average_precisions(np.array([3.0, 2.0, 1.0]), np.array([True, False, True]))[1]
    0.8333333333333333
    """
    hits = positive[np.argsort(-scores, kind="stable")]
    found = np.cumsum(hits)
    precision, recall = found / np.arange(1, len(hits) + 1), found / found[-1]
    best = np.maximum.accumulate(precision[::-1])[::-1]  # at this recall or a higher one
    # 1e-9 allows for rounding in recalls such as 3/10
    points = np.searchsorted(recall, np.arange(11) / 10 - 1e-9)
    return float(best[points].mean()), float(precision[hits].mean())


Make = Callable[[Task, int], Sampler]


def train(task: Task, make: Make, seed: int, rate: float) -> list[dict[str, float]]:
    """Train on one class; return the measurements at each mark."""
    sampler, setup = timed(lambda: make(task, seed))
    problem, solver = Logistic(task.X, task.y), AdaGrad(rate)
    result, solutions, seconds, ratios, moments = None, [], [], [], []
    for mark in MARKS:
        result = minimize(solver, problem, sampler=sampler, rounds=mark, resume=result)
        solutions.append(result.solution)
        seconds.append(setup + result.seconds)
        moments.append(sampler.probabilities())
    models = np.array(solutions, dtype=np.float32).T
    margins = (task.X @ models).astype(np.float64)
    objectives = np.logaddexp(0, np.where(task.y[:, None], -margins, margins)).mean(axis=0)
    slopes = np.exp(-np.logaddexp(0, np.where(task.y[:, None], margins, -margins)))
    for k, chances in enumerate(moments):
        squares = (slopes[:, k] * task.norms) ** 2
        ratios.append((squares / chances).sum() / (len(squares) * squares.sum()))
    scores = (task.held @ models).T
    precisions = [average_precisions(score, task.truth) for score in scores]
    return [
        {"draws": mark, "seconds": s, "eleven": p[0], "area": p[1], "objective": o, "moment": r}
        for mark, s, p, o, r in zip(MARKS, seconds, precisions, objectives, ratios, strict=True)
    ]


def race(
    chosen: Iterable[Task], contenders: Mapping[str, tuple[Make, float]], seed: int
) -> Iterator[dict[str, Any]]:
    """Train each contender (a sampler and a rate) on each class.

    Yields the means over the classes for each contender and mark; seconds are summed.
    """
    runs: dict[str, list[Any]] = {name: [] for name in contenders}
    for k, task in enumerate(chosen):
        for name, (make, rate) in contenders.items():
            runs[name].append(train(task, make, seed * 100 + k, rate))
    for name, classes in runs.items():
        for seen in zip(*classes, strict=True):
            row = {key: float(np.mean([mark[key] for mark in seen])) for key in seen[0]}
            row["seconds"] *= len(seen)
            yield {"method": name, **row, "draws": int(row["draws"])}
