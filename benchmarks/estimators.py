"""Time to the same objective: our defaults next to shuffling, and to scikit-learn.

    python benchmarks/estimators.py --data FOLDER                      # about 25 minutes
    python benchmarks/estimators.py --data FOLDER --only ALOI --seeds 3
    python benchmarks/estimators.py --summary                          # from the rows on disk

Logistic regression (alpha = 1e-4) on data with rare classes, and k-means on KDD. For each method:
seconds until the training objective is within 1%, 0.1% and 0.01% of the way from its start to its
minimum, and the average precision on a test split at that moment; seconds until the average
precision is within 1% of that at the minimum. Set-up (Lipschitz constants, sampler, the first pass
of SAGA) counts; evaluating the objective does not.

"ours" has the sampler of `LinearClassifier(solver="saga")` (and, on request, solver="adagrad"), and
no stopping rule. "VRB by L" and "GroupVRB by L" start with nearly
the same draws as it has with SAGA, and then adapt (bounds L^2). Rivals are the same solver with
other draws: at the rate that the solver chooses for them, and ("tuned") at the best of six rates,
chosen for the median time to 0.1% over two other seeds; so is "ours, tuned". With AdaGrad all have
the same rate, the default. From scikit-learn: SGDClassifier with and without
class_weight="balanced" (which changes what is minimised), and LogisticRegression with
solver="saga". Methods take turns within a seed. A method that has not arrived after 40 epochs
counts as "never".

Intervals: from the second smallest to the second largest of ten seeds, 98% for the median.
"""

import argparse
import csv
import glob
import os
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import timing
from scipy.optimize import minimize
from sklearn.cluster import MiniBatchKMeans as SklearnKMeans
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

import tombola
from tombola import estimators
from tombola.problems import KMeans
from tombola.solvers import MiniBatchKMeans
from tombola.solvers.clusters.plus_plus import plus_plus
from tombola.solvers.descent.variance_reduced import safe_rate

ALPHA = 1e-4
GOALS = (1e-2, 1e-3, 1e-4)
MOST = 40  # epochs
RATES = 3.0 ** np.arange(-1, 5)  # times the default
NAMES = ("a9a", "mammography", "shuttle", "campaign", "ALOI", "VOC efficientnet", "VOC vgg19",
         "cover", "http")  # fmt: skip
VOC_CLASS = "cat"


def load(name, folder):
    """Return rows and labels to train on, and to test on."""
    if name == "a9a":
        data = np.load(folder / "libsvm_a9a.npz")
        parts = np.ones(len(data["indices"])), data["indices"].astype(np.int32), data["indptr"]
        X, y, k = sp.csr_matrix(parts, shape=tuple(data["shape"])), data["y"] > 0, data["n_train"]
        return X[:k], y[:k], X[k:], y[k:]
    if name.startswith("VOC"):
        data = np.load(glob.glob(str(folder / f"voc2007_{name[4:]}*.npz"))[0])
        column = list(data["classes"]).index(VOC_CLASS)
        train, test = data["Ytrain"][:, column], data["Ytest"][:, column]
        X = np.ascontiguousarray(data["Xtrain"][train != 0], dtype=np.float32)
        scale = np.linalg.norm(X, axis=1).mean()
        held = data["Xtest"][test != 0].astype(np.float32) / scale
        return X / scale, train[train != 0] > 0, held, test[test != 0] > 0
    files = glob.glob(str(folder / "adbench_*.npz"))
    data = np.load(next(file for file in files if name.lower() in file.lower()))
    X, y = data["X"].astype(np.float64), data["y"] > 0
    X, held, y, truth = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    mean, spread = X.mean(axis=0), X.std(axis=0)
    spread[spread == 0] = 1
    return (X - mean) / spread, y, (held - mean) / spread, truth


class Task:
    """A problem with its minimum, and what a solution is worth."""

    def __init__(self, name, folder, solver):
        self.solver = solver
        self.X, self.y, self.held, self.truth = load(name, folder)
        self.name, self.n = name, len(self.y)
        (part,) = estimators.LinearClassifier(alpha=ALPHA).parts(self.X, self.y)
        self.problem = part.make()
        best = minimize(
            self.problem.value, np.zeros(self.problem.shape), jac=self.problem.gradient,
            method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-16, "gtol": 1e-9},
        )  # fmt: skip
        self.minimum, self.start = best.fun, self.problem.value(None)
        self.best_score = self.score(best.x)

    def gap(self, w):
        return (self.problem.value(w) - self.minimum) / (self.start - self.minimum)

    def score(self, w):
        return average_precision_score(self.truth, self.held @ w[:-1] + w[-1])


