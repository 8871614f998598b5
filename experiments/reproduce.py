"""What `tombola reproduce` and `tombola report` do: run experiments, write a page about them."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import sweep
from tombola.cli.errors import CommandError
from tombola.cli.progress import Progress
from tombola.cli.reproduce import find
from tombola.report import Page
from tombola.report.exhibit import Exhibit
from tombola.state.files import replaced_file

__all__ = ["run", "write"]


def run(options: argparse.Namespace) -> int:
    """Do the runs that are missing, gather their rows, and show the results."""
    out: Path = options.out
    names = sweep.NAMES if options.name == "all" else (options.name,)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if out.exists() and not out.is_dir():
        raise CommandError(f"{out} is a file, not a folder")
    try:
        for name in names:  # report missing data before anything runs
            sweep.check(name, options.data)
        for name in names:
            with Progress(name) as progress:
                folder = sweep.sweep(
                    name, out, runs=options.runs, jobs=options.jobs or cores, data=options.data,
                    progress=progress,
                )  # fmt: skip
            sweep.gather(folder)
    except sweep.SweepError as error:
        raise CommandError(str(error)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted: finished runs are in {out}; repeat the command to continue"
        ) from None
    found = find(out)  # including those of earlier calls
    exhibits = dict(zip(found, write(found, out / "report.html"), strict=True))
    for folder in (out / name for name in names):
        for k, (figure, _) in enumerate(exhibits[folder].figures):
            with replaced_file(folder / f"{folder.name}{k or ''}.png") as file:
                figure.savefig(file, format="png", dpi=110)
        _print(exhibits[folder])
    print(f"\nReport: {out / 'report.html'}")
    return 0


def _print(exhibit: Exhibit) -> None:
    """Print tables and findings."""
    print(f"\n{exhibit.title}\n{'=' * len(exhibit.title)}")
    for caption, columns, lines in exhibit.tables:
        print(f"\n{caption}\n")
        cells = [columns, *([str(cell) for cell in line] for line in lines)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
    print()
    for finding in exhibit.findings:
        print(f"- {finding}")


# --- the page -----------------------------------------------------------------------------------


def write(folders: Sequence[Path], path: Path) -> list[Exhibit]:
    """Write one page about all experiments; return their exhibits."""
    shown = [_show(folder) for folder in folders]
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
        for caption, columns, lines in exhibit.tables:
            page.table(columns, lines, caption)
        page.table(["", "settings of these runs"], _settings(known))
    page.save(path)
    return [exhibit for exhibit, _ in shown]


def _show(folder: Path) -> tuple[Exhibit, dict[str, Any]]:
    """Return the exhibit of an experiment, and the record of its runs."""
    try:
        known = sweep.about(folder)
        rows = sweep.read(folder)
        return sweep.experiment(known["experiment"]).show(rows), known
    except sweep.SweepError as error:
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
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
