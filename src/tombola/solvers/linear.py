"""What the solvers for linear models share: SGD, AdaGrad, SAGA and SVRG."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.problems.linear import LinearProblem
from tombola.solvers.base import Solver, variance_ratio
from tombola.solvers.descent import EARLIER, LOSSES, ROUND, SNAPSHOT, SQUARES, catch_up
from tombola.validation import number

__all__ = ["LinearSolver", "checked_radius", "checked_rate"]


class LinearSolver(Solver):
    """A solver for `tombola.problems.LinearProblem`; see `tombola.solvers.descent`."""

    def _check(self, problem: Any) -> None:
        if not isinstance(problem, LinearProblem):
            raise TypeError(
                f"{type(self).__name__} minimises linear models (Logistic, LeastSquares, "
                f"SquaredHinge, Softmax), got {type(problem).__name__}"
            )

    def _solution(self, problem: Any, run: Any) -> NDArray[np.float64]:
        if run.mean.size and run.clock[0]:
            return np.array(run.mean, dtype=np.float64).reshape(problem.shape)
        out = np.empty(run.w.shape)
        catch_up(run, out)
        return out.reshape(problem.shape)

    def _differences(self, problem: Any, run: Any) -> tuple[Any, Any]:
        """Return what the estimate is made of at the present iterate: norms, and their mean."""
        w = np.empty_like(run.w)
        catch_up(run, w)
        _, slopes, gradient = problem.evaluate(w.reshape(problem.shape))
        if run.table.size:
            slopes, gradient = slopes - run.table, gradient - run.drift
        return problem.norms_of(slopes), gradient

    def _all_losses(self, problem: Any, run: Any) -> NDArray[np.float64]:
        every = run.clock[SNAPSHOT]
        if every and run.clock[ROUND] % every == 0:  # the step begins with a snapshot, of here
            return np.zeros(problem.n)
        norms: NDArray[np.float64] = self._differences(problem, run)[0]
        return norms

    def _variance_ratio(self, problem: Any, run: Any, chances: NDArray[np.float64]) -> float:
        norms, mean = self._differences(problem, run)
        return variance_ratio(norms, float((mean * mean).sum()), chances)

    def _advice(self, problem: Any) -> str:
        smooth = float(problem.lipschitz().max()) + problem.l2
        if not 0 < smooth < np.inf:
            return "numbers overflow: scale the data"
        return (
            f"the rate is too large. 1 / max L = {1 / smooth:.3g} suits uniform draws of one item "
            "(L: how fast an item's gradient changes); rows of one scale allow larger ones"
        )

    def _loss_sum(self, run: Any) -> float:
        return float(run.numbers[LOSSES])

    def _carried(self, run: Any) -> dict[str, NDArray[Any]]:
        rounds = run.clock[EARLIER] + run.clock[ROUND]
        return {
            "rounds": np.array(rounds),
            "squares": run.squares,
            "square_sum": run.numbers[SQUARES],
        }

    def _carry(self, run: Any, carried: dict[str, Any]) -> None:
        if not {"rounds", "squares", "square_sum"} <= set(carried):
            raise ValueError('what is carried over is not the state["carried"] of a result')
        if carried["squares"].shape != run.squares.shape:
            raise ValueError(
                f"what is carried over is of another solver or problem: its squares have shape "
                f"{carried['squares'].shape}, these {run.squares.shape}"
            )
        run.clock[EARLIER] = carried["rounds"]
        run.squares[:] = carried["squares"]
        run.numbers[SQUARES] = carried["square_sum"]


def checked_rate(rate: Any) -> float:
    """Return a rate, or raise an error that names it."""
    if not 0 < number("rate", rate) < np.inf:
        raise ValueError(f"rate must be positive and finite, got {rate}")
    return float(rate)


def checked_radius(radius: Any) -> float:
    """Return a radius, infinite where there is none, or raise an error that names it."""
    if radius is None:
        return float("inf")
    if not number("radius", radius) > 0:
        raise ValueError(f"radius must be positive, got {radius}")
    return float(radius)