class TakenAsIndependent(tombola.Shuffle):
    """Shuffled epochs for any solver: SAGA refuses those that say what they are."""

    independent = True


def run_ours(task, choice, seed, factor=None):
    """Yield seconds and solution on the way, with solver and sampler as the estimator has them."""
    began = time.perf_counter()
    model = estimators.LinearClassifier(alpha=ALPHA, solver=task.solver, sampler=choice)
    (part,) = model.parts(task.X, task.y)
    problem = part.make()
    if choice == "VRB by L":
        bounds = problem.lipschitz() ** 2
        model.sampler = tombola.VRB(task.n, bound=bounds, mixing=0.5, seed=seed)
    elif choice == "GroupVRB by L":
        bounds = problem.lipschitz() ** 2
        model.sampler = tombola.GroupVRB(task.y, bound=bounds, shuffle=False, seed=seed)
    elif choice == "shuffle":
        model.sampler = TakenAsIndependent(task.n, seed=seed)
    chosen = model.choose(problem, seed, part.groups)
    solver, sampler = chosen.solver, chosen.sampler
    if factor is not None:
        solver = type(solver)(factor * safe_rate(problem, sampler))
    result = solver.minimize(problem, sampler=sampler, rounds=0)
    setup = time.perf_counter() - began
    rounds = task.n / 20
    while rounds <= MOST * task.n:
        try:
            result = solver.minimize(problem, sampler=sampler, rounds=int(rounds), resume=result)
        except tombola.solvers.DivergenceError:
            return
        yield setup + result.seconds, result.solution
        rounds *= 1.25


def run_sgd(task, class_weight, seed):
    model = SGDClassifier(loss="log_loss", alpha=ALPHA, random_state=seed)
    weights = None
    if class_weight:
        weights = np.where(task.y, 0.5 / task.y.mean(), 0.5 / (1 - task.y.mean()))
    seconds = 0.0
    for _ in range(MOST):
        began = time.perf_counter()
        model.partial_fit(task.X, task.y, classes=[False, True], sample_weight=weights)
        seconds += time.perf_counter() - began
        yield seconds, np.append(model.coef_[0], model.intercept_[0])


def run_logistic(task, seed):
    epochs = 1
    while epochs <= MOST:
        model = LogisticRegression(
            C=1 / (ALPHA * task.n), solver="saga", max_iter=epochs, tol=0.0, random_state=seed
        )
        began = time.perf_counter()
        model.fit(task.X, task.y)
        yield time.perf_counter() - began, np.append(model.coef_[0], model.intercept_[0])
        epochs = max(epochs + 1, int(epochs * 1.5))


def measure(task, steps):
    """Follow a run; return seconds to each goal, the scores there, and seconds to the score."""
    reached, scores, scored = {}, {}, np.inf
    before = (0.0, 1.0)
    for seconds, w in steps:
        gap, score = max(task.gap(w), 1e-12), task.score(w)
        for goal in GOALS:
            if goal not in reached and gap <= goal:
                # between two looks the logarithm of the gap falls evenly
                share = np.log(before[1] / goal) / max(np.log(before[1] / gap), 1e-12)
                reached[goal] = before[0] + min(1.0, share) * (seconds - before[0])
                scores[goal] = score
        if score >= 0.99 * task.best_score and scored == np.inf:
            scored = seconds
        before = seconds, gap
        if len(reached) == len(GOALS) and scored < np.inf:
            break
    return reached, scores, scored


def tuned(task, choice):
    """The best of the rates, and what it is: the median time to the middle goal."""
    next(run_ours(task, choice, 1000))  # compiles
    best = (np.inf, 1.0)
    for factor in RATES:
        times = [
            measure(task, run_ours(task, choice, 1000 + seed, factor))[0].get(GOALS[1], np.inf)
            for seed in range(2)
        ]
        best = min(best, (float(np.median(times)), float(factor)))
    return best[1]


