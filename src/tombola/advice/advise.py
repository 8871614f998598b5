"""The function `advise`, and what it returns."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from tombola.advice.data import Data, open_data, too_few
from tombola.advice.draws import BATCH, CONTENDERS, Game, GameRun, Possible, steps_for
from tombola.advice.fits import LEAST, Model, choose, clock, fit_all, fit_once, line_up, score_of
from tombola.advice.models import Penalty
from tombola.advice.race import RATES, Curve, Pair, Raced, race
from tombola.advice.render import (
    Report,
    Section,
    curve_section,
    digits,
    pair_section,
    race_figure,
    terminal,
)
from tombola.advice.script import SCORES, call_of, opening, script
from tombola.advice.verdict import Verdict
from tombola.ledger import best_fixed
from tombola.report.figures import legend_below, new_figure, style
from tombola.validation import number, whole

__all__ = ["Advice", "Group", "Item", "advise"]

LISTED = 10  # items and groups in the report
SEEDS = 5  # of the race of draws
POINTS = 101  # of the Lorenz curve
SHOWN = 6  # models on a terminal
LEAST_BUDGET = 10.0  # seconds, below which the clock does not shorten a race


@dataclass
class Item:
    """A row that matters: its number, its ideal probability, that over 1/n, and its label."""

    row: int
    probability: float
    times_uniform: float
    label: str | None


@dataclass
class Group:
    """A group of rows, and its share of the rows and of ideal draws."""

    group: str
    rows: int
    share_of_rows: float
    share_of_draws: float


@dataclass
class Advice:
    """All measurements and what follows; `print` it, or use `as_dict`.

    Attributes
    ----------
    use : {"scikit-learn", "tombola", "undecided"}
        The library of the model to use; "undecided" has no model and no code.
    method : str or None
        The name of the model to use.
    draws : Verdict or None
        Whether the best adaptive draws take less time than shuffled epochs, by mini-batches; None
        where that was not measured.
    headline : str
    reasons : list of str
    task : str
    rows, columns : int
        Of what is fitted, without the rows that are held out.
    raced : int
        The rows in the race of draws.
    score_name : str
        What the scores are; higher is better, but for clustering.
    score : float or None
        That of the code, on the rows held out; None without code.
    models : list of Model
        In order of preference.
    pairs : list of Pair
        What the verdict on draws comes from, seed by seed.
    curves : list of Curve
        All runs of the race of draws.
    possible : Possible or None
    items, groups : list of Item and of Group
        Those that ideal draws favour most, relative to uniform draws.
    losses : list of float
        The share of all losses that the smallest 0%, 1%, ..., 100% of them hold (Lorenz curve).
    code : str
        A script that fits the model to use, as it was fitted here, and prints its score; empty if
        undecided.
    notes : list of str
        What was done to the data and left out, and the time it took.
    seconds : float
        That it took.
    """

    use: str
    method: str | None
    draws: Verdict | None
    headline: str
    reasons: list[str]
    task: str
    rows: int
    columns: int
    raced: int
    score_name: str
    score: float | None
    models: list[Model]
    pairs: list[Pair]
    curves: list[Curve]
    possible: Possible | None
    items: list[Item]
    groups: list[Group]
    losses: list[float]
    code: str
    notes: list[str]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers; None where one is not finite."""
        plain: dict[str, Any] = _finite(asdict(self))
        return plain

    def report(self) -> Report:
        """Return what it says, with all rows."""
        sections = []
        if self.models:
            sections.append(_model_section(self))
        if self.curves:
            pairs = pair_section(self.pairs)
            pairs.figure = partial(race_figure, self.curves)
            sections += [pairs, curve_section(self.curves)]
        if self.possible is not None:
            sections += [_possible_section(self.possible), _share_section(self.losses)]
        if self.groups:
            rows = [
                [g.group, f"{g.rows:,}", digits(g.share_of_rows), digits(g.share_of_draws)]
                for g in self.groups
            ]
            columns = ["group", "rows", "share of rows", "of ideal draws"]
            sections.append(Section("Groups that matter most", columns, rows))
        if self.items:
            items = [
                [f"{i.row:,}", i.label or "", digits(i.probability), digits(i.times_uniform)]
                for i in self.items
            ]
            columns = ["row", "label", "ideal probability", "times uniform"]
            sections.append(Section("Rows that matter most (numbered from 0)", columns, items))
        return Report(self.headline, self.reasons, self.code, sections, self.notes)

    def __str__(self) -> str:
        return "\n".join(terminal(self.report()))


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
    budget: float = 10.0,
    progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Say which model to use on these data, scikit-learn's or ours, and whether draws matter.

    Each model that people would use is fitted to convergence, with the same penalty, and scored on
    rows that were held out; first on a part of the rows, and those that are not far behind on all
    of them. Of those that reach the lowest objective the first is advised that no other beats
    clearly: scikit-learn's own where it is a tie. The code in the advice is a script that fits this
    model as it was fitted here, and prints the same score.

    Next to it, a race of mini-batches (AdaGrad, or k-means) says whether adaptive draws pay:
    shuffled epochs against `VRB` and `GroupVRB`, each at its best rate, by the steps to the same
    objective times the cost of one. The verdict is a function of the interval over seeds: see
    `decide`.

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
        The groups of `GroupVRB`; by default the classes.
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
    budget : float, default=10.0
        Roughly the seconds that it may take, of processor time, so that other programs do not
        count; or 30 times those of the fastest fit, if that is more.
    progress : callable, optional
        Called with the number of fits or runs done and in all.

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
    >>> advice.use                               # it takes a few milliseconds whatever is used
    'scikit-learn'
    """
    began, started = time.perf_counter(), clock()
    alpha = None if alpha is None else number("alpha", alpha)
    budget = number("budget", budget)
    for name, value in (("budget", budget), ("alpha", alpha)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
    n_clusters, seed = whole("n_clusters", n_clusters, 1), whole("seed", seed, 0)
    begin = opening(X, y, task, seed) if reading is None else reading
    data = open_data(
        X, y, X_test, y_test, task=task, groups=groups, n_clusters=n_clusters,
        penalty=Penalty(alpha, bool(l1)), seed=seed,
    )  # fmt: skip
    advice = Advice(
        "undecided", None, None, "", [], task, data.X.shape[0], data.X.shape[1], 0,
        _score_name(data), None, [], [], [], None, [], [], [], "", data.notes, 0.0,
    )  # fmt: skip
    why_not = too_few(data)
    if why_not is not None:
        advice.headline = f"Undecided: {why_not}"
        return advice
    advice.models = fit_all(data, seed, 0.5 * budget, progress)
    _choose(advice, data, begin, seed, reading is not None)
    fastest = min(m.seconds for m in advice.models) * data.X.shape[0] / data.n
    left = max(budget, LEAST_BUDGET, 30.0 * fastest) - (clock() - started)
    _race(advice, data, seed, budget, max(left, 0.3 * LEAST_BUDGET), progress)
    advice.seconds = time.perf_counter() - began
    advice.notes.append(f"This took {advice.seconds:.0f} seconds.")
    return advice


def _choose(advice: Advice, data: Data, begin: str, seed: int, prepared: bool) -> None:
    """Write which model to use, and the script that fits it."""
    every, n, models = data.X.shape[0], data.n, advice.models
    share = every / n
    chosen = choose(models, share)
    if chosen is None:
        advice.headline = (
            "Undecided: no model that reached the lowest objective converged. Scale the columns."
        )
        return
    candidate = next(c for c in line_up(data, every) if c.name == chosen.name)
    label, advice.score = call_of(candidate.estimator), chosen.score
    advice.use, advice.method = chosen.library, chosen.name
    advice.headline = f"Use {chosen.library}'s {label}."
    if share > 1:
        model, took, _ = fit_once(candidate, data.X, data.y, seed)
        advice.score = score_of(model, data)
        data.notes.append(
            f"Models were compared on {n:,} of {every:,} rows, chosen at random: with all of them "
            f"another may be faster, which a larger budget can tell. {label} was fitted to all of "
            f"them in {took:.2g} s: the score of the script is that of this fit."
        )
    advice.reasons += _compared(chosen, models, share)
    positive = data.positive
    advice.code = script(
        candidate.model(seed), begin, data.task, prepared=prepared, dropped=data.dropped,
        positive=positive, first=positive is not None and positive == data.labels[0],
    )  # fmt: skip
    advice.reasons.append(f"{advice.score_name}, printed by this script: {advice.score:.6g}")


def _compared(chosen: Model, models: list[Model], share: float) -> list[str]:
    """Return sentences on the fastest other model of each library, if it may save a little."""
    others = [m for m in models if m.versus is not None and m is not chosen]
    saving = [m for m in others if (chosen.seconds - m.seconds) * share >= LEAST]
    if not saving:
        return [f"No other model that arrives there saves {LEAST} s."] if others else []
    other = min(saving, key=lambda m: m.seconds)
    return [f"{other.name} in its place {other.versus}."]


def _race(
    advice: Advice,
    data: Data,
    seed: int,
    budget: float,
    left: float,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Race draws, for `left` seconds at most, and write what follows."""
    steps, advice.raced = steps_for(data, budget)
    data.keep(advice.raced, seed)
    family = "least squares"
    if data.task != "regression":
        family = "squared distance" if data.task == "clustering" else "softmax"
        family = "log loss" if data.positive is not None else family
    game = Game(data, family)
    with threadpool_limits(1):
        raced = race(
            partial(GameRun, game), CONTENDERS[: 2 if game.groups is None else 3],
            (1.0,) if data.task == "clustering" else RATES, steps=steps, seeds=SEEDS, seed=seed,
            budget=left, clock=clock, progress=progress,
        )  # fmt: skip
    advice.draws, advice.pairs, advice.curves = raced.verdict, raced.pairs, raced.curves
    solver = "k-means" if data.task == "clustering" else "AdaGrad"
    advice.reasons.insert(
        0,
        f"Adaptive draws ({solver}, {raced.steps:,} mini-batches, {raced.best.sampler}): "
        f"{raced.verdict}.",
    )
    data.notes.append(
        f"The race of draws is over {raced.steps:,} steps of {BATCH} rows, {advice.raced:,} of "
        f"{data.X.shape[0]:,} rows."
    )
    _explain(advice, data, raced)


