"""`tombola demo`: two small races, with nothing to fetch, and a page."""

import argparse
from pathlib import Path

from tombola.cli.common import check_folder
from tombola.cli.reproduce import play, print_exhibit

__all__ = ["add_arguments", "run"]

RUNS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path("out/demo"), help="for rows and page"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on in a folder that holds runs of it"
    )


def run(options: argparse.Namespace) -> int:
    """Race, print the table, write the page."""
    check_folder(options.out, resume=options.resume)
    print("Shuffled epochs against adaptive draws, on two generated sets; about a minute.")
    for exhibit in play(("demo",), options.out, RUNS, None, None):
        print_exhibit(exhibit)
    print(f"\nThe page: {options.out / 'report.html'}")
    return 0