def methods(task):
    """Name and run of each method."""
    every = {}
    extra = {"saga": ["VRB by L", "GroupVRB by L"], "adagrad": ["vrb"]}[task.solver]
    for choice in ["auto", "shuffle", "uniform", "balanced", *extra]:
        label = "ours" if choice == "auto" else choice
        every[label] = lambda seed, c=choice: run_ours(task, c, seed)
        if task.solver == "saga" and choice in ("auto", "shuffle", "uniform"):
            factor = tuned(task, choice)
            label += ", tuned"
            every[label] = lambda seed, c=choice, f=factor: run_ours(task, c, seed, f)
            print(f"  {label}: {factor:.3g} times the default rate", flush=True)
    if task.solver == "adagrad":
        return every
    every["sklearn SGD"] = lambda seed: run_sgd(task, False, seed)
    every["sklearn SGD, class_weight"] = lambda seed: run_sgd(task, True, seed)
    every["sklearn LogisticRegression, saga"] = lambda seed: run_logistic(task, seed)
    return every


def interval(values):
    """Median, and the second smallest and second largest value (of ten: 98%)."""
    values = np.sort(values)
    k = 1 if len(values) >= 8 else 0
    return np.median(values), values[k], values[-1 - k]


def show(values, digits="{:.3g}"):
    middle, low, high = interval(values)
    if not np.isfinite(middle):
        return "never" if digits == "{:.3g}" else f"above {low:.2f}"
    return f"{digits.format(middle)} [{digits.format(low)}, {digits.format(high)}]"


def report(task, results, rows):
    table = []
    base = results["shuffle"]
    for name, runs in results.items():
        line = [name, *(show([run[0].get(goal, np.inf) for run in runs]) for goal in GOALS)]
        pairs = zip(base, runs, strict=True)
        with np.errstate(invalid="ignore"):
            ratio = [b[0].get(GOALS[1], np.inf) / r[0].get(GOALS[1], np.inf) for b, r in pairs]
        line.append(show(np.nan_to_num(ratio, nan=0.0, posinf=np.inf), "{:.2f}"))
        at = [run[1].get(GOALS[1], np.nan) for run in runs]
        line += [f"{np.median(at):.4f}", show([run[2] for run in runs])]
        table.append(line)
        for seed, run in enumerate(runs):
            rows.append({
                "data": task.name, "solver": task.solver, "method": name, "seed": seed,
                **{f"seconds_{goal:g}": run[0].get(goal, np.inf) for goal in GOALS},
                **{f"score_{goal:g}": run[1].get(goal, np.nan) for goal in GOALS},
                "seconds_score": run[2], "best_score": task.best_score,
            })  # fmt: skip
    timing.table(
        ["method", *[f"seconds to {goal:.2%}" for goal in GOALS], "faster than shuffle at 0.10%",
         "test score there", "seconds to the score"],
        table,
    )  # fmt: skip


def kmeans(folder, seeds, rows):
    """KDD: seconds until the cost that uniform draws have after 1,500 rounds."""
    file = glob.glob(str(folder / "kdd2004*.npz"))[0]
    data = np.load(file)
    X = np.ascontiguousarray((data["Xint_T"].T / data["scale"]).astype(np.float64))
    X, held = train_test_split(X, test_size=0.2, random_state=0)
    problem, test, n = KMeans(X, 100), KMeans(held, 100), len(X)
    marks = np.unique(np.geomspace(10, 1500, 16).astype(int))

    def start(seed):
        return plus_plus(problem, 1000, tombola.Stream(seed))

    def ours(make):
        def run(seed):
            began = time.perf_counter()
            sampler = make(seed)
            result = MiniBatchKMeans(100, seed=seed).minimize(
                problem, sampler=sampler, start=start(seed), rounds=0
            )
            setup, sampler = time.perf_counter() - began, result.sampler
            for mark in marks:
                result = MiniBatchKMeans(100, seed=seed).minimize(
                    problem, sampler=sampler, rounds=int(mark), resume=result
                )
                yield setup + result.seconds, result.solution

        return run

    def sklearn(seed):
        model = SklearnKMeans(100, init=start(seed), n_init=1, batch_size=100,
                              reassignment_ratio=0.0, random_state=seed)  # fmt: skip
        seconds, done = 0.0, 0
        order = np.random.default_rng(seed)
        for mark in marks:
            batches = [X[order.integers(0, n, 100)] for _ in range(mark - done)]
            began = time.perf_counter()
            for batch in batches:
                model.partial_fit(batch)
            seconds, done = seconds + time.perf_counter() - began, mark
            yield seconds, model.cluster_centers_

    every = {
        "uniform": ours(lambda seed: tombola.Uniform(n, seed=seed)),
        "shuffle": ours(lambda seed: tombola.Shuffle(n, seed=seed)),
        "ours": ours(lambda seed: None),
        "sklearn MiniBatchKMeans": sklearn,
    }
    curves = {name: [] for name in every}
    for run in every.values():
        next(run(10_000))  # compiles
    for seed in range(seeds):
        for name, run in every.items():
            curve = [(s, problem.value(w), test.value(w)) for s, w in run(seed)]
            curves[name].append(np.array(curve))
    table = []
    for name, runs in curves.items():
        line = [name]
        firsts = []
        for column in (1, 2):
            goals = [run[-1, column] for run in curves["uniform"]]
            firsts.append([
                (run[run[:, column] <= goal, 0][:1].tolist() or [np.inf])[0]
                for run, goal in zip(runs, goals, strict=True)
            ])  # fmt: skip
            line.append(show(firsts[-1]))
            line.append(show([run[-1, column] for run in runs], "{:.4g}"))
        shuffled = [
            (run[run[:, 1] <= goal[-1, 1], 0][:1].tolist() or [np.inf])[0]
            for run, goal in zip(curves["shuffle"], curves["uniform"], strict=True)
        ]
        with np.errstate(invalid="ignore"):
            ratio = np.array(shuffled) / np.array(firsts[0])
        line.append(show(np.nan_to_num(ratio, nan=0.0, posinf=np.inf), "{:.2f}"))
        table.append(line)
        for seed, run in enumerate(runs):
            rows.append({
                "data": "KDD", "solver": "k-means", "method": name, "seed": seed,
                **{f"seconds_{goal:g}": firsts[0][seed] for goal in GOALS[:1]},
                **{f"seconds_{goal:g}": np.nan for goal in GOALS[1:]},
                **{f"score_{goal:g}": np.nan for goal in GOALS},
                "seconds_score": firsts[1][seed], "best_score": run[-1, 2],
            })  # fmt: skip
    print("\nKDD, k = b = 100: seconds to what uniform draws reach in 1,500 rounds")
    timing.table(
        ["method", "training cost", "at 1,500", "test cost", "at 1,500", "faster than shuffle"],
        table,
    )


