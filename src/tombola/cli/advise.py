"""`tombola advise`: which model to use on these data, and do adaptive draws pay?"""

import argparse
import json
from pathlib import Path
from typing import Any

from tombola.cli.arguments import add_data_arguments, number_from, whole_number
from tombola.cli.data import OpenData, check_clusters, open_data
from tombola.cli.errors import CommandError
from tombola.cli.output import check_new_file, say
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
        "--budget", type=number_from(1.0), default=10.0, metavar="SECONDS",
        help="roughly the time it may take, or 30 times the fastest fit if that is more; "
        "default: 10",
    )  # fmt: skip
    parser.add_argument(
        "--alpha", type=number_from(1e-300), help="penalty of linear models; default: 1 / n"
    )
    parser.add_argument("--l1", action="store_true", help="penalise |w| in place of |w|^2 / 2")
    parser.add_argument(
        "--test", type=number_from(0.01, 1.0), metavar="SHARE",
        help="share of rows to hold out for the score; default: 0.2, or the test rows of the data",
    )  # fmt: skip
    parser.add_argument("--seed", type=whole_number(0), default=0)
    parser.add_argument("--html", type=Path, metavar="PAGE", help="save a page with figures")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    """Measure, print the advice, and save the page if one is asked for."""
    if options.html is not None:
        check_new_file(options.html, "--html")
    data = open_data(options, hold_out=True)
    if options.n_clusters is not None and data.task != "clustering":
        raise CommandError(f"--n-clusters is not for {data.task}")
    if data.task == "clustering" and (options.alpha is not None or options.l1):
        raise CommandError(f"--{'l1' if options.l1 else 'alpha'} is not for clustering")
    n_clusters = CLUSTERS if options.n_clusters is None else options.n_clusters
    if data.task == "clustering":
        check_clusters(n_clusters, data)

    from tombola.advice import advise

    try:
        with Progress("racing") as progress:
            advice = advise(
                data.X, data.y, task=data.task, X_test=data.X_test, y_test=data.y_test,
                n_clusters=n_clusters, alpha=options.alpha,
                l1=options.l1, reading=data.code(), seed=options.seed, budget=options.budget,
                progress=progress,
            )  # fmt: skip
    except ValueError as error:  # for example, numbers whose squares overflow
        raise DataError(str(error)) from None
    advice.notes = [*data.notes, *advice.notes]
    if options.json:
        print(json.dumps(_record(data, options, advice.as_dict()), indent=1, allow_nan=False))
    else:
        say(*f"{data.name}: {advice}".split("\n"))
    if options.html is not None:
        from tombola.advice.render import page as page_of

        page = page_of(advice.report(), f"Which model for {data.name}, and do adaptive draws pay?")
        page.text(f"From {data.source}; SHA-256 `{data.checksum}`.")
        page.text(", ".join(f"{name} {value}" for name, value in versions().items()) + ".")
        page.save(options.html)
        say(f"the page is {options.html}", error=True)
    return 0


def _record(data: OpenData, options: argparse.Namespace, advice: dict[str, Any]) -> dict[str, Any]:
    """Return the record that --json prints."""
    return {
        "command": "advise",
        "data": data.record(),
        "settings": {
            name: getattr(options, name)
            for name in ("seed", "budget", "target", "alpha", "l1", "test", "n_clusters")
        },
        "versions": versions(),
        "advice": advice,
    }
