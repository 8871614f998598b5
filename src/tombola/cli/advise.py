"""`tombola advise`: does adaptive sampling pay on these data, how much, and how is it used?"""

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

CLUSTERS = 8  # as in `advise`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_data_arguments(parser)
    parser.add_argument("--n-clusters", type=whole_number(1), help="for clustering; default: 8")
    parser.add_argument(
        "--budget", type=number_from(1.0), default=50.0, metavar="SECONDS",
        help="roughly the time it may take, compiling included; more of it races more rows; "
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
    if options.n_clusters is not None and data.task != "clustering":
        raise CommandError(f"--n-clusters is not for {data.task}")
    n_clusters = CLUSTERS if options.n_clusters is None else options.n_clusters
    if data.task == "clustering":
        check_clusters(n_clusters, data)

    from sklearn.preprocessing import StandardScaler

    from tombola.advice import advise

    scaled = data.preparation is not None and bool((data.preparation.scale != 1.0).any())
    try:
        with Progress("racing") as progress:
            advice = advise(
                data.X, data.y, task=data.task, n_clusters=n_clusters,
                scaled_by=[StandardScaler()] if scaled else [],
                seed=options.seed, budget=options.budget, progress=progress,
            )  # fmt: skip
    except ValueError as error:  # for example, numbers whose squares overflow
        raise DataError(str(error)) from None
    advice.notes = [*data.notes, *advice.notes]
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
    """Refuse a path that the page cannot be written to, before anything is computed."""
    if path.exists():
        raise CommandError(f"{path} exists already: name another with --html, or remove it")
    if not path.parent.is_dir():
        raise CommandError(f"there is no folder {path.parent} to write {path.name} into")


def _record(data: OpenData, options: argparse.Namespace, advice: dict[str, Any]) -> dict[str, Any]:
    """Return the record that --json prints."""
    return {
        "command": "advise",
        "data": data.record(),
        "settings": {"seed": options.seed, "budget": options.budget, "target": options.target},
        "versions": versions(),
        "advice": advice,
    }
