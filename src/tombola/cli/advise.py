"""`tombola advise`: does adaptive sampling pay on these data, by how much, how is it used?"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tombola.cli.arguments import add_data_arguments, number_from, whole_number
from tombola.cli.data import OpenData, check_clusters, open_data
from tombola.cli.errors import CommandError
from tombola.cli.progress import Progress
from tombola.datasets import DataError
from tombola.report.record import versions

__all__ = ["add_arguments", "run"]

CLUSTERS = 8  # as in the estimator
SCALER = "from sklearn.preprocessing import StandardScaler"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_data_arguments(parser)
    parser.add_argument("--clusters", type=whole_number(1), help="for clustering; default: 8")
    parser.add_argument(
        "--budget", type=number_from(1.0), default=50.0, metavar="SECONDS",
        help="what it may take, about, compiling included; with more, more rows are raced; "
        "default: 50",
    )  # fmt: skip
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--html", type=Path, metavar="PAGE", help="save a page with figures")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    """Measure, print the advice, and save the page if one is asked for."""
    if options.html is not None:
        _check_page(options.html)
    data = open_data(options)
    if options.clusters is not None and data.task != "clustering":
        raise CommandError(f"--clusters is not for {data.task}")
    clusters = CLUSTERS if options.clusters is None else options.clusters
    if data.task == "clustering":
        check_clusters(clusters, data)

    from tombola.advice import advise

    try:
        with Progress("racing") as progress:
            advice = advise(
                data.X, data.y, task=data.task, clusters=clusters, seed=options.seed,
                budget=options.budget, progress=progress,
            )  # fmt: skip
    except ValueError as error:  # numbers whose squares overflow, say
        raise DataError(str(error)) from None
    advice.notes = [*data.notes, *advice.notes]
    if _was_scaled(data):
        advice.code = _with_scaler(advice.code)
    if options.json:
        print(json.dumps(_record(data, options, advice.as_dict()), indent=1, allow_nan=False))
    else:
        print(f"{data.name}: {advice}")
    if options.html is not None:
        from tombola.advice.page import page_of

        page = page_of(advice, data.name)
        page.text(f"From {data.source}; SHA-256 `{data.checksum}`.")
        page.text(", ".join(f"{name} {value}" for name, value in versions().items()) + ".")
        page.save(options.html)
        print(f"the page is {options.html}", file=sys.stderr)
    return 0


def _check_page(path: Path) -> None:
    """Refuse a place that the page cannot be written to, before anything is computed."""
    if path.exists():
        raise CommandError(f"{path} is there already: name another by --html, or remove it")
    if not path.parent.is_dir():
        raise CommandError(f"there is no folder {path.parent} to write {path.name} into")


def _was_scaled(data: OpenData) -> bool:
    return data.preparation is not None and bool((data.preparation.scale != 1.0).any())


def _with_scaler(code: str) -> str:
    """Return the lines with columns standardised first, as they were here."""
    lines = code.split("\n")
    imports = sum(line.startswith(("import ", "from ")) for line in lines)
    first = [SCALER, *lines[:imports]]
    plain = sorted(line for line in first if line.startswith("import "))
    others = sorted(line for line in first if line.startswith("from "))
    return "\n".join([*plain, *others, "X = StandardScaler().fit_transform(X)", *lines[imports:]])


def _record(data: OpenData, options: argparse.Namespace, advice: dict[str, Any]) -> dict[str, Any]:
    """Return what is printed for machines."""
    return {
        "command": "advise",
        "data": data.record(),
        "settings": {"seed": options.seed, "budget": options.budget, "target": options.target},
        "versions": versions(),
        "advice": advice,
    }
