"""The runs of SGD, AdaGrad, SAGA and SVRG on linear models: which kind serves which case.

Each round estimates the gradient g of the mean loss from the batch and sets

    w_j <- prox(w_j - rate_j g_j)                                        for every coordinate j

where prox is exact for the regulariser: v -> soft(v, rate l1) / (1 + rate l2). Fed back is the
norm of what was multiplied by the importance, |grad_b(w) - grad_b(y)|, where y are the stored
slopes of SAGA and SVRG (`tombola.solvers.descent.estimate`).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.problems.linear import LinearProblem
from tombola.problems.rows import Sparse
from tombola.solvers.descent.dense import DenseOptions, DenseRun
from tombola.solvers.descent.drift import Drift, DriftRun
from tombola.solvers.descent.estimate import take_snapshot
from tombola.solvers.descent.lazy import LazyColumns, LazyRun, Number, Totals, Touched
from tombola.solvers.descent.rates import CONSTANT, DIAGONAL, ROOT, STRONGLY_CONVEX
from tombola.solvers.descent.run import (
    DescentProgress,
    Options,
    Rates,
    StoredSlopes,
    StoringOptions,
    new_scratch,
)
from tombola.solvers.descent.scaled import Scale, ScaledRun
from tombola.solvers.descent.search import PERIODS, new_search
from tombola.solvers.run import new_batch
from tombola.state import cell

__all__ = ["Descent", "new_descent"]

Descent = DenseRun | LazyRun | ScaledRun | DriftRun

WIDE = 16  # columns are lazy where there are this many times more of them than entries per row


def new_descent(
    problem: LinearProblem,
    w: NDArray[np.float64],
    batch_size: int,
    *,
    schedule: int,
    rate: float,
    radius: float = math.inf,
    averaging: int = 0,
    snapshot_every: int = 0,
    replaces_slopes: bool = False,
    smoothness: float = 0.0,
) -> Descent:
    """Return the state before the first round.

    Parameters
    ----------
    problem : LinearProblem
    w : ndarray, shape (outputs, width)
        The start; it becomes the iterate.
    batch_size : int
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
    shrinks_only = schedule in (CONSTANT, ROOT, STRONGLY_CONVEX) and not stores and problem.l1 == 0
    if local and shrinks_only:
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
    squares = np.zeros((outputs, width if schedule == DIAGONAL else 0))
    run: DenseRun | LazyRun | DriftRun
    if stores and problem.l1 == 0 and isinstance(problem.model.rows, Sparse):
        run = DriftRun(
            **shared,
            options=cell(StoringOptions(**options)),
            level=cell(Drift()),
            changes=np.zeros((batch_size, outputs)),
        )
    elif local and has_few_entries(problem):
        run = LazyRun(
            **shared,
            squares=squares,
            g=np.zeros((outputs, width)),
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
            squares=squares,
            g=np.zeros((outputs, width)),
            options=cell(DenseOptions(**options, radius=radius, averaging=averaging)),
            average=np.zeros((outputs, width if averaging else 0)),
        )
    if replaces_slopes:
        take_snapshot(run)
    return run


def has_few_entries(problem: LinearProblem) -> bool:
    """Return whether rows have so few entries that it pays to leave the other columns alone."""
    rows = problem.model.rows
    return isinstance(rows, Sparse) and rows.values.size / problem.n * WIDE < problem.d
