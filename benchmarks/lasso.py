"""Lasso and l1 logistic regression by the clock: ours, scikit-learn's, and skglm and celer.

    python benchmarks/lasso.py --data FOLDER              # rows, a table and a picture
    python benchmarks/lasso.py --data FOLDER --quick      # one seed, one thread
    python benchmarks/lasso.py --summary                  # from the rows on disk

Seconds of a whole fit, set-up and validation counted, compiling not, until the duality gap is at
most 1e-4 and 1e-6 (`lasso_sets.Task`): single fits at a tenth, a 30th and a 100th of the least
alpha without columns, and a path of 50 down to the 100th, where the largest gap counts. For each
method and target, the loosest `tol` of a ladder that reaches the target; a ladder ends where a
fit took longer than 60 s, or ten times ours and 2 s. Five seeds, each with another class, another
generated set or other rows; methods take turns within a seed, three times, and their medians
count. A peer that is not installed is left out, and the table says so.
"""

import argparse
import csv
import os
import time
import warnings
from pathlib import Path

import numpy as np
import timing
from lasso_sets import SETS, Task, centred, rows_and_target
from sklearn import linear_model
from threadpoolctl import threadpool_limits

from tombola.estimators import Lasso, lasso_path
from tombola.problems import Logistic
from tombola.report.figures import new_figure
from tombola.solvers import WorkingSets

OURS = "tombola"
FRACTIONS = (0.1, 0.03, 0.01)
TARGETS = (1e-4, 1e-6)
LADDER = (1.0, 0.1, 0.01, 1e-3, 1e-4)  # times the target
LONG, LEAST, SLOWER = 60.0, 2.0, 10.0
TURNS, SEEDS, ALPHAS = 3, 5, 50
NAME = "lasso"


# --- methods: a fit returns pairs of w and b, one for each alpha ----------------------------------


def ours(task, alphas, tol):
    if task.logistic:
        found, w = [], None
        for alpha in alphas:
            problem = Logistic(task.X, task.y, alpha=alpha, l1_ratio=1.0)
            w = WorkingSets(tol=tol).minimize(problem, start=w).solution
            found.append((w, 0.0))
        return found
    if len(alphas) > 1:
        return along(task, lasso_path, alphas, tol)
    model = Lasso(alphas[0], tol=tol, random_state=0).fit(task.X, task.y)
    return [(model.coef_, model.intercept_)]


def along(task, path, alphas, tol, **others):
    """The lassos of a path, without an intercept."""
    coefs = path(task.X, task.y, alphas=np.array(alphas), tol=tol, **others)[1]
    return [(w, 0.0) for w in coefs.T]


def scikit_learn(task, alphas, tol):
    if task.logistic:
        return logistic_of_scikit_learn(task, alphas, tol, "liblinear")
    if len(alphas) > 1:
        return along(task, linear_model.lasso_path, alphas, tol, max_iter=10**6)
    model = linear_model.Lasso(alphas[0], tol=tol, max_iter=10**6).fit(task.X, task.y)
    return [(model.coef_, model.intercept_)]


def scikit_learn_saga(task, alphas, tol):
    return logistic_of_scikit_learn(task, alphas, tol, "saga")


def logistic_of_scikit_learn(task, alphas, tol, solver):
    model = linear_model.LogisticRegression(
        l1_ratio=1.0, solver=solver, fit_intercept=False, tol=tol, max_iter=10**5,
        warm_start=solver == "saga", random_state=0,
    )  # fmt: skip
    found = []
    for alpha in alphas:
        model.set_params(C=1 / (alpha * task.n)).fit(task.X, task.y)
        found.append((model.coef_[0].copy(), 0.0))
    return found


def celer(task, alphas, tol):
    import celer

    if task.logistic:
        model = celer.LogisticRegression(fit_intercept=False, tol=tol, warm_start=True)
        found = []
        for alpha in alphas:
            model.set_params(C=1 / (alpha * task.n)).fit(task.X, task.y)
            found.append((np.ravel(model.coef_).copy(), 0.0))
        return found
    if len(alphas) > 1:
        return along(task, celer.homotopy.celer_path, alphas, tol, pb="lasso")
    model = celer.Lasso(alphas[0], tol=tol).fit(task.X, task.y)
    return [(model.coef_, model.intercept_)]


