"""AdaGrad: rates that adapt to the gradients."""

from typing import Any

from numpy.typing import ArrayLike

from tombola.samplers import Sampler
from tombola.solvers.descent.base import Carried, DescentSolver, checked_radius, checked_rate
from tombola.solvers.descent.estimate import GradientRun
from tombola.solvers.descent.rates import DIAGONAL, NORM
from tombola.solvers.descent.run import DescentRun
from tombola.state import Floats, array, real
from tombola.validation import whole

__all__ = ["AdaGrad", "SquaresCarried"]


class SquaresCarried(Carried):
    """What a run on other items continues with."""

    square_sum: float = real("the sum of |g|^2")
    squares: Floats = array("the sums of g_j^2", 0.0, shape=("outputs", "width"))


class AdaGrad(DescentSolver):
    """AdaGrad, with a rate for each coordinate or one for all.

        diagonal:   rate_{t,j} = rate / sqrt(sum_{s <= t} g_{s,j}^2)
        norm:       rate_t = rate / sqrt(sum_{s <= t} |g_s|^2)

    with g_t = (1/B) sum_b grad_b(w_t) / (n p_b), and w_{t+1} = prox(w_t - rate_t g_t).

    The norm version is the one of appendix A: in a set of diameter D, with rate D / sqrt(2) and
    the average of the iterates, F exceeds its minimum by at most (2 D / T) sqrt(sum_t E |g_t|^2).
    Samplers make that sum small.

    Parameters
    ----------
    rate : float, default=0.1
    version : {"diagonal", "norm"}, default="diagonal"
    batch_size : int, default=1
    radius : float, optional
        w is kept within this distance from 0.
    average : bool, default=False
        Whether the solution is the average of the iterates w_1 to w_T at which gradients were
        taken.
    standardise : bool, default=False
        Whether steps are measured in standardised columns (`tombola.problems.metric`): columns in
        any units, of the same problem.

    Notes
    -----
    The regulariser is applied by its prox in the metric of the rates, and is not part of g. A
    coordinate whose gradients were all 0 does not move. With sparse rows a step takes O(entries
    of the rows drawn); with `radius` or `average` O(d).

    Examples
    --------
    >>> import numpy as np, tombola
    >>> from tombola.problems import Logistic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 5))
    >>> problem = Logistic(X, X[:, 0] > 1.5, alpha=1e-3, fit_intercept=True)
    >>> result = AdaGrad(0.5).minimize(problem, sampler=tombola.VRB(500), rounds=5000, trace=4)
    >>> result.trace.objective.round(2)
    array([0.69, 0.07, 0.06, 0.06, 0.06])

    References
    ----------
    Duchi, Hazan, Singer (2011). Adaptive Subgradient Methods for Online Learning and Stochastic
    Optimization.
    Borsos, Krause, Levy (2018), appendix A.
    """

    def __init__(
        self,
        rate: float = 0.1,
        *,
        version: str = "diagonal",
        batch_size: int = 1,
        radius: float | None = None,
        average: bool = False,
        standardise: bool = False,
    ) -> None:
        if version not in ("diagonal", "norm"):
            raise ValueError(f'version must be "diagonal" or "norm", got {version!r}')
        self.rate = checked_rate(rate)
        self.version = version
        self.batch_size = whole("batch_size", batch_size, 1)
        self.radius = checked_radius(radius)
        self.average = bool(average)
        self.standardise = bool(standardise)

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> DescentRun:
        return self._descent(
            problem,
            start,
            schedule=DIAGONAL if self.version == "diagonal" else NORM,
            rate=self.rate,
            radius=self.radius,
            averaging=int(self.average),
        )

    def _carried(self, run: GradientRun) -> SquaresCarried:  # type: ignore[override]
        rounds, square_sum = super()._carried(run).rounds, float(run.rates[0].square_sum)
        return SquaresCarried(rounds=rounds, square_sum=square_sum, squares=run.squares)

    def _carry(self, run: GradientRun, carry: Any) -> None:  # type: ignore[override]
        outputs, width = run.squares.shape
        found = SquaresCarried.read(carry, "carry", outputs=outputs, width=width)
        run.rates[0].earlier_rounds, run.rates[0].square_sum = found.rounds, found.square_sum
        run.squares[:] = found.squares
