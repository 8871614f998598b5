"""l1 penalties: few columns at a time, with a certified gap."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.samplers.compiled import CompiledSampler
from tombola.samplers.cyclic import Cyclic
from tombola.samplers.registry import make_sampler
from tombola.samplers.shuffle import Shuffle
from tombola.solvers.certified import check_dual, checked_tolerance
from tombola.solvers.gap import Penalty, best_constant, unit_of
from tombola.solvers.lasso.columns import as_design
from tombola.solvers.lasso.rounds import WorkingRun
from tombola.validation import whole

__all__ = ["SparseResult", "WorkingSets", "drawing"]


class SparseResult(NamedTuple):
    """What `WorkingSets` has reached.

    Attributes
    ----------
    solution : ndarray of shape (d,), or (d + 1,) with an intercept
    gap : float
        The duality gap, relative to the objective at w = 0 with the best intercept.
    rounds : int
    """

    solution: NDArray[np.float64]
    gap: float
    rounds: int


class WorkingSets:
    """Newton steps on few columns at a time, for l1 penalties: the lasso, sparse logistic models.

    A round is one product with all columns and one Newton step on the working set:

    1. The slopes at w are dual variables a. Their products with the columns, u_j, show which
       w_j = 0 are wrong (|u_j| > l1), and prove a lower bound on the minimum. The run ends when
       the bound is near enough.
    2. Columns that the bound proves to be 0 at the minimum are left out (gap-safe screening).
    3. Columns that are wrong join the working set, those of largest |u_j| first.
    4. The quadratic model of the objective on the working set is minimised, from its matrix of
       products: sweeps of coordinate descent find the signs, a linear system the minimum.

    For least squares the model is the objective itself, and two to six rounds are usual. For other
    losses the model is of a sample of rows, drawn by their curvatures, which is kept while its
    steps leave little to gain, and then doubled; a step is halved until the objective falls.

    Parameters
    ----------
    tol : float, default=1e-6
        The run ends when the duality gap is at most `tol` times the objective at w = 0 with the
        best intercept.
    sampler : str or callable, default="auto"
        How the sweeps draw columns of the working set: "auto" and "shuffle" (`Shuffle`), "vrb"
        (`VRB`), "uniform", or "cyclic" (in order, up to ten times slower if columns are
        correlated). A function (n, seed, groups) returns a compiled sampler of n columns; its
        groups are None.
    seed : int, default=0

    Notes
    -----
    For smooth losses with l1 > 0, with or without l2. A round takes O(n d) and, for the step,
    O(n k^2 + k^3) with k columns in the working set. If k is above 2048, or
    above 512 and twice the mean number of non-zeros of its columns, coordinate descent on the
    columns themselves takes the place of the matrix.

    docs/decisions/working_sets.md has figures.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import Logistic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1000))
    >>> y = X[:, 3] - X[:, 7] + 0.1 * rng.normal(size=200) > 0
    >>> problem = Logistic(X, y, alpha=0.1, l1_ratio=1.0, fit_intercept=True)
    >>> result = WorkingSets().minimize(problem)
    >>> np.flatnonzero(result.solution[:1000]), result.gap <= 1e-6
    (array([3, 7]), True)

    References
    ----------
    Massias, Gramfort, Salmon (2018). Celer: a Fast Solver for the Lasso with Dual Extrapolation.
    Lee, Battle, Raina, Ng (2006). Efficient sparse coding algorithms (steps on faces).
    Yuan, Ho, Lin (2012). An Improved GLMNET for L1-regularized Logistic Regression.
    """

    def __init__(self, *, tol: float = 1e-6, sampler: Any = "auto", seed: int = 0) -> None:
        self.tol, self.sampler = checked_tolerance(tol), sampler
        self.seed = whole("seed", seed, 0, 2**128)

    def minimize(
        self,
        problem: Any,
        *,
        rounds: int = 1000,
        start: ArrayLike | None = None,
        report: Callable[[int, float, int], None] | None = None,
    ) -> SparseResult:
        """Minimise a problem.

        Parameters
        ----------
        problem : LinearProblem
            With alpha > 0 and l1_ratio > 0.
        rounds : int, default=1000
            At most; if rounding is the limit, it ends before.
        start : array-like, optional
            The first iterate; by default, and if that is better, zero with the best intercept.
        report : callable, optional
            Called in each round with its number, the gap (not relative) and the size of the
            working set.
        """
        self._check(problem)
        rounds, d = whole("rounds", rounds, 0), problem.d
        run = WorkingRun(
            as_design(problem.model.rows), problem.model, curvature=problem.curvature,
            fit_intercept=problem.fit_intercept, draws=drawing(self.sampler, self.seed),
            seed=self.seed,
        )  # fmt: skip
        constant, value = best_constant(problem)
        run.start(np.zeros(d), constant)
        if start is not None and problem.value(start) < value:
            first = problem.as_matrix(start)[0]
            run.start(first[:d], first[d] if problem.fit_intercept else 0.0)
        unit = unit_of(problem)
        found = run.minimise(
            Penalty(problem.l1, problem.l2), goal=self.tol * unit, rounds=rounds, report=report
        )
        w = np.append(found.w, found.intercept) if problem.fit_intercept else found.w
        return SparseResult(w, found.gap / unit, found.rounds)

    def _check(self, problem: Any) -> None:
        check_dual(problem, "WorkingSets", smooth=True)
        if not problem.l1 > 0:
            raise ValueError(
                "WorkingSets needs a problem with l1 > 0: alpha and l1_ratio above 0, got "
                f"alpha={problem.alpha:g} and l1_ratio={problem.l1_ratio:g}"
            )

    def __repr__(self) -> str:
        return f"WorkingSets(tol={self.tol!r}, sampler={self.sampler!r}, seed={self.seed!r})"


def drawing(choice: Any, seed: int) -> Callable[[int], CompiledSampler]:
    """Return a function that makes the sampler of n columns that a `sampler` argument specifies."""

    def draws(n: int) -> CompiledSampler:
        sampler = make_sampler(
            choice, n, seed, own=partial(Shuffle, n, seed=seed),
            extra={"cyclic": partial(Cyclic, n)}, what="columns", whose="the working set",
        )  # fmt: skip
        if not (isinstance(sampler, CompiledSampler) and sampler.feedback == "drawn"):
            raise TypeError(f"sampler={choice!r} must be a compiled sampler, got {sampler!r}")
        return sampler

    return draws
