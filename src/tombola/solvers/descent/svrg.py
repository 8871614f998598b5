"""SVRG: variance reduction by snapshots."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.samplers import Sampler
from tombola.solvers.descent.estimate import StoringRun
from tombola.solvers.descent.run import DescentRun
from tombola.solvers.descent.variance_reduced import VarianceReducedSolver
from tombola.validation import whole

__all__ = ["SVRG"]


class SVRG(VarianceReducedSolver):
    """SVRG with importances: proximal, with a full gradient at each snapshot.

        every m rounds:  x = w_t,  G = mean_i grad_i(x)
        g_t = (1/B) sum_b (grad_b(w_t) - grad_b(x)) / (n p_b) + G
        w_{t+1} = prox(w_t - rate g_t)

    Fed back is |grad_b(w_t) - grad_b(x)|. The default sampler draws items by their curvature:
    ``Static.partially_biased(L)``, with L the Lipschitz constants of their gradients, or uniformly
    if all are equal.

    Parameters
    ----------
    rate : float, optional
        By default it is searched: it begins at 1 / (3 (L_Q + l2)), with L_Q = max_i L_i / (n p_i)
        for the initial p of the sampler, and follows the curvature of the items drawn, at no cost
        in passes over rows (`tombola.solvers.descent.rates`). A given rate is kept.
    snapshot_every : int, optional
        m, the number of rounds between snapshots; by default 2 n / B.
    batch_size : int, default=1
    standardise : bool, default=False
        Whether steps are measured in standardised columns (`tombola.problems.metric`): columns in
        any units, of the same problem.

    Notes
    -----
    A snapshot is one pass over all items, and is counted in `item_gradients`. The slopes at the
    snapshot are stored, `outputs` numbers per item, so that a round computes one gradient per
    item, not two. The next snapshot is taken at the last iterate.

    Examples
    --------
    >>> from tombola.problems import LeastSquares
    >>> problem = LeastSquares([[1.0], [2.0], [3.0]], [1.0, 2.5, 2.0])
    >>> result = SVRG(snapshot_every=5).minimize(problem, rounds=500)
    >>> result.solution.round(4), result.item_gradients    # 500, and 3 for each of 100 snapshots
    (array([0.8571]), 800)

    References
    ----------
    Johnson, Zhang (2013). Accelerating Stochastic Gradient Descent using Predictive Variance
    Reduction.
    Xiao, Zhang (2014). A Proximal Stochastic Gradient Method with Progressive Variance Reduction.
    """

    def __init__(
        self,
        rate: float | None = None,
        *,
        snapshot_every: int | None = None,
        batch_size: int = 1,
        standardise: bool = False,
    ) -> None:
        super().__init__(rate, batch_size, standardise)
        self.snapshot_every = (
            None if snapshot_every is None else whole("snapshot_every", snapshot_every, 1)
        )

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> DescentRun:
        every = self.snapshot_every
        if every is None:
            every = -(-2 * problem.n // self.batch_size)
        return self._storing(problem, start, sampler, snapshot_every=every)

    def _all_losses(self, problem: Any, run: StoringRun) -> NDArray[np.float64]:  # type: ignore[override]
        if run.rounds % run.options[0].snapshot_every == 0:  # begins with a snapshot of w
            return np.zeros(problem.n)
        return super()._all_losses(problem, run)
