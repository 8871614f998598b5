"""`tombola demo`: two small comparisons on generated data, and a page."""

import argparse
from pathlib import Path

from tombola.cli.folders import check_folder
from tombola.cli.reproduce import play, print_exhibit

__all__ = ["add_arguments", "run"]

RUNS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=Path,
        default=Path("out/demo"),
        help="where to write rows and page",
    )
    parser.add_argument(
        "--resume", action="store_true", help="continue in a folder with earlier runs"
    )


def run(options: argparse.Namespace) -> int:
    """Run the comparisons, print the table and write the page."""
    check_folder(options.out, resume=options.resume)
    print("Shuffled epochs against adaptive draws on two generated data sets: about a minute.")
    for exhibit in play(("demo",), options.out, RUNS, None, None):
        print_exhibit(exhibit)
    print(f"\nReport: {options.out / 'report.html'}")
    return 0
