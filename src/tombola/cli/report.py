"""`tombola report`: one page from the rows of experiments alone."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tombola.cli.common import CommandError
from tombola.experiments.sweep import ALL, Exhibit, SweepError, about, experiment, read
from tombola.report import Page

__all__ = ["add_arguments", "find", "run", "show", "write"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "folders", metavar="RUN", nargs="+", type=Path,
        help="what `tombola reproduce` or `tombola demo` wrote, or the folder of one experiment",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="PAGE", type=Path, help="by default report.html in the first folder"
    )


def run(options: argparse.Namespace) -> int:
    """Write the page, and say where it is."""
    path = options.out or options.folders[0] / "report.html"
    if options.out is not None and path.exists():
        raise CommandError(f"{path} is there already: name another by --out")
    if not path.parent.is_dir():
        raise CommandError(f"there is no folder {path.parent} to write {path.name} into")
    found = [folder for given in options.folders for folder in find(given)]
    write(found, path)
    print(f"{path}")
    return 0


def find(given: Path) -> list[Path]:
    """Return the folders of experiments that are in a folder, or that it is."""
    if not given.is_dir():
        raise CommandError(f"there is no folder {given}")
    places = [given, *(given / name for name in ALL)]
    found = [place for place in places if (place / "about.json").is_file()]
    if not found:
        raise CommandError(
            f"{given} holds no results: `tombola reproduce` and `tombola demo` write some"
        )
    return found


def show(folder: Path) -> tuple[Exhibit, dict[str, Any]]:
    """Return what the rows of an experiment say, and what is known about them."""
    try:
        known = about(folder)
        rows = read(folder)
        return experiment(known["experiment"]).show(rows), known
    except SweepError as error:
        raise CommandError(str(error)) from None
    except (ValueError, KeyError, IndexError, TypeError, StopIteration) as error:
        raise CommandError(
            f"the results in {folder} cannot be read ({type(error).__name__}: {error}): "
            "start the experiment again, or take them out"
        ) from error


def write(folders: Sequence[Path], path: Path) -> list[Exhibit]:
    """Write one page on all experiments; return what they show."""
    shown = [show(folder) for folder in folders]
    first = shown[0][0]
    if len(shown) == 1:
        page = Page(first.title, first.lead)
    else:
        seen = [finding.seen for exhibit, _ in shown for finding in exhibit.findings]
        page = Page(
            "tombola: the experiments",
            f"Of {len(seen)} claims, the paper's and our own, **{seen.count(True)}** were seen "
            f"here and **{seen.count(False)}** were not. Everything on this page is computed "
            "from the rows of the runs.",
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
        page.table(["", "what these runs were given"], _given(known))
    page.save(path)
    return [exhibit for exhibit, _ in shown]


def _given(known: dict[str, Any]) -> list[list[str]]:
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
