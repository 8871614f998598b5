"""Small data: seconds of whole fits of logistic regression to 1e-4 of the way, at lambda = 1/n.

    python benchmarks/small.py [--repeats 9]

Generated rows (`clock_sets.generated`), one thread. Each method has the loosest tol that arrives:
`LinearClassifier`, and scikit-learn's lbfgs, newton-cholesky and liblinear (which penalises the
intercept: a scaling of 100 hides that). Fits take turns; the median of each counts. A ratio above
1 says that the best of the others takes longer than ours.
"""

import argparse
import warnings

import numpy as np
from clock_methods import DECADES, Method, grid, ours
from clock_sets import Task, generated
from sklearn.linear_model import LogisticRegression

SHAPES = [(n, d) for n in (100, 300, 1000, 5000) for d in (2, 10, 30, 60)]
TARGET = 1e-4


def theirs(solver, **others):
    """`LogisticRegression` over tol."""
    fixed = {"solver": solver, "max_iter": 1000}
    return Method(solver, LogisticRegression, fixed, [grid("tol", DECADES, **others)])


METHODS = [
    ours("LinearClassifier"),
    theirs("lbfgs"),
    theirs("newton-cholesky"),
    theirs("liblinear", intercept_scaling=100.0),
]


def loosest(method, task):
    """The loosest setting that arrives, None if there is none."""
    settings = method.ladders[0]
    return next((s for s in settings if method.fit(task, s, 0, 1)[1] <= TARGET), None)


def median_seconds(task, repeats):
    """The seconds of each method, in turns."""
    chosen = [(method, loosest(method, task)) for method in METHODS]
    chosen = [(method, setting) for method, setting in chosen if setting is not None]
    taken = {method.name: [] for method, _ in chosen}
    for seed in range(repeats):
        for method, setting in chosen:
            taken[method.name].append(method.fit(task, setting, seed, 1)[0])
    return {name: float(np.median(seconds)) for name, seconds in taken.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    names, ratios = [method.name for method in METHODS], []
    print("n x d", *names, "best of theirs over ours", sep=" | ")
    for n, d in SHAPES:
        taken = median_seconds(Task(f"{n} x {d}", *generated(n, d), 1 / n), repeats)
        own, others = taken[names[0]], [taken[name] for name in names[1:] if name in taken]
        ratios.append(min(others) / own)
        shown = [f"{1e3 * taken[name]:.2f} ms" if name in taken else "never" for name in names]
        print(f"{n} x {d}", *shown, f"{ratios[-1]:.2f}", sep=" | ", flush=True)
    print(f"geometric mean: {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
