"""`tombola report`: write a page from the rows of experiments, or from runs of `tombola train`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tombola.cli.compare import is_run, write_runs
from tombola.cli.errors import CommandError
from tombola.experiments.exhibit import Exhibit
from tombola.experiments.rows import SweepError, read
from tombola.experiments.sweep import NAMES, about, experiment
from tombola.report import Page

__all__ = ["add_arguments", "find", "run", "show", "write"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "folders", metavar="RUN", nargs="+", type=Path,
        help="a folder written by `tombola train`, or several, to see them side by side; or a "
        "folder written by `tombola reproduce`, or that of one experiment",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="PAGE", type=Path,
        help="default: report.html in the first folder; for several runs of `tombola train` "
        "comparison.html",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Write the page and print its path."""
    trained = [is_run(folder) for folder in options.folders]
    if any(trained) and not all(trained):
        other = options.folders[trained.index(False)]
        if not other.is_dir():
            raise CommandError(f"there is no folder {other}")
        raise CommandError(
            f"{other} holds no run of `tombola train`, {options.folders[trained.index(True)]} "
            "does: one page shows either runs or experiments"
        )
    several = trained[0] and len(options.folders) > 1
    path = options.out or options.folders[0] / ("comparison.html" if several else "report.html")
    if options.out is not None and path.exists():
        raise CommandError(f"{path} exists already: choose another file with --out")
    if not path.parent.is_dir():
        raise CommandError(f"there is no folder {path.parent} to write {path.name} into")
    if trained[0]:
        write_runs(options.folders, path)
    else:
        write([folder for given in options.folders for folder in find(given)], path)
    print(f"{path}")
    return 0


def find(given: Path) -> list[Path]:
    """Return the folder if it holds an experiment, and its subfolders that do."""
    if not given.is_dir():
        raise CommandError(f"there is no folder {given}")
    places = [given, *(given / name for name in NAMES)]
    found = [place for place in places if (place / "about.json").is_file()]
    if not found:
        raise CommandError(f"{given} holds no results of `tombola train` or `tombola reproduce`")
    return found


def show(folder: Path) -> tuple[Exhibit, dict[str, Any]]:
    """Return the exhibit of an experiment, and the record of its runs."""
    try:
        known = about(folder)
        rows = read(folder)
        return experiment(known["experiment"]).show(rows), known
    except SweepError as error:
        raise CommandError(str(error)) from None
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        StopIteration,
    ) as error:
        raise CommandError(
            f"the results in {folder} cannot be read ({type(error).__name__}: {error}): "
            "run the experiment again, or remove them"
        ) from error


def write(folders: Sequence[Path], path: Path) -> list[Exhibit]:
    """Write one page about all experiments; return their exhibits."""
    shown = [show(folder) for folder in folders]
    first = shown[0][0]
    if len(shown) == 1:
        page = Page(first.title, first.lead)
    else:
        verdicts = [finding.confirmed for exhibit, _ in shown for finding in exhibit.findings]
        page = Page(
            "tombola: the experiments",
            f"Of {len(verdicts)} claims, the paper's and our own, **{verdicts.count(True)}** were "
            f"confirmed and **{verdicts.count(False)}** were not. Everything on this page is "
            "computed from the rows of the runs.",
        )
    for exhibit, known in shown:
        if len(shown) > 1:
            page.heading(exhibit.title)
            page.text(exhibit.lead)
        for figure, caption in exhibit.figures:
            page.figure(figure, caption, f"{exhibit.title}. {caption}")
        for finding in exhibit.findings:
            verdict, _, rest = str(finding).partition(": ")
            page.text(f"**{verdict}**: {rest}")
        if exhibit.notes:
            page.text(exhibit.notes)
        for caption, columns, lines in exhibit.tables:
            page.table(columns, lines, caption)
        page.table(["", "settings of these runs"], _settings(known))
    page.save(path)
    return [exhibit for exhibit, _ in shown]


def _settings(known: dict[str, Any]) -> list[list[str]]:
    lines = []
    for name, value in known["settings"].items():
        if isinstance(value, dict):
            lines += [[f"{name}: {key}", _in_words(entry)] for key, entry in value.items()]
        else:
            lines.append([name, _in_words(value)])
    lines += [[f"data: {name}", f"SHA-256 `{sum_}`"] for name, sum_ in known["data"].items()]
    rest = {key: v for key, v in known.items() if key not in ("settings", "data", "experiment")}
    return lines + [[name, str(value)] for name, value in rest.items()]


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(entry) for entry in value)
    return str(value)
