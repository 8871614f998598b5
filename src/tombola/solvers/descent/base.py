"""What the solvers for linear models share: SGD, AdaGrad, SAGA and SVRG."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.problems.linear import LinearProblem
from tombola.solvers.base import Solver, variance_ratio
from tombola.solvers.descent.run import DescentRun, StoringRun
from tombola.state import Document, count
from tombola.validation import number

__all__ = ["Carried", "LinearSolver", "checked_radius", "checked_rate"]


class Carried(Document):
    """What a run on other items continues with."""

    rounds: int = count("rounds of all runs")


class LinearSolver(Solver):
    """A solver for `tombola.problems.LinearProblem`; see `tombola.solvers.descent.runs`."""

    def _check(self, problem: Any) -> None:
        if not isinstance(problem, LinearProblem):
            raise TypeError(
                f"{type(self).__name__} minimises linear models (Logistic, LeastSquares, ...), "
                f"got {type(problem).__name__}"
            )

    def _solution(self, problem: Any, run: DescentRun) -> NDArray[np.float64]:
        return run.solution().reshape(problem.shape)

    def _estimated(self, problem: Any, run: DescentRun) -> tuple[Any, Any]:
        """Return, at the present iterate, |grad_i(w) - grad_i(y)| of all items, and their mean."""
        _, slopes, gradient = problem.evaluate(run.iterate().reshape(problem.shape))
        if isinstance(run, StoringRun) and run.stored.table.size:
            slopes = slopes - run.stored.table
            gradient = gradient - run.stored.mean_gradient
        return problem.norms_of(slopes), gradient

    def _all_losses(self, problem: Any, run: DescentRun) -> NDArray[np.float64]:
        norms: NDArray[np.float64] = self._estimated(problem, run)[0]
        return norms

    def _variance_ratio(self, problem: Any, run: DescentRun, chances: NDArray[np.float64]) -> float:
        norms, mean = self._estimated(problem, run)
        return variance_ratio(norms, float((mean * mean).sum()), chances)

    def _advice(self, problem: Any) -> str:
        smooth = float(problem.lipschitz().max()) + problem.l2
        if not 0 < smooth < np.inf:
            return "numbers overflow: scale the data"
        return (
            f"the rate is too large. 1 / max L = {1 / smooth:.3g} suits uniform draws of one item "
            "(L: Lipschitz constants of the items' gradients); rows of one scale allow larger ones"
        )

    def _loss_sum(self, run: DescentRun) -> float:
        return float(run.progress[0].loss_sum)

    def _carried(self, run: DescentRun) -> Carried:
        return Carried(rounds=int(run.rates[0].earlier_rounds) + run.rounds)

    def _carry(self, run: DescentRun, carry: Any) -> None:
        run.rates[0].earlier_rounds = Carried.read(carry, "carry").rounds


def checked_rate(rate: Any) -> float:
    """Return a rate, or raise an error that names it."""
    if not 0 < number("rate", rate) < np.inf:
        raise ValueError(f"rate must be positive and finite, got {rate}")
    return float(rate)


def checked_radius(radius: Any) -> float:
    """Return a radius, infinite where none was given, or raise an error that names it."""
    if radius is None:
        return float("inf")
    if not number("radius", radius) > 0:
        raise ValueError(f"radius must be positive, got {radius}")
    return float(radius)
