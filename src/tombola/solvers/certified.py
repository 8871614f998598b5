"""Solvers that bound the minimum from both sides, and so know how close they are."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from tombola.problems import Softmax
from tombola.problems.linear import LinearProblem
from tombola.samplers import Sampler
from tombola.samplers.latest import Latest
from tombola.solvers.base import Solver, fingerprint
from tombola.solvers.gap import best_constant
from tombola.solvers.result import Result
from tombola.solvers.run import LinearRun
from tombola.state import MOST, Cell, Floats, Record, array, derived, real
from tombola.validation import number

__all__ = [
    "Bounds",
    "CertifiedRun",
    "CertifiedSolver",
    "Goal",
    "check_dual",
    "checked_tolerance",
]

DUAL = "LeastSquares, Logistic, SquaredHinge, Huber"


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


class CertifiedSolver(Solver):
    """A solver whose runs are certified; it draws by `Latest`, which its passes inform."""

    seed: int

    def gap(self, problem: Any, result: Result) -> float:
        """Return the duality gap of a result, relative to the objective at w = 0.

        The objective of `result.solution` is at most this far from the minimum, in units of the
        objective at w = 0 with the best intercept. If the run has ended within its tolerance the
        gap is known; else it takes a pass over all rows.
        """
        name = type(self).__name__
        if not (isinstance(result, Result) and result.state["solver"].startswith(f"{name}(")):
            raise TypeError(f"result must be one of {name}, got {type(result).__name__}")
        if result.state["problem"] != fingerprint(problem):
            raise ValueError("the result is of another problem: of other data or parameters")
        return self._relative(problem, self._gap(problem, result))

    def _relative(self, problem: Any, gap: float) -> float:
        """Return a gap relative to the objective at w = 0; NaN if it is unknown."""
        value = best_constant(problem)[1]
        return 0.0 if gap <= 0.0 or value <= 0.0 else float(gap / value)

    @abstractmethod
    def _gap(self, problem: Any, result: Result) -> float:
        """Return the gap of a result, not relative."""

    def _default_sampler(self, problem: Any) -> Sampler:
        weights = problem.model.weights
        among = None if weights.all() else np.flatnonzero(weights)
        return Latest(problem.n, among=among, plan=self._rows_drawn(problem), seed=self.seed)

    def _rows_drawn(self, problem: Any) -> int | None:
        """Return the rows of a round, which the sampler then plans together; None: its default."""
        return None

    def _advice(self, problem: Any) -> str:
        return "numbers overflow: scale the data"


def check_dual(problem: Any, name: str, smooth: bool) -> None:
    """Raise a TypeError unless a problem is a linear model with a dual, or, if asked, smooth."""
    dual = isinstance(problem, LinearProblem) and problem.has_dual
    if dual and (not smooth or math.isfinite(problem.curvature)):
        return
    if smooth and isinstance(problem, Softmax):
        return
    which = (
        f"smooth loss ({DUAL}, Softmax)" if smooth else f"dual ({DUAL}, Hinge, EpsilonInsensitive)"
    )
    raise TypeError(f"{name} minimises linear models with a {which}, got {type(problem).__name__}")


def checked_tolerance(tol: Any) -> float:
    """Return a tolerance, or raise an error that names it."""
    if not 0 <= number("tol", tol) < math.inf:
        raise ValueError(f"tol must be finite and not negative, got {tol!r}")
    return float(tol)