def skglm(task, alphas, tol):
    import skglm

    if task.logistic:
        model = skglm.SparseLogisticRegression(fit_intercept=False, tol=tol, warm_start=True)
        found = []
        for alpha in alphas:
            model.set_params(alpha=alpha).fit(task.X, task.y)
            found.append((np.ravel(model.coef_).copy(), 0.0))
        return found
    if len(alphas) > 1:
        return along(
            task, lambda X, y, alphas, tol: skglm.Lasso(tol=tol).path(X, y, alphas), alphas, tol
        )
    model = skglm.Lasso(alphas[0], tol=tol).fit(task.X, task.y)
    return [(model.coef_, model.intercept_)]


METHODS = {
    OURS: ours,
    "scikit-learn": scikit_learn,
    "scikit-learn saga": scikit_learn_saga,
    "celer": celer,
    "skglm": skglm,
}


def methods_of(task):
    """The names of the methods of a task that are installed."""
    return [
        name for name in METHODS
        if (task.logistic or name != "scikit-learn saga")
        and (name not in ("celer", "skglm") or timing.version(name))
    ]  # fmt: skip


# --- a race ---------------------------------------------------------------------------------------


def timed(name, task, alphas, tol):
    """Return seconds, the largest gap, and the objectives along the path."""
    began = time.perf_counter()
    found = METHODS[name](task, alphas, tol)
    took = time.perf_counter() - began
    points = list(zip(found, alphas, strict=True))
    gap = max(task.gap(w, b, alpha) for (w, b), alpha in points)
    return took, gap, np.array([task.value(w, b, alpha) for (w, b), alpha in points])


def climb(name, task, alphas, target, limit):
    """Return the loosest tolerance that reaches the target, and None where none does in time."""
    for factor in LADDER:
        took, gap, _ = timed(name, task, alphas, factor * target)
        if gap <= target:
            return factor * target
        if took > limit:
            break
    return None


def race(task, alphas, target):
    """Return a row for each method: seconds (inf: not reached), tolerance, gap, objective."""
    chosen, limit = {}, LONG
    for name in methods_of(task):
        timed(name, task, alphas, target)  # compiles
        chosen[name] = climb(name, task, alphas, target, limit)
        if name == OURS and chosen[name] is not None:
            limit = min(LONG, max(LEAST, SLOWER * timed(name, task, alphas, chosen[name])[0]))
    runs = {name: [] for name in chosen}
    for turn in range(TURNS):
        names = list(chosen)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if chosen[name] is not None:
                runs[name].append(timed(name, task, alphas, chosen[name]))
    done = [run for several in runs.values() for run in several]
    best = np.min([values for _, _, values in done], axis=0) if done else np.nan
    for name, several in runs.items():
        if several:
            excess = max(float(((values - best) / np.abs(best)).max()) for _, _, values in several)
            seconds, gap = np.median([run[0] for run in several]), max(run[1] for run in several)
        else:
            seconds, gap, excess = np.inf, np.nan, np.nan
        yield {"method": name, "tol": chosen[name], "seconds": seconds, "gap": gap,
               "excess": excess}  # fmt: skip


def cells(X, y):
    """Yield the single fits and the paths of a set: loss, which, task, alphas."""
    shares = np.geomspace(1, FRACTIONS[-1], ALPHAS)
    for loss in ("squares", "logistic"):
        task = Task(X, y, logistic=loss == "logistic", intercept=loss == "squares")
        for share in FRACTIONS:
            yield loss, str(share), task, [share * task.largest]
        if loss == "squares":  # paths have no intercept
            task = Task(*centred(X, y))
        yield loss, "path", task, list(shares * task.largest)


