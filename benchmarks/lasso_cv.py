"""LassoCV and ElasticNetCV by the clock, beside scikit-learn's, with their defaults.

    python benchmarks/lasso_cv.py [--data FOLDER] [--quick]    # VOC too, if there is a folder

Seconds of a whole fit on one thread, medians of turns in which the two alternate: five folds, 100
alphas. Ours ends at a gap of 1e-6, theirs at 1e-4 of the mean of (y - mean)^2. The table says how
many places on the grid lie between the alphas chosen; theirs is less exact. `--quick` is one turn,
not kept.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import timing
from lasso_sets import rows_and_target
from sklearn import linear_model
from threadpoolctl import threadpool_limits

from tombola import estimators

TURNS, ONCE = 3, 2.0  # turns; what takes longer, in seconds, is not repeated
SHAPES = {"tall": (50_000, 90), "square": (2000, 1000), "wide": (300, 3000)}
RATIOS = [0.5, 0.9, 1.0]


def made(n, d, seed=0):
    """Correlated columns, ten of which matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.7 * rng.normal(size=(n, 1))
    return X, X[:, :10] @ rng.normal(size=10) + 3 * rng.normal(size=n)


def models():
    """Ours and theirs of each kind."""
    for name, others in (("LassoCV", {}), ("ElasticNetCV", {"l1_ratio": RATIOS})):
        yield name, [getattr(room, name)(**others) for room in (estimators, linear_model)]


def seconds(model, X, y):
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--sets", nargs="+", default=[*SHAPES, "VOC effnet"])
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for which in arguments.sets:
        if which not in SHAPES and arguments.data is None:
            continue
        X, y = (
            made(*SHAPES[which]) if which in SHAPES else rows_and_target(which, arguments.data, 0)
        )
        for name, (ours, theirs) in models():
            with threadpool_limits(1):
                seconds(type(ours)(**ours.get_params()), X[:50, :40], y[:50])  # compiles
                took = [[seconds(model, X, y) for model in (ours, theirs)]]
                while not arguments.quick and len(took) < TURNS and sum(took[0]) < ONCE:
                    took.append([seconds(model, X, y) for model in (ours, theirs)])
            mine, other = np.median(took, axis=0)
            rows.append({
                "set": which, "n": X.shape[0], "d": X.shape[1], "model": name,
                "ours": f"{mine:.3f}", "scikit-learn": f"{other:.3f}",
                "ratio": f"{other / mine:.2f}",
                "places apart": round(abs(np.log(ours.alpha_ / theirs.alpha_) / np.log(1e-3) * 99)),
            })  # fmt: skip
            print(rows[-1], flush=True)
    timing.table(list(rows[0]), [list(map(str, row.values())) for row in rows])
    if not arguments.quick:
        timing.append("lasso_cv", rows)


if __name__ == "__main__":
    main()
