"""First part of the demo: a linear classifier by dual coordinates, adaptive against shuffled.

Logistic regression with an intercept and scikit-learn's default penalty (C = 1, alpha = 1/n) on
standardised columns, by `SDCA` until a certified duality gap. Only the draws differ: rows in
shuffled order, or half of them by their latest dual residual (the solver's default). The data are
all that scikit-learn ships for classification with more than 500 rows, and patches of its two
photographs. An epoch is n visits of rows; the passes that certify the gap count as one each.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tombola
from tombola.demo.parts import LOOKS, Pictures, Section, Size, listed, ratio, spread, times
from tombola.ledger import Estimate
from tombola.problems import Logistic
from tombola.report import figures
from tombola.report.rows import Row, column, select
from tombola.solvers import SDCA

__all__ = ["draw_panel", "play", "show", "units"]

DATA = {
    "breast cancer": "is a tumour benign?",
    "digits": "which digit was written? Ten models",
    "photographs": "is a patch of 8 x 8 pixels from china.jpg or flower.jpg?",
}
METHODS = ("shuffled", "adaptive")
GAPS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)  # relative to the objective at w = 0
GOAL = 1e-4  # the estimators' default tolerance
LONGEST = 1000  # epochs
PATCH = 8  # pixels, the side of a patch


def units(size: Size) -> int:
    """Return the number of times that `play` yields."""
    return size.seeds * len(DATA)


def play(size: Size, pictures: Pictures) -> Iterator[list[Row]]:
    """Yield the rows of one seed on one data set at a time; there are no pictures."""
    for name in DATA:
        problems = _problems(name, size.linear_thin)
        for method in METHODS:  # compiles
            _solve(problems[:1], method, 0, 1e-1)
        for seed in range(size.seeds):
            turns = METHODS if seed % 2 else METHODS[::-1]
            yield [
                {
                    "part": "linear", "data": name, "rows": problems[0].n,
                    "columns": problems[0].d, "seed": seed, "method": method, "gap": gap,
                    **_solve(problems, method, seed, gap),
                }
                for gap in GAPS
                for method in turns
            ]  # fmt: skip


@functools.lru_cache(maxsize=len(DATA))
def _problems(name: str, thin: int) -> list[Logistic]:
    """Return one problem, or one for each class against the others."""
    from sklearn import datasets
    from sklearn.preprocessing import StandardScaler

    if name == "photographs":
        parts = [_patches(datasets.load_sample_image(f"{k}.jpg")) for k in ("china", "flower")]
        X, y = np.concatenate(parts), np.repeat([0, 1], [len(part) for part in parts])
    else:
        load = datasets.load_digits if name == "digits" else datasets.load_breast_cancer
        X, y = load(return_X_y=True)
    X, y = X[::thin], y[::thin]
    X, labels = StandardScaler().fit_transform(X), np.unique(y)
    wanted = labels if len(labels) > 2 else labels[1:]
    return [Logistic(X, y == label, alpha=1 / len(X), fit_intercept=True) for label in wanted]


def _patches(image: Any) -> Any:
    """Return the patches of a photograph, one row for each, without those cut by its border."""
    high, wide = image.shape[0] // PATCH, image.shape[1] // PATCH
    cut = image[: high * PATCH, : wide * PATCH] / 255
    return cut.reshape(high, PATCH, wide, PATCH, 3).swapaxes(1, 2).reshape(high * wide, -1)


def _solve(problems: Sequence[Logistic], method: str, seed: int, gap: float) -> Row:
    """Return the mean epochs and the total seconds to the gap, over the problems."""
    solver = SDCA(tol=gap, seed=seed)
    epochs, seconds = [], 0.0
    for problem in problems:
        n = problem.n
        sampler = tombola.Shuffle(n, seed=seed) if method == "shuffled" else None
        rounds = LONGEST * -(-n // solver.batch_size)
        result = solver.minimize(problem, sampler=sampler, rounds=rounds)
        if result.interrupted:
            raise KeyboardInterrupt
        reached = solver.gap(problem, result) <= gap
        epochs.append(result.item_gradients / n if reached else np.inf)
        seconds += result.seconds
    return {"epochs": float(np.mean(epochs)), "seconds": seconds}


# --- results ------------------------------------------------------------------------------------


def show(rows: list[Row], pictures: Pictures) -> Section:
    """Return the section: epochs and seconds to the gap, by data set."""
    names = [name for name in DATA if column(rows, "seed", data=name)]
    section = Section("A linear classifier, to the same certified answer", "")
    figure, axes = figures.new_figure(len(names), height=2.0)
    lines = []
    fewer: dict[str, Estimate] = {}
    sooner: dict[str, Estimate] = {}
    for name, axis in zip(names, axes, strict=True):
        draw_panel(axis, rows, name)
        near = select(rows, data=name, gap=GOAL)
        epochs, seconds = (
            [column(near, what, method=method) for method in METHODS]
            for what in ("epochs", "seconds")
        )
        fewer[name], sooner[name] = ratio(*epochs), ratio(*seconds)
        first = near[0]
        lines.append([
            name, f"{first['rows']:,} x {first['columns']:,}",
            *(spread(values) for values in epochs), times(fewer[name]), times(sooner[name]),
        ])  # fmt: skip
        for what, found in (("epochs", fewer[name]), ("seconds", sooner[name])):
            section.judge(
                f"Adaptive draws need fewer {what} than shuffled ones to a gap of {GOAL:g} "
                f"({name}).",
                found,
                f"Times fewer: {times(found)}.",
            )
    figures.legend_below(figure)
    section.lead, section.gained = _lead(fewer, sooner)
    seeds = len(set(column(rows, "seed")))
    section.notes = (
        f"Data of scikit-learn: {'; '.join(f'{name} ({DATA[name]})' for name in names)}. "
        "Logistic regression, scikit-learn's default penalty, standardised columns. The rival is "
        f"the same solver (`SDCA`) on the same data with rows in shuffled order; {seeds} seeds. "
        "An epoch is as many visits of rows as there are rows, and what proves the gap is counted."
    )
    section.figure(
        figure,
        "How far the objective is above its minimum at most, as a share of the objective of a "
        f"model without columns, against the work. Dotted: {GOAL:g}, where the table compares.",
    )
    section.table(
        f"Work and time to a duality gap of {GOAL:g}: geometric means over seeds, 95% intervals; "
        "above 1 is better",
        [
            "data",
            "rows x columns",
            "epochs, shuffled",
            "epochs, adaptive",
            "times fewer epochs",
            "times fewer seconds",
        ],
        lines,
    )
    return section


def draw_panel(axis: Any, rows: list[Row], name: str) -> None:
    """Draw gap against epochs on one data set: the median seed, and all of them."""
    for method in METHODS:
        colour, line, _ = LOOKS[method]
        own = select(rows, data=name, method=method)
        gaps = sorted(set(column(own, "gap")), reverse=True)
        reached = np.array([column(own, "epochs", gap=gap) for gap in gaps])
        axis.fill_betweenx(gaps, reached.min(1), reached.max(1), color=colour, alpha=0.18, lw=0)
        axis.plot(np.median(reached, 1), gaps, line, color=colour, lw=1.7, label=method)
    axis.axhline(GOAL, color="#8a8f94", linewidth=0.8, linestyle=":")
    axis.set(yscale="log", xlabel="epochs", ylabel="duality gap", title=name)
    axis.set_xlim(left=0)


def _lead(fewer: dict[str, Estimate], sooner: dict[str, Estimate]) -> tuple[str, bool]:
    """Return what happened in words, and whether something was gained."""
    won = [name for name, found in fewer.items() if found.low > 1]
    lost = [name for name, found in fewer.items() if found.high < 1]
    same = [name for name in fewer if name not in (*won, *lost)]
    if not won:
        more = f", and more on {listed(lost)}" if lost else ""
        return f"needed no less work than shuffling to train a linear classifier{more}", False
    time = "not certainly less time on each"
    if all(sooner[name].low > 1 for name in won):
        time = f"{_range([sooner[name].value for name in won])} times less time"
    where = f"all {len(fewer)}" if len(won) == len(fewer) else f"{len(won)} of {len(fewer)}"
    rest = [f"no less on {listed(same)}"] * bool(same) + [f"more on {listed(lost)}"] * bool(lost)
    return (
        "trained the same linear classifier with "
        f"{_range([fewer[name].value for name in won])} times less work than shuffling ({time}) "
        f"on {where} data sets" + (f" ({'; '.join(rest)})" if rest else "")
    ), True


def _range(values: list[float]) -> str:
    least, most = f"{min(values):.1f}", f"{max(values):.1f}"
    return least if least == most else f"{least} to {most}"
