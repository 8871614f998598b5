"""The summary of clock.py: ratios with intervals, goals, a table and a picture.

A ratio is a rival's seconds over ours within one turn (a seed), so that the speed of the machine
cancels. For a set: its median over the seeds, and the whole range over them (of five seeds: 94% for
the median). For a group of sets: the geometric mean of the medians, with a 95% bootstrap interval
over seeds, drawn anew within each set. A rival that has not arrived, or is more than ten times
slower, counts as ten times slower ("> 10"); where ours has not arrived ("we never") the ratio is
0.01.
"""

import csv
from importlib.util import find_spec

import numpy as np
import timing
from clock_methods import AS_IT_IS, NEWTON, OURS, OURS_SHUFFLED, RIVALS, SDCA, SDCA_SHUFFLED, SVC
from clock_sets import CHOSEN_ON, SETS

TARGETS = (1e-3, 1e-4, 1e-6)
# parts with one target and one thread, against the best of scikit-learn, and their goals
AGAINST_THE_BEST = {"raw": 1.0, "softmax": 1.3, "small": 1.0}
GROUPS = {
    "all": SETS,
    "chosen on": CHOSEN_ON,
    "others": tuple(s for s in SETS if s not in CHOSEN_ON),
}
DISTURBED = 0.1  # cores that other processes took during a measurement
HIGHEST, LOWEST = 10.0, 0.01
DRAWS = 2000
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)
NUMBERS = {"n": int, "d": int, "seed": int, "threads": int, "others": float,
           "seconds": float, "distance": float}  # fmt: skip


def parsed(row):
    """A row with numbers in place of their texts."""
    return {key: NUMBERS.get(key, str)(value) for key, value in row.items()}


def read(file):
    """The rows of a file."""
    with file.open(newline="") as lines:
        return [parsed(row) for row in csv.DictReader(lines)]


def seconds_to(rows, target):
    """Seconds by (set, method, seed): the fastest run of the turn that arrived, else inf."""
    found = {}
    for row in rows:
        key = row["set"], row["method"], row["seed"]
        arrived = row["seconds"] if row["distance"] <= target else np.inf
        found[key] = min(found.get(key, np.inf), arrived)
    return found


def ratios(found, name, rival, ours=OURS):
    """The rival's seconds over ours on a set, one for each seed, clipped."""
    seeds = sorted({seed for data, _, seed in found if data == name})
    both = [[found.get((name, m, seed), np.inf) for seed in seeds] for m in (rival, ours)]
    them, us = np.array(both)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.minimum(them / us, HIGHEST)
    values[np.isinf(them)] = HIGHEST
    values[np.isinf(us)] = LOWEST
    if ours != OURS and np.isinf(both).all():  # slower than ten times ours: neither was raced
        values[:] = np.nan
    return values


def best_rival(found, name, rivals=RIVALS):
    """The rival with the smallest median seconds on a set."""
    seeds = sorted({seed for data, _, seed in found if data == name})
    return min(
        rivals, key=lambda m: np.median([found.get((name, m, seed), np.inf) for seed in seeds])
    )


def geometric(values):
    """The geometric mean of the medians of sets, and its bootstrap interval over seeds."""
    rng, logs, again = np.random.default_rng(0), [], []
    for one in values:
        if np.isnan(one).any():
            continue
        logs.append(np.log(np.median(one)))
        drawn = rng.choice(one, size=(DRAWS, len(one)))
        again.append(np.log(np.median(drawn, axis=1)))
    low, high = np.exp(np.quantile(np.mean(again, axis=0), [0.025, 0.975]))
    return float(np.exp(np.mean(logs))), float(low), float(high)


def shown(values):
    """Median and range of ratios, as text."""
    low, middle, high = np.min(values), np.median(values), np.max(values)
    if np.isnan(middle):
        return "neither raced"
    if middle >= HIGHEST:
        return f"> {HIGHEST:g}"
    if middle <= LOWEST:
        return "we never"
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def compared(found, names):
    """For each comparison: by set, the rival and the ratios."""
    pairs = {
        "ours against ours, shuffle": {
            s: (OURS_SHUFFLED, ratios(found, s, OURS_SHUFFLED)) for s in names
        },
        "sdca against sdca, shuffle": {
            s: (SDCA_SHUFFLED, ratios(found, s, SDCA_SHUFFLED, SDCA)) for s in names
        },
        "ours against the best": {
            s: (best := best_rival(found, s), ratios(found, s, best)) for s in names
        },
    }
    for rival in (*RIVALS, NEWTON):
        pairs[f"ours against {rival}"] = {s: (rival, ratios(found, s, rival)) for s in names}
    return pairs


