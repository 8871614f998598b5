"""Run an experiment: one file for each run, so that a sweep can stop anywhere and go on.

An experiment is a module with

    TITLE                what it is, for people
    SETTINGS             all that its runs have in common, as plain numbers and strings
    stages(runs)         its runs: lists of settings; a stage may read the rows of those before
    play(setting, data, earlier)
                         does one run, yields its rows
    show(rows)           what the rows say: an `Exhibit` of figures, tables and findings

A folder of results holds, for each experiment, ``about.json`` and ``runs/*.csv``, a file for each
run that is done; ``gather`` puts these into one file, ``rows.csv``, to be kept.
"""

import csv
import importlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import tombola
from tombola.report.record import versions

__all__ = [
    "ALL",
    "NAMES",
    "Exhibit",
    "Finding",
    "SweepError",
    "about",
    "check",
    "experiment",
    "gather",
    "go_on",
    "read",
    "sweep",
]

NAMES = ("regret", "voc", "hyper", "kmeans", "coordinates")  # the paper's
ALL = (*NAMES, "demo")

Setting = Mapping[str, str | int | float]
Row = dict[str, Any]


class SweepError(ValueError):
    """A folder of results that cannot be gone on with, or read; the message says why."""


@dataclass(frozen=True)
class Finding:
    """A claim, whether it was seen here, and the figures that say so."""

    claim: str
    seen: bool | None  # None: these rows cannot tell
    evidence: str

    def __str__(self) -> str:
        verdict = {True: "Seen", False: "NOT seen", None: "Cannot be told"}[self.seen]
        return f"{verdict}: {self.claim} {self.evidence}"


