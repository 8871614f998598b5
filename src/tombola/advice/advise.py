"""The function `advise`."""

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.advice.account import Account
from tombola.advice.advice import Advice
from tombola.advice.data import Data, open_contests
from tombola.advice.entrants import line_up
from tombola.advice.parts import Group, Item
from tombola.advice.race import SCHEDULES, Curve, largest_batch, marks, run, schedule
from tombola.advice.results import results
from tombola.advice.verdict import decide
from tombola.ledger import best_fixed
from tombola.validation import number, whole

__all__ = ["advise"]

LISTED = 10  # items and groups in the report
SMALL = (5_000, 60)  # rows and columns up to which newton-cholesky is the one to use
SMALL_IN_WORDS = (
    "With up to about 5,000 rows of 60 columns, scikit-learn's "
    'LogisticRegression(solver="newton-cholesky") converges in a few milliseconds, sooner than '
    "anything here."
)
POINTS = 101  # of the Lorenz curve


def advise(
    X: Any,
    y: ArrayLike | None = None,
    *,
    task: str,
    groups: ArrayLike | None = None,
    n_clusters: int = 8,
    scaled_by: Sequence[Any] = (),
    seed: int = 0,
    budget: float = 50.0,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Measure what adaptive sampling is worth on these data.

    Each plan that is raced is that of an estimator: its problem, solver, sampler and scaling. The
    code in the advice is made from the plan that the verdict recommends.

    Classification is logistic regression: with more than two classes, of the rarest one against
    the rest, and of the commonest one. Regression is least squares with a standardised y,
    clustering is mini-batch k-means. alpha and the rate of AdaGrad are the estimators' defaults.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (n, d)
        Columns of different units should be standardised. For linear models, X is divided by the
        mean norm of its rows (`MeanNormScaler`) if that is below 0.3 or above 10.
    y : array-like of shape (n,)
        Labels of any kind, or numbers; not for clustering.
    task : {"classification", "regression", "clustering"}
    groups : array-like of shape (n,), optional
        The groups of `GroupVRB`; by default the two sides of a classification.
    n_clusters : int, default=8
    scaled_by : sequence of transformers, default=()
        Those that X has already been through, such as ``StandardScaler()``: the first steps of
        every plan. They are not applied again.
    seed : int, default=0
    budget : float, default=50.0
        Roughly the seconds that it may take. The race gets what compiling leaves, from a tenth to
        three tenths of it; compiling takes most of a minute, once per machine.
    progress : callable, optional
        Called with the number of runs done and in all.

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
    n_clusters, seed = whole("n_clusters", n_clusters, 1), whole("seed", seed, 0)
    data = open_contests(X, y, task, groups, n_clusters, seed, scaled_by)
    entrants = line_up(data)
    first, total = len(entrants), len(entrants) * (1 + SCHEDULES[0][0] * len(data.contests))
    for done, entrant in enumerate(entrants, 1):
        run(data.contests[0], entrant, seed, looks={1})  # compiles
        if progress is not None:
            progress(done, total)
    compiling = time.perf_counter() - began

    allowed = min(0.3 * budget, max(0.1 * budget, budget - compiling))
    seeds, epochs = schedule(data, entrants, allowed, seed)
    total = first * (1 + seeds * len(data.contests))
    accounts = [Account(contest) for contest in data.contests]
    curves: list[dict[str, list[Curve]]] = [{e.label: [] for e in entrants} for _ in accounts]
    every, looks = marks(data.n, epochs, largest_batch(data.contests[0], entrants))
    turns = itertools.product(range(seeds), range(len(accounts)), entrants)
    for done, (turn, k, entrant) in enumerate(turns, first + 1):
        watch = accounts[k] if turn == 0 and entrant.kind == "baseline" else None
        curves[k][entrant.label].append(
            run(data.contests[k], entrant, seed + turn, looks, every, watch)
        )
        if progress is not None:
            progress(done, total)

    possible = [account.possible() for account in accounts]
    methods, races = results(data, entrants, curves)
    verdict = decide(methods, min(each.ideal for each in possible))
    columns = data.X.shape[1]
    if task == "classification" and data.rows <= SMALL[0] and columns <= SMALL[1]:
        verdict.reasons.append(SMALL_IN_WORDS)
    chances = np.mean([best_fixed(account.squares) for account in accounts], axis=0)
    took = time.perf_counter() - began
    data.notes.append(f"Raced for {epochs} epochs with each of {seeds} seeds.")
    if data.n < data.rows:
        data.notes.append(
            f"Raced over {data.n:,} of the {data.rows:,} rows, chosen at random, to keep it short; "
            "a larger budget uses more of them."
        )
    data.notes.append(f"This took {took:.0f} seconds, {compiling:.0f} to compile and load.")
    return Advice(
        verdict=verdict,
        task=task,
        rows=data.rows,
        columns=columns,
        raced=data.n,
        seeds=seeds,
        epochs=epochs,
        possible=possible,
        methods=methods,
        items=_items(data, chances),
        groups=_groups(data, chances),
        losses=_lorenz(accounts[0].last),
        races=races,
        code=next(e.plan.code() for e in entrants if e.label == verdict.method),
        notes=data.notes,
        seconds={"compiling": compiling, "in all": took},
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
