"""`tombola reproduce`: the experiments of the paper, which are beside the package in a clone."""

import argparse
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType

import tombola
from tombola.cli.arguments import add_data_folder, whole_number
from tombola.cli.errors import CommandError
from tombola.state.files import read_json

__all__ = ["NAMES", "add_arguments", "clone", "experiments", "find", "run"]

NAMES = ("regret", "voc", "hyper", "kmeans", "coordinates")  # modules of `experiments`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", choices=[*NAMES, "all"], help="the experiment")
    add_data_folder(parser)
    parser.add_argument(
        "--runs", type=whole_number(1), default=10,
        help="repetitions (k-means: starts, and seeds for each); default: 10, as in the paper",
    )  # fmt: skip
    parser.add_argument("--jobs", type=whole_number(1), help="parallel runs; default: all cores")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path("out/reproduce"),
        help="where finished runs are kept, so that they are not repeated",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Do the runs that are missing, then show the results."""
    code: int = experiments().run(options)
    return code


def find(given: Path) -> list[Path]:
    """Return the folder if it holds an experiment, and its subfolders that do."""
    found = []
    for place in (given, *(given / name for name in NAMES)):
        with suppress(OSError, ValueError):  # other commands write other records
            found += [place] * ("experiment" in read_json(place / "about.json"))
    return found


def experiments() -> ModuleType:
    """Return `experiments/reproduce.py` of the clone, or raise what to do without one."""
    root = clone()
    if root is None:
        raise CommandError(
            "the experiments of the paper are not part of the installed package: `git clone` the "
            "repository of tombola, `pip install -e .` there, and run this command in the clone"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # also that of the processes of --jobs
    return import_module("experiments.reproduce")


def clone() -> Path | None:
    """Return the clone that tombola is imported from; the figures of another are of other code."""
    root = Path(tombola.__file__).parents[2]
    needed = ("experiments/reproduce.py", "src/tombola/py.typed")
    return root if all((root / name).is_file() for name in needed) else None
