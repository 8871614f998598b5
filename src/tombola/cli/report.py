"""`tombola report`: write a page from the rows of experiments, or from runs of `tombola train`."""

import argparse
from pathlib import Path

from tombola.cli.errors import CommandError
from tombola.cli.output import check_new_file, say
from tombola.cli.reproduce import experiments, find
from tombola.cli.runs import read_run

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "folders", metavar="RUN", nargs="+", type=Path,
        help="a folder written by `tombola train`, or several, to see them side by side; or a "
        "folder written by `tombola reproduce`, or that of one experiment",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="PAGE", type=Path,
        help="default: report.html in the first folder; for several runs of `tombola train` "
        "comparison.html",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Write the page and print its path."""
    for folder in options.folders:
        if not folder.is_dir():
            raise CommandError(f"there is no folder {folder}")
    trained = [(folder / "run.json").is_file() for folder in options.folders]
    if any(trained) and not all(trained):
        other, train = (options.folders[trained.index(it)] for it in (False, True))
        raise CommandError(
            f"{other} holds no run of `tombola train`, {train} does: one page shows either runs "
            "or experiments"
        )
    several = trained[0] and len(options.folders) > 1
    path = options.out or options.folders[0] / ("comparison.html" if several else "report.html")
    if options.out is not None:
        check_new_file(path, "--out")
    if trained[0]:
        _write_runs(options.folders, path)
    else:
        _write_experiments(options.folders, path)
    say(f"{path}")
    return 0


def _write_runs(folders: list[Path], path: Path) -> None:
    """Write the page of a run, or of several side by side."""
    from tombola.cli.run_page import comparison, report

    places = [folder.resolve() for folder in folders]
    if len(set(places)) < len(places):
        twice = next(folder for k, folder in enumerate(folders) if places[k] in places[:k])
        raise CommandError(f"{twice} is given twice")
    runs = [read_run(*pair) for pair in zip(folders, _labels(places), strict=True)]
    page = report(runs[0]) if len(runs) == 1 else comparison(runs)
    page.save(path)


def _labels(places: list[Path]) -> list[str]:
    """Return the shortest ends of different paths that differ."""
    length = 1
    while len({place.parts[-length:] for place in places}) < len(places):
        length += 1
    return ["/".join(place.parts[-length:]) for place in places]


def _write_experiments(given: list[Path], path: Path) -> None:
    """Write the page about the experiments in these folders and their subfolders."""
    folders: list[Path] = []
    for folder in given:
        found = find(folder)
        if not found:
            raise CommandError(
                f"{folder} holds no results of `tombola train` or `tombola reproduce`"
            )
        folders += found
    experiments().write(folders, path)
