"""`tombola demo`: three comparisons on real data, a page and a picture, in about a minute."""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

from tombola.cli.folders import check_folder
from tombola.cli.progress import Progress
from tombola.demo import clusters, linear, photograph
from tombola.demo.page import headline, page, picture, summary
from tombola.demo.parts import FULL, Pictures, Section, Size
from tombola.report.record import versions
from tombola.report.rows import Row, as_csv
from tombola.state.files import replaced_file, write_text

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=Path,
        default=Path("out/demo"),
        help="where to write the page, the picture and the rows",
    )


def run(options: argparse.Namespace, size: Size = FULL) -> int:
    """Do the comparisons; print what they show; write page, picture and rows."""
    check_folder(options.out, resumable=False)
    print("Three comparisons on data that come with scikit-learn: about a minute.", flush=True)
    began = time.monotonic()
    rows: list[Row] = []
    colours: Pictures = {}
    fits: Pictures = {}
    total = sum(part.units(size) for part in (linear, clusters, photograph))
    with Progress("demo") as progress:
        for done, found in enumerate(_play(size, colours, fits), 1):
            rows += found
            progress(done, total)
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row["part"], []).append(row)
    sections: list[Section] = [
        linear.show(parts["linear"]),
        clusters.show(parts["clusters"], colours),
        photograph.show(parts["photograph"], fits),
    ]
    seconds = time.monotonic() - began
    options.out.mkdir(parents=True, exist_ok=True)
    page(sections, size, seconds).save(options.out / "report.html")
    write_text(options.out / "rows.csv", as_csv(rows))
    about = {"settings": size._asdict(), **versions()}
    write_text(options.out / "about.json", json.dumps(about, indent=2) + "\n")
    with replaced_file(options.out / "demo.png") as file:
        picture(parts, colours).savefig(file, format="png", dpi=110)
    print(f"\n{headline(sections)}\n\n" + "\n".join(summary(sections)))
    print(f"\n{seconds:.0f} seconds. Page: {options.out / 'report.html'}")
    return 0


def _play(size: Size, colours: Pictures, fits: Pictures) -> Iterator[list[Row]]:
    """Yield the rows of all three parts as they come."""
    yield from linear.play(size)
    yield from clusters.play(size, colours)
    yield from photograph.play(size, fits)
