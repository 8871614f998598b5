"""What the commands share: opening data, folders to write into, progress, the record of a run."""

import argparse
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.datasets import (
    TASKS,
    DataError,
    Dataset,
    Preparation,
    catalogue,
    load,
    prepare,
    read,
    split,
)
from tombola.datasets.base import in_words, nearest_name, no_such
from tombola.datasets.prepare import IMPUTE

__all__ = [
    "CommandError",
    "OpenData",
    "Progress",
    "add_data_arguments",
    "check_clusters",
    "check_folder",
    "number_from",
    "open_data",
    "wants_scale",
    "whole_number",
    "write_text",
]

HELD_OUT = 0.2  # share of rows to test on, where nothing else is said


class CommandError(Exception):
    """What a person asked for cannot be done: one sentence, printed instead of a traceback."""


# --- arguments ----------------------------------------------------------------------------------


def whole_number(least: int) -> Callable[[str], int]:
    """Return what argparse reads an integer with that is at least so large."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return value

    return convert


def number_from(low: float, below: float = math.inf) -> Callable[[str], float]:
    """Return what argparse reads a number with that is at least `low` and less than `below`."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value < below:
            limit = "" if math.isinf(below) else f" to below {below:g}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low:g}{limit}")
        return value

    return convert


# --- data ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OpenData:
    """Data that are ready to train on.

    Attributes
    ----------
    name, task, source, checksum, notes
        As in `tombola.datasets.Dataset`.
    X, X_test : ndarray or scipy CSR matrix
        X_test is None where nothing was held out.
    y, y_test : ndarray or None
        Labels of any kind for classification, float64 for regression, None for clustering.
    columns : tuple of str
        Names of the columns of X; empty where they have none.
    preparation : Preparation or None
        What was done to the columns of X; None where X is sparse, which is left as it is.
    """

    name: str
    task: str
    X: Any
    y: NDArray[Any] | None
    X_test: Any
    y_test: NDArray[Any] | None
    columns: tuple[str, ...]
    source: str
    checksum: str
    notes: tuple[str, ...]
    preparation: Preparation | None

    def record(self) -> dict[str, Any]:
        """Return what the record of a run says about the data."""
        rows, columns = self.X.shape
        return {
            "name": self.name,
            "source": self.source,
            "checksum": self.checksum,
            "rows": rows,
            "columns": columns,
        }


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that `open_data` reads."""
    parser.add_argument(
        "file",
        metavar="DATA",
        help="a CSV, Parquet, NPZ or LIBSVM file, or a name that `tombola datasets` lists "
        "(./digits is a file, digits is a name)",
    )
    parser.add_argument(
        "--target", metavar="COLUMN", help="what to predict: a column, by name or number from 0"
    )
    parser.add_argument("--task", choices=TASKS, help="by default guessed from the target")
    parser.add_argument(
        "--impute", choices=IMPUTE, help="fill in missing values (by default they are refused)"
    )
    parser.add_argument(
        "--scale", action=argparse.BooleanOptionalAction,
        help="give dense columns mean 0 and deviation 1; by default not for clustering, where "
        "it changes what is near",
    )  # fmt: skip
    parser.add_argument(
        "--data", metavar="FOLDER", help="where files of public sets are; or set TOMBOLA_DATA"
    )
    parser.add_argument(
        "--download", action="store_true", help="fetch a public set from OpenML if it has it"
    )


def open_data(options: argparse.Namespace, *, hold_out: bool = False) -> OpenData:
    """Return the data that the arguments ask for, checked and prepared.

    Parameters
    ----------
    options : Namespace
        With the arguments of `add_data_arguments`; with `hold_out` also `test` (a share, or None)
        and `seed`.
    hold_out : bool, default=False
        Whether to hold rows out for testing. Without a share these are the test part of the set,
        if it has one, and else a fifth of the rows, stratified by class. What is learnt about
        columns is learnt from the other rows.

    Raises
    ------
    DataError
    """
    data = _find(options)
    X, y, X_test, y_test = data.X, data.y, None, None
    notes = list(data.notes)
    if data.task == "clustering":
        y = None
    if hold_out and options.test is None and data.X_test is not None:
        X_test, y_test = data.X_test, data.y_test
        notes.append(f"The test part of {data.name}, {X_test.shape[0]:,} rows, was held out.")
    elif hold_out and (share := HELD_OUT if options.test is None else options.test) > 0:
        labels = y if data.task == "classification" else None
        train, test = split(X.shape[0], share, options.seed, labels)
        if not len(test):
            raise DataError(f"{X.shape[0]} rows are too few to hold out {share:g} of them")
        X, X_test = X[train], X[test]
        if y is not None:
            y, y_test = y[train], y[test]
        notes.append(f"{len(test):,} of {len(train) + len(test):,} rows were held out for testing.")
    preparation, columns = None, data.columns
    if not hasattr(X, "tocsr"):
        preparation = prepare(
            X, columns, impute=options.impute, scale=wants_scale(options, data.task)
        )
        X = preparation.apply(X)
        X_test = None if X_test is None else preparation.apply(X_test)
        columns = preparation.columns
        notes += preparation.notes
    return OpenData(
        data.name, data.task, X, y, X_test, y_test if data.task != "clustering" else None,
        columns, data.source, data.checksum, tuple(notes), preparation,
    )  # fmt: skip


def wants_scale(options: argparse.Namespace, task: str) -> bool:
    """Return whether dense columns are to be standardised."""
    return task != "clustering" if options.scale is None else bool(options.scale)


def _find(options: argparse.Namespace) -> Dataset:
    """Return the set of that name, or what the file holds."""
    known = [entry.name for entry in catalogue()]
    if options.file in known:
        return _for_task(load(options.file, options.data, download=options.download), options)
    if not Path(options.file).exists():
        raise DataError(
            f"there is no file {options.file!r}, and no data set of that name: "
            f"{nearest_name(options.file, known)}`tombola datasets` lists them"
        )
    with Progress(f"reading {Path(options.file).name}") as progress:
        return read(
            options.file,
            options.target,
            task=options.task,
            impute=options.impute is not None,
            progress=progress,
        )


def _for_task(data: Dataset, options: argparse.Namespace) -> Dataset:
    """Return a named set as the arguments want it."""
    task = options.task or data.task
    if options.target is not None and not (data.targets and task == "classification"):
        raise DataError(f"{data.name} needs no --target for {task}: leave it out")
    if task == "clustering":
        return replace(data, task=task)
    if data.targets and task == "classification":
        return _one_class(data, options.target)
    numbers = data.y is not None and data.y.dtype.kind in "fiu" and data.y.ndim == 1
    if data.y is None or (task == "regression" and not numbers):
        raise DataError(f"{data.name} is for {data.task}: it has no target for {task}")
    if task == "classification" and data.y.dtype.kind == "f":
        raise DataError(f"{data.name} is for {data.task}: its target has no classes")
    y = data.y.astype(np.float64) if task == "regression" else data.y
    return replace(data, task=task, y=y)


def _one_class(data: Dataset, target: str | None) -> Dataset:
    """Return the set with one of its targets, 1 or -1; rows that are hard to tell are left out."""
    if target is None:
        raise DataError(f"what is to be predicted? --target names one: {in_words(data.targets)}")
    if target not in data.targets:
        raise no_such("target", target, data.targets)
    assert data.y is not None
    assert data.y_test is not None
    y, y_test = (part[:, data.targets.index(target)] for part in (data.y, data.y_test))
    note = f"{(y == 0).sum() + (y_test == 0).sum():,} rows, difficult to tell, were left out."
    return replace(
        data, X=data.X[y != 0], y=y[y != 0], X_test=data.X_test[y_test != 0],
        y_test=y_test[y_test != 0], targets=(), notes=(*data.notes, note),
    )  # fmt: skip


def check_clusters(clusters: int, data: OpenData) -> None:
    """Refuse more clusters than there are rows."""
    n = data.X.shape[0]
    if not 1 <= clusters <= n:
        raise DataError(f"--clusters must be from 1 to {n:,}, the number of rows, got {clusters:,}")


# --- folders and files --------------------------------------------------------------------------


def check_folder(folder: Path, *, resume: bool = False) -> None:
    """Refuse a folder that something is in, unless a run is to go on there; make nothing."""
    if folder.exists() and not folder.is_dir():
        raise CommandError(f"{folder} is a file, not a folder")
    if not resume and folder.is_dir() and any(folder.iterdir()):
        raise CommandError(
            f"{folder} is there already and not empty: name another by --out, remove it, or go on "
            "with --resume"
        )


def write_text(path: Path, text: str) -> None:
    """Write a file; one of that name is replaced only once all is written."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


