"""The function `advise`."""

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.advice.account import Account
from tombola.advice.advice import Advice
from tombola.advice.data import Data, open_data, too_few
from tombola.advice.entrants import Entrant, line_up
from tombola.advice.fits import clock, final_score, fit_all
from tombola.advice.models import Penalty, candidates
from tombola.advice.parts import Group, Item, Method, Race, Verdict
from tombola.advice.race import Curve, largest_batch, marks, run, schedule
from tombola.advice.results import results
from tombola.advice.verdict import choose, decide, gain, is_close
from tombola.advice.written import SCORES, call_of, opening, script
from tombola.ledger import best_fixed
from tombola.validation import number, whole

__all__ = ["advise"]

LISTED = 10  # items and groups in the report
POINTS = 101  # of the Lorenz curve
VISITS = 4e7  # entries that a solver of scikit-learn may visit, for each second of the budget
PARTIAL = 2.0  # all rows over those raced: from here on, times are an extrapolation
LONGER = 10  # times that runs are repeated for the cost of a draw, where it is close


def advise(
    X: Any,
    y: ArrayLike | None = None,
    *,
    task: str,
    X_test: Any = None,
    y_test: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_clusters: int = 8,
    alpha: float | None = None,
    l1: bool = False,
    reading: str | None = None,
    seed: int = 0,
    budget: float = 50.0,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Say which model to use on these data, scikit-learn's or ours, and whether draws matter.

    Each model that people would use is fitted to its end, with the same penalty, and scored on
    rows that were held out. Of those that reach the lowest objective the first is advised that no
    other beats clearly: scikit-learn's own where it is a tie. The code in the advice is a script
    that fits this model as it was raced, and prints the same score.

    Next to it, a race of draws says whether adaptive draws pay: shuffled epochs against `VRB`,
    `GroupVRB` and the defaults of our solvers, by the draws to the same objective times the cost
    of one.

    What is raced depends on data, seed and budget, and never on the clock.

    Parameters
    ----------
    X : array-like or scipy sparse matrix, shape (n, d)
        As the models get it. Columns of different units should be standardised.
    y : array-like of shape (n,)
        Labels of any kind, or numbers; not for clustering.
    task : {"classification", "regression", "clustering"}
    X_test, y_test : as X and y, optional
        The rows to score on; by default a fifth of X, the same share of each class.
    groups : array-like of shape (n,), optional
        The groups of `GroupVRB`; by default the two sides of a classification.
    n_clusters : int, default=8
    alpha : float, optional
        The penalty of linear models: the mean loss plus alpha |w|^2 / 2. By default 1 / n, which is
        also scikit-learn's.
    l1 : bool, default=False
        Whether the penalty is alpha |w|_1.
    reading : str, optional
        Lines of Python that define X, y, X_test, y_test as they are before a transformer `prepare`,
        which they define too. The code then begins with them, and its model with `prepare`.
    seed : int, default=0
    budget : float, default=50.0
        Roughly the seconds that it may take, on a machine of 2020. More of them race more rows.
        Compiling takes up to a minute more, once per machine.
    progress : callable, optional
        Called with the number of runs done and in all.

    Returns
    -------
    Advice

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = X[:, 0] + rng.normal(size=300) > 0
    >>> advice = advise(X, y, task="classification", budget=1.0)
    >>> advice.verdict.use                       # it takes a few milliseconds whatever is used
    'scikit-learn'
    """
    began = time.perf_counter()
    alpha = None if alpha is None else number("alpha", alpha)
    budget = number("budget", budget)
    for name, value in (("budget", budget), ("alpha", alpha)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
    n_clusters, seed = whole("n_clusters", n_clusters, 1), whole("seed", seed, 0)
    begin = opening(X, y, task, seed) if reading is None else reading
    data = open_data(
        X, y, X_test, y_test, task=task, groups=groups, n_clusters=n_clusters,
        penalty=Penalty(alpha, bool(l1)), seed=seed, budget=budget,
    )  # fmt: skip
    why_not = too_few(data)
    if why_not is not None:
        return _nothing(data, why_not, time.perf_counter() - began)

    data.make_contests()
    entrants = line_up(data)
    seeds, epochs = schedule(data, entrants, 0.3 * budget)
    raced = _candidates(data, data.n, budget)
    count = _Count(progress, len(entrants) * (1 + seeds * len(data.contests)) + len(raced))
    for entrant in entrants:
        run(data.contests[0], entrant, seed, looks={1})  # compiles
        count()
    compiling = time.perf_counter() - began
    models = fit_all(raced, data, seed, 0.2 * budget, count)
    drawn = _race(data, entrants, seeds, epochs, seed, 0.2 * budget, count)

    ideal = min(each.possible().ideal for each in drawn.accounts)
    share = data.X.shape[0] / data.n
    verdict = decide(models, drawn.methods, ideal, share)
    code, score = "", None
    chosen = choose(models, share)
    if chosen is not None:
        place = models.index(chosen)
        candidate, score = raced[place], chosen.score
        if share > 1:
            candidate = _candidates(data, data.X.shape[0], budget)[place]
            score, took = final_score(candidate, data, seed)
            label = call_of(candidate.estimator)
            data.notes.append(
                f"Of all {data.X.shape[0]:,} rows, {label} was fitted once, in {took:.2g} s: "
                "the score of the script is that of this fit."
            )
            verdict.headline = verdict.headline.replace(chosen.label, label)
        if share >= PARTIAL:
            verdict.reasons.append(
                f"Times are those of {data.n:,} of the {data.X.shape[0]:,} rows: with more rows "
                "another model may be quicker, which a larger budget can tell."
            )
        positive = data.positive
        code = script(
            candidate.model(seed), begin, task, prepared=reading is not None,
            dropped=data.dropped, positive=positive,
            first=positive is not None and positive == data.labels[0],
        )  # fmt: skip
    chances = np.mean([best_fixed(account.squares) for account in drawn.accounts], axis=0)
    took = time.perf_counter() - began
    data.notes.append(f"This took {took:.0f} seconds, {compiling:.0f} to compile and load.")
    return Advice(
        verdict=verdict,
        task=task,
        rows=data.X.shape[0],
        columns=data.X.shape[1],
        raced=data.n,
        score_name=_score_name(data),
        score=score,
        models=models,
        seeds=seeds,
        epochs=epochs,
        possible=[account.possible() for account in drawn.accounts],
        methods=drawn.methods,
        items=_items(data, chances),
        groups=_groups(data, chances),
        losses=_lorenz(drawn.accounts[0].last),
        races=drawn.races,
        code=code,
        notes=data.notes,
        seconds={"compiling": compiling, "in all": took},
    )


class _Count:
    """Count runs, and tell of them."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)


class _Drawn(NamedTuple):
    """The race of draws."""

    accounts: list[Account]
    methods: list[Method]
    races: list[Race]


def _candidates(data: Data, n: int, budget: float) -> Any:
    """Return the models, for n rows."""
    X = data.X
    entries = (X.nnz if hasattr(X, "tocsr") else X.size) / X.shape[0] * data.n
    classes = len(data.labels) if data.task == "classification" else 1
    passes = int(VISITS * budget / (entries * (classes if classes > 2 else 1)))
    passes = max(100, min(passes, 1000)) // 10 * 10
    return candidates(
        data.task, data.penalty, n, X.shape[1], classes, data.n_clusters, passes
    )  # fmt: skip


def _race(
    data: Data,
    entrants: list[Entrant],
    seeds: int,
    epochs: int,
    seed: int,
    allowed: float,
    count: _Count,
) -> _Drawn:
    """Race all ways to draw; where it is close, measure the cost of a draw for longer."""
    accounts = [Account(contest) for contest in data.contests]
    curves: list[dict[str, list[Curve]]] = [{e.label: [] for e in entrants} for _ in accounts]
    every, looks = marks(data.n, epochs, largest_batch(data.contests[0], entrants))
    for turn, k, entrant in itertools.product(range(seeds), range(len(accounts)), entrants):
        watch = accounts[k] if turn == 0 and entrant.kind == "baseline" else None
        curve = run(data.contests[k], entrant, seed + turn, looks, every, watch)
        curves[k][entrant.label].append(curve)
        count()
    # the least of each seed and problem, then the median: a path is compared with itself
    paces = {
        entrant.label: np.array([[c.pace for c in runs[entrant.label]] for runs in curves])
        for entrant in entrants
    }
    methods, races = results(data, entrants, curves, _costs(paces))
    began = clock()
    for _ in range(LONGER):
        close = [entrant for entrant in entrants if entrant.label in _close(methods)]
        if not close or clock() - began > allowed:
            break
        for turn, k, entrant in itertools.product(range(seeds), range(len(accounts)), close):
            pace = run(data.contests[k], entrant, seed + turn, looks, every).pace
            place = paces[entrant.label][k]
            place[turn] = min(place[turn], pace)
        methods, races = results(data, entrants, curves, _costs(paces))
    return _Drawn(accounts, methods, races)


def _costs(paces: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """Return the seconds for a draw of each way to draw."""
    return {label: float(np.median(found)) for label, found in paces.items()}


def _close(methods: list[Method]) -> set[str]:
    """Return the labels of methods that are about as long as it takes for draws to pay."""
    base = methods[0].label
    close = {m.label for m in methods if m.kind == "adaptive" and is_close(m.time_ratio)}
    pair = [m for m in methods if m.kind in ("default", "plain")]
    if pair and is_close(gain(*pair)):
        close |= {m.label for m in pair}
    return close | {base} if close else close


def _nothing(data: Data, why: str, took: float) -> Advice:
    """Return the advice where there are too few rows to say anything."""
    verdict = Verdict("undecided", None, None, f"Undecided: {why}", [])
    return Advice(
        verdict, data.task, data.X.shape[0], data.X.shape[1], 0, _score_name(data), None, [], 0, 0,
        [], [], [], [], [], [], "", data.notes, {"compiling": 0.0, "in all": took},
    )  # fmt: skip


def _score_name(data: Data) -> str:
    if data.task != "classification":
        return SCORES[data.task]
    return "accuracy" if data.positive is None else f"average precision of {data.positive}"


def _items(data: Data, chances: NDArray[np.float64]) -> list[Item]:
    known = data.y if data.task == "classification" else data.groups
    return [
        Item(
            row=int(data.given[data.kept[place]]),
            probability=float(chances[place]),
            times_uniform=float(chances[place] * data.n),
            label=None if known is None else str(known[data.kept[place]]),
        )
        for place in np.argsort(-chances, kind="stable")[:LISTED]
    ]


def _groups(data: Data, chances: NDArray[np.float64]) -> list[Group]:
    known = data.groups
    if known is None and data.task == "classification":
        known = data.y
    if known is None:
        return []
    names, numbers, sizes = np.unique(known[data.kept], return_inverse=True, return_counts=True)
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
