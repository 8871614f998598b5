"""Figure 5: mini-batch k-means, the cost on test rows against rounds and seconds.

k = b = 100, 1,500 rounds, training on four fifths of the rows. All methods start from the same
centres, from k-means++ on 1,000 rows. The data sets are KDD Cup 2004, MNIST (whitened, 10
dimensions), and accelerometer windows of phones, which replace the paper's CSN.

VRB has the paper's bounds, L_i = 4 |x_i - u|^2 with u a random row, and mixing 0.5, which is the
default of `tombola.solvers.MiniBatchKMeans`. MABS and mirror descent have the steps of their
theory, with the largest of these bounds and the number of draws. Adaptive weighting is left out
since it needs labels.
"""

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tombola
from experiments.sweep import Setting, minimize, timed
from tombola import datasets
from tombola.ledger import mean_estimate
from tombola.problems import KMeans
from tombola.random import Stream
from tombola.report import figures
from tombola.report.exhibit import Exhibit
from tombola.report.rows import Curves, Row, band, collect, select, shown, speed
from tombola.solvers import MiniBatchKMeans
from tombola.solvers.clusters.plus_plus import plus_plus

__all__ = ["DATA", "SETTINGS", "TITLE", "play", "show", "stages"]

TITLE = "Mini-batch k-means (Figure 5)"
CLUSTERS = BATCH = 100
SUBSAMPLE = 1000
TRAIN = 0.8
MARKS = (0, 10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 1250, 1500)
SETS = {"kdd": "KDD", "hapt": "accelerometer", "mnist": "MNIST"}
METHODS = ("uniform", "shuffle", "VRB", "VRB without bounds", "MABS", "MirrorDescent")
OURS = "VRB"

SETTINGS = {
    "clusters": CLUSTERS, "batch": BATCH, "rounds": MARKS[-1], "train": TRAIN,
    "subsample": SUBSAMPLE, "methods": list(METHODS), "sets": list(SETS),
}  # fmt: skip
DATA = {name: name for name in SETS}


def stages(runs: int) -> list[list[Setting]]:
    """Return one run for each data set, start and seed."""
    return [
        [
            {"data": name, "start": start, "seed": seed}
            for total in range(runs)  # smaller numbers of starts and seeds first
            for start in range(runs)
            for seed in range(runs)
            if max(start, seed) == total
            for name in SETS
        ]
    ]


@functools.lru_cache(maxsize=len(SETS))
def problems(name: str, data: Path | None) -> tuple[KMeans, KMeans]:
    """Return the problems of the training rows and of the test rows."""
    X = np.asarray(datasets.load(name, data).X, dtype=np.float64)
    if name == "mnist":
        from sklearn.decomposition import PCA

        X = PCA(10, whiten=True, random_state=0).fit_transform(X)
    order = np.random.default_rng(0).permutation(len(X))
    cut = round(TRAIN * len(X))
    parts = (np.ascontiguousarray(X[order[:cut]]), np.ascontiguousarray(X[order[cut:]]))
    return KMeans(parts[0], CLUSTERS), KMeans(parts[1], CLUSTERS)


def make_sampler(method: str, problem: KMeans, seed: int) -> Any:
    """Return the sampler of a method."""
    n, draws = problem.n, BATCH * MARKS[-1]
    if method == "uniform":
        return tombola.Uniform(n, seed=seed)
    if method == "shuffle":
        return tombola.Shuffle(n, seed=seed)
    if method == "VRB without bounds":
        return tombola.VRB(n, seed=seed)
    bounds = problem.bounds(int(Stream(seed, (1,)).integers(n, 1)[0]))
    if method == "VRB":
        return tombola.VRB(n, bound=bounds, mixing=0.5, seed=seed)
    if method == "MABS":
        return tombola.MABS(n, bound=bounds, horizon=draws, seed=seed)
    return tombola.MirrorDescent(n, bound=float(bounds.max()), horizon=draws, seed=seed)


