"""What SAGA and SVRG share: rates, gaps, and draws that allow large rates."""

import math
from typing import Any

from numpy.typing import ArrayLike

from tombola.samplers import Sampler, Static, Uniform
from tombola.solvers.descent.base import DescentSolver, checked_rate
from tombola.solvers.descent.rates import CONSTANT, SEARCHED
from tombola.solvers.descent.run import DescentRun
from tombola.solvers.gap import relative_gap
from tombola.solvers.result import Result
from tombola.validation import whole

__all__ = ["VarianceReducedSolver", "by_curvature", "safe_rate"]


class VarianceReducedSolver(DescentSolver):
    """A solver that estimates differences of gradients, grad_b(w) - grad_b(y), with y stored."""

    quantity = "gradient difference norm"
    needs_independent = True  # a stored slope is right on average over all items, not over the rest

    def __init__(self, rate: float | None, batch_size: int, standardise: bool) -> None:
        self.rate = None if rate is None else checked_rate(rate)
        self.batch_size = whole("batch_size", batch_size, 1)
        self.standardise = bool(standardise)

    def gap(self, problem: Any, result: Result) -> float:
        """Return the duality gap of a result, relative to the objective at w = 0.

        See `tombola.solvers.gap.relative_gap`; nan if no bound is known.
        """
        return relative_gap(problem, result.solution)

    def _check(self, problem: Any) -> None:
        super()._check(problem)
        if not math.isfinite(problem.curvature):
            raise TypeError(
                f"{type(self).__name__} needs a loss with a bounded second derivative, which "
                f"{type(problem).__name__} does not have; use SDCA or SGD"
            )

    def _default_sampler(self, problem: Any) -> Sampler:
        return by_curvature(self.measured(problem))

    def _storing(
        self, problem: Any, start: ArrayLike | None, sampler: Sampler, **stored: Any
    ) -> DescentRun:
        """Return the run before its first round, at the given rate, or a search from the safe one.

        `stored` says which slopes are stored, in the words of `_descent`.
        """
        problem = self.measured(problem)
        if self.rate is not None:
            stored |= {"schedule": CONSTANT, "rate": self.rate}
        else:
            stored |= {
                "schedule": SEARCHED,
                "rate": safe_rate(problem, sampler),
                "smoothness": smoothness_of_draws(problem, sampler),
            }
        return self._descent(problem, start, **stored)


def by_curvature(problem: Any, seed: int = 0) -> Sampler:
    """Return ``Static.partially_biased(L)``, or `Uniform` if L is nearly the same for all items.

    With p_i = 1/(2n) + L_i / (2 sum L), L_Q is at most twice the mean of L: if rows differ in
    length, steps can be much larger than with uniform draws. If max L is at most twice the
    mean, there is nothing to gain.
    """
    lipschitz = problem.lipschitz()
    if lipschitz.max() <= 2.0 * lipschitz.mean():
        return Uniform(problem.n, seed=seed)
    return Static.partially_biased(lipschitz, seed=seed)


def smoothness_of_draws(problem: Any, sampler: Sampler) -> float:
    """Return L_Q = max_i L_i / (n p_i) for the present p of a sampler."""
    chances = sampler.probabilities()
    drawn = chances > 0
    return float((problem.lipschitz()[drawn] / (problem.n * chances[drawn])).max())


def safe_rate(problem: Any, sampler: Sampler) -> float:
    """Return 1 / (3 (L_Q + l2)); 1 if the problem is linear."""
    smooth = smoothness_of_draws(problem, sampler) + problem.l2
    return 1.0 / (3.0 * smooth) if smooth > 0 else 1.0
