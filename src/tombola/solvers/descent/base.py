"""What SGD, AdaGrad, SAGA and SVRG share, and which kind of run serves which case.

Each round estimates the gradient g of the mean loss from the batch and sets

    w_j <- prox(w_j - rate_j g_j)                                        for every coordinate j

where prox is exact for the regulariser: v -> soft(v, rate l1) / (1 + rate l2). Fed back is the
norm of what was multiplied by the importance, |grad_b(w) - grad_b(y)|, where y are the stored
slopes of SAGA and SVRG (`tombola.solvers.descent.estimate`).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.problems.linear import LinearProblem
from tombola.problems.metric import standardised
from tombola.problems.rows import Sparse, mean_entries
from tombola.solvers.base import Solver, variance_ratio
from tombola.solvers.descent.dense import DenseOptions, DenseRun
from tombola.solvers.descent.estimate import StoringRun, take_snapshot
from tombola.solvers.descent.lazy import LazyColumns, LazyRun, Number, Totals, Touched
from tombola.solvers.descent.rates import (
    CONSTANT,
    DIAGONAL,
    PERIODS,
    ROOT,
    STRONGLY_CONVEX,
    new_search,
)
from tombola.solvers.descent.run import (
    DescentProgress,
    DescentRun,
    Options,
    Rates,
    StoredSlopes,
    StoringOptions,
    new_scratch,
)
from tombola.solvers.descent.scaled import Drift, DriftRun, Scale, ScaledRun
from tombola.solvers.run import new_batch
from tombola.state import Document, cell, count
from tombola.validation import number

__all__ = ["Carried", "DescentSolver", "checked_radius", "checked_rate"]

WIDE = 16  # columns are lazy if there are this many times more of them than entries per row


class Carried(Document):
    """What a run on other items continues with."""

    rounds: int = count("rounds of all runs")


class DescentSolver(Solver):
    """A solver for `tombola.problems.LinearProblem` that steps along estimated gradients."""

    standardise: bool = False

    def measured(self, problem: LinearProblem) -> LinearProblem:
        """Return the problem, with a metric if columns are to be standardised."""
        return standardised(problem) if self.standardise else problem

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
        problem = self.measured(problem)
        _, slopes, gradient = problem.evaluate(run.iterate().reshape(problem.shape))
        if isinstance(run, StoringRun) and run.stored.table.size:
            slopes = slopes - run.stored.table
            gradient = gradient - run.stored.mean_gradient
        if problem.metric is not None:
            units, centres = problem.metric
            if problem.fit_intercept:
                gradient[:, : problem.d] -= gradient[:, problem.d :] * centres
            gradient[:, : problem.d] /= units
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

    def _descent(
        self,
        problem: LinearProblem,
        start: ArrayLike | None,
        *,
        schedule: int,
        rate: float,
        radius: float = math.inf,
        averaging: int = 0,
        snapshot_every: int = 0,
        replaces_slopes: bool = False,
        smoothness: float = 0.0,
    ) -> DescentRun:
        """Return the state before the first round, of the kind that serves the case.

        Parameters
        ----------
        problem : LinearProblem
        start : array-like, optional
            The first iterate.
        schedule : int
            See `tombola.solvers.descent.rates`.
        rate : float
        radius : float
            Of the ball around 0 that w stays in.
        averaging : {0, 1, 2}
            Whether the iterates are averaged: no, with equal weights, with weights t.
        snapshot_every : int
            Rounds between snapshots (SVRG); 0: none.
        replaces_slopes : bool
            Whether the stored slopes of drawn items are replaced (SAGA).
        smoothness : float
            L_Q of the initial draws, for the schedule SEARCHED.
        """
        if self.standardise and math.isfinite(radius):
            raise ValueError("standardise=True does not go with a radius")
        problem = self.measured(problem)
        metric = problem.metric
        w, batch_size = problem.as_matrix(start), self.batch_size
        outputs, width = w.shape
        stores = replaces_slopes or snapshot_every > 0
        shared: dict[str, Any] = {
            "batch": new_batch(batch_size),
            "progress": cell(DescentProgress()),
            "model": problem.model,
            "rates": cell(Rates(rate=rate)),
            "w": w,
            "scratch": new_scratch(batch_size, outputs),
        }
        options: dict[str, Any] = {"schedule": schedule, "convexity": problem.l2}
        local = not averaging and math.isinf(radius)  # no step has to touch every column
        shrinks_only = (
            schedule in (CONSTANT, ROOT, STRONGLY_CONVEX) and not stores and problem.l1 == 0
        )
        if local and shrinks_only and metric is None:
            return ScaledRun(**shared, options=cell(Options(**options)), scale=cell(Scale()))
        options |= {
            "snapshot_every": snapshot_every,
            "replaces_slopes": int(replaces_slopes),
            "curvature": problem.curvature,
            "period": -(-problem.n // (PERIODS * batch_size)),
        }
        shared |= {
            "search": new_search(problem.n, smoothness),
            "stored": StoredSlopes(
                np.zeros((problem.n if stores else 0, outputs)),
                np.zeros((outputs, width if stores else 0)),
            ),
        }
        paces = centres = np.zeros(0)
        if metric is not None:
            paces = 1.0 / metric.units if schedule == DIAGONAL else metric.units**-2.0
            centres = metric.centres
        gradient: dict[str, Any] = {
            "squares": np.zeros((outputs, width if schedule == DIAGONAL else 0)),
            "g": np.zeros((outputs, width)),
            "paces": paces,
            "centres": centres,
        }
        rows = problem.model.rows
        few_entries = isinstance(rows, Sparse) and mean_entries(rows) * WIDE < problem.d
        run: DenseRun | LazyRun | DriftRun
        closed = metric is None or stores or schedule == DIAGONAL  # steps of a column that waits
        if stores and problem.l1 == 0 and isinstance(rows, Sparse) and metric is None:
            run = DriftRun(
                **shared,
                options=cell(StoringOptions(**options)),
                level=cell(Drift()),
                changes=np.zeros((batch_size, outputs)),
            )
        elif local and few_entries and closed:
            run = LazyRun(
                **shared,
                **gradient,
                options=cell(StoringOptions(**options)),
                columns=LazyColumns(
                    np.zeros(problem.d, dtype=np.int64), np.ones(problem.d), np.zeros(problem.d)
                ),
                totals=cell(Totals()),
                touched=Touched(np.zeros(problem.d, dtype=np.int64), cell(Number())),
            )
        else:
            run = DenseRun(
                **shared,
                **gradient,
                options=cell(DenseOptions(**options, radius=radius, averaging=averaging)),
                average=np.zeros((outputs, width if averaging else 0)),
            )
        if replaces_slopes:
            take_snapshot(run)
        return run


def checked_rate(rate: Any) -> float:
    """Return a rate, or raise an error that names it."""
    if not 0 < number("rate", rate) < np.inf:
        raise ValueError(f"rate must be positive and finite, got {rate}")
    return float(rate)


def checked_radius(radius: Any) -> float:
    """Return a radius, infinite if none was given, or raise an error that names it."""
    if radius is None:
        return float("inf")
    if not number("radius", radius) > 0:
        raise ValueError(f"radius must be positive, got {radius}")
    return float(radius)