def run(folder, names, seeds, threads):
    """Race all methods everywhere; append the rows."""
    for name in names:
        rows = []
        for seed in range(seeds):
            X, y = rows_and_target(name, folder, seed)
            for loss, which, task, alphas in cells(X, y):
                for count in threads:
                    for target in TARGETS:
                        with threadpool_limits(count):
                            found = list(race(task, alphas, target))
                        cell = {"set": name, "n": task.n, "d": X.shape[1], "seed": seed,
                                "loss": loss, "alphas": which, "target": target,
                                "threads": count}  # fmt: skip
                        rows += [{**cell, **row} for row in found]
            print(f"{name}: seed {seed + 1} of {seeds}", flush=True)
        timing.append(NAME, rows)


# --- the summary ----------------------------------------------------------------------------------


def read():
    with (timing.RESULTS / f"{NAME}.csv").open() as file:
        return list(csv.DictReader(file))


def ratios(rows, key, rival):
    """Seconds of a rival over ours, seed by seed: above 1, ours is sooner."""
    seconds = {
        (row["method"], row["seed"]): float(row["seconds"])
        for row in rows
        if all(row[name] == value for name, value in key.items())
    }
    seeds = sorted({seed for _, seed in seconds})
    return np.array([
        seconds[rival, seed] / seconds[OURS, seed]
        for seed in seeds if (rival, seed) in seconds and np.isfinite(seconds[OURS, seed])
    ])  # fmt: skip


def summary():
    """Print the ratios with their ranges over seeds, and draw them."""
    rows = read()
    fields = ("loss", "set", "alphas", "target", "threads")
    keys = list(dict.fromkeys(tuple(row[name] for name in fields) for row in rows))
    rivals = [name for name in METHODS if name != OURS and any(r["method"] == name for r in rows)]
    missing = [name for name in ("celer", "skglm") if name not in rivals]
    lines, drawn = [], {rival: [] for rival in rivals}
    for key in sorted(keys):
        cells = []
        for rival in rivals:
            found = ratios(rows, dict(zip(fields, key, strict=True)), rival)
            if not found.size:
                cells.append("-")
                continue
            low, middle, high = np.quantile(found, [0, 0.5, 1])
            cells.append(f"{middle:.2f} [{low:.2f}, {high:.2f}]")
            drawn[rival].append((key, low, middle, high))
        lines.append([*key, *cells])
    print("Seconds of the rival over ours: median [least, most] over seeds.")
    timing.table([*fields, *rivals], lines)
    worst = [float(row["excess"]) for row in rows if np.isfinite(float(row["excess"]))]
    print(f"Objectives: at most {max(worst):.1e} above the best of the race, relatively.")
    if missing:
        print("Not installed, and so not compared: " + ", ".join(missing))
    picture(drawn)


def picture(drawn):
    """Draw the ratios, a panel for each rival."""
    rivals = [rival for rival in drawn if drawn[rival]]
    figure, axes = new_figure(len(rivals), 1, height=3.2)
    for ax, rival in zip(axes, rivals, strict=True):
        places = {}
        for (loss, name, alphas, target, threads), low, middle, high in drawn[rival]:
            if threads != "1" or not np.isfinite(middle):
                continue
            place = places.setdefault(f"{name}, {loss}", len(places))
            at = place + 0.08 * (["0.1", "0.03", "0.01", "path"].index(alphas) - 1.5)
            colour = "#0072B2" if target == "0.0001" else "#D55E00"
            ax.plot([at, at], [low, min(high, 1e6)], color=colour, linewidth=1)
            ax.plot(at, middle, marker="s" if alphas == "path" else "o", color=colour, markersize=3)
        ax.axhline(1, color="#333333", linewidth=0.8)
        ax.set_yscale("log")
        ax.set_xticks(range(len(places)), list(places), rotation=30, ha="right")
        ax.set_title(f"{rival} over ours (blue: 1e-4, red: 1e-6; squares: paths)", fontsize=9)
    figure.savefig(timing.RESULTS / f"{NAME}.png", dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--summary", action="store_true")
    arguments = parser.parse_args()
    if not arguments.summary:
        if arguments.data is None:
            parser.error("--data FOLDER is needed, unless there is --summary")
        threads = [1] if arguments.quick else sorted({1, os.cpu_count() or 1})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(arguments.data, arguments.sets, 1 if arguments.quick else SEEDS, threads)
    summary()


if __name__ == "__main__":
    main()
