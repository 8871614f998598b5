"""Losses with kinks on Dask: loads of the data until a certified gap, for 4, 16 and 64 partitions.

    python benchmarks/kinks.py --data FOLDER           # all sets
    python benchmarks/kinks.py --data FOLDER --sets a9a cover

`make bench-page` writes the table and the picture of docs/benchmarks.md from the rows.

Counts, not seconds. Our fits draw the rows of their models by their distance from a kink; in
"uniform" they are drawn in proportion to their weights, all else being the same. The overview is
counted, three seeds each; for 10^7 generated rows 20 rounds at most, and uniform draws of one seed.

L-BFGS is scipy's, on a subgradient that is summed over partitions, which do not change it; it has
no guarantee there, and it gets the true distance to the minimum for nothing, where ours is
certified. It ends after 150 loads, or where its line search fails. Gaps are relative to the
objective at w = 0 with the best intercept. Hinge loss, with alpha = 1e-4 and 1/n; for cover and
HAPT also the epsilon-insensitive loss, of the first column by the others.

The method was chosen on the sets in `CHOSEN_ON`, and on the generated rows; the others were fitted
for the first time by this program.
"""

import argparse
import contextlib
import itertools
import os
import sys
import warnings
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)
import clock_sets  # noqa: E402
import timing  # noqa: E402

sys.path[:] = [it for it in sys.path if str(Path(it or ".").resolve()) != HERE]  # has a dask.py

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import numpy as np  # noqa: E402
from scipy import optimize  # noqa: E402

from tombola.dask import LinearClassifier, LinearRegressor, near_kinks  # noqa: E402
from tombola.dask.refinement import Refinement  # noqa: E402

CHOSEN_ON = ("mammography", "shuttle", "a9a", "campaign", "ALOI", "cover", "http", "skin", "smtp")
FRESH = ("mushrooms", "VOC effnet", "VOC vgg", "MNIST", "generated")
REGRESSIONS = ("cover, column", "HAPT, column")
TARGETS = (1e-2, 1e-3, 1e-4, 1e-6)
EPSILON = 0.1
COUNTS, SEEDS = (4, 16, 64), (0, 1, 2)
ROWS, COLUMNS = 10_000_000, 20


def load(name, folder):
    """Return rows in random order, and labels or targets."""
    if name == "generated":
        rng = np.random.default_rng(0)
        X = rng.normal(size=(ROWS, COLUMNS))
        X[:, 1:] += 0.7 * X[:, :-1]
        w = rng.normal(size=COLUMNS)
        return X, (X @ w - 6.0 + 4.0 * rng.logistic(size=ROWS) > 0).astype(int)
    if name in REGRESSIONS:
        if name.startswith("cover"):
            X = clock_sets.load("cover", folder)[0]
        else:
            X = clock_sets.file_of(folder, "hapt_*.npz")["X"].astype(float)
            X = (X - X.mean(axis=0)) / X.std(axis=0)
        X = X[np.random.default_rng(0).permutation(len(X))]
        return np.ascontiguousarray(X[:, 1:]), X[:, 0].copy()
    X, y = clock_sets.load(name, folder)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order].astype(int)


def cut(X, y, count):
    """Return rows in memory as collections of `count` partitions."""
    cuts = np.linspace(0, X.shape[0], count + 1).astype(int)
    blocks = [
        da.from_delayed(dask.delayed(X[a:b], pure=False), (b - a, X.shape[1]), meta=X[:0])
        for a, b in itertools.pairwise(cuts)
    ]
    return da.concatenate(blocks), da.from_array(y, chunks=(tuple(np.diff(cuts)),))