def share(by_set):
    """The number of sets where ours is at least as fast, in the median."""
    return sum(bool(np.median(values) >= 1) for _, values in by_set.values())


def verdict(met):
    return "MET" if met else "MISSED"


def goals(tables):
    """Lines on the goals, from the comparisons at 1e-4 by (threads, lambda)."""
    lines = []
    for (threads, lam), pairs in tables.items():
        sets = len(pairs["ours against the best"])
        where = f"{threads} thread{'s' * (threads > 1)}, lambda = {lam}"
        if sets < len(SETS):
            where += f", only {sets} of {len(SETS)} sets"
        for name in ("ours against ours, shuffle", "sdca against sdca, shuffle"):
            mean, low, high = geometric([values for _, values in pairs[name].values()])
            below = [s for s, (_, values) in pairs[name].items() if values.max() < 0.9]
            lines.append(
                f"(1) {where}, {name}: {mean:.2f} [{low:.2f}, {high:.2f}], goal 1.5, "
                f"wholly below 0.9: {', '.join(below) or 'none'}: "
                + verdict(mean >= 1.5 and not below)
            )
        by_set = pairs["ours against the best"]
        mean, low, high = geometric([values for _, values in by_set.values()])
        count = share(by_set)
        text = f"(2) {where}, ours against the best: {mean:.2f} [{low:.2f}, {high:.2f}], "
        text += f"at least as fast on {count} of {sets}, goal "
        if lam == "1/n":
            lines.append(f"{text}1.0: {verdict(mean >= 1)}")
        else:
            met = mean >= 1.5 and 3 * count >= 2 * sets
            lines.append(f"{text}1.5 and two thirds: {verdict(met)}")
    return lines


def sparse_lines(rows):
    """Lines on an epoch of sparse rows, and on squared hinge against LinearSVC."""
    lines = []
    epochs = [row for row in rows if row["part"] == "epoch"]
    for name, lam in sorted({(row["set"], row["lambda"]) for row in epochs}):
        took = {
            (row["method"], row["seed"]): row["seconds"]
            for row in epochs
            if (row["set"], row["lambda"]) == (name, lam)
        }
        for ours in ("ours, sdca", "ours, saga"):
            values = [took[ours, seed] / took["saga", seed] for method, seed in took
                      if method == "saga"]  # fmt: skip
            middle, low, high = np.median(values), min(values), max(values)
            lines.append(
                f"(3) an epoch of {ours} over one of scikit-learn's saga, {name}, lambda = {lam}: "
                f"{middle:.2f} [{low:.2f}, {high:.2f}], goal at most 1.2: {verdict(middle <= 1.2)}"
            )
    hinge = [row for row in rows if row["part"] == "squared_hinge" and row["phase"] == "race"]
    for lam in dict.fromkeys(row["lambda"] for row in hinge):
        found = seconds_to([row for row in hinge if row["lambda"] == lam], TARGETS[1])
        names = [s for s in SETS if any(s == key[0] for key in found)]
        values = [ratios(found, s, SVC) for s in names]
        mean, low, high = geometric(values)
        lines.append(
            f"(3) squared hinge, lambda = {lam}, LinearSVC over ours to 1e-4: {mean:.2f} "
            f"[{low:.2f}, {high:.2f}], goal 1.0: {verdict(mean >= 1)}; "
            + ", ".join(f"{s} {shown(v)}" for s, v in zip(names, values, strict=True))
        )
    return lines