# --- progress -----------------------------------------------------------------------------------


class Progress:
    """Shows on stderr how far something is: a bar in a terminal, elsewhere a line now and then.

    Nothing is shown of what takes less than two seconds, and the bar is gone in the end. Call it
    with what is done and what there is in all.

    Examples
    --------
    >>> with Progress("counting") as progress:
    ...     for k in range(100):
    ...         progress(k + 1, 100)
    """

    FIRST, AGAIN = 2.0, 20.0  # seconds until something is shown, and between two lines

    def __init__(self, what: str) -> None:
        self.what = what
        self._state: tuple[int, int | None] = (0, None)
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        self._began = time.monotonic()
        self._due = self._began + self.FIRST
        self._timer = threading.Timer(self.FIRST, self._show)  # also where no call comes
        self._timer.daemon = True
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __call__(self, done: int, total: int) -> None:
        """Say how far it is."""
        self._state = done, total
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if now >= self._due and not sys.stderr.isatty():
            self._due = now + self.AGAIN
            print(f"{self.what}: {100 * done / total:.0f}%", file=sys.stderr, flush=True)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
            TimeRemainingColumn(), console=Console(stderr=True), transient=True,
        )  # fmt: skip
        done, total = self._state
        self._task = bar.add_task(self.what, completed=done, total=total)
        bar.start()
        self._bar = bar

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()
        if self._bar is not None:
            self._bar.stop()
