"""Run an experiment, with one file for each run, so that it can be stopped and continued.

An experiment is a module with

    TITLE                its title
    SETTINGS             what all its runs have in common, as plain numbers and strings
    stages(runs)         its runs: lists of settings; a stage may read the rows of earlier ones
    play(setting, data, earlier)
                         does one run and yields its rows
    show(rows)           returns an `Exhibit` of figures, tables and findings
    checksums(data)      optional: checks and identifies the data sets that it needs

A folder of results has a subfolder for each experiment with ``about.json`` and ``runs/*.csv``, one
file for each finished run; ``gather`` puts them into one file, ``rows.csv``.
"""

import importlib
import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import ModuleType
from typing import Any

import tombola
from tombola.experiments.exhibit import Row, Setting
from tombola.experiments.rows import SweepError, file_name, read, write_run
from tombola.report.record import versions
from tombola.state import Document, mapping, text
from tombola.state.files import read_json, write_text

__all__ = ["NAMES", "SweepError", "about", "check", "experiment", "sweep"]

NAMES = ("regret", "voc", "hyper", "kmeans", "coordinates")


def experiment(name: str) -> ModuleType:
    """Return the module of an experiment."""
    if name not in NAMES:
        raise SweepError(f"there is no experiment {name!r}: choose from {', '.join(NAMES)}")
    return importlib.import_module(f"tombola.experiments.{name}")


def check(name: str, data: Path | None) -> dict[str, str]:
    """Return the checksums of the data that an experiment needs, or raise what is missing."""
    module = experiment(name)
    found: dict[str, str] = module.checksums(data) if hasattr(module, "checksums") else {}
    return found


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
        write_run(folder, setting, experiment(name).play(setting, data, earlier))


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