def shape_table(rows):
    """Ratios on generated data, a line for each shape."""
    here = [row for row in rows if row["part"] == "shapes" and row["phase"] == "race"]
    lines = []
    for name in dict.fromkeys(row["set"] for row in here):
        line = [name]
        for target in (1e-4, 1e-6):
            found = seconds_to([row for row in here if row["set"] == name], target)
            took = np.median([v for (_, method, _), v in found.items() if method == OURS])
            line += [f"{1000 * took:.3g}", shown(ratios(found, name, "lbfgs")),
                     shown(ratios(found, name, NEWTON))]  # fmt: skip
        lines.append(line)
    heads = [[f"ours to {t:.0e}, ms", "over lbfgs", f"over {NEWTON}"] for t in (1e-4, 1e-6)]
    return markdown(["n x d", *heads[0], *heads[1]], lines)


def best_lines(rows, part):
    """A line for each lambda of a part against the best of scikit-learn, and one for each set."""
    here = [row for row in rows if row["part"] == part and row["phase"] == "race"]
    goals, sets, goal = [], [], AGAINST_THE_BEST[part]
    for lam in dict.fromkeys(row["lambda"] for row in here):
        found = seconds_to([row for row in here if row["lambda"] == lam], TARGETS[1])
        names, values = list(dict.fromkeys(s for s, _, _ in found)), []
        late = []
        for name in names:
            took = {m: [v for (s, k, _), v in found.items() if (s, k) == (name, m)]
                    for m in dict.fromkeys(k for s, k, _ in found if s == name)}  # fmt: skip
            rivals = [m for m in took if m not in (OURS, AS_IT_IS)]
            best = best_rival(found, name, rivals) if rivals else "none in time"
            values.append(ratios(found, name, best))
            if not np.isfinite(took.get(AS_IT_IS, [np.inf])).all():
                late.append(name)
            sets.append([part, lam, name, f"{1000 * np.median(took.get(OURS, np.inf)):.3g}",
                         shown(values[-1]), best])  # fmt: skip
        mean, low, high = geometric(values)
        goals.append(
            f"(4) {part}, lambda = {lam}, ours against the best: {mean:.2f} "
            f"[{low:.2f}, {high:.2f}], goal {goal}: {verdict(mean >= goal)}; "
            f"as it is, not within {TARGETS[1]:g}: " + (", ".join(late) or "none")
        )
    return goals, sets


def markdown(header, lines):
    """A table in markdown."""
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, rule, *lines])


def picture(tables, file):
    """Ratios at 1e-4, one panel for each lambda, sets on the y axis."""
    from tombola.report.figures import legend_below, new_figure

    threads = min(count for count, _ in tables)
    kept = {lam: pairs for (count, lam), pairs in tables.items() if count == threads}
    figure, axes = new_figure(1, len(kept), height=4.6)
    for ax, (lam, pairs) in zip(axes, kept.items(), strict=True):
        names = list(pairs["ours against the best"])[::-1]
        for shift, name in ((0.15, "ours against ours, shuffle"), (-0.15, "ours against the best")):
            values = np.array([
                np.quantile(pairs[name][s][1], [0, 0.5, 1]) for s in names
            ])  # fmt: skip
            low, middle, high = values.T
            ax.errorbar(
                middle, np.arange(len(names)) + shift, xerr=[middle - low, high - middle],
                fmt="o", markersize=4, linewidth=1.3, label=name,
            )  # fmt: skip
        ax.axvline(1.0, color="black", linewidth=0.8)
        ax.set_xscale("log")
        ax.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        ax.minorticks_off()
        ax.set_yticks(np.arange(len(names)), names)
        ax.set_title(f"lambda = {lam}", fontsize=10)
        ax.set_xlabel("times as fast, to 1e-4 of the way", fontsize=9)
    legend_below(figure)
    figure.savefig(file, dpi=130)


def latest(rows):
    """The rows of the last version of tombola: of each part, set and lambda those of the last run.

    A run that was cut short is not resumed after a change of the code: it goes on as another run.
    """

    def cell(row):
        return row["part"], row["set"], row["lambda"], row["threads"]

    rows = [row for row in rows if row["version"] == rows[-1]["version"]]
    last = {cell(row): row["run"] for row in rows if row["phase"] == "race"}
    return [row for row in rows if last.get(cell(row), row["run"]) == row["run"]]


