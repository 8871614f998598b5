"""Stochastic gradient descent."""

from typing import Any

from numpy.typing import ArrayLike

from tombola.samplers import Sampler
from tombola.solvers.descent.base import DescentSolver, checked_radius, checked_rate
from tombola.solvers.descent.rates import CONSTANT, ROOT, STRONGLY_CONVEX
from tombola.solvers.descent.run import DescentRun
from tombola.validation import whole

__all__ = ["SGD"]

SCHEDULES = {"constant": CONSTANT, "root": ROOT, "strongly convex": STRONGLY_CONVEX}


class SGD(DescentSolver):
    """Proximal stochastic gradient descent with importances.

        g_t = (1/B) sum_b grad_b(w_t) / (n p_b)
        w_{t+1} = prox(w_t - rate_t g_t)

    Parameters
    ----------
    rate : float, default=0.1
        Not used by the strongly convex schedule.
    schedule : {"constant", "root", "strongly convex"}, default="constant"
        rate_t is ``rate``, ``rate / sqrt(t)``, or ``2 / (mu t)`` with mu the problem's l2. With
        the last one the solution is the average of w_1 to w_T weighted by t, whose F exceeds
        its minimum by at most 2 / (mu T (T + 1)) times the sum of E |g_t|^2 (appendix A). The
        bound does not hold with an intercept, which is not penalised.
    batch_size : int, default=1
    radius : float, optional
        w is kept within this distance from 0.
    average : bool, optional
        Whether the solution is the average of the iterates w_1 to w_T at which gradients were
        taken. By default it is with the strongly convex schedule (weights t), and is not with
        the others (equal weights).
    standardise : bool, default=False
        Whether steps are measured in standardised columns (`tombola.problems.metric`): columns in
        any units, of the same problem.

    Notes
    -----
    With sparse rows a step takes O(entries of the rows drawn); with `radius` or `average` O(d).

    Deviation from appendix A: the regulariser is applied by its prox instead of its gradient,
    which is the same to first order in the rate and never overshoots.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import LeastSquares
    >>> X = np.eye(3)
    >>> result = SGD(rate=0.5).minimize(LeastSquares(X, [1.0, 2.0, 3.0]), rounds=200)
    >>> result.solution.round(3)
    array([1., 2., 3.])

    References
    ----------
    Borsos, Krause, Levy (2018), Figure 1 and appendix A.
    """

    def __init__(
        self,
        rate: float = 0.1,
        *,
        schedule: str = "constant",
        batch_size: int = 1,
        radius: float | None = None,
        average: bool | None = None,
        standardise: bool = False,
    ) -> None:
        if schedule not in SCHEDULES:
            raise ValueError(f"schedule must be one of {list(SCHEDULES)}, got {schedule!r}")
        self.rate = checked_rate(rate)
        self.schedule = schedule
        self.batch_size = whole("batch_size", batch_size, 1)
        self.radius = checked_radius(radius)
        self.standardise = bool(standardise)
        self.average = schedule == "strongly convex" if average is None else bool(average)

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> DescentRun:
        strong = self.schedule == "strongly convex"
        if strong and problem.l2 == 0:
            raise ValueError(
                'the schedule "strongly convex" needs a problem with alpha > 0 and l1_ratio < 1'
            )
        return self._descent(
            problem,
            start,
            schedule=SCHEDULES[self.schedule],
            rate=self.rate,
            radius=self.radius,
            averaging=(2 if strong else 1) if self.average else 0,
        )
