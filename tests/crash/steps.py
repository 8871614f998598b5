"""The steps of every save, told as they happen."""

import io
import os
import stat
import tempfile
from contextlib import contextmanager

from tombola.state import files

STEPS = ("create", "write", "flush", "permit", "rename", "open the folder", "flush the folder")


class Instead:
    """A module with other functions in place of some of its own."""

    def __init__(self, module, **functions):
        self._module = module
        self.__dict__.update(functions)

    def __getattr__(self, name):
        return getattr(self._module, name)


@contextmanager
def intercepted(before, after=lambda step: None, *, buffer=io.DEFAULT_BUFFER_SIZE):
    """Call `before` with the name of each step of a save, and `after` once it has been done.

    Writes are those that reach the system, so a smaller buffer makes more of them.
    """

    def told(name, function):
        def call(*arguments, **options):
            step = name(*arguments) if callable(name) else name
            before(step)
            made = function(*arguments, **options)
            after(step)
            return made

        return call

    class Raw(io.FileIO):
        write = told("write", io.FileIO.write)

    def fsync_of(handle):
        return "flush the folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "flush"

    files.os = Instead(
        os,
        fdopen=lambda handle, mode: io.BufferedRandom(Raw(handle, mode), buffer),
        fsync=told(fsync_of, os.fsync),
        chmod=told("permit", os.chmod),
        replace=told("rename", os.replace),
        open=told("open the folder", os.open),
    )
    files.tempfile = Instead(tempfile, mkstemp=told("create", tempfile.mkstemp))
    try:
        yield
    finally:
        files.os, files.tempfile = os, tempfile
