"""Coordinate descent: how many epochs each way to choose coordinates takes.

    python benchmarks/coordinates.py      # about four minutes; epochs, not seconds

A lasso (2000 x 1000, columns correlated through 20 factors, with log-normal scales, 50 of them
in the truth, l1 a tenth of the smallest that gives w = 0), another one (1000 x 500) with l1 a
hundredth of that, and a logistic regression with l1 on sparse rows (2000 x 1000, 2% non-zero,
log-normal scales, l1 a twentieth). An epoch is d visits of coordinates. Counted until the
objective is within 1e-6 of the minimum, relative to where it began, on a grid of a quarter of an
epoch. The minimum is from a long run; for the lassos the duality gap says how good it is, for the
other one the largest violation of optimality.
"""

import argparse

import numpy as np
import timing
from scipy import sparse

import tombola
from tombola.problems import LeastSquares, Logistic
from tombola.solvers import CoordinateDescent, Cyclic

GOAL, GRID, MOST = 1e-6, 4, 200

SAMPLERS = {
    "VRB(d)": lambda smooth, seed: tombola.VRB(len(smooth), seed=seed),
    "Cyclic": lambda smooth, seed: Cyclic(len(smooth)),
    "Shuffle": lambda smooth, seed: tombola.Shuffle(len(smooth), seed=seed),
    "Uniform": lambda smooth, seed: tombola.Uniform(len(smooth), seed=seed),
    "Static by L": lambda smooth, seed: tombola.Static(smooth, seed=seed),
    "Static by L, half": lambda smooth, seed: tombola.Static(smooth, mixing=0.5, seed=seed),
}


def lasso(n=2000, d=1000, ratio=0.1, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n, 20)) @ rng.normal(size=(20, d)) / np.sqrt(20)
    x = np.sqrt(0.5) * (rng.normal(size=(n, d)) + factors) * np.exp(rng.normal(size=d))
    truth = np.zeros(d)
    truth[rng.choice(d, 50, replace=False)] = rng.normal(size=50)
    y = x @ (truth / np.sqrt((x * x).mean(axis=0)))
    y += 0.5 * y.std() * rng.normal(size=n)
    return LeastSquares(x, y, l1=ratio * np.abs(x.T @ y).max() / n)


def logistic(n=2000, d=1000, seed=0):
    rng = np.random.default_rng(seed)
    x = sparse.random(n, d, 0.02, "csr", random_state=rng, data_rvs=rng.standard_normal)
    x = sparse.csr_matrix(x.multiply(np.exp(rng.normal(size=d))))
    truth = np.zeros(d)
    truth[rng.choice(d, 50, replace=False)] = 3 * rng.normal(size=50)
    y = x @ truth + 0.5 * rng.logistic(size=n) > 0
    return Logistic(x, y, l1=0.05 * np.abs(x.T @ (y - 0.5)).max() / n)


def violation(problem, w):
    """How far 0 is from the subgradient, at most, over l1."""
    gradient = problem.gradient(w)
    still = np.maximum(np.abs(gradient) - problem.l1, 0)
    return np.where(w == 0, still, np.abs(gradient + problem.l1 * np.sign(w))).max() / problem.l1


def epochs(problem, sampler, best):
    """Epochs to the goal, in stretches, so that nothing runs for long after it."""
    begin, result, most = problem.value(None), None, 25
    while True:
        result = CoordinateDescent().minimize(
            problem, sampler=sampler, rounds=most * problem.d, trace=most * GRID, resume=result
        )
        reached = result.trace.objective - best <= GOAL * (begin - best)
        if reached.any():
            return result.trace.item_gradients[reached.argmax()] / problem.d
        if most >= MOST:
            return np.inf
        most *= 2


def median_interval(values):
    """The median, and order statistics that hold that of the law with 95% or more (n = 10)."""
    ordered = np.sort(values)
    cut = {10: 1, 20: 5}.get(len(ordered), 0)
    return np.median(ordered), ordered[cut], ordered[-1 - cut]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--dry", action="store_true", help="do not append to the results")
    options = parser.parse_args()
    shown, kept = [], []
    problems = {
        "lasso": lasso(),
        "lasso, small l1": lasso(1000, 500, ratio=0.01),
        "logistic": logistic(),
    }
    for name, problem in problems.items():
        long = CoordinateDescent().minimize(problem, rounds=1000 * problem.d)
        best, wrong = problem.value(long.solution), violation(problem, long.solution)
        sure = f"violation {wrong:.1e} l1"
        if isinstance(problem, LeastSquares):
            sure += f", duality gap {problem.gap(long.solution):.1e}"
        entries = np.count_nonzero(long.solution)
        print(f"{name}: {entries} of {problem.d} not zero, minimum {best:.6g}, {sure}", flush=True)
        smooth = problem.coordinate_lipschitz()
        for label, make in SAMPLERS.items():
            seeds = range(1 if label == "Cyclic" else options.seeds)  # nothing random in it
            took = [epochs(problem, make(smooth, seed), best) for seed in seeds]
            median, low, high = median_interval(took)
            interval = "" if label == "Cyclic" else f"[{low:g}, {high:g}]"
            shown.append([name, label, f"{median:g}", interval])
            kept += [
                {
                    "tombola": timing.version("tombola"),
                    "problem": name,
                    "sampler": label,
                    "seed": seed,
                    "epochs": e,
                }
                for seed, e in zip(seeds, took, strict=True)
            ]
    if not options.dry:
        timing.append("coordinates", kept)
    print(f"\nepochs to {GOAL:g}: medians over {options.seeds} seeds, with 95% intervals")
    timing.table(["problem", "sampler", "epochs", "interval"], shown)


if __name__ == "__main__":
    main()
