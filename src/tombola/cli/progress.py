"""Progress on stderr."""

import sys
import threading
import time
from typing import Any

__all__ = ["Progress"]


class Progress:
    """Shows progress on stderr: a bar in a terminal, a line from time to time otherwise.

    Nothing is shown for the first two seconds, and the bar disappears at the end. Call it with
    the amount done and the total.

    Examples
    --------
    >>> with Progress("counting") as progress:
    ...     for k in range(100):
    ...         progress(k + 1, 100)
    """

    FIRST, AGAIN = 2.0, 20.0  # seconds until something is shown, and between two lines

    def __init__(self, what: str) -> None:
        self.what = what
        self._state: tuple[int, int | None] = (0, None)
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        self._began = time.monotonic()
        self._due = self._began + self.FIRST
        self._timer = threading.Timer(self.FIRST, self._show)  # even if no call arrives
        self._timer.daemon = True
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __call__(self, done: int, total: int) -> None:
        """Report the amount done and the total."""
        self._state = done, total
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if now >= self._due and not sys.stderr.isatty():
            self._due = now + self.AGAIN
            print(f"{self.what}: {100 * done / total:.0f}%", file=sys.stderr, flush=True)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        bar = Bar(
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
            TimeRemainingColumn(), console=Console(stderr=True), transient=True,
        )  # fmt: skip
        done, total = self._state
        self._task = bar.add_task(self.what, completed=done, total=total)
        bar.start()
        self._bar = bar

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()
        if self._bar is not None:
            self._bar.stop()
