"""Coordinate and block descent: the epochs that each way to choose coordinates needs.

There are three problems, with l1 given as a fraction of the smallest value that gives w = 0: a
lasso (2000 x 1000, columns correlated through 20 factors with log-normal scales, 50 non-zero
coefficients, l1 a tenth), a smaller lasso (1000 x 500, l1 a hundredth), and a logistic regression
on sparse rows (2000 x 1000, 2% non-zero, log-normal scales, l1 a twentieth). The first lasso is
also solved in blocks of ten neighbouring columns. An epoch is d coordinate updates. The gap is the
distance of the objective to its minimum, relative to that at w = 0; the minimum comes from a run
of 1,000 epochs. The data are the same in all runs.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tombola
from experiments.sweep import Setting, minimize
from tombola.problems import LeastSquares, Logistic
from tombola.problems.linear import LinearProblem
from tombola.report import figures
from tombola.report.exhibit import Exhibit
from tombola.report.rows import Row, arrival, collect, select
from tombola.solvers import BlockCoordinateDescent, CoordinateDescent

__all__ = ["SETTINGS", "TITLE", "play", "show", "stages"]

TITLE = "Coordinate and block descent"
GOAL = 1e-6
BLOCK = 10
MARKS = (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 25, 30,
         40, 50, 75, 100, 150, 200)  # epochs  # fmt: skip
PROBLEMS = ("lasso", "lasso-small-l1", "logistic", "lasso-blocks")

SAMPLERS: dict[str, Callable[[Any, int], Any]] = {
    "VRB": lambda smooth, seed: tombola.VRB(len(smooth), seed=seed),
    "cyclic": lambda smooth, seed: tombola.Cyclic(len(smooth)),
    "shuffle": lambda smooth, seed: tombola.Shuffle(len(smooth), seed=seed),
    "uniform": lambda smooth, seed: tombola.Uniform(len(smooth), seed=seed),
    "static by L": lambda smooth, seed: tombola.Static(smooth, seed=seed),
    "static by L, half uniform": lambda smooth, seed: tombola.Static(smooth, mixing=0.5, seed=seed),
}

SETTINGS = {"goal": GOAL, "most": MARKS[-1], "block": BLOCK, "samplers": list(SAMPLERS),
            "problems": list(PROBLEMS)}  # fmt: skip


def lasso(n: int, d: int, ratio: float) -> LeastSquares:
    """Return a lasso with uneven, correlated columns."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(n, 20)) @ rng.normal(size=(20, d)) / np.sqrt(20)
    x = np.sqrt(0.5) * (rng.normal(size=(n, d)) + factors) * np.exp(rng.normal(size=d))
    truth = np.zeros(d)
    truth[rng.choice(d, 50, replace=False)] = rng.normal(size=50)
    y = x @ (truth / np.sqrt((x * x).mean(axis=0)))
    y += 0.5 * y.std() * rng.normal(size=n)
    return LeastSquares(x, y, alpha=ratio * float(np.abs(x.T @ y).max()) / n, l1_ratio=1.0)


def logistic(n: int = 2000, d: int = 1000) -> Logistic:
    """Return a logistic regression on sparse rows with uneven columns."""
    from scipy import sparse

    rng = np.random.default_rng(0)
    x = sparse.random(n, d, 0.02, "csr", random_state=rng, data_rvs=rng.standard_normal)
    x = sparse.csr_matrix(x.multiply(np.exp(rng.normal(size=d))))
    truth = np.zeros(d)
    truth[rng.choice(d, 50, replace=False)] = 3 * rng.normal(size=50)
    y = x @ truth + 0.5 * rng.logistic(size=n) > 0
    return Logistic(x, y, alpha=0.05 * float(np.abs(x.T @ (y - 0.5)).max()) / n, l1_ratio=1.0)


