"""`tombola demo`: three comparisons on real data, a page and a picture, in about a minute."""

import argparse
import json
import time
from pathlib import Path

from tombola.cli.output import check_folder, owned
from tombola.cli.progress import Progress
from tombola.demo import clusters, linear, timesteps
from tombola.demo.page import headline, page, picture, summary
from tombola.demo.parts import FULL, Pictures, Size
from tombola.report.record import versions
from tombola.report.rows import Row, as_csv
from tombola.state.files import replaced_file, write_text

__all__ = ["add_arguments", "run"]

PARTS = {"linear": linear, "clusters": clusters, "timesteps": timesteps}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    what = "where to write the page, the picture and the rows"
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=Path("out/demo"), help=what)


def run(options: argparse.Namespace, size: Size = FULL) -> int:
    """Do the comparisons; print what they show; write page, picture and rows."""
    check_folder(options.out, resumable=False)
    print("Three comparisons on data that come with scikit-learn: about a minute.", flush=True)
    began = time.monotonic()
    rows: dict[str, list[Row]] = {name: [] for name in PARTS}
    pictures: dict[str, Pictures] = {name: {} for name in PARTS}
    done, total = 0, sum(part.units(size) for part in PARTS.values())
    with Progress("demo") as progress:
        for name, part in PARTS.items():
            for found in part.play(size, pictures[name]):
                rows[name] += found
                done += 1
                progress(done, total)
    sections = [part.show(rows[name], pictures[name]) for name, part in PARTS.items()]
    seconds = time.monotonic() - began
    with owned(options.out, resumable=False):
        page(sections, size, seconds).save(options.out / "report.html")
        write_text(options.out / "rows.csv", as_csv(row for part in rows.values() for row in part))
        about = {"settings": size._asdict(), **versions()}
        write_text(options.out / "about.json", json.dumps(about, indent=2) + "\n")
        with replaced_file(options.out / "demo.png") as file:
            picture(rows, pictures["clusters"]).savefig(file, format="png", dpi=110)
    print(f"\n{headline(sections)}\n\n" + "\n".join(summary(sections)))
    print(f"\n{seconds:.0f} seconds. Page: {options.out / 'report.html'}")
    return 0
