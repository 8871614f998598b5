"""Runs of `tombola train` side by side: settings that differ, curves and scores."""

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tombola.cli.errors import CommandError
from tombola.cli.train_record import Finished, read_record
from tombola.cli.train_report import capital, how, legend, report
from tombola.cli.train_scores import meaning
from tombola.cli.train_verdict import Course, courses, percent

if TYPE_CHECKING:
    from tombola.report import Page

__all__ = ["TrainRun", "comparison", "is_run", "read_run", "write_runs"]

# the settings that decide what is minimised; the others decide how
PROBLEM = ("task", "target", "impute", "scale", "alpha", "l1_ratio", "n_clusters")
NUMBERS = ("epoch", "seconds", "objective", "variance_ratio", "gap", "held_out_loss")


@dataclass(frozen=True, eq=False)
class TrainRun:
    """A run of `tombola train`, read from its folder.

    Attributes
    ----------
    label : str
        Its name among other runs.
    record : Finished
        What run.json holds.
    trace : list of dict
        The rows of trace.csv.
    parts : list of Course
    """

    label: str
    record: Finished
    trace: list[dict[str, Any]]
    parts: list[Course]


def is_run(folder: Path) -> bool:
    """Return whether a folder was written by `tombola train`."""
    return (folder / "run.json").is_file()


def read_run(folder: Path, label: str) -> TrainRun:
    """Return a run that has ended, or raise an error that says what is wrong with its folder."""
    try:
        if not read_record(folder).finished:
            raise CommandError(
                f"{folder} holds a run that has not ended: the same command with --resume "
                "continues it"
            )
        record = read_record(folder, Finished)
        with (folder / "trace.csv").open(encoding="utf-8", newline="") as file:
            trace: list[dict[str, Any]] = list(csv.DictReader(file))
        parts = courses(record.parts, trace)
        if not parts or not all(len(part.epochs) for part in parts):
            raise ValueError("trace.csv lacks rows")
        _check_trace(parts, trace)
    except FileNotFoundError as error:
        raise CommandError(f"{folder} has no {Path(error.filename).name}: train again") from None
    except (ValueError, KeyError, TypeError, csv.Error) as error:
        raise CommandError(
            f"{folder} does not hold a sound run of `tombola train` ({error}): train again"
        ) from None
    return TrainRun(label, record, trace, parts)


def _check_trace(parts: Sequence[Course], trace: Sequence[dict[str, Any]]) -> None:
    """Refuse infinite numbers in a trace, and parts without an objective at their end."""
    for line, row in enumerate(trace, 2):
        for name in NUMBERS:
            if math.isinf(float(row[name])):
                raise ValueError(f"trace.csv, line {line}: {name} is {row[name]}")
    for part in parts:
        if not np.isfinite([*part.epochs, *part.seconds, part.objective[-1]]).all():
            raise ValueError(f"trace.csv does not say how {part.name!r} went")


def write_runs(folders: Sequence[Path], path: Path) -> None:
    """Write the page of a run, or of several side by side."""
    places = [folder.resolve() for folder in folders]
    if len(set(places)) < len(places):
        twice = next(folder for k, folder in enumerate(folders) if places[k] in places[:k])
        raise CommandError(f"{twice} is given twice")
    runs = [read_run(*pair) for pair in zip(folders, _labels(places), strict=True)]
    page = report(runs[0].record, runs[0].trace) if len(runs) == 1 else comparison(runs)
    page.save(path)


def _labels(places: Sequence[Path]) -> list[str]:
    """Return the shortest ends of paths that tell them apart."""
    for length in range(1, max(len(place.parts) for place in places) + 1):
        labels = ["/".join(place.parts[-length:]) for place in places]
        if len(set(labels)) == len(labels):
            return labels
    return [os.fspath(place) for place in places]


# --- the page -----------------------------------------------------------------------------------


def comparison(runs: Sequence[TrainRun]) -> "Page":
    """Return the page of several runs."""
    from tombola.report import Page

    labels = [run.label for run in runs]
    objective = _not_comparable(runs)
    page = Page(f"{len(runs)} runs side by side", _lead(runs, objective))
    page.heading("What differs")
    rows = _differences(runs)
    if rows:
        page.table(["setting", *labels], rows)
    else:
        page.text("The settings and the data are the same.")
    page.heading("How they ended")
    floors = _floors(runs, comparable=objective is None)
    several = any(len(run.parts) > 1 for run in runs)
    page.table(
        ["run", "epochs", "seconds", "objective", "minimum, at least", "above it, at most",
         "verdict"],
        [_ending(run, floor) for run, floor in zip(runs, floors, strict=True)],
        caption="Seconds are those in the solver. By the duality gap the minimum of the objective "
        + ("is at least the number shown, " if objective is not None else
           "is at least the number shown, the best of all runs, ")
        + "and the objective above it by at most this share."
        + (" Epochs are the most that a class took, seconds are summed over the classes, the other "
           "numbers are those of their mean objective." if several else ""),
    )  # fmt: skip
    page.heading("Curves")
    _add_curves(page, runs, floors)
    if objective is not None:
        page.text(f"The objectives are not those of one problem: {objective}.")
    _add_scores(page, runs)
    page.heading("The runs")
    for run in runs:
        page.text(f"**{run.label}**: {how(run.record)}. {run.record.data.source}.")
    return page


