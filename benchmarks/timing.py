"""Measure, print and keep rows: what every benchmark here shares."""

import csv
import datetime
import time
from importlib import metadata
from pathlib import Path

import numpy as np

from tombola.report.record import processor

RESULTS = Path(__file__).parent / "results"


def nanoseconds(call, items, seconds=0.4, repeats=7):
    """Time `call`; return the quartiles over `repeats` of nanoseconds per item.

    Calls are grouped so that a repeat lasts long enough to be timed; the first, which may
    compile, is not counted.
    """
    call()
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    group = max(1, round(seconds / repeats / max(once, 1e-7)))
    took = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(group):
            call()
        took.append((time.perf_counter() - start) / group / items * 1e9)
        if sum(took) * group * items > 6e9:  # a very slow peer: no need for many repeats
            break
    return np.quantile(took, [0.25, 0.5, 0.75])


def version(package):
    """The installed version of a package, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def append(name, rows):
    """Append rows (dicts) to results/NAME.csv, with the date and the machine's processor."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.csv"
    today = datetime.date.today().isoformat()
    rows = [{"date": today, "processor": processor(), **row} for row in rows]
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)
    print(f"appended {len(rows)} rows to benchmarks/results/{path.name}")


def table(header, rows):
    """Print rows of strings in aligned columns."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