@dataclass
class Exhibit:
    """What the rows of an experiment say, for a page."""

    title: str
    lead: str  # in a sentence or two
    notes: str = ""  # what one has to know beside it
    figures: list[tuple[Any, str]] = field(default_factory=list)  # matplotlib figure, caption
    tables: list[tuple[str, list[str], list[list[Any]]]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def experiment(name: str) -> ModuleType:
    """Return the module of an experiment."""
    if name not in ALL:
        raise SweepError(f"there is no experiment {name!r}: choose from {', '.join(ALL)}")
    return importlib.import_module(f"tombola.experiments.{name}")


# --- one run --------------------------------------------------------------------------------------


def file_name(setting: Setting) -> str:
    """Return the name of a run's file: its setting, readable.

    >>> file_name({"data": "kdd", "start": 3, "seed": 5})
    'data=kdd,start=3,seed=5.csv'
    """
    return ",".join(f"{key}={value}" for key, value in setting.items()) + ".csv"


def go_on(solver: Any, problem: Any, **options: Any) -> Any:
    """Minimise up to a mark; Ctrl-C ends the run, whose rows would be of fewer rounds."""
    result = solver.minimize(problem, **options)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def write_run(path: Path, setting: Setting, rows: Iterable[Row]) -> int:
    """Append rows as they come; the file takes its name when the run is done. Return how many."""
    part = path.with_suffix(f".{os.getpid()}.part")
    count = 0
    with part.open("w", newline="") as file:
        writer = None
        for row in rows:
            line = {**setting, **row}
            if writer is None:
                writer = csv.DictWriter(file, list(line), lineterminator="\n")
                writer.writeheader()
            writer.writerow({name: _short(value) for name, value in line.items()})
            file.flush()
            count += 1
        os.fsync(file.fileno())
    if not count:
        raise SweepError(f"the run {file_name(setting)} made no rows")
    os.replace(part, path)
    return count


def _short(value: Any) -> Any:
    return f"{value:.7g}" if isinstance(value, float) else value


def _work(name: str, setting: Setting, folder: Path, data: Path | None, earlier: list[Row]) -> str:
    """Do one run, in this process."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # methods are compared by the clock, and runs share the cores
        rows = experiment(name).play(setting, data, earlier)
        write_run(folder / file_name(setting), setting, rows)
    return file_name(setting)


# --- all of them ----------------------------------------------------------------------------------


def sweep(
    name: str,
    out: Path,
    *,
    runs: int = 10,
    jobs: int = 1,
    data: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Do all runs of an experiment that are not done yet; return its folder.

    Parameters
    ----------
    name : str
        One of `ALL`.
    out : Path
        The folder of results. It may hold runs of the same experiment, which are kept.
    runs : int
        How many times all is repeated; a larger number later adds to what is there.
    jobs : int
        Runs at a time, each in a process of its own.
    data : Path, optional
        The folder with data sets; by default TOMBOLA_DATA.
    progress : callable, optional
        Called with runs done, and runs in all.
    """
    module = experiment(name)
    stages = module.stages(runs)
    folder = out / name
    _open(folder, module, check(name, data))
    total = sum(len(stage) for stage in stages)
    done = 0
    for stage in stages:
        left = []
        earlier = list(read(folder)) if done else []
        for setting in stage:
            if (folder / "runs" / file_name(setting)).exists():
                done += 1
            else:
                left.append(setting)
        if progress is not None:
            progress(done, total)
        for _ in _finish(name, left, folder / "runs", data, earlier, jobs):
            done += 1
            if progress is not None:
                progress(done, total)
    return folder


def _finish(
    name: str,
    settings: Sequence[Setting],
    folder: Path,
    data: Path | None,
    earlier: list[Row],
    jobs: int,
) -> Iterator[str]:
    if jobs == 1 or len(settings) <= 1:
        for setting in settings:
            yield _work(name, setting, folder, data, earlier)
        return
    # spawned, not forked: children of a process with threads may hang
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = iter(settings)
        tasks = {
            pool.submit(_work, name, setting, folder, data, earlier)
            for setting in itertools.islice(waiting, jobs)
        }
        while tasks:  # no more than can run: what waits in the pool could not be called off
            done, tasks = wait(tasks, return_when=FIRST_COMPLETED)
            for task in done:
                yield task.result()
                for setting in itertools.islice(waiting, 1):
                    tasks.add(pool.submit(_work, name, setting, folder, data, earlier))


def check(name: str, data: Path | None) -> dict[str, str]:
    """Return the checksums of all data that an experiment reads, or raise what is missing."""
    module = experiment(name)
    found: dict[str, str] = module.checksums(data) if hasattr(module, "checksums") else {}
    return found


def _open(folder: Path, module: ModuleType, checksums: dict[str, str]) -> None:
    """Make the folder, or check that it is of the same experiment."""
    common = {
        "experiment": module.__name__.rpartition(".")[2],
        "settings": json.loads(json.dumps(module.SETTINGS)),
        "data": checksums,
        "tombola": tombola.__version__,
    }
    path = folder / "about.json"
    if path.exists():
        known = about(folder)
        if not (folder / "runs").is_dir():
            raise SweepError(f"{folder} holds gathered rows, not runs: choose another folder")
        for key, value in common.items():
            if known.get(key) != value:
                raise SweepError(
                    f"{folder} holds runs with another {key} ({known.get(key)}, now {value}): "
                    "choose another folder, or remove it"
                )
        return
    text = json.dumps({**common, **versions()}, indent=2) + "\n"
    if folder.exists() and list(folder.iterdir()) not in ([], [folder / "runs"]):
        raise SweepError(f"{folder} exists and does not hold runs of {common['experiment']}")
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    part = folder / "runs" / f"about.{os.getpid()}.part"
    part.write_text(text)
    os.replace(part, path)


def about(folder: Path) -> dict[str, Any]:
    """Return what is known about the runs in a folder."""
    try:
        known = json.loads((folder / "about.json").read_text())
    except (OSError, ValueError) as error:
        raise SweepError(f"{folder / 'about.json'} cannot be read: {error}") from None
    if not isinstance(known, dict) or not {"experiment", "settings", "data"} <= known.keys():
        raise SweepError(f"{folder / 'about.json'} does not say what the runs are of")
    return known


# --- reading --------------------------------------------------------------------------------------


def read(folder: Path) -> list[Row]:
    """Return all rows of an experiment: of its runs, or of the file they were gathered in."""
    runs = sorted((folder / "runs").glob("*.csv"))
    files = runs or [folder / "rows.csv"]
    if not files[0].exists():
        raise SweepError(f"{folder} holds no results: neither runs/*.csv nor rows.csv")
    return [row for file in files for row in _rows(file)]


def _rows(path: Path) -> Iterator[Row]:
    text = path.read_text()
    if not text.endswith("\n"):
        raise SweepError(f"{path} is cut off: its last line has no end")
    lines = list(csv.reader(text.splitlines()))
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


def gather(folder: Path) -> Path:
    """Put the rows of all runs into one file, and return it."""
    rows = read(folder)
    names = list(dict.fromkeys(name for row in rows for name in row))
    path, part = folder / "rows.csv", folder / f"rows.{os.getpid()}.part"
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _short(value) for name, value in row.items()} for row in rows)
    os.replace(part, path)
    return path
