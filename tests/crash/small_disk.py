"""A file system of a megabyte that becomes full and read-only, and what is saved on it.

    unshare --mount python -m crash.small_disk FOLDER      (by root; others: --user --map-root-user)

mounts it where no other process sees it, and prints a line of JSON for each fault.
"""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from crash import command_runs, loader_runs, sampler_runs, solver_runs, sweep_runs
from crash.killing import silent

SIZE, BLOCK = 2**20, 4096
UNSHARE = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")))
RUNS = {  # a run of each family
    "sampler": (sampler_runs, "VRB"),
    "solver": (solver_runs, "SGD, dense"),
    "loader": (loader_runs, "ImportanceLoader"),
    "sweep": (sweep_runs, "sweep, one process"),
    "train": (command_runs, "train, regression"),
    "reproduce": (command_runs, "reproduce regret"),
}


def possible():
    """Return whether a file system can be mounted here."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            probe = [*UNSHARE, "mount", "-t", "tmpfs", "none", folder]
            return subprocess.run(probe, capture_output=True, timeout=60).returncode == 0
    except OSError:
        return False


class Disk:
    """A file system in memory, at a folder."""

    def __init__(self, folder):
        self.folder, self.ballast = folder, folder / "ballast"
        mount("-t", "tmpfs", "-o", f"size={SIZE},mode=777", "none", folder)

    def free(self):
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_bsize

    def leave(self, size):
        """Leave this much room, rounded to blocks."""
        self.ballast.unlink(missing_ok=True)
        with self.ballast.open("wb") as file:
            file.write(bytes(max(0, self.free() - size)))

    def make_room(self):
        self.ballast.unlink(missing_ok=True)

    def lock(self, locked):
        mount("-o", f"remount,{'ro' if locked else 'rw'}", self.folder)


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def main(folder, names):
    warnings.simplefilter("ignore")
    sweep_runs.install()
    folder = Path(folder)
    disk = Disk(folder)
    for name in names:
        module, wanted = RUNS[name]
        run = next(run for run in module.runs() if run.name == wanted)
        print(json.dumps({"name": name, **fail(run, disk, folder.with_name("log"))}), flush=True)


def fail(run, disk, log):
    """Play a run on a disk that is full at first, a block larger each time, and read-only.

    Each time it continues from what the last fault left, until it ends.
    """
    place, known = disk.folder / "run", disk.folder / "known"
    known.mkdir()
    with silent(log):
        run.play(known)
    expected = run.outcome(known)
    shutil.rmtree(known)
    place.mkdir()
    faults, wrong, room = {"full": 0, "read-only": 0}, [], 0
    while True:
        disk.lock(True)
        words = attempt(run, place, log, errno.EROFS)
        disk.lock(False)
        faults["read-only"] += 1
        wrong += [f"read-only: {words}"] if words else []
        disk.leave(room)
        words = attempt(run, place, log, errno.ENOSPC)
        disk.make_room()
        if words == ENDED:
            break
        faults["full"] += 1
        wrong += [f"{room} bytes of room: {words}"] if words else []
        if (left := list(place.rglob("*.part"))) and not wrong:
            wrong.append(f"{room} bytes of room: left behind {left}")
        room += max(BLOCK, room // 8)
        if room > SIZE:
            wrong.append("it does not end on an empty disk")
            break
    if run.outcome(place) != expected:
        wrong.append("the end is different")
    shutil.rmtree(place)
    return {**faults, "wrong": wrong}


ENDED = "it ended"


def attempt(run, place, log, code):
    """Play a run on a disk with a fault; return what is wrong, None if the fault is reported well.

    A function raises an error that names a file in the folder; a command prints it in one line.
    """
    try:
        with silent(log):
            result = run.play(place)
    except OSError as error:
        good = error.errno == code and str(place) in str(error.filename)
        return None if good else f"the error is {error!r}"
    except Exception as error:
        return f"the error is {error!r}"
    if not result:
        return ENDED
    said = log.read_text().strip().splitlines()
    line = next((line for line in said if line.startswith("tombola: ")), "nothing")
    good = result == 2 and str(place) in line and os.strerror(code) in line
    return None if good and said[-1] == line else f"it said {said}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or list(RUNS))