def _explain(advice: Advice, data: Data, raced: Raced) -> None:
    """Write what was possible, along the run with shuffled epochs."""
    run = raced.shuffled
    advice.possible = run.possible()
    chances = best_fixed(run.squares)
    advice.items, advice.groups = _items(data, chances), _groups(data, chances)
    advice.losses = _lorenz(run.norms)


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


def _model_section(advice: Advice) -> Section:
    """Return the models, the one to use first."""
    order = sorted(advice.models, key=lambda m: m.name != advice.method)
    rows = [
        [
            m.name,
            f"{m.score:.4f}",
            digits(m.seconds),
            "" if m.versus is None else digits(m.versus.ratio),
            f"{m.passes:,}",
            f"{m.objective:.6g}",
            f"{m.left:.1e}",
            ", ".join(["limit"] * (not m.converged) + ["short"] * (not m.arrived)),
        ]
        for m in order
    ]
    return Section(
        "Models, each fitted to convergence with the same penalty",
        ["model", "score", "seconds", "times as long", "passes", "objective", "left", ""],
        rows,
        f"score: {advice.score_name}, on the rows held out. seconds: processor time of the fit of "
        f"{advice.models[0].rows:,} rows, the least of those that were timed. times as long: "
        "seconds over those of the model to use; a time may be wrong by a factor of 1.3, which is "
        "the interval. left: the distance from the lowest objective of the same kind, over the "
        'decrease from the best constant prediction to it. "short": it ended too far from that. '
        '"limit": it stopped at its largest number of passes.',
        SHOWN,
    )