def summary(solver):
    """Print, from the rows on disk, how many times faster ours is, for each set and rival."""
    with (timing.RESULTS / "estimators.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["solver"] == solver]
    seconds = {}
    for row in rows:
        for goal in GOALS[:2]:
            key = row["data"], row["method"], goal
            seconds.setdefault(key, {})[row["seed"]] = float(row[f"seconds_{goal:g}"])
    rivals = [name for name in dict.fromkeys(row["method"] for row in rows) if name != "ours"]
    table = []
    for rival in rivals:
        for goal in GOALS[:2]:
            line = [rival, f"{goal:.1%}"]
            for data in dict.fromkeys(row["data"] for row in rows):
                us, them = (seconds.get((data, name, goal), {}) for name in ("ours", rival))
                if not them:
                    line.append("")
                    continue
                ratio = [them[seed] / us[seed] for seed in us if us[seed] < np.inf]
                line.append(show(ratio, "{:.2f}").replace("above inf", "they never") if ratio
                            else "we never")  # fmt: skip
            table.append(line)
    timing.table(["faster than", "to", *dict.fromkeys(row["data"] for row in rows)], table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--only", nargs="*", default=[*NAMES, "KDD"])
    parser.add_argument("--solver", choices=["saga", "adagrad"], default="saga")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--summary", action="store_true", help="only from the rows on disk")
    options = parser.parse_args()
    if options.summary:
        return summary(options.solver)
    if options.data is None or not Path(options.data).is_dir():
        parser.error("--data (or TOMBOLA_DATA) must name the folder with the data sets")
    folder = Path(options.data)
    warnings.simplefilter("ignore")  # scikit-learn's, about convergence
    for name in options.only:
        if name == "KDD":
            continue
        task = Task(name, folder, options.solver)
        problem = task.problem
        lipschitz = problem.lipschitz()
        print(
            f"\n{name}: {task.n} x {problem.d}, {task.y.mean():.2%} rare, max L / mean L = "
            f"{lipschitz.max() / lipschitz.mean():.1f}, minimum {task.minimum:.6f}, "
            f"average precision there {task.best_score:.4f}",
            flush=True,
        )
        every = methods(task)
        results = {method: [] for method in every}
        for run in every.values():
            next(iter(run(10_000)))  # compiles
        for seed in range(options.seeds):
            for method, run in every.items():
                results[method].append(measure(task, run(seed)))
        found = []
        report(task, results, found)
        timing.append("estimators", found)
    if "KDD" in options.only:
        rows = []
        kmeans(folder, options.seeds, rows)
        timing.append("estimators", rows)
    return None


if __name__ == "__main__":
    main()
