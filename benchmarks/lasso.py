"""Lasso and l1 logistic regression by the clock: ours, scikit-learn's, and skglm and celer.

    python benchmarks/lasso.py --data FOLDER              # rows, a table and a picture
    python benchmarks/lasso.py --data FOLDER --quick      # one seed, one thread
    python benchmarks/lasso.py --summary                  # from the rows on disk
    python benchmarks/lasso.py --data FOLDER --agree      # objectives of tight fits, side by side

Seconds of a whole fit, set-up and validation counted, compiling not, until the duality gap is at
most 1e-4 and 1e-6 (`lasso_sets.Task`): single fits at a tenth, a 30th and a 100th of the least
alpha without columns, and a path of 50 down to the 100th, where the largest gap counts. For each
method and target, the loosest `tol` of a ladder that reaches the target; a ladder ends where a
fit took longer than 60 s, or ten times ours and 2 s: the target is not reached, and the method
is not tried on harder cells of the same set (scikit-learn has 10,000 iterations for a logistic
fit). A seed is another class, another generated set or
other rows; methods take turns within a seed, three times (once where that takes more than 2 s), and
their medians count. A peer that is not installed is left out, and the table says so.
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
from tombola.ledger import mean_estimate
from tombola.problems import Logistic
from tombola.report.figures import new_figure
from tombola.solvers import WorkingSets

OURS = "tombola"
FRACTIONS = (0.1, 0.03, 0.01)
TARGETS = (1e-4, 1e-6)
LOSSES = ("squares", "logistic")
LADDER = (10.0, 1.0, 0.1, 0.01, 1e-3, 1e-4)  # times the target
LONG, LEAST, SLOWER = 60.0, 2.0, 10.0
RUNGS = 4  # a ladder may take as long as this many of its longest fits
TURNS, SEEDS, ALPHAS = 3, 5, 50
ONCE = 2.0  # seconds: what takes longer is not repeated
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
        l1_ratio=1.0, solver=solver, fit_intercept=False, tol=tol, max_iter=10**4,
        warm_start=solver == "saga", random_state=0,
    )  # fmt: skip
    found = []
    for alpha in alphas:
        if time.perf_counter() > task.deadline:
            raise TimeoutError
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
            task,
            lambda X, y, alphas, tol: skglm.Lasso(tol=tol, fit_intercept=False).path(X, y, alphas),
            alphas,
            tol,
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


def methods_of(task, path):
    """The names of the methods of a task that are installed; saga, the slowest, has no paths."""
    return [
        name for name in METHODS
        if (name != "scikit-learn saga" or (task.logistic and not path))
        and (name not in ("celer", "skglm") or timing.version(name))
    ]  # fmt: skip


compiled = set()  # what has run before


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
    left = RUNGS * limit
    for factor in LADDER:
        task.deadline = time.perf_counter() + left  # for those that fit one alpha at a time
        try:
            took, gap, _ = timed(name, task, alphas, factor * target)
        except TimeoutError:
            return None
        finally:
            task.deadline = np.inf
        if gap <= target:
            return factor * target
        left -= took
        if took > limit or left < 0:
            break
    return None


def choose(task, alphas, target, lost):
    """Return a tolerance for each method: None where it does not reach the target in time.

    Those in `lost` do not try: they have missed a looser target, or this one at a larger alpha.
    """
    chosen, limit = {}, LONG
    for name in methods_of(task, path=len(alphas) > 1):
        if (name, task.logistic, type(task.X)) not in compiled:
            timed(name, task, [0.5 * task.largest], 0.1)
            compiled.add((name, task.logistic, type(task.X)))
        chosen[name] = None if name in lost else climb(name, task, alphas, target, limit)
        if name == OURS and chosen[name] is not None:
            limit = min(LONG, max(LEAST, SLOWER * timed(name, task, alphas, chosen[name])[0]))
    return chosen


def race(task, alphas, chosen):
    """Return a row for each method: seconds (inf: not reached), tolerance, gap, objective."""
    runs = {name: [] for name in chosen}
    for turn in range(TURNS):
        names = list(chosen)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if chosen[name] is not None and not (runs[name] and runs[name][0][0] > ONCE):
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
    for loss in LOSSES:
        task = Task(X, y, logistic=loss == "logistic", intercept=loss == "squares")
        for share in FRACTIONS:
            yield loss, str(share), task, [share * task.largest]
        if loss == "squares":  # paths have no intercept
            task = Task(*centred(X, y))
        yield loss, "path", task, list(shares * task.largest)


def run(folder, names, seeds, threads, file):
    """Race all methods everywhere; the file is written anew."""
    began, first = time.perf_counter(), True
    for seed in range(seeds):
        for name in names:
            X, y = rows_and_target(name, folder, seed)
            lost = {(loss, target): set() for loss in LOSSES for target in TARGETS}
            for loss, which, task, alphas in cells(X, y):
                for target in TARGETS:
                    with threadpool_limits(1):
                        chosen = choose(task, alphas, target, lost[loss, target])
                    late = {method for method, tol in chosen.items() if tol is None}
                    for other in TARGETS[TARGETS.index(target) :]:
                        lost[loss, other] |= late
                    for count in threads:
                        with threadpool_limits(count):
                            found = list(race(task, alphas, chosen))
                        cell = {"set": name, "n": task.n, "d": X.shape[1], "seed": seed,
                                "loss": loss, "alphas": which, "target": target,
                                "threads": count}  # fmt: skip
                        write(file, [{**cell, **row} for row in found], first)
                        first = False
                        told = ", ".join(f"{row['method']} {row['seconds']:.3g}" for row in found)
                        print(f"{time.perf_counter() - began:5.0f} s: {name}, seed {seed}, {loss}, "
                              f"{which}, {target:g}, {count}: {told}", flush=True)  # fmt: skip


def write(file, rows, first):
    """Append rows to the file, or begin it with them."""
    file.parent.mkdir(exist_ok=True)
    with file.open("w" if first else "a", newline="") as lines:
        writer = csv.DictWriter(lines, fieldnames=list(rows[0]), lineterminator="\n")
        if first:
            writer.writeheader()
        writer.writerows(rows)


# --- agreement ------------------------------------------------------------------------------------

TIGHT = {OURS: 1e-11, "scikit-learn": 1e-10}


def agree(folder, names, file):
    """Minimise to the limit, by ours and by scikit-learn: how far apart are the objectives?"""
    rows = []
    for name in names:
        X, y = rows_and_target(name, folder, 0)
        for loss, which, task, alphas in cells(X, y):
            if which == "path":
                continue
            (mine,), (other,) = (timed(each, task, alphas, TIGHT[each])[2] for each in TIGHT)
            rows.append({"set": name, "loss": loss, "alphas": which, "ours": f"{mine:.15g}",
                         "scikit-learn": f"{other:.15g}",
                         "relative difference": f"{(mine - other) / other:.2e}"})  # fmt: skip
            print(", ".join(rows[-1].values()), flush=True)
    write(file, rows, first=True)


# --- the summary ----------------------------------------------------------------------------------

FIELDS = ("loss", "set", "alphas", "target", "threads")
GOALS = {"scikit-learn": 1.5, "scikit-learn saga": 1.5, "celer": 0.9, "skglm": 0.9}


def read(file):
    with file.open() as lines:
        return list(csv.DictReader(lines))


def ratio(rows, rival):
    """Seconds of a rival over ours: the geometric mean over seeds and its 95% interval.

    Infinite where the rival has not reached the gap in the time that it was given, in any seed.
    """
    seconds = {(row["method"], row["seed"]): float(row["seconds"]) for row in rows}
    logs = [
        np.log(seconds[rival, seed] / seconds[OURS, seed])
        for method, seed in seconds if method == rival
    ]  # fmt: skip
    if not logs:
        return None
    return np.exp(mean_estimate(np.array(logs))) if np.isfinite(logs).all() else [np.inf] * 3


def shown(estimate):
    if estimate is None:
        return "-"
    if np.isinf(estimate[0]):
        return "not reached"
    value, low, high = (f"{number:.2f}" for number in estimate)
    return value if np.isinf(estimate[2]) else f"{value} ({low} to {high})"


def by_cell(rows):
    """The rows of each cell."""
    keys = dict.fromkeys(tuple(row[name] for name in FIELDS) for row in rows)
    return {key: [row for row in rows if tuple(row[f] for f in FIELDS) == key] for key in keys}


def summary(file, table, picture):
    """Write the table of ratios, what they say of the goals, and the picture."""
    rows = read(file)
    cells = by_cell(rows)
    rivals = [name for name in METHODS if name != OURS and any(r["method"] == name for r in rows)]
    lines, met = [], {rival: [] for rival in rivals}
    for key in sorted(cells):
        mine = cells[key]
        found = [ratio(mine, rival) for rival in rivals]
        seconds = np.median([float(row["seconds"]) for row in mine if row["method"] == OURS])
        lines.append([*key, f"{1000 * seconds:.1f}", *map(shown, found)])
        for rival, estimate in zip(rivals, found, strict=True):
            if estimate is not None:
                met[rival].append((key, estimate[0]))
    said = []
    for rival in rivals:
        values = np.array([value for _, value in met[rival]])
        finite = values[np.isfinite(values)]
        below = [(", ".join(key), value) for key, value in met[rival] if value < GOALS[rival]]
        said.append(
            f"{rival} over {OURS}: {np.exp(np.log(finite).mean()):.2f} over {finite.size} cells, "
            f"and not reached in {values.size - finite.size}; at least {GOALS[rival]} in "
            f"{values.size - len(below)} of {values.size}"
        )
        said += [f"  below: {where}: {value:.2f}" for where, value in below]
    worst = {target: max(float(row["excess"]) for row in rows
                         if row["target"] == target and np.isfinite(float(row["excess"])))
             for target in dict.fromkeys(row["target"] for row in rows)}  # fmt: skip
    said += [f"objectives at a gap of {target}: at most {value:.1e} above the best of the race"
             for target, value in worst.items()]  # fmt: skip
    missing = [name for name in ("celer", "skglm") if name not in rivals]
    if missing:
        said.append("not installed, and so not compared: " + ", ".join(missing))
    header = [*FIELDS, "ours, ms", *rivals]
    text = [" | ".join(row) for row in [header, ["---"] * len(header), *lines]]
    table.write_text(
        "# Lasso and l1 logistic regression by the clock\n\nSeconds of the rival over ours until "
        "the gap is the target: geometric means over seeds, with 95% intervals. "
        "`python benchmarks/lasso.py --summary` writes this page.\n\n"
        + "\n".join(f"| {row} |" for row in text) + "\n\n"
        + "\n".join(f"- {line.strip()}" for line in said) + "\n"
    )  # fmt: skip
    timing.table(header, lines)
    print("\n".join(said))
    draw(cells, rivals, picture)


def draw(cells, rivals, file):
    """Draw the ratios with one thread, a panel for each rival."""
    figure, axes = new_figure(len(rivals), 1, height=2.6)
    figure.set_size_inches(9.0, 2.6 * len(rivals))  # eight places side by side
    places = {}
    for loss, name, *_ in sorted(cells):
        places.setdefault((loss, name), len(places))
    shifts = [*map(str, FRACTIONS), "path"]
    for ax, rival in zip(axes, rivals, strict=True):
        for (loss, name, alphas, target, threads), rows in cells.items():
            estimate = ratio(rows, rival) if threads == "1" else None
            if estimate is None:
                continue
            loose = float(target) == TARGETS[0]
            at = (
                places[loss, name]
                + 0.16 * (shifts.index(alphas) - 1.5)
                + (-0.03 if loose else 0.03)
            )
            look = {"color": "#0072B2" if loose else "#D55E00",
                    "marker": "s" if alphas == "path" else "o"}  # fmt: skip
            if np.isinf(estimate[0]):
                ax.plot(at, LOST, markersize=4, fillstyle="none", **look)
                continue
            ax.plot([at, at], np.clip(estimate[1:], 1e-2, 1e3), color=look["color"], linewidth=1)
            ax.plot(at, estimate[0], markersize=4, **look)
        ax.axhline(1, color="#333333", linewidth=0.8)
        ax.axhline(GOALS[rival], color="#333333", linewidth=0.8, linestyle=":")
        ax.set(yscale="log", ylim=(0.2, 1.5 * LOST), ylabel="their time / ours")
        ax.set_xticks(range(len(places)), [f"{name},\n{loss}" for loss, name in places], fontsize=7)
        ax.set_xlim(-0.5, len(places) - 0.5)
        ax.set_title(f"{rival}, one thread", fontsize=10)
    axes[0].set_title(
        f"{rivals[0]}, one thread. Blue: to a gap of 1e-4, red: 1e-6; circles: a tenth, a 30th, a "
        "100th; squares: path;\nhollow: not reached; dotted: the goal", fontsize=9,
    )  # fmt: skip
    figure.savefig(file, dpi=130)
    print(f"drew {file.name}")


LOST = 60  # where the picture has what was not reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("TOMBOLA_DATA"))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--agree", action="store_true", help="do objectives agree?")
    parser.add_argument("--summary", action="store_true")
    arguments = parser.parse_args()
    folder = Path("out") if arguments.quick else timing.RESULTS
    file, table, picture = (folder / f"{NAME}.{ending}" for ending in ("csv", "md", "png"))
    if not arguments.summary:
        if arguments.data is None:
            parser.error("--data FOLDER is needed: the folder of the data sets")
        if arguments.agree:
            with warnings.catch_warnings(), threadpool_limits(1):
                warnings.simplefilter("ignore")
                agree(arguments.data, arguments.sets, folder / f"{NAME}_agree.csv")
            return
        threads = [1] if arguments.quick else sorted({1, os.cpu_count() or 1})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seeds = 1 if arguments.quick else arguments.seeds
            run(arguments.data, arguments.sets, seeds, threads, file)
    summary(file, table, picture)


if __name__ == "__main__":
    main()
