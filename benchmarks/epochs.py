"""Objective against draws: chosen epochs next to independent adaptive draws and to shuffling.

    python benchmarks/epochs.py --data FOLDER                  # about 20 minutes on one core
    python benchmarks/epochs.py --data FOLDER --only a9a --seeds 3
    python benchmarks/epochs.py --summary                      # from the rows on disk

Logistic regression (alpha = 1e-4) with AdaGrad and with SGD at a constant rate, batches of 16, fed
with gradient norms. A row is the training objective after 1, 3 and 10 epochs' worth of draws,
relative to where it starts (1) and to its minimum (0), for one seed. Every method has *its own best
rate at each of these budgets*: the best of fourteen, by the mean logarithm over three other seeds.
Nothing is timed.

The summary has ratios of what is left of the way, below 1 where the first of two methods is ahead:
geometric means over seeds, with 95% intervals (Student's, on logarithms), and over sets likewise.
They do not include the luck of the choice of a rate. `InfoBatch`, and `EpochVRB` with share 1,
deal a shuffled epoch first, so that their ratios to shuffling after one epoch show the noise of
the comparison. All budgets are whole epochs, the best moments of shuffling.
"""

import argparse
import csv
import os
from pathlib import Path

import numpy as np
import timing
from scipy.optimize import minimize
from scipy.stats import t as student

import tombola
from estimators import ALPHA, load
from tombola.problems import Logistic
from tombola.solvers import SGD, AdaGrad, DivergenceError

SETS = ("a9a", "mammography", "shuttle", "campaign", "ALOI", "VOC efficientnet", "VOC vgg19")
BUDGETS = (1, 3, 10)  # epochs' worth of draws
BATCH = 16
RATES = 2.0 ** np.arange(-8, 6)
SOLVERS = {
    "AdaGrad": lambda rate: AdaGrad(rate, batch_size=BATCH),
    "SGD": lambda rate: SGD(rate, batch_size=BATCH),
}
SAMPLERS = {
    "shuffle": lambda n, seed: tombola.Shuffle(n, seed=seed),
    "VRB": lambda n, seed: tombola.VRB(n, seed=seed),
    "EpochVRB": lambda n, seed: tombola.EpochVRB(n, seed=seed),
    "EpochVRB, share 0.5": lambda n, seed: tombola.EpochVRB(n, share=0.5, seed=seed),
    "InfoBatch": lambda n, seed: tombola.InfoBatch(n, BUDGETS[-1], seed=seed),
}
SMALLEST = 1e-12  # of a gap: below it, the minimum is not known


class Task:
    """A problem, and how far a solution is from its minimum."""

    def __init__(self, name, folder):
        X, y = load(name, folder)[:2]
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X, dtype=np.float64)
        X = X / np.linalg.norm(X, axis=1).mean()
        self.name = name
        self.problem = Logistic(X, y, alpha=ALPHA, fit_intercept=True)
        best = minimize(
            self.problem.value, np.zeros(self.problem.shape), jac=self.problem.gradient,
            method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-10},
        )  # fmt: skip
        self.minimum, self.start = best.fun, self.problem.value(None)

    def gaps(self, solver, rate, sampler, seed):
        """The relative gap at every budget; infinite where the run diverges."""
        n = self.problem.n
        marks = [-(-epochs * n // BATCH) for epochs in BUDGETS]
        try:
            trace = (
                SOLVERS[solver](rate)
                .minimize(
                    self.problem, sampler=SAMPLERS[sampler](n, seed), rounds=marks[-1], trace=marks
                )
                .trace
            )
        except DivergenceError:
            return np.full(len(BUDGETS), np.inf)
        gaps = (trace.objective - self.minimum) / (self.start - self.minimum)
        return np.maximum(gaps, SMALLEST)


def rows_of(task, seeds):
    """Tune, then run every method: one row for each solver, method, budget and seed."""
    for solver in SOLVERS:
        for sampler in SAMPLERS:
            tried = np.array([
                [task.gaps(solver, rate, sampler, 1000 + seed) for seed in range(3)]
                for rate in RATES
            ])  # fmt: skip
            best = np.log(tried).mean(axis=1).argmin(axis=0)
            for seed in range(seeds):
                found = {}
                for k, epochs in enumerate(BUDGETS):
                    rate = RATES[best[k]]
                    if rate not in found:
                        found[rate] = task.gaps(solver, rate, sampler, seed)
                    yield {
                        "set": task.name, "solver": solver, "sampler": sampler, "epochs": epochs,
                        "rate": f"{rate:.3g}", "at_the_edge": int(best[k] in (0, len(tried) - 1)),
                        "seed": seed, "gap": f"{found[rate][k]:.6g}",
                    }  # fmt: skip
            print(f"{task.name}, {solver}, {sampler}", flush=True)


PAIRS = [(name, "shuffle") for name in SAMPLERS if name != "shuffle"] + [("EpochVRB", "VRB")]


def ratio(logs):
    """The geometric mean of ratios, given their logarithms, and its 95% interval."""
    half = student.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / len(logs) ** 0.5
    low, middle, high = np.exp(np.mean(logs) + half * np.array([-1, 0, 1]))
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def summary(rows):
    """Print a table for each solver and budget: the gap of shuffling, and ratios of gaps."""
    gaps = {}
    for row in rows:
        key = row["solver"], int(row["epochs"]), row["set"], row["sampler"]
        gaps.setdefault(key, {})[int(row["seed"])] = np.log(float(row["gap"]))
    names = list(dict.fromkeys(key[2] for key in gaps))
    for solver in SOLVERS:
        for epochs in BUDGETS:
            print(f"\n{solver}, {epochs} epochs' worth of draws\n")
            print("| set | shuffle, gap | " + " | ".join(f"{a} / {b}" for a, b in PAIRS) + " |")
            print("|---|---|" + "---|" * len(PAIRS))
            means = {pair: [] for pair in PAIRS}
            for name in names:
                plain = gaps[solver, epochs, name, "shuffle"]
                cells = [f"{np.exp(np.mean(list(plain.values()))):.2g}"]
                for pair in PAIRS:
                    ours, theirs = (gaps[solver, epochs, name, sampler] for sampler in pair)
                    logs = [ours[seed] - theirs[seed] for seed in plain]
                    means[pair].append(np.mean(logs))
                    cells.append(ratio(logs))
                print(f"| {name} | " + " | ".join(cells) + " |")
            if len(names) > 1:
                cells = [ratio(means[pair]) for pair in PAIRS]
                print("| all sets | | " + " | ".join(cells) + " |")


def main():
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--dry", action="store_true", help="print the summary, keep no rows")
    parser.add_argument("--summary", action="store_true", help="print it from the rows on disk")
    options = parser.parse_args()
    if options.summary:
        with (timing.RESULTS / "epochs.csv").open(newline="") as file:
            summary(list(csv.DictReader(file)))
        return
    if options.data is None:
        parser.error("give --data FOLDER or TOMBOLA_DATA: the folder of the data sets")
    rows = []
    for name in options.only:
        rows += rows_of(Task(name, Path(options.data)), options.seeds)
    summary(rows)
    if not options.dry:
        timing.append("epochs", rows)


if __name__ == "__main__":
    main()
