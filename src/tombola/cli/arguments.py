"""Arguments that several commands share."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tombola.datasets.base import ENCODE, IMPUTE, TASKS
from tombola.datasets.dates import ORDERS
from tombola.datasets.reading import KINDS

__all__ = ["add_data_arguments", "add_data_folder", "number_from", "whole_number"]


def whole_number(least: int) -> Callable[[str], Any]:
    """Return an argparse type for integers that are at least `least`."""
    return _checked(int, lambda value: value >= least, f"an integer of at least {least}")


def number_from(
    low: float, below: float = math.inf, most: float = math.inf
) -> Callable[[str], Any]:
    """Return an argparse type for numbers from `low` to `most` that are less than `below`."""
    limit = "" if math.isinf(below) else f" and less than {below:g}"
    what = f"a number of at least {low:g}{limit}"
    if not math.isinf(most):
        what = f"a number from {low:g} to {most:g}"
    return _checked(float, lambda value: low <= value <= most and value < below, what)


def _checked(kind: Any, fits: Callable[[Any], bool], what: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return convert


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _kind(text: str) -> tuple[str, str]:
    name, mark, kind = text.rpartition("=")
    if not mark or kind not in KINDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN={'|'.join(KINDS)}")
    return name, kind


def add_data_folder(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the folder of public data sets."""
    parser.add_argument(
        "--data", metavar="FOLDER", type=Path,
        help="folder with the files of public data sets; default: $TOMBOLA_DATA",
    )  # fmt: skip


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `tombola.cli.data.open_data` reads."""
    add = parser.add_argument
    add(
        "file", metavar="DATA",
        help="a CSV, TSV, Parquet, Arrow, NPZ, NPY or LIBSVM file, also with .gz or .zst; - for "
        "standard input; or a name that `tombola datasets` lists (./digits is a file, digits is a "
        "name)",
    )  # fmt: skip
    add("--target", metavar="COLUMN", help="the column to predict: its name, or its number from 0")
    add("--task", choices=TASKS, help="default: guessed from the target")
    add("--impute", choices=IMPUTE, help="fill in missing values; default: refuse them")
    add(
        "--scale", action=argparse.BooleanOptionalAction,
        help="scale dense columns to mean 0 and standard deviation 1; default: yes, except for "
        "clustering, where it changes the distances",
    )  # fmt: skip
    add(
        "--encode", choices=ENCODE, default="auto",
        help="what becomes of text with more than 200 different values: a column of 0 and 1 for "
        "each, 64 columns by its hash, the share of rows with the same text, or nothing; auto: "
        "a column for each of the most common ones, if most rows have one of these, else the "
        "share; identifiers are dropped",
    )  # fmt: skip
    add_data_folder(parser)
    add("--download", action="store_true", help="download a public data set from OpenML")
    add = parser.add_argument_group("files as they come").add_argument
    several: dict[str, Any] = {
        "metavar": "COLUMNS",
        "action": "extend",
        "type": _names,
        "default": [],
    }
    add("--drop", **several, help="leave out these columns, separated by commas")
    add(
        "--keep", **several,
        help="use these columns though they look like row numbers or identifiers, which are left "
        "out otherwise",
    )  # fmt: skip
    add(
        "--missing", metavar="WORD", action="append", default=[],
        help="a word for missing values, besides nothing, NA, N/A, NaN, null and none; may be "
        "given several times",
    )  # fmt: skip
    add("--decimal", metavar="MARK", default=".", help="as in 1,5; default: .")
    add("--thousands", metavar="MARK", default="", help="as in 1,000,000")
    add("--encoding", metavar="NAME", help="of text; default: UTF-8")
    order = "the order in 1/2/2024, where the file leaves it open"
    add("--dates", choices=tuple(ORDERS), help=order)
    add(
        "--type", dest="types", metavar="COLUMN=KIND", action="append", type=_kind, default=[],
        help="a column is number, text or date, whatever it looks like (zip=text); may be given "
        "several times",
    )  # fmt: skip
    add(
        "--rows", metavar="N", type=whole_number(1),
        help="a sample of at most N rows of a table, drawn at random in one pass; default: all, or "
        "as many as memory can hold",
    )  # fmt: skip
    add("--features", metavar="KEY", help="the rows in an NPZ file; default: X")
    add(
        "--skip-bad-rows", action="store_true",
        help="leave out rows that cannot be used (another number of fields, text among numbers, no "
        "target, infinite values, missing ones unless --impute) instead of stopping there",
    )  # fmt: skip
