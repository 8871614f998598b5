"""`tombola reproduce`: the experiments of the paper, on real data."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from tombola.cli import report
from tombola.cli.arguments import add_data_folder, whole_number
from tombola.cli.errors import CommandError
from tombola.cli.progress import Progress
from tombola.experiments.exhibit import Exhibit
from tombola.experiments.rows import SweepError, gather
from tombola.experiments.sweep import NAMES, check, sweep
from tombola.state.files import replaced_file

__all__ = ["add_arguments", "play", "print_exhibit", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", choices=[*NAMES, "all"], help="the experiment")
    add_data_folder(parser)
    parser.add_argument(
        "--runs", type=whole_number(1), default=10,
        help="repetitions (k-means: starts, and seeds for each); default: 10, as in the paper",
    )  # fmt: skip
    parser.add_argument("--jobs", type=whole_number(1), help="parallel runs; default: all cores")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path("out/reproduce"),
        help="where finished runs are kept, so that they are not repeated",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Do the runs that are missing, then show the results."""
    names = NAMES if options.name == "all" else (options.name,)
    exhibits = play(names, options.out, options.runs, options.jobs, options.data)
    for exhibit in exhibits:
        print_exhibit(exhibit)
    print(f"\nReport: {options.out / 'report.html'}")
    return 0


def play(
    names: Sequence[str], out: Path, runs: int, jobs: int | None, data: Path | None
) -> list[Exhibit]:
    """Do the runs that are missing, gather their rows, and write figures and the page."""
    jobs = jobs or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else jobs or 1
    if out.exists() and not out.is_dir():
        raise CommandError(f"{out} is a file, not a folder")
    folders = []
    try:
        for name in names:  # report missing data before anything runs
            check(name, data)
        for name in names:
            with Progress(name) as progress:
                folders.append(sweep(name, out, runs=runs, jobs=jobs, data=data, progress=progress))
            gather(folders[-1])
    except SweepError as error:
        raise CommandError(str(error)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted: finished runs are in {out}; repeat the command to continue"
        ) from None
    found = report.find(out)  # including those of earlier calls
    exhibits = dict(zip(found, report.write(found, out / "report.html"), strict=True))
    for folder in folders:
        for k, (figure, _) in enumerate(exhibits[folder].figures):
            with replaced_file(folder / f"{folder.name}{k or ''}.png") as file:
                figure.savefig(file, format="png", dpi=110)
    return [exhibits[folder] for folder in folders]


def print_exhibit(exhibit: Exhibit) -> None:
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
