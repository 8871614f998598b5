"""The demo: two small comparisons on generated data, in a minute.

Classification: 20,000 rows with 500 columns, 2% of them in a rare class that is easy to separate;
logistic regression by AdaGrad at rate 0.1. Clustering: 80,000 rows with 10 columns in clusters of
very unequal size, the small ones far from the origin; mini-batch k-means, k = 50, b = 100, started
with k-means++ on 1,000 rows. In both data sets a few rows carry most of the noise, which is what
adaptive draws need. `tombola advise` tells whether this is true for your data.
"""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tombola
from tombola import datasets
from tombola.experiments.curves import band, collect, shown, speed
from tombola.experiments.exhibit import Exhibit, Finding, Row, Setting
from tombola.experiments.kmeans import make_sampler
from tombola.experiments.one_vs_all import average_precisions
from tombola.experiments.running import minimize, timed
from tombola.problems import KMeans, Logistic
from tombola.random import Stream
from tombola.report import figures
from tombola.solvers import AdaGrad, MiniBatchKMeans
from tombola.solvers.plus_plus import plus_plus

__all__ = ["SETTINGS", "TITLE", "play", "show", "stages"]

TITLE = "Fewer draws to the same model"
RATE, L2 = 0.1, 1e-4
CLUSTERS, BATCH = 50, 100
MARKS = {
    "classification": (250, 500, 1000, 1500, 2000, 3000, 4000, 5000, 7500, 10000, 12500,
                       15000, 17500, 20000, 25000, 30000, 35000, 40000, 50000, 60000),
    "clustering": (5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 600, 800),
}  # fmt: skip
METHODS = {"classification": ("shuffle", "VRB", "GroupVRB"), "clustering": ("shuffle", "VRB")}
SETTINGS = {"rate": RATE, "l2": L2, "clusters": CLUSTERS, "batch": BATCH, "methods": METHODS}


def stages(runs: int) -> list[list[Setting]]:
    """Return one run of each comparison for each repetition."""
    return [[{"race": name, "run": run} for run in range(runs) for name in MARKS]]


@functools.lru_cache(maxsize=2)
def _data(race: str) -> Any:
    if race == "classification":
        made = datasets.imbalanced(n=40_000, d=500, rare=0.02, shift=6.0)
        X, y = made.X / np.sqrt(500), np.asarray(made.y) == 1
        return Logistic(X[:20_000], y[:20_000], alpha=L2, fit_intercept=True), y, X[20_000:]
    X = datasets.heavy_tailed(n=100_000, d=10, clusters=CLUSTERS).X
    return KMeans(X[:80_000], CLUSTERS), KMeans(X[80_000:], CLUSTERS)


def play(setting: Setting, data: Path | None, earlier: Sequence[Row]) -> Iterator[Row]:
    """Do one run: all methods in turn, from the same start."""
    race, seed = str(setting["race"]), int(setting["run"])
    for method in METHODS[race]:
        yield from (_classify if race == "classification" else _cluster)(method, seed)


def _classify(method: str, seed: int) -> Iterator[Row]:
    problem, labels, held = _data("classification")
    y, truth = labels[: problem.n], labels[problem.n :]
    sampler: tombola.Sampler
    if method == "GroupVRB":
        sampler = tombola.GroupVRB(y, seed=seed)
    else:
        sampler = {"shuffle": tombola.Shuffle, "VRB": tombola.VRB}[method](problem.n, seed=seed)
    solver, result = AdaGrad(RATE), None
    for mark in MARKS["classification"]:
        result = minimize(solver, problem, sampler=sampler, rounds=mark, resume=result)
        w = result.solution
        yield {"method": method, "draws": mark, "seconds": result.seconds,
               "objective": problem.value(w),
               "score": average_precisions(held @ w[:-1], truth)[1]}  # fmt: skip


def _cluster(method: str, seed: int) -> Iterator[Row]:
    problem, test = _data("clustering")
    start = plus_plus(problem, 1000, Stream(seed))
    sampler, setup = timed(lambda: make_sampler(method, problem, seed))
    solver, result = MiniBatchKMeans(BATCH), None
    for mark in MARKS["clustering"]:
        result = minimize(
            solver,
            problem,
            sampler=sampler,
            rounds=mark,
            start=None if result else start,
            resume=result,
        )
        yield {"method": method, "draws": mark * BATCH, "seconds": setup + result.seconds,
               "objective": problem.value(result.solution),
               "score": test.value(result.solution)}  # fmt: skip


