"""`tombola reproduce`: the experiments of the paper, which are beside the package in a clone."""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import tombola
from tombola.cli.errors import CommandError

__all__ = ["add_arguments", "clone", "experiments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    experiments().add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Do the runs that are missing, then show the results."""
    code: int = experiments().run(options)
    return code


def experiments() -> ModuleType:
    """Return `experiments/reproduce.py` of the clone, or raise what to do without one."""
    root = clone()
    if root is None:
        raise CommandError(
            "the experiments of the paper are not part of the installed package: "
            "`git clone` the repository of tombola, and run this command in the clone"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # also that of the processes of --jobs
    return import_module("experiments.reproduce")


def clone() -> Path | None:
    """Return the clone that tombola is imported from, else the current folder if it is one."""
    needed = ("experiments/reproduce.py", "src/tombola/py.typed")
    places = (Path(tombola.__file__).parents[2], Path.cwd())
    return next((it for it in places if all((it / name).is_file() for name in needed)), None)
