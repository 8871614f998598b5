"""Time of a step: our solvers next to scikit-learn's, adaptive draws next to uniform ones.

    python benchmarks/solvers.py                    # about two minutes
    python benchmarks/solvers.py --data FOLDER      # with libsvm_a9a.npz instead of a stand-in

Everything is timed in turns, in one process; a ratio is the median over the turns of ratios
within a turn, with its quartiles. Ours: time in the loop, with drawing and feedback.
scikit-learn: the difference between fits of 6 and of 1 epochs, which excludes checks and copies;
its early stopping is off.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import timing
from sklearn.cluster import MiniBatchKMeans as SklearnKMeans
from sklearn.linear_model import SGDClassifier

import tombola
from tombola.problems import KMeans, Logistic
from tombola.solvers import SGD, AdaGrad, MiniBatchKMeans

TURNS = 9


def dense(n, d, seed=0):
    """Rows and labels of a logistic model, one in ten positive."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.lognormal(0, 0.5, size=(n, 1)) / np.sqrt(d)
    z = X @ rng.normal(size=d) * 3
    return X, z > np.quantile(z, 0.9)


def like_a9a(n=32_561, d=123, entries=14, seed=0):
    """A stand-in for a9a: rows with as many ones."""
    rng = np.random.default_rng(seed)
    columns = np.concatenate([np.sort(rng.choice(d, entries, replace=False)) for _ in range(n)])
    starts = np.arange(0, n * entries + 1, entries)
    X = sp.csr_matrix((np.ones(n * entries), columns.astype(np.int32), starts), shape=(n, d))
    z = X @ rng.normal(size=d)
    return X, z > np.quantile(z, 0.76)


def a9a(folder):
    """The data set a9a."""
    data = np.load(Path(folder) / "libsvm_a9a.npz")
    parts = np.ones(len(data["indices"])), data["indices"].astype(np.int32), data["indptr"]
    rows = int(data["n_train"])
    return sp.csr_matrix(parts, shape=tuple(data["shape"]))[:rows], data["y"][:rows] > 0


def ours(solver, problem, make, rounds):
    """A function that runs the solver with a new sampler and returns nanoseconds per step."""

    def run():
        result = solver.minimize(problem, sampler=make(), rounds=rounds)
        return result.seconds / result.rounds * 1e9

    return run


def sklearn_sgd(X, y):
    """The same for scikit-learn's SGDClassifier."""

    def fit(epochs):
        model = SGDClassifier(
            loss="log_loss", alpha=1e-4, learning_rate="invscaling", eta0=0.1, power_t=0.5,
            max_iter=epochs, tol=None, random_state=0,
        )  # fmt: skip
        start = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - start

    return lambda: (fit(6) - fit(1)) / 5 / X.shape[0] * 1e9


def sklearn_kmeans(X, centres, batch):
    """Nanoseconds per mini-batch of scikit-learn's MiniBatchKMeans."""

    def fit(epochs):
        model = SklearnKMeans(
            len(centres), init=centres, n_init=1, batch_size=batch, max_iter=epochs,
            max_no_improvement=None, tol=0.0, reassignment_ratio=0.0, compute_labels=False,
            random_state=0,
        )  # fmt: skip
        start = time.perf_counter()
        model.fit(X)
        return time.perf_counter() - start, model.n_steps_

    def run():
        (long, many), (short, few) = fit(3), fit(1)
        return (long - short) / (many - few) * 1e9

    return run


def compare(name, base, rivals):
    """Time all in turns; return rows with the ratio of each rival to the base."""
    for run in [base[1], *(run for _, run in rivals)]:
        run()  # may compile
    took = {label: [] for label, _ in [base, *rivals]}
    for _ in range(TURNS):
        for label, run in [base, *rivals]:
            took[label].append(run())
    rows = []
    for label, times in took.items():
        low, ratio, high = np.quantile(np.array(times) / took[base[0]], [0.25, 0.5, 0.75])
        rows.append({
            "comparison": name, "what": label, "version": timing.version("tombola"),
            "nanoseconds": round(float(np.median(times)), 1), "ratio": round(ratio, 3),
            "quartile_1": round(low, 3), "quartile_3": round(high, 3),
        })  # fmt: skip
    return rows