def _lead(runs: Sequence[TrainRun], objective: str | None) -> str:
    """Return the main message."""
    said = []
    if objective is None:
        least = min(runs, key=_objective)
        same = [run for run in runs if _objective(run) == _objective(least)]
        said.append(
            f"**{least.label}** has the least objective, {_objective(least):.6g}."
            if len(same) == 1 else
            f"{_words([run.label for run in same])} have the same objective, the least of all."
        )  # fmt: skip
    names = [name for name in runs[0].record.scores if meaning(name).better]
    names = [name for name in names if all(name in run.record.scores for run in runs)]
    if _same_rows(runs) and names:
        best, name = _best(runs, names[0]), names[0]
        value = runs[best[0]].record.scores[name]
        who = _words([runs[k].label for k in best])
        many = len(best) > 1
        said.append(f"On the rows held out, {who} {'have' if many else 'has'} the best {name}, "
                    f"{value:.4g}.")  # fmt: skip
    going = [run.label for run in runs if run.record.verdict.startswith("not settled")]
    if going:
        said.append(f"Not settled: {_words(going)}.")
    return " ".join(said) or "The runs are of different problems: there is no best one."


def _words(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _settings(run: TrainRun) -> dict[str, Any]:
    """Return all that was set, and what ran."""
    data, first = run.record.data, run.record.parts[0]
    return {
        "data": data.name,
        "SHA-256 of the data": data.checksum[:12],
        "rows": data.rows,
        "columns": data.columns,
        **vars(run.record.settings),
        "solver that ran": first.solver,
        "sampler that ran": first.sampler,
        **run.record.versions,
    }


def _differences(runs: Sequence[TrainRun]) -> list[list[Any]]:
    """Return a row for each setting that differs."""
    every = [_settings(run) for run in runs]
    names = dict.fromkeys(name for settings in every for name in settings)
    rows = [[name, *(_shown(settings, name) for settings in every)] for name in names]
    return [row for row in rows if len(set(row[1:])) > 1]


def _shown(settings: dict[str, Any], name: str) -> str | None:
    if name not in settings:
        return None
    value = settings[name]
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _not_comparable(runs: Sequence[TrainRun]) -> str | None:
    """Return why objectives cannot be compared, None where they can."""
    first = runs[0].record
    for run in runs[1:]:
        if run.record.data.checksum != first.data.checksum:
            return f"{runs[0].label} and {run.label} are of different data"
        if not _same_split(first, run.record):
            return f"{runs[0].label} and {run.label} are trained on different rows"
        if [part.name for part in run.parts] != [part.name for part in runs[0].parts]:
            return f"{runs[0].label} and {run.label} have different classes"
        for name in PROBLEM:
            ours, theirs = (getattr(it.settings, name) for it in (first, run.record))
            if ours != theirs:
                return f"{runs[0].label} has {name} = {ours}, {run.label} has {name} = {theirs}"
    return None


def _same_rows(runs: Sequence[TrainRun]) -> bool:
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
    if (ours and vars(ours)) == (theirs and vars(theirs)):
        return True
    return all(
        getattr(first.settings, name) == getattr(second.settings, name)
        for name in ("task", "target", "test", "seed")
    )


def _objective(run: TrainRun) -> float:
    return float(np.mean([part.objective[-1] for part in run.parts]))


def _floors(runs: Sequence[TrainRun], *, comparable: bool) -> list[list[float]]:
    """Return what the minimum of each part is proved not to be below, for each run.

    Where all runs minimise the same, the best bound of any of them holds for all.
    """
    own = [[part.floor for part in run.parts] for run in runs]
    if not comparable:
        return own
    best = [
        max((floor for floor in floors if math.isfinite(floor)), default=math.nan)
        for floors in zip(*own, strict=True)
    ]
    return [best] * len(runs)


def _ending(run: TrainRun, floors: Sequence[float]) -> list[Any]:
    epochs = max(part.epochs for part in run.record.parts)
    verdict = run.record.verdict.partition(":")[0]
    last, least = _objective(run), float(np.mean(floors))
    above = None
    if least > 0:
        share = max(last - least, 0.0) / least
        above = percent(share, up=True)
    return [run.label, epochs, run.record.seconds, last, least, above, verdict]


def _add_curves(page: "Page", runs: Sequence[TrainRun], floors: Sequence[Sequence[float]]) -> None:
    from tombola.cli.train_figures import comparison_figure

    for clock in ("epochs", "seconds"):
        drawn = comparison_figure([(run.label, run.parts) for run in runs], floors, clock)
        page.figure(drawn.figure, drawn.caption, drawn.description)


def _add_scores(page: "Page", runs: Sequence[TrainRun]) -> None:
    """Add the scores on the rows held out, with the best marked where they are comparable."""
    names = dict.fromkeys(name for run in runs for name in run.record.scores)
    if not names:
        return
    page.heading("On the rows held out")
    same = _same_rows(runs)
    rows = []
    for name in names:
        values = [run.record.scores.get(name) for run in runs]
        best = _best(runs, name) if same and None not in values else []
        shown = [None if value is None else f"{value:.4g}" for value in values]
        who = ", ".join(f"**{runs[k].label}**" for k in best)
        rows.append([name, *shown, who or None])
    caption = "" if same else "The rows held out are not the same in all runs: none is the best."
    page.table(["score", *(run.label for run in runs), "best"], rows, caption)
    page.text(" ".join(f"{capital(name)}: {legend(name)}." for name in names))


def _best(runs: Sequence[TrainRun], name: str) -> list[int]:
    """Return the runs with the best score; none where no direction is better."""
    values, better = [run.record.scores[name] for run in runs], meaning(name).better
    if not better:
        return []
    top = max(values) if better == "higher" else min(values)
    return [k for k, value in enumerate(values) if value == top]
