"""What fits in rounds share: the outputs, what was counted, and how far they are."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tombola.dask.progress import Counts, Progress
from tombola.dask.runners import Runner
from tombola.dask.setting import Setting
from tombola.state import Cell, Floats, Record, State, array, real

__all__ = ["Bounds", "Driver", "Fit", "Output"]


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

    @property
    def relative_gap(self) -> float:
        """The duality gap over the objective at w = 0; infinite before the first bound."""
        bounds = self.bounds[0]
        if math.isnan(bounds.unit):
            return math.inf
        return float(bounds.gap / bounds.unit) if bounds.unit > 0.0 else 0.0

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return whether the gap is not that of the bounds."""
        bounds = saved["bounds"]
        fine = bounds["gap"] == bounds["primal"] - bounds["dual"]
        return "" if fine else "bounds.gap must be primal - dual"


class Driver(State):
    """What a fit keeps between rounds, besides its outputs."""

    counts: Cell[Counts]


class Fit:
    """A fit in rounds.

    Parameters
    ----------
    setting : Setting
    outputs : sequence of Output
    runner : Runner
    tol : float
        Of the relative duality gap.
    pace : float
        How much is done in a round, for the fingerprint of checkpoints.
    driver : Driver
    """

    def __init__(
        self,
        setting: Setting,
        outputs: Sequence[Any],
        runner: Runner,
        tol: float,
        pace: float,
        driver: Driver,
    ) -> None:
        self.setting, self.outputs, self.runner = setting, outputs, runner
        self.tol, self.pace = tol, pace
        self.driver = driver

    @property
    def counts(self) -> Cell[Counts]:
        """What was counted."""
        return self.driver.counts

    @property
    def states(self) -> dict[str, State]:
        """What it keeps between rounds, by name."""
        return {"driver": self.driver, **{str(c): it for c, it in enumerate(self.outputs)}}

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return Progress.of(self.counts, self.outputs, self.setting.n)

    @property
    def active(self) -> list[int]:
        """The outputs that are not within the tolerance."""
        return [c for c, it in enumerate(self.outputs) if not it.relative_gap <= self.tol]