def ours(X, y, loss, alpha, seed, uniform=False, rounds=60):
    """Return gap, loads and bytes after each round, and the objective and its unit at the end."""
    seen, step, choose = [], Refinement.step, near_kinks.choose

    def watched(self, **others):
        done = step(self, **others)
        bounds, progress = self.outputs[0].bounds[0], self.progress
        seen.append((progress.gap, progress.loads, progress.bytes, bounds.primal, bounds.unit))
        return done

    kind = LinearClassifier if loss == "hinge" else LinearRegressor
    model = kind(loss, alpha=alpha, tol=min(TARGETS), max_iter=rounds, random_state=seed)
    Refinement.step = watched
    if uniform:
        near_kinks.choose = lambda values, count, key: choose(np.ones(values.size), count, key)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where uniform draws do not converge
            model.fit(X, y)
    finally:
        Refinement.step, near_kinks.choose = step, choose
    return [row[:3] for row in seen], seen[-1][3], seen[-1][4]


def subgradient(X, y, w, loss):
    """Return the sums of the losses of a block and of their subgradients."""
    z = X @ w[:-1] + w[-1]
    if loss == "hinge":
        sign = 2.0 * y - 1.0
        losses, slopes = np.maximum(0.0, 1.0 - sign * z), np.where(sign * z < 1.0, -sign, 0.0)
    else:
        away = np.abs(z - y) - EPSILON
        losses, slopes = np.maximum(0.0, away), np.where(away > 0.0, np.sign(z - y), 0.0)
    return losses.sum(), np.append(X.T @ slopes, slopes.sum())


def lbfgs(X, y, loss, alpha, lowest, unit, loads=150):
    """Return the distance to the minimum, loads and bytes after each load of the data."""
    seen, n, best = [], X.shape[0], np.inf
    moved = 8 * (2 * X.shape[1] + 3)

    class Near(Exception):  # noqa: N818
        pass

    def value(w):
        nonlocal best
        losses, gradient = subgradient(X, y, w, loss)
        objective = losses / n + alpha / 2 * w[:-1] @ w[:-1]
        best = min(best, (objective - lowest) / unit)
        seen.append((best, len(seen) + 1, (len(seen) + 1) * moved))
        if best <= min(TARGETS) or len(seen) >= loads:
            raise Near
        return objective, gradient / n + alpha * np.append(w[:-1], 0.0)

    options = {"maxiter": loads, "ftol": 0, "gtol": 0}
    with contextlib.suppress(Near):
        optimize.minimize(
            value, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options=options
        )
    return seen


def measure(folder, sets):
    for name in sets:
        X, y = load(name, folder)
        n, d = X.shape
        loss = "epsilon_insensitive" if name in REGRESSIONS else "hinge"
        for alpha in (1e-4, 1.0 / n):
            case = {"set": name, "n": n, "d": d, "loss": loss, "alpha": f"{alpha:.2g}"}
            rows, lowest, unit = [], np.inf, 1.0
            large = name == "generated"
            for count, seed in itertools.product((16,) if large else COUNTS, SEEDS):
                parts = cut(X, y, count)
                for method in ("near", "uniform"):
                    if method == "uniform" and (count != 16 or (large and seed)):
                        continue
                    rounds = 20 if large else 60
                    trace, value, unit = ours(
                        *parts, loss, alpha, seed, method == "uniform", rounds
                    )
                    lowest = min(lowest, value)
                    about = {"partitions": count, "method": method, "seed": seed}
                    rows += [{**case, **about, **row} for row in reached(trace)]
            about = {"partitions": "", "method": "L-BFGS", "seed": ""}
            trace = lbfgs(X, y, loss, alpha, lowest, unit)
            rows += [{**case, **about, **row} for row in reached(trace)]
            timing.append("kinks", rows)


def reached(trace):
    """Return loads and bytes to each target, empty where it was not reached."""
    for target in TARGETS:
        _, loads, moved = next((row for row in trace if row[0] <= target), ("", "", ""))
        yield {"target": target, "loads": loads, "bytes": moved}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    every = [*CHOSEN_ON, *REGRESSIONS, *FRESH]
    parser.add_argument("--sets", nargs="+", choices=every, default=every)
    given = parser.parse_args()
    if given.data is None:
        parser.error("--data FOLDER, or the environment variable TOMBOLA_DATA, is needed")
    measure(Path(given.data), given.sets)


if __name__ == "__main__":
    main()
