"""A bar for fits in rounds."""

import math
import sys
from typing import TextIO

from tombola.dask.rounds import Progress

__all__ = ["Bar", "written"]

WIDTH = 20


def written(progress: Progress, tol: float) -> str:
    """Return a line about a fit: a bar, round, gap, passes over the data and bytes moved.

    The bar is full where the gap is within the tolerance; it goes by the logarithm of the gap.

    Examples
    --------
    >>> written(Progress(3, 0.01, 4, 21.5, 2_500_000, 0), 1e-4)
    '[##########..........] round 3, gap 0.01, 4 loads, 21.5 passes, 2.5 MB moved'
    """
    gap = min(max(progress.gap, 1e-300), 1.0)
    share = 1.0 if gap <= tol else 0.0
    if gap > tol > 0.0:
        share = math.log(gap) / math.log(min(tol, 0.999))
    full = round(WIDTH * min(max(share, 0.0), 1.0))
    lost = f", {progress.restarts} restarts" if progress.restarts else ""
    return (
        f"[{'#' * full}{'.' * (WIDTH - full)}] round {progress.rounds}, gap {progress.gap:.2g}, "
        f"{progress.loads} loads, {progress.passes:.1f} passes, {_size(progress.bytes)} moved{lost}"
    )


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


class Bar:
    """Shows the progress of a fit: one line that changes on a terminal, else a line a round."""

    def __init__(self, tol: float, out: TextIO | None = None) -> None:
        self.tol, self.out = tol, sys.stderr if out is None else out
        self.alive = self.out.isatty()

    def __call__(self, progress: Progress) -> None:
        """Show it."""
        line = written(progress, self.tol)
        print(f"\r{line}" if self.alive else line, end="" if self.alive else "\n", file=self.out)

    def close(self) -> None:
        """End the line."""
        if self.alive:
            print(file=self.out)
