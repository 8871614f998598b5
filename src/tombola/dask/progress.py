"""How far a fit in rounds is, and a bar that shows it."""

import math
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TextIO

from tombola.state import Cell, Record, count

__all__ = ["Bar", "Counts", "Progress", "written"]

WIDTH = 20


class Counts(Record):
    """What a fit has counted."""

    rounds: int = count("rounds of steps", default=0)
    loads: int = count("how often all rows were loaded", default=0)
    visits: int = count("rows visited, over outputs", default=0)
    bytes: int = count("what was sent to partitions and returned", default=0)
    restarts: int = count("how often dual variables of a partition were lost", default=0)


class Progress(NamedTuple):
    """How far a fit is.

    Attributes
    ----------
    rounds : int
        Rounds of steps.
    gap : float
        The largest relative duality gap of an output.
    loads : int
        How often all rows were loaded.
    passes : float
        Rows visited, in units of rows times outputs.
    bytes : int
        What was sent to partitions and returned.
    restarts : int
        How often dual variables of a partition were lost.
    """

    rounds: int
    gap: float
    loads: int
    passes: float
    bytes: int
    restarts: int

    @classmethod
    def of(cls, counts: Cell[Counts], outputs: Sequence[Any], n: int) -> Self:
        """Return the progress of outputs, by what was counted."""
        count = counts[0]
        return cls(
            rounds=int(count.rounds),
            gap=max(output.relative_gap for output in outputs),
            loads=int(count.loads),
            passes=float(count.visits / (n * len(outputs))),
            bytes=int(count.bytes),
            restarts=int(count.restarts),
        )


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