def write(file):
    """Print the summary of the last runs on disk; write it as markdown and as a picture."""
    rows = latest(read(file))
    races = [row for row in rows if row["part"] == "log_loss" and row["phase"] == "race"]
    means, sets, at_goal = [], [], {}
    for threads in sorted({row["threads"] for row in races}):
        for lam in dict.fromkeys(row["lambda"] for row in races):
            here = [r for r in races if (r["threads"], r["lambda"]) == (threads, lam)]
            names = [s for s in SETS if any(r["set"] == s for r in here)]
            for target in TARGETS:
                pairs = compared(seconds_to(here, target), names)
                if target == TARGETS[1]:
                    at_goal[threads, lam] = pairs
                for name, by_set in pairs.items():
                    line = [str(threads), lam, f"{target:.0e}", name]
                    for group in GROUPS.values():
                        values = [v for s, (_, v) in by_set.items() if s in group]
                        line.append("{:.2f} [{:.2f}, {:.2f}]".format(*geometric(values))
                                    if values else "")  # fmt: skip
                    means.append([*line, f"{share(by_set)} of {len(by_set)}"])
                found = seconds_to(here, target)
                for name in names:
                    middle = {
                        m: np.median([v for (s, k, _), v in found.items() if (s, k) == (name, m)])
                        for m in (OURS,)
                        if any((s, k) == (name, m) for s, k, _ in found)
                    }
                    size = next(f"{r['n']:,} x {r['d']}" for r in here if r["set"] == name)
                    sets.append([
                        str(threads), lam, f"{target:.0e}", name, size,
                        f"{1000 * middle.get(OURS, np.inf):.3g}",
                        shown(pairs["ours against ours, shuffle"][name][1]),
                        shown(pairs["sdca against sdca, shuffle"][name][1]),
                        shown(pairs["ours against the best"][name][1]),
                        pairs["ours against the best"][name][0],
                        shown(pairs[f"ours against {NEWTON}"][name][1]),
                    ])  # fmt: skip
    lines, raced = goals(at_goal) + sparse_lines(rows), []
    for part in AGAINST_THE_BEST:
        more, part_sets = best_lines(rows, part)
        lines, raced = lines + more, raced + part_sets
    last, runs = rows[-1], {row["run"]: row["commit"] for row in rows}
    cells = ("part", "set", "lambda", "seed", "threads")
    turns = {tuple(r[key] for key in cells): r["others"] for r in rows if r["phase"] == "race"}
    noisy = sum(others > DISTURBED for others in turns.values())
    lines.append(
        f"{noisy} of {len(turns)} turns were disturbed: others took over {DISTURBED:g} of a core"
    )
    text = [
        "# Linear models by the clock",
        f"Run of {', '.join(runs)}, tombola {last['version']} ({', '.join(runs.values())}), "
        f"scikit-learn {last['sklearn']}, {last['processor']}. `python benchmarks/clock.py` says "
        "what is timed, `benchmarks/clock_summary.py` what a ratio and its interval are. Ratios "
        "above 1: ours is faster. Rules of the library were chosen on "
        f"{', '.join(CHOSEN_ON)}.",
        "## Goals",
        "\n".join(f"- {line}" for line in lines),
    ]
    header = ["threads", "lambda", "target", "comparison", *GROUPS, "at least as fast"]
    text += ["## Geometric means over sets", markdown(header, means)]
    header = ["threads", "lambda", "target", "set", "n x d", "ours, ms", "over ours, shuffle",
              "sdca over sdca, shuffle", "over the best", "the best", f"over {NEWTON}"]  # fmt: skip
    text += ["## Each set", markdown(header, sets)]
    if raced:
        header = ["part", "lambda", "set", "ours, ms", "over the best", "the best"]
        text += ["## Against the best of scikit-learn to 1e-4, one thread", markdown(header, raced)]
    if any(row["part"] == "shapes" for row in rows):
        text += ["## Generated data, lambda = 1/n, one thread", shape_table(rows)]
    file.with_suffix(".md").write_text("\n\n".join(text) + "\n")
    print("\n".join(lines))
    if at_goal and find_spec("matplotlib"):
        picture(at_goal, file.with_suffix(".png"))
    print(f"rows, table and picture: {timing.RESULTS.name}/{file.stem}.csv, .md, .png")