def _possible_section(found: Possible) -> Section:
    """Return the second moments of other distributions, with their figure."""

    def figure() -> tuple[Any, str]:
        made, (ax,) = new_figure(height=2.3)
        ax.plot(found.steps, found.ideals, label="ideal at each moment", **style("vrb"))
        ax.axhline(found.best_fixed, label="best fixed", **style("shuffle"))
        if found.best_group is not None:
            ax.axhline(
                found.best_group, label="best fixed, the same within a group", **style("group-vrb")
            )
        ax.set(ylim=(0, 1.08), ylabel="over uniform's", xlabel="steps")
        legend_below(made)
        return made, f"Ideal from {found.ideals[0]:.2g} to {found.ideals[-1]:.2g}."

    rows = [["ideal at each moment", digits(found.ideal)], ["best fixed", digits(found.best_fixed)]]
    if found.best_group is not None:
        rows.append(["best fixed, the same within a group", digits(found.best_group)])
    return Section(
        "What is possible",
        ["draws", "second moment"],
        rows,
        "Second moment of gradient estimates over that of uniform draws, along a run with shuffled "
        "epochs: below 1 is better, and no sampler can be better than ideal.",
        figure=figure,
    )


def _share_section(losses: list[float]) -> Section:
    """Return how unequal gradient norms are, with their figure."""
    percent, shares = np.linspace(0, 100, len(losses)), 100 * np.array(losses)
    tops = (1, 10, 50)

    def figure() -> tuple[Any, str]:
        made, (ax,) = new_figure(height=2.6)
        ax.plot(percent, shares, label="these gradient norms", **style("vrb"))
        ax.plot([0, 100], [0, 100], label="if all were equal", **style("uniform"))
        ax.set(xlabel="% of rows, smallest first", ylabel="% of the sum")
        legend_below(made)
        return made, f"The largest tenth holds {100 - np.interp(90, percent, shares):.0f}%."

    rows = [[f"{top}%", f"{100 - np.interp(100 - top, percent, shares):.1f}%"] for top in tops]
    return Section(
        "How unequal gradient norms are in the end",
        ["largest", "of the sum"],
        rows,
        "The further the curve is below the straight line, the more there is to gain.",
        figure=figure,
    )


def _finite(value: Any) -> Any:
    """Return nested dicts and lists with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