def adaptive(X, y):
    """What adaptive draws cost per step."""
    problem, (n, d), rows = Logistic(X, y, alpha=1e-4, fit_intercept=True), X.shape, []
    makers = {
        "VRB(n)": lambda: tombola.VRB(n),
        "VRB, as printed": lambda: tombola.VRB(n, bound=100.0, mixing=0.1),
        "GroupVRB": lambda: tombola.GroupVRB(y),
    }
    for solver in (SGD(0.1, schedule="root"), AdaGrad(0.1)):
        name = type(solver).__name__
        for label, make in makers.items():
            seen = solver.minimize(problem, sampler=make(), rounds=2 * n).sampler
            print(f"{name}, d = {d}, {label}: {seen.mode} at the end")
        rows += compare(
            f"{name}, d = {d}, a step",
            (f"{name}, Uniform", ours(solver, problem, lambda: tombola.Uniform(n), 2 * n)),
            [(f"{name}, {label}", ours(solver, problem, make, 2 * n))
             for label, make in makers.items()],
        )  # fmt: skip
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # scikit-learn's, about convergence
    rows = []
    X, y = dense(50_000, 100)
    problem, n = Logistic(X, y, alpha=1e-4, fit_intercept=True), len(y)
    sgd = SGD(0.1, schedule="root")
    rows += compare(
        "dense 50,000 x 100, a step",
        ("scikit-learn SGDClassifier", sklearn_sgd(X, y)),
        [("SGD, Uniform", ours(sgd, problem, lambda: tombola.Uniform(n), 3 * n)),
         ("SGD, Shuffle", ours(sgd, problem, lambda: tombola.Shuffle(n), 3 * n))],
    )  # fmt: skip
    real = options.data is not None and (Path(options.data) / "libsvm_a9a.npz").exists()
    sparse, labels = a9a(options.data) if real else like_a9a()
    thin, m = Logistic(sparse, labels, alpha=1e-4, fit_intercept=True), len(labels)
    rows += compare(
        f"{'a9a' if real else 'like a9a'}, sparse, a step",
        ("scikit-learn SGDClassifier", sklearn_sgd(sparse, labels)),
        [("SGD, Uniform", ours(sgd, thin, lambda: tombola.Uniform(m), 3 * m)),
         ("SGD, Shuffle", ours(sgd, thin, lambda: tombola.Shuffle(m), 3 * m))],
    )  # fmt: skip
    rows += adaptive(X, y) + adaptive(*dense(20_000, 1000))
    rng = np.random.default_rng(0)
    points = rng.normal(size=(100_000, 74)) * rng.lognormal(0, 1, size=(100_000, 1))
    centres = points[rng.choice(len(points), 100, replace=False)].copy()
    clusters, solver = KMeans(points, 100), MiniBatchKMeans(100)
    bounds = clusters.bounds(0)

    def cluster(make):
        def run():
            result = solver.minimize(clusters, sampler=make(), start=centres, rounds=1000)
            return result.seconds / result.rounds * 1e9

        return run

    rows += compare(
        "k-means, k = b = 100, d = 74, a mini-batch",
        ("scikit-learn MiniBatchKMeans", sklearn_kmeans(points, centres, 100)),
        [("MiniBatchKMeans, Uniform", cluster(lambda: tombola.Uniform(100_000))),
         ("MiniBatchKMeans, VRB with bounds",
          cluster(lambda: tombola.VRB(100_000, bound=bounds, mixing=0.5)))],
    )  # fmt: skip
    timing.table(
        ["comparison", "what", "ns", "ratio", "quartiles"],
        [[row["comparison"], row["what"], f"{row['nanoseconds']:,.0f}", f"{row['ratio']:.2f}",
          f"{row['quartile_1']:.2f} to {row['quartile_3']:.2f}"] for row in rows],
    )  # fmt: skip
    timing.append("solvers", rows)


if __name__ == "__main__":
    main()
