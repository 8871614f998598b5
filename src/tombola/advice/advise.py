"""Asking for advice."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.advice.base import Advice, Group, Item, Verdict
from tombola.advice.data import Data, open_contests
from tombola.advice.race import PLANS, Account, Curve, line_up, marks, plan, results, run
from tombola.advice.verdict import decide
from tombola.ledger import best_fixed
from tombola.validation import number, whole

__all__ = ["advise"]

LISTED = 10  # items and groups in the report
POINTS = 101  # of the curve of shares


def advise(
    X: Any,
    y: ArrayLike | None = None,
    *,
    task: str,
    groups: ArrayLike | None = None,
    clusters: int = 8,
    seed: int = 0,
    budget: float = 50.0,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Measure what adaptive sampling is worth on these data.

    Classification is logistic regression: with more than two classes, of the rarest one against
    the rest, and of the commonest one. Regression is least squares (of a standardised y),
    clustering mini-batch k-means. l2 is 1e-4; AdaGrad has the same rate for all, the default.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (n, d)
        As it is to be trained on: columns of different units should be standardised. For linear
        models it is divided by the mean norm of its rows where that is below 0.3 or above 10.
    y : array-like of shape (n,)
        Labels of any kind, or numbers; not for clustering.
    task : {"classification", "regression", "clustering"}
    groups : array-like of shape (n,), optional
        What `GroupVRB` shares between; by default the two sides of a classification.
    clusters : int, default=8
    seed : int, default=0
    budget : float, default=50.0
        Seconds that it may take, about. The race has what compiling leaves, from a tenth to
        three tenths of it; compiling takes most of a minute, once on a machine.
    progress : callable, optional
        Called with runs done and runs in all.

    Returns
    -------
    Advice

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(300, 2))
    >>> advice = advise(X, X[:, 0] > 0, task="classification", budget=1.0)
    >>> advice.verdict.pays                               # all losses are alike
    False
    """
    began = time.perf_counter()
    budget = number("budget", budget)
    if not budget > 0:
        raise ValueError(f"budget must be positive, got {budget}")
    data = open_contests(X, y, task, groups, whole("clusters", clusters, 1), whole("seed", seed, 0))
    entrants = line_up(data)
    done, total = 0, len(entrants) * (1 + PLANS[0][0] * len(data.contests))

    def count_run() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    for entrant in entrants:
        run(data.contests[0], entrant, seed, rounds=1, looks={1})  # compiles
        count_run()
    compiling = time.perf_counter() - began

    allowed = min(0.3 * budget, max(0.1 * budget, budget - compiling))
    seeds, epochs = plan(data, entrants, allowed, seed)
    total = len(entrants) * (1 + seeds * len(data.contests))
    accounts = [Account(contest) for contest in data.contests]
    curves: list[dict[str, list[Curve]]] = [{e.label: [] for e in entrants} for _ in accounts]
    every, looks = marks(data.n, epochs, entrants[0].batch)
    for turn in range(seeds):
        for contest, account, runs in zip(data.contests, accounts, curves, strict=True):
            for entrant in entrants:
                watch = account if turn == 0 and entrant.kind == "baseline" else None
                runs[entrant.label].append(
                    run(contest, entrant, seed + turn, max(looks) * every, looks, every, watch)
                )
                count_run()

    possible = [account.possible() for account in accounts]
    methods, races = results(data, entrants, curves)
    verdict = decide(methods, min(each.ideal for each in possible))
    chances = np.mean([best_fixed(account.squares) for account in accounts], axis=0)
    return Advice(
        verdict=verdict,
        task=task,
        rows=data.rows,
        columns=data.X.shape[1],
        raced=data.n,
        seeds=seeds,
        epochs=epochs,
        possible=possible,
        methods=methods,
        items=_items(data, chances),
        groups=_groups(data, chances),
        losses=_lorenz(accounts[0].last),
        races=races,
        code=_code(data, verdict),
        notes=data.notes,
        seconds={"compiling": compiling, "in all": time.perf_counter() - began},
    )


def _items(data: Data, chances: NDArray[np.float64]) -> list[Item]:
    known = data.y if data.task == "classification" else data.groups
    return [
        Item(
            row=int(data.kept[place]),
            probability=float(chances[place]),
            times_uniform=float(chances[place] * data.n),
            label=None if known is None else str(known[place]),
        )
        for place in np.argsort(-chances, kind="stable")[:LISTED]
    ]


def _groups(data: Data, chances: NDArray[np.float64]) -> list[Group]:
    known = data.groups
    if known is None and data.task == "classification":
        known = data.y
    if known is None:
        return []
    names, numbers, sizes = np.unique(known, return_inverse=True, return_counts=True)
    shares = np.bincount(numbers, weights=chances)
    order = np.argsort(-shares / sizes, kind="stable")[:LISTED]
    return [
        Group(str(names[k]), int(sizes[k]), float(sizes[k] / data.n), float(shares[k]))
        for k in order
    ]


def _lorenz(losses: NDArray[np.float64]) -> list[float]:
    """Return the share of the sum that the smallest 0%, 1%, ..., 100% of the losses hold."""
    sums = np.concatenate([[0.0], np.cumsum(np.sort(losses))])
    places = np.linspace(0, len(losses), POINTS)
    shares = np.interp(places, np.arange(len(sums)), sums)
    return (shares / sums[-1] if sums[-1] > 0 else places / len(losses)).tolist()  # type: ignore[no-any-return]


def _code(data: Data, verdict: Verdict) -> str:
    """Return lines that do what the verdict says."""
    groups = "sampler=lambda n, seed, labels: tombola.GroupVRB(groups, seed=seed)"
    names = {"shuffle": 'sampler="shuffle"', "VRB": 'sampler="vrb"', "GroupVRB": groups}
    lines = []
    if data.task == "clustering":
        sampler = names.get(verdict.method)
        given = f", {sampler}" if sampler else ""
        model, fit = f"MiniBatchKMeans({data.clusters}{given})", "model.fit(X)"
        lines.append("from tombola.estimators import MiniBatchKMeans")
    else:
        kind = "SGDClassifier" if data.task == "classification" else "SGDRegressor"
        if data.groups is None:
            names["GroupVRB"] = 'sampler="group-vrb"'
        given = "" if verdict.method == "default" else f'solver="adagrad", {names[verdict.method]}'
        model, fit = f"{kind}({given})", "model.fit(X, y)"
        lines.append(f"from tombola.estimators import {kind}")
    if "tombola." in model:
        lines.insert(0, "import tombola")
    if data.scaled:
        lines.insert(0, "import numpy as np")
        norms = (
            "np.sqrt(X.multiply(X).sum(axis=1))"
            if hasattr(data.X, "tocsr")
            else ("np.linalg.norm(X, axis=1)")
        )
        lines.append(f"X = X / {norms}.mean()")
    if data.task == "regression":
        lines.append("y = (y - y.mean()) / y.std()")
    return "\n".join([*lines, f"model = {model}", fit])
