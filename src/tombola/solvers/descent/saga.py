"""SAGA: variance reduction by the gradients of earlier visits."""

from typing import Any

from numpy.typing import ArrayLike

from tombola.samplers import Sampler
from tombola.solvers.descent.run import DescentRun
from tombola.solvers.descent.variance_reduced import VarianceReducedSolver

__all__ = ["SAGA"]


class SAGA(VarianceReducedSolver):
    """SAGA with importances: proximal, with a table of the slopes of all items.

        g_t = (1/B) sum_b (grad_b(w_t) - y_b) / (n p_b) + mean_i y_i,    then y_b = grad_b(w_t)
        w_{t+1} = prox(w_t - rate g_t)

    Fed back is |grad_b(w_t) - y_b|. The default sampler draws items by their curvature:
    ``Static.partially_biased(L)``, with L the Lipschitz constants of their gradients, or uniformly
    if all are equal. Shuffled epochs do badly here, since they are biased within an epoch.

    Parameters
    ----------
    rate : float, optional
        By default it is searched: it begins at 1 / (3 (L_Q + l2)), with L_Q = max_i L_i / (n p_i)
        for the initial p of the sampler, and follows the curvature of the items drawn, at no cost
        in passes over rows (`tombola.solvers.descent.rates`). A given rate is kept.
    batch_size : int, default=1
    standardise : bool, default=False
        Whether steps are measured in standardised columns (`tombola.problems.metric`): columns in
        any units, of the same problem.

    Notes
    -----
    The table is filled with the gradients at the start, in one pass. It holds `outputs` numbers
    per item.

    Deviation: the proof of Schmidt et al. (2015) for non-uniform draws updates the table at a
    second, uniform item. Here, as in other implementations, it is the item drawn: g is unbiased
    given the table either way, and the second gradient would double the work.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import LeastSquares
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), [1.0, 2.5, 2.0]
    >>> SAGA().minimize(LeastSquares(X, y), rounds=500).solution.round(4)
    array([0.8571])

    References
    ----------
    Defazio, Bach, Lacoste-Julien (2014). SAGA: A Fast Incremental Gradient Method.
    Schmidt et al. (2015). Non-Uniform Stochastic Average Gradient Method.
    """

    def __init__(
        self, rate: float | None = None, *, batch_size: int = 1, standardise: bool = False
    ) -> None:
        super().__init__(rate, batch_size, standardise)

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> DescentRun:
        return self._storing(problem, start, sampler, replaces_slopes=True)
