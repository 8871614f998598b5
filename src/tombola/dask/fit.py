"""What fits in rounds share: outputs, what was counted, and how far they are, with a bar."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TextIO

import numpy as np

from tombola.dask.overview import Setting
from tombola.dask.runners import LocalRunner
from tombola.state import Cell, Floats, Record, State, array, cell, count, real

__all__ = ["Bar", "Bounds", "Counts", "Driver", "Fit", "Output", "Progress", "added"]

WIDTH = 20  # of a bar


class Bounds(Record):
    """What is known of the minimum of an output."""

    primal: float = real("the least objective so far", default=math.inf)
    dual: float = real("a lower bound", default=0.0)
    gap: float = real("their difference", default=math.inf)
    unit: float = real("the objective at w = 0 with the best intercept", default=math.nan)


class Output(State):
    """One output of a fit: the best point, the next one, and bounds on its minimum."""

    point: Floats = array("the solution to be evaluated, of shape (width,)")
    best: Floats = array("the best solution so far")
    bounds: Cell[Bounds]

    @classmethod
    def at_zero(cls, setting: Setting, intercept: float, **others: Any) -> Self:
        """Return an output at w = 0."""
        point = np.zeros(setting.width)
        point[setting.mean.size :] = intercept
        return cls(point=point, best=point.copy(), bounds=cell(Bounds()), **others)

    @property
    def relative_gap(self) -> float:
        """The duality gap over the objective at w = 0; infinite before the first bound."""
        bounds = self.bounds[0]
        if math.isnan(bounds.unit):
            return math.inf
        return float(bounds.gap / bounds.unit) if bounds.unit > 0.0 else 0.0

    def measure(self, value: float) -> None:
        """Take the objective at the first point, w = 0 with the best intercept, as the unit."""
        bounds = self.bounds[0]
        if math.isnan(bounds.unit):
            bounds.unit = value
        if not math.isfinite(bounds.unit):
            raise ArithmeticError("the objective is not finite: scale the data")

    def tighten(self, dual: float) -> None:
        """Set the lower bound."""
        bounds = self.bounds[0]
        bounds.dual = min(dual, bounds.primal)
        bounds.gap = bounds.primal - bounds.dual

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return whether the gap is not that of the bounds."""
        bounds = saved["bounds"]
        fine = bounds["gap"] == bounds["primal"] - bounds["dual"]
        return "" if fine else "bounds.gap must be primal - dual"


class Counts(Record):
    """What a fit has counted."""

    rounds: int = count("rounds of steps", default=0)
    loads: int = count("how often all rows were loaded", default=0)
    visits: int = count("rows visited, over outputs", default=0)
    bytes: int = count("what was sent to partitions and returned", default=0)
    restarts: int = count("how often dual variables of a partition were lost", default=0)


class Progress(NamedTuple):
    """How far a fit is."""

    rounds: int  # of steps
    gap: float  # the largest relative duality gap of an output
    loads: int  # how often all rows were loaded
    passes: float  # rows visited, in units of rows times outputs
    bytes: int  # what was sent to partitions and returned
    restarts: int  # how often dual variables of a partition were lost


class Driver(State):
    """What a fit keeps between rounds, besides its outputs."""

    counts: Cell[Counts]


@dataclass(eq=False)
class Fit:
    """A fit in rounds."""

    setting: Setting
    outputs: Sequence[Any]
    runner: LocalRunner
    tol: float  # of the relative duality gap
    pace: float  # how much is done in a round, for the fingerprint of checkpoints
    driver: Any

    @property
    def counts(self) -> Cell[Counts]:
        """What was counted."""
        counts: Cell[Counts] = self.driver.counts
        return counts

    def count(self, sent: Any, found: Sequence[Any], last: bool) -> None:
        """Count a round: what was sent to every partition, and what each has returned."""
        counts = self.counts[0]
        counts.loads += 1
        counts.rounds += not last
        counts.visits += sum(part.visits for part in found)
        counts.bytes += len(found) * bytes_of(sent) + bytes_of(found)

    @property
    def states(self) -> dict[str, State]:
        """What it keeps between rounds, by name."""
        return {"driver": self.driver, **{str(c): it for c, it in enumerate(self.outputs)}}

    @property
    def progress(self) -> Progress:
        """How far it is."""
        count = self.counts[0]
        return Progress(
            rounds=int(count.rounds),
            gap=max(output.relative_gap for output in self.outputs),
            loads=int(count.loads),
            passes=float(count.visits / (self.setting.n * len(self.outputs))),
            bytes=int(count.bytes),
            restarts=int(count.restarts),
        )

    @property
    def active(self) -> list[int]:
        """The outputs that are not within the tolerance."""
        return [c for c, it in enumerate(self.outputs) if not it.relative_gap <= self.tol]


def added(found: Sequence[Any], name: str, at: int) -> Any:
    """Return the sum over partitions of what each has returned for an output by this name."""
    return np.sum([getattr(part, name)[at] for part in found], axis=0)


def bytes_of(message: Any) -> int:
    """Return the size of the arrays in a message, which may be nested and hold sparse matrices."""
    if hasattr(message, "tocsr"):
        message = (message.data, message.indices, message.indptr)
    if isinstance(message, np.ndarray):
        return message.nbytes
    return sum(map(bytes_of, message)) if isinstance(message, (tuple, list)) else 0


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
