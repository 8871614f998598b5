"""The report of `tombola train`: a few lines in the terminal, and a page."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tombola.cli.train_record import Finished, PartRecord
from tombola.cli.train_scores import meaning
from tombola.cli.train_verdict import Course, courses, percent
from tombola.datasets.base import count

if TYPE_CHECKING:
    from tombola.cli.data import OpenData
    from tombola.report import Page

__all__ = ["capital", "how", "legend", "report", "snippet", "summary"]

Trace = Sequence[dict[str, Any]]


def summary(record: Finished, trace: Trace) -> list[str]:
    """Return the lines for the terminal."""
    data = record.data
    lines = [
        f"{data.name}: {record.settings.task}, {count(data.rows, 'row')} x "
        f"{count(data.columns, 'column')}",
        *(f"  {note}" for note in data.notes),
        f"{how(record)}; {record.seconds:.1f} s in the solver",
        f"objective {_objectives(courses(record.parts, trace))}; {record.verdict}",
    ]
    if record.scores:
        shown = ", ".join(f"{name} {value:.4g}" for name, value in record.scores.items())
        lines.append(f"held out: {shown}")
    return lines


def how(record: Finished) -> str:
    """Return the solver, the sampler and the number of epochs, in words."""
    parts, limit = record.parts, record.settings.epochs
    epochs = sorted({part.epochs for part in parts})
    taken = f"{epochs[0]:.3g}" if len(epochs) == 1 else f"{epochs[0]:.3g} to {epochs[-1]:.3g}"
    several = f", {len(parts)} classes, each against the others" if len(parts) > 1 else ""
    drawn, what = f"rows drawn by {parts[0].sampler}", "epoch"
    if parts[0].solver == "WorkingSets":
        drawn, what = "which goes by columns", "round"
    return f"{parts[0].solver}, {drawn}, {taken} of at most {count(limit, what)}{several}"


def _objectives(run: Sequence[Course]) -> str:
    """Return the objective at the start and at the end, means over the classes."""
    first, last = (sum(it.objective[k] for it in run) / len(run) for k in (0, -1))
    if first != first:  # by columns: only the end is known
        first = sum(it.unit for it in run) / len(run)
    return f"{first:.6g} -> {last:.6g}"


def snippet(data: "OpenData", model: Any) -> str:
    """Return the lines that predict with numpy and the saved file only."""
    lines = ["import numpy as np", 'model = np.load("model.npz")']
    Z = "X"
    if data.preparation is not None:
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
    if data.task == "regression":
        lines.append("predicted = scores[:, 0]")
    elif len(model.classes_) == 2:
        lines.append('predicted = model["classes"][(scores[:, 0] > 0).astype(int)]')
    else:
        lines.append('predicted = model["classes"][scores.argmax(axis=1)]')
    return "\n".join(lines)


def report(record: Finished, trace: Trace) -> "Page":
    """Return the page, from the record of a run and the rows of its trace."""
    from tombola.cli.train_figures import course_figure
    from tombola.report import Page

    data, scores, settings = record.data, record.scores, record.settings
    run = courses(record.parts, trace)
    held = f" On the rows held out: {_first(scores)}." if scores else ""
    page = Page(
        f"{data.name}: {settings.task}",
        f"{how(record)}: the objective went from {_objectives(run).replace('->', 'to')}. "
        f"{capital(record.verdict)}.{held}",
    )
    page.heading("The data")
    page.text(
        f"{count(data.rows, 'row')} to train on, {count(data.columns, 'column')}; from "
        f"{data.source}."
    )
    for note in data.notes:
        page.text(note)
    page.text(f"SHA-256 `{data.checksum}`.")
    if scores:
        page.heading("On the rows held out")
        page.table(
            ["score", "value", "what it is"],
            [[name, value, legend(name)] for name, value in scores.items()],
        )
    page.heading("The run")
    drawn = course_figure(run, trace)
    page.figure(drawn.figure, drawn.caption, drawn.description)
    columns, rows = _outcomes(record.parts, run)
    page.table(columns, rows, caption=_about_outcomes(record.parts))
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
    page.text(
        "The same fit, to the bit, with scikit-learn's interface; X holds the training rows"
        + (", prepared like `Z` in the lines above:" if "Z = " in record.code.predict else ":")
    )
    page.code(record.code.fit)
    page.heading("Settings and versions")
    shown = {**settings.shown(), **record.versions}
    page.table(["setting", "value"], [[name, str(value)] for name, value in shown.items()])
    return page


def _outcomes(
    parts: Sequence[PartRecord], run: Sequence[Course]
) -> tuple[list[str], list[list[Any]]]:
    """Return the table of how each part ended."""
    columns = ["class" if len(parts) > 1 else "problem", "epochs", "seconds", "objective"]
    proved = any(part.gap is not None for part in parts)
    estimated = any(part.second_moment_ratio is not None for part in parts)
    columns += ["at most above its minimum"] * proved + ["second moment over uniform's"] * estimated
    rows = []
    for part, course in zip(parts, run, strict=True):
        row = [part.problem, part.epochs, part.seconds, part.objective]
        if proved:
            row.append(None if part.gap is None else _share_above(course))
        if estimated:
            row.append(part.second_moment_ratio)
        rows.append(row)
    return columns, rows


def _share_above(course: Course) -> str:
    above, floor = course.gap * course.unit, course.floor
    return percent(above / floor, up=True) if above < floor else f"{above:.2g}"


def _about_outcomes(parts: Sequence[PartRecord]) -> str:
    """Return the legend of the table."""
    said = ["Seconds are those in the solver, without evaluations for this page."]
    if any(part.gap is not None for part in parts):
        said.append(
            "How far the objective is above its minimum at most, by the duality gap: in percent of "
            "the minimum, without a percent sign in units of the objective."
        )
    if any(part.second_moment_ratio is not None for part in parts):
        said.append("Second moments of gradient estimates: below 1 is better than uniform draws.")
    return " ".join(said)


def legend(name: str) -> str:
    """Return what a score is, in words."""
    what = meaning(name)
    return what.words + (f"; {what.better} is better" if what.better else "")


def capital(sentence: str) -> str:
    """Return a sentence with a capital first letter."""
    return sentence[:1].upper() + sentence[1:]


def _first(scores: Mapping[str, float]) -> str:
    name, value = next(iter(scores.items()))
    return f"{name} {value:.4g}"
