"""Run an experiment, with one file for each run, so that it can be stopped and continued.

An experiment is a module with

    TITLE                its title
    SETTINGS             what all its runs have in common, as plain numbers and strings
    stages(runs)         its runs: lists of settings; a stage may read the rows of earlier ones
    play(setting, data, earlier)
                         does one run and yields its rows
    show(rows)           returns an `Exhibit` of figures, tables and findings
    DATA                 optional: the data sets it needs, from a label to a name of
                         `tombola.datasets`

A folder of results has a subfolder for each experiment with ``about.json`` and ``runs/*.csv``, one
file for each finished run; ``gather`` puts them into one file, ``rows.csv``.
"""

import csv
import importlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import ModuleType
from typing import Any

import tombola
from tombola import datasets
from tombola.report.record import versions
from tombola.report.rows import Row, as_csv
from tombola.state import Document, mapping, text
from tombola.state.files import read_json, write_text

__all__ = [
    "NAMES", "Setting", "SweepError", "about", "check", "experiment", "gather", "minimize", "read",
    "sweep", "timed",
]  # fmt: skip

NAMES = ("regret", "voc", "hyper", "kmeans", "coordinates")

Setting = Mapping[str, str | int | float]  # of one run


class SweepError(ValueError):
    """A folder of results cannot be continued or read; the message gives the reason."""


def experiment(name: str) -> ModuleType:
    """Return the module of an experiment."""
    if name not in NAMES:
        raise SweepError(f"there is no experiment {name!r}: choose from {', '.join(NAMES)}")
    return importlib.import_module(f"experiments.{name}")


def check(name: str, data: Path | None) -> dict[str, str]:
    """Return the checksums of the data that an experiment needs, or raise what is missing."""
    needed: Mapping[str, str] = getattr(experiment(name), "DATA", {})
    return {label: datasets.load(known_as, data).checksum for label, known_as in needed.items()}


def minimize(solver: Any, problem: Any, **options: Any) -> Any:
    """Run a solver; raise KeyboardInterrupt if Ctrl-C stopped it, since rows would be missing."""
    result = solver.minimize(problem, **options)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a function makes, and the seconds it takes without compilation."""
    make()  # compiles
    began = time.perf_counter()
    made = make()
    return made, time.perf_counter() - began


# --- all runs -----------------------------------------------------------------------------------


class About(Document):
    """The record of the runs in a folder, which may have further entries."""

    open_ended = True
    experiment: str = text("its name")
    settings: Mapping[str, Any] = mapping("of all runs")
    data: Mapping[str, str] = mapping("the checksums of its data")


def about(folder: Path) -> dict[str, Any]:
    """Return the record of the runs in a folder."""
    try:
        known = read_json(folder / "about.json")
        About.read(known)
    except (OSError, ValueError) as error:
        raise SweepError(f"{folder / 'about.json'} cannot be read: {error}") from None
    return known


def sweep(
    name: str,
    out: Path,
    *,
    runs: int = 10,
    jobs: int = 1,
    data: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Do all runs of an experiment that are missing; return its folder.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    out : Path
        The folder of results. It may hold runs of the same experiment, which are kept.
    runs : int
        The number of repetitions; a larger number later adds to the earlier runs.
    jobs : int
        The number of parallel runs, each in its own process.
    data : Path, optional
        The folder with data sets; by default $TOMBOLA_DATA.
    progress : callable, optional
        Called with the number of finished runs and the total.
    """
    module = experiment(name)
    stages = module.stages(runs)
    folder = out / name
    _open(folder, module, check(name, data))
    total = sum(len(stage) for stage in stages)
    done = 0
    for stage in stages:
        left = []
        earlier = read(folder) if done else []
        for setting in stage:
            if (folder / "runs" / _file_name(setting)).exists():
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
) -> Iterator[None]:
    if jobs == 1 or len(settings) <= 1:
        for setting in settings:
            _run(name, setting, folder, data, earlier)
            yield
        return
    # spawned, not forked: children of a process with threads may hang
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent) as pool:
        waiting = iter(settings)
        tasks = {
            pool.submit(_run, name, setting, folder, data, earlier)
            for setting in itertools.islice(waiting, jobs)
        }
        while tasks:  # submit no more than can run: tasks queued in the pool cannot be cancelled
            done, tasks = wait(tasks, return_when=FIRST_COMPLETED)
            for task in done:
                yield task.result()
                for setting in itertools.islice(waiting, 1):
                    tasks.add(pool.submit(_run, name, setting, folder, data, earlier))


def _end_with_parent() -> None:
    """End this process when its parent is killed; it would wait for work for ever."""
    parent = parent_process()
    assert parent is not None

    def wait_for_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait_for_parent, daemon=True).start()


def _run(name: str, setting: Setting, folder: Path, data: Path | None, earlier: list[Row]) -> None:
    """Do one run, in this process."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # runs are timed, and share the cores
        _write(folder, setting, experiment(name).play(setting, data, earlier))


def _open(folder: Path, module: ModuleType, checksums: dict[str, str]) -> None:
    """Create the folder, or check that it belongs to the same experiment."""
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
                    f"{folder} holds runs with different {key} ({known.get(key)}, now {value}): "
                    "choose another folder, or remove it"
                )
        return
    if folder.exists() and any(
        entry.name != "runs" and entry.suffix != ".part" for entry in folder.iterdir()
    ):  # a .part is what a killed process left of about.json
        raise SweepError(f"{folder} exists and does not hold runs of {common['experiment']}")
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**common, **versions()}, indent=2) + "\n")


# --- files of rows ------------------------------------------------------------------------------


def _file_name(setting: Setting) -> str:
    """Return the name of a run's file, which spells out its setting.

    >>> _file_name({"data": "kdd", "start": 3, "seed": 5})
    'data=kdd,start=3,seed=5.csv'
    """
    return ",".join(f"{key}={value}" for key, value in setting.items()) + ".csv"


def _write(folder: Path, setting: Setting, rows: Iterable[Row]) -> None:
    """Write the rows of a run, with its setting, once the run has finished."""
    lines = [{**setting, **row} for row in rows]
    if not lines:
        raise SweepError(f"the run {_file_name(setting)} produced no rows")
    write_text(folder / _file_name(setting), as_csv(map(_shortened, lines)))


def read(folder: Path) -> list[Row]:
    """Return all rows of an experiment, from its runs or from the file they were gathered in."""
    runs = sorted((folder / "runs").glob("*.csv"))
    files = runs or [folder / "rows.csv"]
    if not files[0].exists():
        raise SweepError(f"{folder} holds no results: neither runs/*.csv nor rows.csv")
    return [row for file in files for row in _rows(file)]


def gather(folder: Path) -> None:
    """Write the rows of all runs into one file."""
    write_text(folder / "rows.csv", as_csv(map(_shortened, read(folder))))


def _shortened(row: Row) -> Row:
    return {k: f"{v:.7g}" if isinstance(v, float) else v for k, v in row.items()}


def _rows(path: Path) -> Iterator[Row]:
    try:
        content = path.read_text(encoding="utf-8")
        lines = list(csv.reader(content.splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise SweepError(f"{path} cannot be read: {error}") from None
    if not content.endswith("\n"):
        raise SweepError(f"{path} is truncated: its last line does not end")
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(lines[0]):
            raise SweepError(f"{path}, line {number}: {len(line)} cells, not {len(lines[0])}")
        cells = zip(lines[0], line, strict=True)
        yield {name: _parsed(cell) for name, cell in cells if cell != ""}


def _parsed(cell: str) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