def play(setting: Setting, data: Path | None, earlier: Sequence[Row]) -> Iterator[Row]:
    """Do one run: all methods in turn, from the same centres."""
    problem, test = problems(str(setting["data"]), data)
    start = plus_plus(problem, SUBSAMPLE, Stream(int(setting["start"]), (0,)))
    solver = MiniBatchKMeans(BATCH)
    seed = 1000 * int(setting["start"]) + int(setting["seed"])
    first = setting["start"] == setting["seed"] == 0
    for method in METHODS:
        sampler, setup = timed(functools.partial(make_sampler, method, problem, seed))
        result, squares = None, np.zeros(problem.n)
        for mark in MARKS:
            result = minimize(
                solver, problem, sampler=sampler, rounds=mark, start=None if result else start,
                resume=result,
            )  # fmt: skip
            row = {"method": method, "rounds": mark, "seconds": setup + result.seconds,
                   "cost": test.value(result.solution)}  # fmt: skip
            if first and method == "uniform":  # the possible gain
                squares += problem.norms(result.solution) ** 2
                row |= {"entropy": entropy(np.sqrt(squares)),
                        "possible": possible(problem.norms(result.solution))}  # fmt: skip
            yield row


def entropy(weights: NDArray[np.float64]) -> float:
    """Return the entropy of the distribution proportional to weights, over that of the uniform one.

    >>> entropy(np.ones(4))
    1.0
    """
    chances = weights[weights > 0] / weights.sum()
    return float(-(chances * np.log(chances)).sum() / np.log(len(weights)))


def possible(losses: NDArray[np.float64]) -> float:
    """Return the least second moment over that of uniform draws: (mean l)^2 / mean l^2."""
    return float(losses.mean() ** 2 / (losses**2).mean())


# --- results ------------------------------------------------------------------------------------


def show(rows: list[Row]) -> Exhibit:
    """Show the curves, and when each method reaches the final cost of uniform draws."""
    starts = len({row["start"] for row in rows})
    seeds = len({row["seed"] for row in rows})
    exhibit = Exhibit(
        TITLE,
        f"k = b = {CLUSTERS}, {MARKS[-1]:,} rounds, {starts} starts x {seeds} seeds, 95% "
        "intervals over starts. The cost of the test rows is the mean squared distance to the "
        "nearest centre. Seconds include the construction of the sampler, but not the evaluation "
        "of the cost.",
    )
    names = [name for name in SETS if select(rows, data=name)]
    figure, axes = figures.new_figure(len(names), 2)
    for k, name in enumerate(names):
        own = select(rows, data=name)
        curves = {}
        for method in METHODS:
            mine = select(own, method=method)
            marks, costs = collect(mine, "rounds", "cost", ["start", "seed"])
            _, seconds = collect(mine, "rounds", "seconds", ["start", "seed"])
            curves[method] = costs, np.median(list(seconds.values()), axis=0)
        final = band(by_start(curves["uniform"][0]))[0][-1]
        for method, (costs, took) in curves.items():
            middle, low, high = (part / final for part in band(by_start(costs)))
            figures.band(axes[2 * k], marks[1:], middle[1:], low[1:], high[1:], method)
            figures.band(axes[2 * k + 1], took[1:], middle[1:], low[1:], high[1:], method)
        for axis in axes[2 * k : 2 * k + 2]:
            axis.set(xscale="log", ylabel="test cost over uniform's last")
            axis.axhline(1, color="0.4", linewidth=0.8)
        top = max(np.mean([c[2] for c in curves[m][0].values()]) / final for m in METHODS)
        for axis in axes[2 * k : 2 * k + 2]:
            axis.set_ylim(top=min(axis.get_ylim()[1], 1 + 1.2 * (top - 1)))
        axes[2 * k].set(title=SETS[name], xlabel="rounds")
        axes[2 * k + 1].set(title=SETS[name], xlabel="seconds")
        exhibit.table(SETS[name], *_table(marks, curves))
        _add_findings(exhibit, name, marks, curves, own)
    figures.legend_below(figure)
    exhibit.figure(figure, "Cost of the test rows over the final mean cost of uniform.")
    exhibit.table("Possible gain, along one run of uniform draws", *_gain(rows))
    return exhibit


def by_start(costs: Curves) -> Curves:
    """Return the mean curve of each start: seeds that share one are not independent."""
    starts = dict.fromkeys(key[0] for key in costs)
    return {
        start: np.mean([curve for key, curve in costs.items() if key[0] == start], axis=0)
        for start in starts
    }


def paired_ratios(ours: Curves, theirs: Curves) -> list[float]:
    """Return, for each start, our mean final cost over theirs."""
    mine, other = by_start(ours), by_start(theirs)
    return [float(mine[start][-1] / other[start][-1]) for start in mine]


