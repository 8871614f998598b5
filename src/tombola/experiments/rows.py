"""Rows of experiments: one CSV file for each run, later gathered into one."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tombola.experiments.exhibit import Row, Setting
from tombola.state.files import write_text

__all__ = ["SweepError", "as_csv", "file_name", "gather", "read", "write_run"]


class SweepError(ValueError):
    """A folder of results cannot be continued or read; the message gives the reason."""


def file_name(setting: Setting) -> str:
    """Return the name of a run's file, which spells out its setting.

    >>> file_name({"data": "kdd", "start": 3, "seed": 5})
    'data=kdd,start=3,seed=5.csv'
    """
    return ",".join(f"{key}={value}" for key, value in setting.items()) + ".csv"


def write_run(folder: Path, setting: Setting, rows: Iterable[Row]) -> None:
    """Write the rows of a run, with its setting, once the run has finished."""
    lines = [{**setting, **row} for row in rows]
    if not lines:
        raise SweepError(f"the run {file_name(setting)} produced no rows")
    write_text(folder / file_name(setting), as_csv(map(_shortened, lines)))


def read(folder: Path) -> list[Row]:
    """Return all rows of an experiment, from its runs or from the file they were gathered in."""
    runs = sorted((folder / "runs").glob("*.csv"))
    files = runs or [folder / "rows.csv"]
    if not files[0].exists():
        raise SweepError(f"{folder} holds no results: neither runs/*.csv nor rows.csv")
    return [row for file in files for row in _rows(file)]


def gather(folder: Path) -> Path:
    """Write the rows of all runs into one file, and return its path."""
    path = folder / "rows.csv"
    write_text(path, as_csv(map(_shortened, read(folder))))
    return path


def as_csv(rows: Iterable[Row]) -> str:
    r"""Return rows as CSV text, with a column for each name that occurs.

    >>> as_csv([{"run": 0, "cost": 2.5}, {"run": 1}])
    'run,cost\n0,2.5\n1,\n'
    """
    lines: Sequence[Row] = list(rows)
    names = list(dict.fromkeys(name for row in lines for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _shortened(row: Row) -> Row:
    return {k: f"{v:.7g}" if isinstance(v, float) else v for k, v in row.items()}


def _rows(path: Path) -> Iterator[Row]:
    try:
        text = path.read_text(encoding="utf-8")
        lines = list(csv.reader(text.splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SweepError(f"{path} cannot be read: {error}") from None
    if not text.endswith("\n"):
        raise SweepError(f"{path} is truncated: its last line does not end")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(lines[0]):
            raise SweepError(f"{path}, line {number}: {len(line)} cells, not {len(lines[0])}")
        cells = zip(lines[0], line, strict=True)
        yield {name: _parsed(cell) for name, cell in cells if cell != ""}


def _parsed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