# --- results ------------------------------------------------------------------------------------

TITLES = {"classification": "Rare class, logistic regression", "clustering": "Heavy tails, k-means"}
SCORES = {"classification": "average precision, test", "clustering": "cost, test"}


def show(rows: list[Row]) -> Exhibit:
    """Show both comparisons, and which method was sooner."""
    runs = len({row["run"] for row in rows})
    figure, axes = figures.new_figure(2, 2, height=2.6)
    lines, findings, headline = [], [], []
    for k, race in enumerate(MARKS):
        own = [row for row in rows if row["race"] == race]
        upwards = race == "classification"
        curves: dict[str, Any] = {}
        for method in METHODS[race]:
            mine = [row for row in own if row["method"] == method]
            curves[method] = {}
            for y in ("objective", "score", "seconds"):
                marks, curves[method][y] = collect(mine, "draws", y, ["run"])
            for axis, y in ((axes[2 * k], "objective"), (axes[2 * k + 1], "score")):
                figures.band(axis, marks, *band(curves[method][y]), method)
        axes[2 * k].set(ylabel="training objective", title=TITLES[race], yscale="log")
        axes[2 * k + 1].set(ylabel=SCORES[race], title=TITLES[race])
        for axis in axes[2 * k : 2 * k + 2]:
            axis.set(xscale="log", xlabel="draws")
        for method in METHODS[race]:
            came, ratio = speed(
                marks, curves[method]["objective"], curves["shuffle"]["objective"], upwards=False
            )
            _, scored = speed(
                marks, curves[method]["score"], curves["shuffle"]["score"], upwards=upwards
            )
            place = np.flatnonzero(marks == came)
            seconds = np.mean(list(curves[method]["seconds"].values()), axis=0)
            lines.append([
                TITLES[race], method,
                f"{came:,.0f}" if len(place) else "never", shown(ratio, zero="never"),
                f"{seconds[place[0]]:.3f}" if len(place) else "never",
                shown(scored, zero="never"),
            ])  # fmt: skip
            if method != "shuffle":
                reached = (
                    f"It reaches the final objective of shuffling after {came:,.0f} of "
                    f"{marks[-1]:,.0f} draws; times fewer: {shown(ratio, zero='never')}."
                    if len(place)
                    else "It does not reach the final objective of shuffling."
                )
                headline.append(
                    f"{method}, {TITLES[race].split(',')[1].strip()}: **{_times(ratio)}**"
                )
                findings.append(
                    Finding(
                        f"{method} needs fewer draws than shuffling ({TITLES[race].lower()}).",
                        ratio.low > 1 if runs > 1 else None,
                        reached,
                    )
                )
    figures.legend_below(figure)
    exhibit = Exhibit(
        TITLE,
        "Draws that adaptive sampling needs to reach the final objective of shuffled epochs: "
        + "; ".join(headline) + ".",
        f"Two generated data sets, {runs} runs, 95% intervals; all methods have the same solver, "
        "rate and start. VRB knows only the losses that it is fed; GroupVRB also knows the labels; "
        "for k-means, VRB starts with the distance of each row to a random one. In both data sets "
        "a few rows carry most of the noise: `tombola advise` tells whether yours are like that.",
    )  # fmt: skip
    caption = (
        "Left: the training objective. Right: the score on held-out rows. Lower is better, except "
        "for precision."
    )
    exhibit.figures.append((figure, caption))
    exhibit.tables.append((
        "Draws to reach the final values of shuffled epochs",
        ["race", "method", "draws to the objective", "times fewer", "seconds to it",
         "times fewer to the test score"], lines,
    ))  # fmt: skip
    exhibit.findings = findings
    return exhibit


def _times(ratio: Any) -> str:
    if ratio.value > 1:
        return f"{ratio.value:.1f} times fewer"
    return "as many" if ratio.value == 1 else "more"
