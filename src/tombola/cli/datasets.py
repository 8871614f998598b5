"""`tombola datasets`: the names that other commands take for DATA."""

import argparse

from tombola.datasets import catalogue

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--data", metavar="FOLDER", help="where files of public sets are; or set TOMBOLA_DATA"
    )


def run(options: argparse.Namespace) -> int:
    """Print a line for each set: its name, what it is for, what it is, where it is."""
    lines = []
    for entry in catalogue(options.data):
        where = entry.kind if entry.kind != "public" else "found" if entry.path else "not found"
        lines.append((entry.name, entry.task, where, entry.what))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
    if any(where == "not found" for _, _, where, _ in lines):
        print("\nPublic sets are files in a folder: --data FOLDER or TOMBOLA_DATA names it, and a")
        print("command that misses one says which file to put there, and where it comes from.")
    return 0
