"""`tombola datasets`: list the names that other commands accept as DATA."""

import argparse

from tombola.cli.arguments import add_data_folder
from tombola.datasets import catalogue

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_data_folder(parser)


def run(options: argparse.Namespace) -> int:
    """Print one line for each data set: name, task, availability and description."""
    lines = []
    for entry in catalogue(options.data):
        where = entry.kind if entry.kind != "public" else "found" if entry.path else "not found"
        lines.append((entry.name, entry.task, where, entry.what))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())
    if any(where == "not found" for _, _, where, _ in lines):
        print("\nPublic data sets are files in the folder given by --data or TOMBOLA_DATA.")
        print("A command that needs a missing one names the file, and where to get it.")
    return 0
