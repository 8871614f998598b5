"""The page of a run of `tombola train`, or of several side by side, and the lines printed."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tombola.cli.runs import Course, Finished, Run
from tombola.cli.scores import meaning
from tombola.cli.verdict import percent
from tombola.datasets.base import count, in_words

if TYPE_CHECKING:
    from tombola.cli.data import OpenData
    from tombola.report import Page

__all__ = ["comparison", "report", "snippet", "summary"]

# the settings that decide what is minimised; the others decide how
PROBLEM = ("task", "target", "impute", "scale", "alpha", "l1_ratio", "n_clusters")
DECADE = 10.0  # values that span more than this factor are drawn on a log axis
GREY = "#8a8f94"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
LINES = ("-", "--", ":", "-.")
VARIANCE = "variance over uniform's"

Floats = NDArray[np.float64]


# --- words --------------------------------------------------------------------------------------


def summary(run: Run) -> list[str]:
    """Return the lines for the terminal."""
    record = run.record
    lines = [
        f"{record.data.name}: {record.settings.task}, {_size(record)}",
        *(f"  {note}" for note in record.data.notes),
        f"{_how(record)}; {record.seconds:.1f} s in the solver",
        f"objective {_objectives(run)}; {record.verdict}",
    ]
    if record.scores:
        shown = ", ".join(f"{name} {value:.4g}" for name, value in record.scores.items())
        lines.append(f"held out: {shown}")
    return lines


def _size(record: Finished) -> str:
    return f"{count(record.data.rows, 'row')} x {count(record.data.columns, 'column')}"


def _how(record: Finished) -> str:
    """Return the solver, the sampler and the number of epochs, in words."""
    parts, limit = record.parts, record.settings.epochs
    epochs = sorted({part.epochs for part in parts})
    taken = f"{epochs[0]:.3g}" if len(epochs) == 1 else f"{epochs[0]:.3g} to {epochs[-1]:.3g}"
    several = f", {len(parts)} classes, each against the others" if len(parts) > 1 else ""
    drawn, what = f"rows drawn by {parts[0].sampler}", "epoch"
    if parts[0].solver == "WorkingSets":
        drawn, what = "which goes by columns", "round"
    return f"{parts[0].solver}, {drawn}, {taken} of at most {count(limit, what)}{several}"


def _objectives(run: Run) -> str:
    """Return the objective at the start and at the end, means over the classes."""
    first, last = (np.mean([it.objective[k] for it in run.parts]) for k in (0, -1))
    if np.isnan(first):  # by columns: only the end is known
        first = np.mean([it.unit for it in run.parts])
    return f"{first:.6g} -> {last:.6g}"


def snippet(data: "OpenData", model: Any) -> str:
    """Return the lines that predict with numpy and the saved file only."""
    lines, Z = ["import numpy as np", 'model = np.load("model.npz")'], "X"
    if data.preparer.kept_ is not None:
        Z = "Z"
        lines += [
            '# X: an array with the columns model["columns"], in that order',
            'X = np.where(np.isnan(X), model["fill"], X)',
            'Z = (X - model["mean"]) / model["scale"]',
        ]
    if data.task == "clustering":
        squares = f"(({Z}[:, None, :] - model['centres']) ** 2).sum(axis=2)"
        if Z == "X":  # sparse
            squares = "(model['centres'] ** 2).sum(axis=1) - 2 * (X @ model['centres'].T)"
        return "\n".join([*lines, f"predicted = ({squares}).argmin(axis=1)"])
    lines.append(f'scores = {Z} @ model["coef"].T + model["intercept"]')
    two = data.task == "classification" and len(model.classes_) == 2
    chosen = "(scores[:, 0] > 0).astype(int)" if two else "scores.argmax(axis=1)"
    classes = f'model["classes"][{chosen}]'
    lines.append(f"predicted = {'scores[:, 0]' if data.task == 'regression' else classes}")
    return "\n".join(lines)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


# --- one run ------------------------------------------------------------------------------------


def report(run: Run) -> "Page":
    """Return the page of a run."""
    from tombola.report import Page

    record = run.record
    data, scores = record.data, record.scores
    name, value = next(iter(scores.items()), ("", 0.0))
    page = Page(
        f"{data.name}: {record.settings.task}",
        f"{_how(record)}: the objective went from {_objectives(run).replace('->', 'to')}. "
        f"{_capital(record.verdict)}."
        + (f" On the rows held out: {name} {value:.4g}." if scores else ""),
    )
    page.heading("The data")
    size = _size(record).replace(" x", " to train on,")
    for line in (f"{size}; from {data.source}.", *data.notes, f"SHA-256 `{data.checksum}`."):
        page.text(line)
    if scores:
        page.heading("On the rows held out")
        rows = [[name, value, meaning(name).legend] for name, value in scores.items()]
        page.table(["score", "value", "what it is"], rows)
    page.heading("The run")
    _add_curves(page, [run], [[part.floor for part in run.parts]], "epochs")
    _add_outcomes(page, run)
    if record.parts[0].sampler == "Static":
        page.text(
            "Rows were drawn with fixed probabilities, which do not follow the losses: the ratios "
            "above may exceed 1. By default, SAGA and SVRG draw by curvature, which allows larger "
            "steps."
        )
    page.heading("Predict with it")
    page.text("New rows of a file with the same columns; FOLDER holds this page:")
    page.code("tombola predict FOLDER new.csv --out predictions.csv")
    page.text("With numpy and the saved file only:")
    page.code(record.code.predict)
    prepared = ", prepared like `Z` in the lines above" * ("Z = " in record.code.predict)
    page.text(
        "The same fit, to the bit, with scikit-learn's interface; X holds the training rows"
        f"{prepared}:"
    )
    page.code(record.code.fit)
    page.heading("Settings and versions")
    shown = {**record.settings.shown(), **record.versions}
    page.table(["setting", "value"], [[name, str(value)] for name, value in shown.items()])
    return page


def _add_outcomes(page: "Page", run: Run) -> None:
    """Add the table of how each part ended."""
    parts = run.record.parts
    columns = ["class" if len(parts) > 1 else "problem", "epochs", "seconds", "objective"]
    rows = [[part.problem, part.epochs, part.seconds, part.objective] for part in parts]
    said = "Seconds are those in the solver, without evaluations for this page."
    if any(part.gap is not None for part in parts):
        columns.append("at most above its minimum")
        said += (
            " How far the objective is above its minimum at most, by the duality gap: in percent "
            "of the minimum, without a percent sign in units of the objective."
        )
        for row, part, course in zip(rows, parts, run.parts, strict=True):
            far, floor = course.gap * course.unit, course.floor
            above = percent(far / floor, up=True) if far < floor else f"{far:.2g}"
            row.append(None if part.gap is None else above)
    if any(part.second_moment_ratio is not None for part in parts):
        columns.append("second moment over uniform's")
        said += " Second moments of gradient estimates: below 1 is better than uniform draws."
        for row, part in zip(rows, parts, strict=True):
            row.append(part.second_moment_ratio)
    page.table(columns, rows, caption=said)


# --- several runs -------------------------------------------------------------------------------


def comparison(runs: Sequence[Run]) -> "Page":
    """Return the page of several runs."""
    from tombola.report import Page

    labels = [run.label for run in runs]
    different = _not_comparable(runs)
    page = Page(f"{len(runs)} runs side by side", _lead(runs, different is None))
    page.heading("What differs")
    rows = _differences(runs)
    if rows:
        page.table(["setting", *labels], rows)
    else:
        page.text("The settings and the data are the same.")
    page.heading("How they ended")
    floors = [[part.floor for part in run.parts] for run in runs]
    if different is None:  # the best bound of any of them holds for all
        known = [[it for it in part if math.isfinite(it)] for part in zip(*floors, strict=True)]
        floors = [[max(part, default=math.nan) for part in known]] * len(runs)
    best = "the best of all runs, " if different is None else ""
    said = (
        "Seconds are those in the solver. By the duality gap the minimum of the objective is at "
        f"least the number shown, {best}and the objective above it by at most this share."
    )
    if any(len(run.parts) > 1 for run in runs):
        said += (
            " Epochs are the most that a class took, seconds are summed over the classes, the "
            "other numbers are those of their mean objective."
        )
    ended = []
    for run, own in zip(runs, floors, strict=True):
        record, last, least = run.record, _objective(run), float(np.mean(own))
        above = percent(max(last - least, 0.0) / least, up=True) if least > 0 else None
        epochs, verdict = max(it.epochs for it in record.parts), record.verdict.partition(":")[0]
        ended.append([run.label, epochs, record.seconds, last, least, above, verdict])
    columns = ["run", "epochs", "seconds", "objective", "minimum, at least", "above it, at most",
               "verdict"]  # fmt: skip
    page.table(columns, ended, caption=said)
    page.heading("Curves")
    for clock in ("epochs", "seconds"):
        _add_curves(page, runs, floors, clock)
    if different is not None:
        page.text(f"The objectives are not those of one problem: {different}.")
    _add_scores(page, runs)
    page.heading("The runs")
    for run in runs:
        page.text(f"**{run.label}**: {_how(run.record)}. {run.record.data.source}.")
    return page


def _lead(runs: Sequence[Run], comparable: bool) -> str:
    """Return the main message."""
    said = []
    if comparable:
        least = min(map(_objective, runs))
        who = [run.label for run in runs if _objective(run) == least]
        said.append(
            f"**{who[0]}** has the least objective, {least:.6g}." if len(who) == 1 else
            f"{in_words(who)} have the same objective, the least of all."
        )  # fmt: skip
    names = [name for name in runs[0].record.scores if meaning(name).better]
    names = [name for name in names if all(name in run.record.scores for run in runs)]
    if _same_rows(runs) and names:
        best, name = _best(runs, names[0]), names[0]
        value = runs[best[0]].record.scores[name]
        who, has = [runs[k].label for k in best], "have" if len(best) > 1 else "has"
        said.append(f"On the rows held out, {in_words(who)} {has} the best {name}, {value:.4g}.")
    going = [run.label for run in runs if run.record.verdict.startswith("not settled")]
    if going:
        said.append(f"Not settled: {in_words(going)}.")
    return " ".join(said) or "The runs are of different problems: there is no best one."


def _differences(runs: Sequence[Run]) -> list[list[Any]]:
    """Return a row for each setting that differs."""
    every = []
    for run in runs:
        data, first = run.record.data, run.record.parts[0]
        every.append({
            "data": data.name, "SHA-256 of the data": data.checksum[:12], "rows": data.rows,
            "columns": data.columns, **vars(run.record.settings), "solver that ran": first.solver,
            "sampler that ran": first.sampler, **run.record.versions,
        })  # fmt: skip
    said, rows = {True: "yes", False: "no", None: "none"}, []
    for name in dict.fromkeys(name for settings in every for name in settings):
        values = [settings.get(name, ...) for settings in every]
        shown = [
            None if it is ... else said[it] if it is None or isinstance(it, bool) else str(it)
            for it in values
        ]
        if len(set(shown)) > 1:
            rows.append([name, *shown])
    return rows


def _not_comparable(runs: Sequence[Run]) -> str | None:
    """Return why objectives cannot be compared; None if they can."""
    first = runs[0].record
    for run in runs[1:]:
        both = f"{runs[0].label} and {run.label}"
        if run.record.data.checksum != first.data.checksum:
            return f"{both} are of different data"
        if not _same_split(first, run.record):
            return f"{both} are trained on different rows"
        if [part.name for part in run.parts] != [part.name for part in runs[0].parts]:
            return f"{both} have different classes"
        for name in PROBLEM:
            ours, theirs = (getattr(it.settings, name) for it in (first, run.record))
            if ours != theirs:
                return f"{runs[0].label} has {name} = {ours}, {run.label} has {name} = {theirs}"
    return None


def _same_rows(runs: Sequence[Run]) -> bool:
    """Return whether the same rows were held out in all runs."""
    first = runs[0].record
    return all(
        run.record.data.held_out is not None
        and run.record.data.checksum == first.data.checksum
        and _same_split(first, run.record)
        for run in runs
    )


def _same_split(first: Finished, second: Finished) -> bool:
    """Return whether two runs on the same data hold out the same rows.

    Their checksums are equal unless the columns were prepared otherwise. A split is made from the
    target, the share and the seed.
    """
    ours, theirs = first.data.held_out, second.data.held_out
    return (ours and vars(ours)) == (theirs and vars(theirs)) or all(
        getattr(first.settings, name) == getattr(second.settings, name)
        for name in ("task", "target", "test", "seed")
    )


def _objective(run: Run) -> float:
    return float(np.mean([part.objective[-1] for part in run.parts]))


def _add_scores(page: "Page", runs: Sequence[Run]) -> None:
    """Add the scores on the rows held out, with the best marked if they are comparable."""
    names = dict.fromkeys(name for run in runs for name in run.record.scores)
    if not names:
        return
    page.heading("On the rows held out")
    same, rows = _same_rows(runs), []
    for name in names:
        values = [run.record.scores.get(name) for run in runs]
        best = _best(runs, name) if same and None not in values else []
        shown = [None if value is None else f"{value:.4g}" for value in values]
        rows.append([name, *shown, ", ".join(f"**{runs[k].label}**" for k in best) or None])
    caption = "" if same else "The rows held out are not the same in all runs: none is the best."
    page.table(["score", *(run.label for run in runs), "best"], rows, caption)
    page.text(" ".join(f"{_capital(name)}: {meaning(name).legend}." for name in names))


def _best(runs: Sequence[Run], name: str) -> list[int]:
    """Return the runs with the best score; none if no direction is better."""
    values, better = [run.record.scores[name] for run in runs], meaning(name).better
    top = max(values) if better == "higher" else min(values)
    return [k for k, value in enumerate(values) if better and value == top]


# --- curves -------------------------------------------------------------------------------------


def _mean_over(
    run: Sequence[Course], columns: Sequence[Floats], clock: str
) -> tuple[Floats, Floats]:
    """Return the mean of a column over the parts, at all their epochs (or seconds).

    A part that has ended stays where it was; between its rows it goes straight.
    """
    times = np.unique(np.concatenate([getattr(course, clock) for course in run]))
    lines = []
    for course, column in zip(run, columns, strict=True):
        known = np.isfinite(column)
        if known.any():
            at = getattr(course, clock)[known]
            lines.append(np.interp(times, at, column[known], left=math.nan))
    mean = np.mean(lines, axis=0) if lines else np.full(len(times), math.nan)
    return times, np.asarray(mean)


def _spans_decades(columns: Sequence[Floats]) -> bool:
    """Return whether positive values differ so much that they need a log axis."""
    values = np.concatenate(columns)
    known = values[np.isfinite(values) & (values > 0)]
    return bool(known.size and known.max() > DECADE * known.min())


def _panels(
    runs: Sequence[Run], floors: Sequence[Sequence[float]], clock: str
) -> dict[str, list[list[Floats]]]:
    """Return what is drawn: for each run, a column of each part."""
    first: list[list[Floats]] = []
    for run, known in zip(runs, floors, strict=True):
        first.append([])
        for part, floor in zip(run.parts, known, strict=True):
            with np.errstate(over="ignore"):
                values = (part.objective - floor) / part.unit
            first[-1].append(np.where(np.isfinite(values), values, part.gaps))
    means = [_mean_over(run.parts, it, clock)[1] for run, it in zip(runs, first, strict=True)]
    if all(np.isfinite(values).any() for values in means) and _spans_decades(means):
        panels = {"above minimum, at most": first}
    else:
        panels = {"objective": [[part.objective for part in run.parts] for run in runs]}
    more = {"held-out loss": [[part.held for part in run.parts] for run in runs]}
    if len(runs) == 1:
        more[VARIANCE] = [[part.ratios for part in runs[0].parts]]
    return panels | {
        name: table
        for name, table in more.items()
        if any(np.isfinite(column).any() for columns in table for column in columns)
    }


def _add_curves(
    page: "Page", runs: Sequence[Run], floors: Sequence[Sequence[float]], clock: str
) -> None:
    """Add the figure of runs over epochs or seconds: objective, loss held out, variance of one."""
    from tombola.report.figures import legend_below, new_figure, style

    alone, several = len(runs) == 1, any(len(run.parts) > 1 for run in runs)
    panels = _panels(runs, floors, clock)
    figure, axes = new_figure(len(panels), height=2.2 if alone else 2.4, share_x=True)
    for axis, (name, table) in zip(axes, panels.items(), strict=True):
        drawn: list[Floats] = []
        for k, (run, columns) in enumerate(zip(runs, table, strict=True)):
            if alone and several:
                drawn += columns
                for course, column in zip(run.parts, columns, strict=True):
                    axis.plot(course.epochs, column, color=GREY, linewidth=0.7, alpha=0.7,
                              label="each class")  # fmt: skip
            times, values = _mean_over(run.parts, columns, clock)
            drawn.append(values)
            known = np.isfinite(values)
            look = {"color": COLOURS[k % len(COLOURS)], "linestyle": LINES[k // len(COLOURS) % 4]}
            axis.plot(
                times[known], values[known], linewidth=1.7, markersize=3,
                marker="o" if known.sum() < 12 else None,
                label="mean over the classes" if alone else run.label,
                **(style("vrb") if alone else look),
            )  # fmt: skip
        axis.set_ylabel(name)
        if name == VARIANCE:
            axis.axhline(1.0, color=GREY, linewidth=1)
            axis.set_ylim(0, None)
        elif _spans_decades(drawn):
            axis.set_yscale("log")
    words = "epochs (passes over the rows)"
    if clock == "seconds":
        words = "seconds in the solver" + ", of each class" * several
        axes[-1].locator_params(axis="x", nbins=6)  # seconds may have many digits
    axes[-1].set_xlabel(words)
    if several or not alone:
        legend_below(figure)
    by = "the certificate at the end" if alone else "the bound on the minimum in the table above"
    said = {
        "above minimum, at most": "How far the objective is above its minimum at most, relative to "
        f"the objective at w = 0, by {by}.",
        "objective": "The objective (loss and penalties) on the training rows.",
        "held-out loss": "The mean loss on the rows held out, without penalty.",
        VARIANCE: "The variance of the gradient estimates over that of uniform draws at the same "
        "solution: below 1 is better.",
    }
    caption = [said[name] for name in panels]
    if several:
        caption.append(
            "Means over the classes; of those that ended sooner, the last value is kept."
        )
    name, table = next(iter(panels.items()))
    description = f"{_capital(name)} of {count(len(runs), 'run')} over {clock}"
    if alone:
        values = _mean_over(runs[0].parts, table[0], clock)[1]
        known = values[np.isfinite(values)]
        description += f", from {known[0]:.4g} to {known[-1]:.4g}"
    page.figure(figure, " ".join(caption), f"{description}.")
