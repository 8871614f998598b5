"""Runs that bound the minimum from both sides, and so know how close they are."""

from collections.abc import Mapping
from typing import Any

from tombola.solvers.run import LinearRun
from tombola.state import MOST, Cell, Floats, Record, array, derived, real

__all__ = ["Bounds", "CertifiedRun", "Goal"]


class Goal(Record):
    """When a run ends; one with more parameters derives from this class."""

    tolerance: float = derived("the gap at which the run ends")


class Bounds(Record):
    """Bounds on the minimum."""

    primal: float = real("the least objective of all passes", -MOST)
    dual: float = real("the largest lower bound", -MOST, "primal", default=0.0)
    gap: float = real("how far the best solution is from the minimum, at most")


class CertifiedRun(LinearRun):
    """A run on a linear problem, with bounds on its minimum."""

    options: Cell[Goal] = derived("the parameters")
    bounds: Cell[Bounds]
    best: Floats = array("(1, width): the solution that has the value bounds.primal")

    def ended(self) -> Any:
        """Return whether the gap is within the tolerance."""
        return self.bounds[0].gap <= self.options[0].tolerance

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with the bounds."""
        bounds = saved["bounds"]
        if not bounds["gap"] >= (bounds["primal"] - bounds["dual"]) * (1.0 - 1e-9):
            return "bounds.gap is less than primal - dual"
        return ""
