"""Disks that fail: at every step of a save, by a limit on sizes, and, on a disk of its own, really.

After each fault: the error names the file, the last save is intact, no temporary file is left, and
the next save succeeds.
"""

import errno
import os
import resource
from contextlib import contextmanager

from crash.killing import files_in, parts_in
from crash.steps import intercepted

ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)


class Fault:
    """Steps fail from a number on: all of them, or that one only."""

    def __init__(self, number, code, *, lasting):
        self.number, self.code, self.lasting = number, code, lasting
        self.steps, self.failed = 0, None

    def __call__(self, step):
        due = self.steps >= self.number if self.lasting else self.steps == self.number
        self.steps += 1
        if due:
            self.failed = self.failed or step
            raise OSError(self.code, os.strerror(self.code))


def fail_at_every_step(save, folder, path, buffer=512):
    """Save with a fault at step 0, 1, ... until there is none left; return counts by step.

    `save(version)` writes version 0 or 1 of something to `path`, in `folder`.
    """
    seen, versions = {}, []
    for version in (0, 1):
        save(version)
        versions.append(path.read_bytes())
    assert versions[0] != versions[1]
    for code in ERRORS:
        for lasting in (False, True):
            number = 0
            while True:
                save(0)
                before = files_in(folder)
                fault = Fault(number, code, lasting=lasting)
                with intercepted(fault, buffer=buffer):
                    error = error_of(lambda: save(1))
                if fault.failed is None:
                    assert error is None
                    break
                seen[fault.failed] = seen.get(fault.failed, 0) + 1
                check_error(error, code, path)
                check_folder(folder)
                if fault.failed in ("open the folder", "flush the folder"):  # it is renamed
                    assert path.read_bytes() == versions[1], "the new save is not complete"
                else:
                    assert files_in(folder) == before, "the last save is not intact"
                save(1)
                assert path.read_bytes() == versions[1], "the fault has an effect on the next save"
                number += 1
    return seen


def error_of(function):
    """Return the error that a function raises, or None."""
    try:
        function()
    except Exception as error:
        return error
    return None


def check_error(error, code, path):
    """The error is of the file system, and names the file."""
    assert isinstance(error, OSError), repr(error)
    assert error.errno == code, repr(error)
    assert error.filename == str(path), repr(error)
    assert str(path) in str(error)


def check_folder(folder):
    """No temporary file is left."""
    assert not parts_in(folder), f"left behind: {parts_in(folder)}"


@contextmanager
def largest_file(size):
    """Files of this process cannot grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
