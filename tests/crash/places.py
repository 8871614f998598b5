"""Where a process was when it was killed, from memory that it shares with its killer."""

import mmap
import os
import signal
import sys
from contextlib import contextmanager
from enum import IntEnum
from unittest import mock

from crash.steps import intercepted


class Place(IntEnum):
    STARTING = 0
    READING = 1
    BEFORE_THE_FIRST_SAVE = 2
    BETWEEN_SAVES = 3
    WRITING = 4
    FLUSHING = 5
    RENAMING = 6
    FLUSHING_THE_FOLDER = 7
    ENDING = 8


IN_WORDS = {
    Place.STARTING: "starting",
    Place.READING: "reading the last save",
    Place.BEFORE_THE_FIRST_SAVE: "at work, before the first save",
    Place.BETWEEN_SAVES: "at work, between saves",
    Place.WRITING: "writing the temporary file",
    Place.FLUSHING: "flushing it",
    Place.RENAMING: "between flush and rename",
    Place.FLUSHING_THE_FOLDER: "flushing the folder",
    Place.ENDING: "after the last line",
}
READERS = (
    "tombola.checkpoint.read",
    "experiments.sweep.about",
    "experiments.sweep.read",
)


class Board:
    """The place of a process, and whether the run has saved before; they outlive the process.

    Parameters
    ----------
    aim : int, optional
        The process kills itself before this step of its saves, counted from 0.
    """

    def __init__(self, aim=None):
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)  # shared with forked children
        self.aim, self.steps = aim, 0

    def clear(self):
        self._memory[:2] = bytes(2)

    @property
    def place(self):
        return Place(self._memory[0])

    @place.setter
    def place(self, place):
        self._memory[0] = place

    @property
    def saved(self):
        return bool(self._memory[1])

    def work(self):
        """The process is at work."""
        self.place = Place.BETWEEN_SAVES if self.saved else Place.BEFORE_THE_FIRST_SAVE

    def before(self, step):
        if self.steps == self.aim:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1
        if step in ("create", "flush"):
            self.place = Place.WRITING if step == "create" else Place.FLUSHING

    def after(self, step):
        if step == "flush":
            self.place = Place.RENAMING
        elif step == "rename":
            self._memory[1] = 1
            self.place = Place.FLUSHING_THE_FOLDER
        elif step == "flush the folder":
            self.work()

    def reading(self, function):
        """Return a function that says that it reads."""

        def read(*arguments, **options):
            self.place = Place.READING
            found = function(*arguments, **options)
            self.work()
            return found

        return read


@contextmanager
def watched(board):
    """Keep the place of this process on a board."""
    patches = []
    for name in (*READERS, *(["torch.load"] if "torch" in sys.modules else [])):
        module, _, function = name.rpartition(".")
        found = getattr(__import__(module, fromlist=[function]), function)
        patches.append(mock.patch(name, board.reading(found)))
    for patch in patches:
        patch.start()
    try:
        with intercepted(board.before, board.after):
            yield
    finally:
        for patch in patches:
            patch.stop()
