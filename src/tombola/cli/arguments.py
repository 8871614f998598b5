"""Arguments that several commands share."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

from tombola.datasets import TASKS
from tombola.datasets.prepare import IMPUTE

__all__ = ["add_data_arguments", "add_data_folder", "number_from", "whole_number"]


def whole_number(least: int) -> Callable[[str], int]:
    """Return an argparse type for integers that are at least `least`."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least {least}")
        return value

    return convert


def number_from(low: float, below: float = math.inf) -> Callable[[str], float]:
    """Return an argparse type for numbers that are at least `low` and less than `below`."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value < below:
            limit = "" if math.isinf(below) else f" and less than {below:g}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {low:g}{limit}")
        return value

    return convert


def add_data_folder(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the folder of public data sets."""
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        type=Path,
        help="folder with the files of public data sets; default: $TOMBOLA_DATA",
    )


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `tombola.cli.data.open_data` reads."""
    parser.add_argument(
        "file",
        metavar="DATA",
        help="a CSV, Parquet, NPZ or LIBSVM file, or a name that `tombola datasets` lists "
        "(./digits is a file, digits is a name)",
    )
    parser.add_argument(
        "--target", metavar="COLUMN", help="the column to predict: its name, or its number from 0"
    )
    parser.add_argument("--task", choices=TASKS, help="default: guessed from the target")
    parser.add_argument(
        "--impute", choices=IMPUTE, help="fill in missing values; default: refuse them"
    )
    parser.add_argument(
        "--scale", action=argparse.BooleanOptionalAction,
        help="scale dense columns to mean 0 and standard deviation 1; default: yes, except for "
        "clustering, where it changes the distances",
    )  # fmt: skip
    add_data_folder(parser)
    parser.add_argument(
        "--download", action="store_true", help="download a public data set from OpenML"
    )
