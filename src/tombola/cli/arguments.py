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


def add_data_folder(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names the folder of public data sets."""
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        type=Path,
        help="folder with the files of public data sets; default: $TOMBOLA_DATA",
    )


def _add_file_arguments(group: Any) -> None:
    """Add the arguments that say how a file is written."""
    group.add_argument(
        "--drop", metavar="COLUMNS", action=_Names, default=(),
        help="leave out these columns, separated by commas",
    )  # fmt: skip
    group.add_argument(
        "--keep", metavar="COLUMNS", action=_Names, default=(),
        help="use these columns though they look like row numbers or identifiers, which are left "
        "out otherwise",
    )  # fmt: skip
    group.add_argument(
        "--missing", metavar="WORD", action=_Words, default=(),
        help="a word for missing values, besides nothing, NA, N/A, NaN, null and none; may be "
        "given several times",
    )  # fmt: skip
    group.add_argument("--decimal", metavar="MARK", default=".", help="as in 1,5; default: .")
    group.add_argument("--thousands", metavar="MARK", default="", help="as in 1,000,000")
    group.add_argument("--encoding", metavar="NAME", help="of text; default: UTF-8")
    group.add_argument(
        "--dates",
        choices=tuple(ORDERS),
        help="the order in 1/2/2024, where the file leaves it open",
    )
    group.add_argument(
        "--type", dest="types", metavar="COLUMN=KIND", action=_Types, default={},
        help="a column is number, text or date, whatever it looks like (zip=text); may be given "
        "several times",
    )  # fmt: skip
    group.add_argument(
        "--rows", metavar="N", type=whole_number(1),
        help="a sample of at most N rows of a table, drawn at random in one pass; default: all, or "
        "as many as memory can hold",
    )  # fmt: skip
    group.add_argument("--features", metavar="KEY", help="the rows in an NPZ file; default: X")
    group.add_argument(
        "--skip-bad-rows", action="store_true",
        help="leave out rows that cannot be used (another number of fields, text among numbers, no "
        "target, infinite values, missing ones unless --impute) instead of stopping there",
    )  # fmt: skip


class _Words(argparse.Action):
    """Collects the values of an option that is given several times."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), *self._parts(values)))

    def _parts(self, text: str) -> list[str]:
        return [text]


class _Names(_Words):
    """Collects names that are separated by commas."""

    def _parts(self, text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]


class _Types(argparse.Action):
    """Collects the kinds of columns."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        name, mark, kind = values.rpartition("=")
        if not mark or kind not in KINDS:
            parser.error(f"argument --type: {values!r} is not COLUMN={'|'.join(KINDS)}")
        setattr(namespace, self.dest, {**getattr(namespace, self.dest), name: kind})


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `tombola.cli.data.open_data` reads."""
    parser.add_argument(
        "file",
        metavar="DATA",
        help="a CSV, TSV, Parquet, Arrow, NPZ, NPY or LIBSVM file, also with .gz or .zst; - for "
        "standard input; or a name that `tombola datasets` lists (./digits is a file, digits is a "
        "name)",
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
    parser.add_argument(
        "--encode", choices=ENCODE, default="auto",
        help="what becomes of text with more than 200 different values: a column of 0 and 1 for "
        "each, 64 columns by its hash, the share of rows with the same text, or nothing; auto: "
        "a column for each of the most common ones, if most rows have one of these, else the "
        "share; identifiers are dropped",
    )  # fmt: skip
    _add_file_arguments(parser.add_argument_group("files as they come"))
    add_data_folder(parser)
    parser.add_argument(
        "--download", action="store_true", help="download a public data set from OpenML"
    )
