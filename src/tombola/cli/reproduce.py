"""`tombola reproduce`: the paper's experiments, on real data."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from tombola.cli import report
from tombola.cli.common import CommandError, Progress, whole_number
from tombola.experiments.sweep import NAMES, Exhibit, SweepError, check, gather, sweep

__all__ = ["add_arguments", "play", "print_exhibit", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", choices=[*NAMES, "all"], help="which experiment")
    parser.add_argument(
        "--data", metavar="FOLDER", type=Path,
        help="where files of public sets are; or set TOMBOLA_DATA",
    )  # fmt: skip
    parser.add_argument(
        "--runs", type=whole_number(1), default=10,
        help="how often all is repeated (k-means: starts, and seeds for each); 10 is the paper's",
    )  # fmt: skip
    parser.add_argument("--jobs", type=whole_number(1), help="runs at a time; by default all cores")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path("out/reproduce"),
        help="where runs that are finished are kept, and not done again",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Do what is left to do of the runs, then show what they say."""
    names = NAMES if options.name == "all" else (options.name,)
    exhibits = play(names, options.out, options.runs, options.jobs, options.data)
    for exhibit in exhibits:
        print_exhibit(exhibit)
    print(f"\nThe page: {options.out / 'report.html'}")
    return 0


def play(
    names: Sequence[str], out: Path, runs: int, jobs: int | None, data: Path | None
) -> list[Exhibit]:
    """Do all runs that are not done, gather their rows, draw figures and the page."""
    jobs = jobs or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else jobs or 1
    if out.exists() and not out.is_dir():
        raise CommandError(f"{out} is a file, not a folder")
    folders = []
    try:
        for name in names:  # what is missing is said before anything runs
            check(name, data)
        for name in names:
            with Progress(name) as progress:
                folders.append(sweep(name, out, runs=runs, jobs=jobs, data=data, progress=progress))
            gather(folders[-1])
    except SweepError as error:
        raise CommandError(str(error)) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted: finished runs are in {out}, and the same command goes on"
        ) from None
    there = report.find(out)  # those of earlier calls, too
    exhibits = dict(zip(there, report.write(there, out / "report.html"), strict=True))
    for folder in folders:
        for k, (figure, _) in enumerate(exhibits[folder].figures):
            figure.savefig(folder / f"{folder.name}{k or ''}.png", dpi=110)
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
