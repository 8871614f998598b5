"""Data sets: public ones by name, small built-in and generated ones, and files of your own."""

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tombola.datasets import built_in, public
from tombola.datasets.base import TASKS, DataError, Dataset, nearest_name
from tombola.datasets.files import read, read_table
from tombola.datasets.generated import GENERATED, heavy_tailed, imbalanced, uneven_regression
from tombola.datasets.parts import for_task, hold_out, split

if TYPE_CHECKING:
    from tombola.datasets.preparer import Preparer
    from tombola.datasets.table import Table

__all__ = ["TASKS", "DataError", "Dataset", "Entry", "Preparer", "Table", "catalogue", "for_task",
           "heavy_tailed", "hold_out", "imbalanced", "load", "read", "read_table", "split",
           "uneven_regression"]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in ("Preparer", "Table"):  # need scikit-learn and pyarrow
        return getattr(import_module(f"tombola.datasets.{name.lower()}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True)
class Entry:
    """A data set that `load` can return."""

    name: str
    task: str
    what: str
    kind: str  # "built in", "generated" or "public"
    path: Path | None = None  # the file of a public set, if it was found


def load(
    name: str, folder: str | os.PathLike[str] | None = None, *, download: bool = False
) -> Dataset:
    """Return a data set by name; `catalogue` lists the names.

    Parameters
    ----------
    name : str
    folder : path, optional
        The folder with the files of public sets; by default $TOMBOLA_DATA.
    download : bool, default=False
        Whether to download a public set from OpenML if its file is missing.

    Examples
    --------
    >>> load("digits")
    Dataset('digits', 1797 x 64, dense, classification)
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string, got {name!r}")
    if name in built_in.BUILT_IN:
        return built_in.load(name)
    if name in GENERATED:
        return GENERATED[name].make()
    if name in public.PUBLIC:
        return public.load(name, folder, download=download)
    known = [entry.name for entry in catalogue()]
    raise DataError(
        f"there is no data set {name!r}: {nearest_name(name, known)}`tombola datasets` lists them"
    )


def catalogue(folder: str | os.PathLike[str] | None = None) -> list[Entry]:
    """Return all data sets that `load` knows, with the files of public sets in a folder."""
    return [
        *(Entry(name, *about, "built in") for name, about in built_in.BUILT_IN.items()),
        *(Entry(name, it.task, it.what, "generated") for name, it in GENERATED.items()),
        *(
            Entry(name, it.task, it.what, "public", public.find(name, folder))
            for name, it in public.PUBLIC.items()
        ),
    ]
