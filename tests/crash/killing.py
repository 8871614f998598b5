"""Start a run, kill it, start it again, until it ends; compare the end with an undisturbed run."""

import hashlib
import os
import random
import select
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from crash.places import IN_WORDS, Board, Place, watched

LONGEST = 3600.0  # seconds that a run may take which nobody kills
LEFT = {  # whether a kill at a place leaves a temporary file; elsewhere it does not
    Place.WRITING: (False, True),  # it may not be there yet
    Place.FLUSHING: (True,),
    Place.RENAMING: (False, True),
}


def files_in(folder):
    """Return a hash of each file in a folder, without what killed writes have left."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".part"
    }


class Run(NamedTuple):
    """Something that saves as it goes, and continues from its last save."""

    name: str
    play: Callable[[Path], Any]  # from the last save in a folder, if there is one, to the end
    outcome: Callable[[Path], dict[str, str]] = files_in
    share: float = 1.0  # of the kills, relative to other runs of the family
    saves_itself: bool = True  # else processes that it starts save, and its place is not theirs


@dataclass
class Tally:
    """What became of a run's kills."""

    name: str
    kills: int = 0
    same: int = 0  # kills of runs that ended in the same bytes
    ends: int = 0  # runs that ended, and were compared
    left: int = 0  # kills that left a temporary file behind
    places: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def torment(run, kills, seed, base, board=None, progress=lambda kills: None):
    """Kill a run at random instants, as often as asked; return the tally.

    Lives last up to half the time of an undisturbed run, so that a run takes several. Children are
    forked off this process, which has loaded and compiled everything.
    """
    began, rng, board = time.monotonic(), random.Random(f"{seed} {run.name}"), board or Board()
    tally, known, span = Tally(run.name), *undisturbed(run, base)
    while True:
        folder, deaths = base / f"{tally.ends}", 0
        folder.mkdir(parents=True)
        board.clear()
        while True:
            parts = parts_in(folder)  # before the fork: the child may be writing soon after
            child = begin(run, folder, board)
            patience = LONGEST
            if tally.kills + deaths < kills:
                patience = rng.uniform(0.0, span / 2 * (1 + deaths / 10))
            code = end(child, patience)
            if code != -signal.SIGKILL:
                break
            if patience == LONGEST:
                code = f"it did not end within {LONGEST:.0f} s"
                break
            deaths += 1
            tally.places[IN_WORDS[board.place]] += 1
            left = len(parts_in(folder)) > len(parts)
            tally.left += left
            if run.saves_itself and left not in LEFT.get(board.place, (False,)):
                tally.wrong.append(f"{run.name}: {IN_WORDS[board.place]}, but left is {left}")
            progress(1)
        tally.kills += deaths
        tally.ends += 1
        fault = compared(run, folder, known, code)
        if fault is None:
            tally.same += deaths
            shutil.rmtree(folder)
        else:
            tally.wrong.append(f"{run.name}, after {deaths} kills, in {folder}: {fault}")
        if tally.kills >= kills or len(tally.wrong) >= 5:
            tally.seconds = time.monotonic() - began
            return tally


def undisturbed(run, base):
    """Return the outcome of a run that nobody kills, and its seconds."""
    folder = base / "undisturbed"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "here").mkdir(parents=True)
    with silent(folder / "here.log"):
        run.play(folder / "here")  # loads and compiles
    check_alone()
    known, spans = run.outcome(folder / "here"), []
    for child in ("first", "second"):
        (folder / child).mkdir()
        began = time.monotonic()
        code = end(begin(run, folder / child, Board()), LONGEST)
        spans.append(time.monotonic() - began)
        fault = compared(run, folder / child, known, code)
        if fault is not None:
            raise RuntimeError(f"{run.name} is not reproducible without any kill: {fault}")
    return known, min(spans)


def aimed(run, base, steps):
    """Kill a run before each of some steps of its saves, and resume it; return what is wrong.

    A run that has fewer steps is not killed, and not counted. Returns the kills, too.
    """
    known, _ = undisturbed(run, base)
    wrong, kills = [], 0
    for step in steps:
        folder = base / f"step{step}"
        folder.mkdir()
        code = end(begin(run, folder, Board(aim=step)), LONGEST)
        if code == -signal.SIGKILL:
            kills += 1
            code = end(begin(run, folder, Board()), LONGEST)
        fault = compared(run, folder, known, code)
        if fault is None:
            shutil.rmtree(folder)
        else:
            wrong.append(f"{run.name}, killed at step {step}, in {folder}: {fault}")
    return wrong, kills


def compared(run, folder, known, code):
    """Return what is wrong with the end of a run, or None."""
    if code != 0:
        log = folder.with_suffix(".log").read_text().strip().splitlines()
        return f"exit code {code}; {log[-1] if log else 'nothing was printed'}"
    try:
        found = run.outcome(folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    names = {name for name in known.keys() | found.keys() if known.get(name) != found.get(name)}
    return f"different: {', '.join(sorted(names))}" if names else None


def begin(run, folder, board):
    """Fork a child that plays a run; return its process number."""
    board.place = Place.STARTING
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        with silent(folder.with_suffix(".log")), watched(board):
            board.work()
            code = run.play(folder) or 0
            board.place = Place.ENDING
    except BaseException:
        with folder.with_suffix(".log").open("a") as log:
            traceback.print_exc(file=log)
    finally:
        os._exit(code)


def end(child, patience):
    """Wait for a child, and kill it when patience ends; return its exit code, -9 if killed."""
    handle = os.pidfd_open(child)
    try:
        select.select([handle], [], [], patience)
        signal.pidfd_send_signal(handle, signal.SIGKILL)  # of no effect on one that has ended
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def parts_in(folder):
    """Return the temporary files in a folder."""
    return [path for path in folder.rglob("*.part")]


def check_alone():
    """Raise an error where this process has threads, which do not survive a fork."""
    patience = time.monotonic() + 10.0
    while others := [name for name in threads() if name != "jemalloc_bg_thd"]:  # ready for forks
        if time.monotonic() > patience:
            raise RuntimeError(f"threads have been started, and children may hang: {others}")
        time.sleep(0.05)  # one that has been joined may take a moment to go


def threads():
    """Return the names of all threads of this process but the first."""
    names = []
    for path in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            if path.name != str(os.getpid()):
                names.append((path / "comm").read_text().strip())
    return names


class silent:  # noqa: N801
    """Send what is printed to a file."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        sys.stdout.flush()
        sys.stderr.flush()
        self.kept = os.dup(1), os.dup(2)
        log = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)

    def __exit__(self, *error):
        sys.stdout.flush()
        sys.stderr.flush()
        for kept, place in zip(self.kept, (1, 2), strict=True):
            os.dup2(kept, place)
            os.close(kept)
