"""Ctrl-C between rounds, never within one."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["interruptions"]


@contextmanager
def interruptions() -> Iterator[Callable[[], bool]]:
    """Note Ctrl-C instead of raising it; yield a function that says whether it came.

    Outside of the main thread, and where SIGINT was not set by Python, nothing is changed.
    """
    noted: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is None:
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: noted.append(number))
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)
