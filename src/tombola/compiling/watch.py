"""Watch numba compile: say so on stderr if it takes long, and pause the garbage collector."""

import gc
import os
import sys
import threading
import time
from typing import Any

from numba.core import event

__all__ = ["Watch"]

PATIENCE = 2.0  # seconds of compiling before anything is said
TEXT = (
    "tombola: compiling kernels, once for this machine ... "
    "(`tombola warm-up` does it ahead; TOMBOLA_QUIET=1 hides this line)"
)


class Watch(event.Listener):
    """Watches numba compile functions of this package.

    It prints one line on stderr, once in a process, as soon as compiling has taken two seconds. It
    pauses the garbage collector, which takes almost a tenth of the time.
    """

    def __init__(self) -> None:
        self._depth = 0  # functions are compiled while their callers are
        self._spent = 0.0
        self._said = False
        self._collects = False
        self._timer: threading.Timer | None = None

    def on_start(self, event: Any) -> None:
        """Begin to compile a function."""
        self._depth += 1
        if self._depth > 1 or not _is_ours(event):
            return
        self._began = time.monotonic()
        self._timer = threading.Timer(max(0.0, PATIENCE - self._spent), self._say)
        self._timer.daemon = True
        self._timer.start()
        self._collects = gc.isenabled()
        gc.disable()

    def on_end(self, event: Any) -> None:
        """End, also after an error."""
        self._depth -= 1
        if self._depth > 0 or self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        self._spent += time.monotonic() - self._began
        if self._collects:
            gc.enable()

    def _say(self) -> None:
        if not self._said and not os.environ.get("TOMBOLA_QUIET"):
            self._said = True
            print(TEXT, file=sys.stderr, flush=True)


def _is_ours(event: Any) -> bool:
    """Return whether an event is about a function of this package."""
    function = getattr(event.data.get("dispatcher"), "py_func", None)
    return str(getattr(function, "__module__", "")).partition(".")[0] == "tombola"


event.register("numba:compile", Watch())