@functools.lru_cache(maxsize=1)
def solved(name: str) -> tuple[LinearProblem, float]:
    """Return a problem and its minimum."""
    if name == "logistic":
        problem: LinearProblem = logistic()
    else:
        problem = lasso(1000, 500, 0.01) if name == "lasso-small-l1" else lasso(2000, 1000, 0.1)
    long = minimize(CoordinateDescent(), problem, rounds=1000 * problem.d)
    return problem, problem.value(long.solution)


def stages(runs: int) -> list[list[Setting]]:
    """Return one run of each problem for each repetition."""
    return [[{"problem": name, "run": run} for run in range(runs) for name in PROBLEMS]]


def play(setting: Setting, data: Path | None, earlier: Sequence[Row]) -> Iterator[Row]:
    """Do one run: each way to choose coordinates, until the gap is well below the goal."""
    problem, best = solved(str(setting["problem"]))
    blocks = str(setting["problem"]).endswith("blocks")
    solver: Any = BlockCoordinateDescent(BLOCK) if blocks else CoordinateDescent()
    each = BLOCK if blocks else 1
    smooth = problem.coordinate_lipschitz()
    if blocks:  # an approximation of the blocks' constants
        smooth = np.add.reduceat(smooth, np.arange(0, problem.d, BLOCK))
    begin = problem.value(None) - best
    for method, make in SAMPLERS.items():
        if method == "cyclic" and setting["run"] != 0:
            continue  # it is deterministic
        sampler, result = make(smooth, int(setting["run"])), None
        for mark in MARKS:
            rounds = round(mark * problem.d / each)
            result = minimize(solver, problem, sampler=sampler, rounds=rounds, resume=result)
            gap = max((problem.value(result.solution) - best) / begin, 0.0)
            yield {"method": method, "epochs": float(mark), "gap": gap}
            if gap < GOAL / 100:
                break


# --- results ------------------------------------------------------------------------------------


def show(rows: list[Row]) -> Exhibit:
    """Show the gaps, and the epochs to reach the goal."""
    runs = len({row["run"] for row in rows})
    exhibit = Exhibit(
        TITLE,
        f"Epochs until the gap of the objective to its minimum is {GOAL:g} of the initial one; "
        f"medians and ranges over {runs} runs. `Cyclic` is deterministic.",
    )
    names = [name for name in PROBLEMS if select(rows, problem=name)]
    figure, axes = figures.new_figure(2, (len(names) + 1) // 2)
    lines = []
    for axis, name in zip(axes, names, strict=False):
        medians = {}
        for method in SAMPLERS:
            own = select(rows, problem=name, method=method)
            marks, curves = collect(own, "epochs", "gap", ["run"])
            filled = np.array([np.where(np.isnan(c), 0.0, c) for c in curves.values()])
            middle = np.median(filled, axis=0)
            above = middle > GOAL / 100
            look = figures.style(method)
            axis.plot(marks[above], middle[above], label=method, linewidth=1.7, **look)
            took = arrival(marks, filled, GOAL, upwards=False)
            medians[method] = float(np.median(took))
            lines.append([name, method, _epochs(medians[method]),
                          f"{_epochs(min(took))} to {_epochs(max(took))}"])  # fmt: skip
        axis.axhline(GOAL, color="0.4", linewidth=0.8)
        axis.set(title=name, xscale="log", yscale="log", xlabel="epochs", ylabel="gap",
                 ylim=(GOAL / 30, 2))  # fmt: skip
        exhibit.finding(
            f"VRB needs fewer epochs than uniform draws ({name}).",
            medians["VRB"] < medians["uniform"],
            f"Medians: {_epochs(medians['VRB'])} against {_epochs(medians['uniform'])}; "
            + ", ".join(
                f"{name} {_epochs(medians[name])}" for name in ("cyclic", "shuffle", "static by L")
            )
            + ".",
        )
    figures.legend_below(figure)
    exhibit.figure(figure, "Median gap; the horizontal line is the goal.")
    exhibit.table(f"Epochs to {GOAL:g}", ["problem", "coordinates", "median", "range"], lines)
    return exhibit


def _epochs(value: float) -> str:
    return f"{value:g}" if np.isfinite(value) else f"over {MARKS[-1]}"