def _table(marks: Any, curves: Any) -> tuple[list[str], list[list[Any]]]:
    columns = ["method", "final cost over uniform's, by start", "spread of final costs",
               "rounds to uniform's final cost", "times fewer", "seconds to it"]  # fmt: skip
    uniform = curves["uniform"][0]
    base = np.array([curve[-1] for curve in uniform.values()])
    lines = []
    for method, (costs, seconds) in curves.items():
        last = np.array([curve[-1] for curve in costs.values()])
        came, ratio = speed(marks, costs, uniform, upwards=False)
        lines.append([
            method,
            shown(mean_estimate(paired_ratios(costs, uniform)), digits=4),
            f"{last.std() / base.mean():.4f}",
            f"{came:,.0f}" if np.isfinite(came) else "never",
            shown(ratio, zero="never"),
            f"{seconds[np.flatnonzero(marks == came)[0]]:.3f}" if np.isfinite(came) else "never",
        ])  # fmt: skip
    return columns, lines


def _add_findings(exhibit: Exhibit, name: str, marks: Any, curves: Any, rows: list[Row]) -> None:
    uniform = curves["uniform"][0]
    base = np.mean([curve[-1] for curve in uniform.values()])
    last = {m: np.mean([curve[-1] for curve in curves[m][0].values()]) / base for m in METHODS}
    spread = {m: np.std([curve[-1] for curve in curves[m][0].values()]) / base for m in METHODS}
    came, ratio = speed(marks, curves[OURS][0], uniform, upwards=False)
    sooner = (
        f"Its mean test cost reaches the final one of uniform draws after {came:,.0f} of "
        f"{marks[-1]:,.0f} rounds, {shown(ratio, zero='never')} times sooner."
        if np.isfinite(came)
        else "Its mean test cost never reaches the final one of uniform draws."
    )
    final = f"Final mean test cost {last[OURS]:.4f} times uniform's."
    if name == "kdd":
        exhibit.finding(
            "Our goal: on KDD, VRB needs a tenth of the rounds.", ratio.value >= 10, sooner
        )
        exhibit.finding(
            "The paper's claim: on KDD, VRB lowers the spread over runs (by at least a tenth).",
            bool(spread[OURS] < 0.9 * spread["uniform"]) if len(uniform) > 1 else None,
            f"Standard deviation of the final cost {spread[OURS]:.4f} against "
            f"{spread['uniform']:.4f}, relative to uniform's mean.",
        )
    else:
        exhibit.finding(
            f"Our goal: on {SETS[name]}, VRB is not worse than uniform draws by more than 1%.",
            bool(last[OURS] <= 1.01),
            final,
        )
    if name == "hapt":
        exhibit.finding(
            "The paper's claim for CSN, which this data set replaces: VRB is much better.",
            bool(last[OURS] < 0.99 or ratio.value >= 2),
            f"{final} {sooner}",
        )
    seen = [row for row in rows if "entropy" in row]
    if name == "mnist":
        exhibit.finding(
            "The paper's claim: on MNIST there is no advantage.",
            bool(abs(last[OURS] - 1) < 0.01),
            final,
        )
    if name == "mnist" and seen:
        end = max(seen, key=lambda row: row["rounds"])
        exhibit.finding(
            "The paper's claim: on MNIST the best fixed distribution is near uniform.",
            end["entropy"] > 0.99,
            f"Its entropy is {end['entropy']:.4f} times that of the uniform one.",
        )
    rivals = {m: last[m] for m in ("VRB without bounds", "MABS", "MirrorDescent")}
    exhibit.finding(
        f"The paper's claim: bandits that start uniformly do not help ({SETS[name]}).",
        min(rivals.values()) > 0.99,
        "Final mean test costs over uniform's: "
        + ", ".join(f"{m} {value:.4f}" for m, value in rivals.items())
        + ".",
    )


def _gain(rows: list[Row]) -> tuple[list[str], list[list[Any]]]:
    """Return the table of the possible gain, along one run of uniform draws."""
    lines = []
    for name, title in SETS.items():
        seen = [row for row in rows if row["data"] == name and "entropy" in row]
        if seen:
            end = max(seen, key=lambda row: row["rounds"])
            lines.append([title, f"{end['entropy']:.4f}", f"{end['possible']:.3f}"])
    columns = ["data", "entropy of the best fixed distribution over log n",
               "least second moment over uniform's, at the end"]  # fmt: skip
    return columns, lines
