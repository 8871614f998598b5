"""Newton's method on samples of the rows that matter."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.samplers import Sampler
from tombola.solvers.base import DivergenceError, Execution
from tombola.solvers.certified import Bounds, CertifiedSolver, Goal, check_dual, checked_tolerance
from tombola.solvers.gap import best_constant
from tombola.solvers.newton.run import NewtonProgress, NewtonRun, Survey
from tombola.solvers.result import Result
from tombola.solvers.run import new_batch
from tombola.state import cell
from tombola.validation import whole

__all__ = ["Newton", "usual_size"]

# rows in a sample: MULTIPLE for each column, LARGE if that is less, but not more than 1/8 of all;
# and 1/64 of all at least
MULTIPLE, LARGE = 20, 2000
# all rows take the place of samples up to this many products in their Hessian, up to the second
# number if rows are at most ROWS, and below MANY times the rows of a sample
FEW, PRODUCTS, ROWS, MANY = 2**20, 2**25, 2**14, 16


def usual_size(problem: Any) -> int:
    """Return the rows in a sample, if rows are drawn."""
    n, width = int(problem.n), int(problem.d + problem.fit_intercept)
    return int(max(MULTIPLE * width * problem.outputs, min(LARGE, n // 8), n // 64, 2))


class Minimum(NamedTuple):
    """What `Newton.solve` reached."""

    solution: NDArray[np.float64]
    rounds: int
    gap: float  # relative; not a number without l2
    primal: float


class Newton(CertifiedSolver):
    """Newton's method on samples of the rows that matter, or on all rows if they are few.

    A round is a pass over all rows, which yields the objective P, its exact gradient and a lower
    bound on the minimum, and then the minimum over m rows drawn by p, which stand for all:

        w <- argmin_w  sum_b s_b phi_b(x_b w) / (m n p_b) + l2/2 |w|^2 + c w

    where c corrects the sample's gradient to the exact one. With an m of a few thousand, two to
    five passes are usual, most of which only confirm. In the first round there is no pass and no
    correction.

    The items are rows. By default they are drawn by `Latest`: half in shuffled order, half by how
    much they add to the Hessian and to the gradient, which every pass updates. If few rows
    matter, as with rare classes, a uniform sample needs many more rounds.

    Parameters
    ----------
    tol : float, default=0.0
        The run ends when the duality gap is at most `tol` times the objective at w = 0 with the
        best intercept. 0: after all rounds.
    sample_size : int, optional
        The number of rows in a sample; by default 20 for each column and class, and not less than
        2,000 (or an eighth of all) and a 64th of all. With n, the default where that would be more
        than a 16th of all rows or their Hessian costs little, it is Newton's method on all rows.
    seed : int, default=0
        For the sampler if none is given.

    Notes
    -----
    For smooth losses, softmax among them, with l1 = 0. With l2 = 0 there is no certificate: all
    rows are taken, `gap` is NaN, and the run ends when a step is expected to gain less than half of
    the tolerance. A round takes
    O(n d + k (m d^2 + d^3)), with k steps on the sample: 5 to 10 in the first round, then one or
    two. The units of columns do not matter. If d is in the hundreds or n is below 30 d, `SDCA` is
    faster on well-conditioned rows. `item_gradients` counts the rows visited, in passes and
    samples. Nothing is compiled: passes are matrix products, with BLAS's threads.

    With several classes, or many rows for each column, steps are those of conjugate gradients,
    preconditioned by a diagonal for each class in one basis of all, of some of the rows.

    A step on all rows ends with slopes that it foresaw to be stationary. They are a dual point: its
    value is a lower bound that is as good as the step, where the slopes at the new point prove
    |gradient|^2 / (2 l2) only.

    A step that raises P is cut to a quarter until P falls, and the rows that mattered beyond are
    drawn in the next sample, too. After two such rounds in succession there are rows that samples
    cannot stand for, such as outliers: from then on, steps are those of Newton's method with the
    Hessian of all rows.

    The method is that of Shamir, Srebro and Zhang (DANE) with a sample in the place of a machine,
    drawn as in "subsampled Newton methods" by curvature. docs/decisions/newton_samples.md has
    figures.

    The solution is the best point of all passes, or the last minimum over a sample if that is
    better: it takes a pass to tell, unless the run has ended within its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import Logistic
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10_000, 3))
    >>> y = X @ [1.0, 2.0, -1.0] + rng.logistic(size=10_000) > 4
    >>> problem = Logistic(X, y, alpha=1e-4, fit_intercept=True)
    >>> solver = Newton(tol=1e-6)
    >>> result = solver.minimize(problem, rounds=100)
    >>> result.solution.round(2), result.rounds < 10
    (array([ 0.87,  1.91, -0.97, -3.86]), True)
    >>> solver.gap(problem, result) <= 1e-6
    True

    References
    ----------
    Shamir, Srebro, Zhang (2014). Communication-Efficient Distributed Optimization using an
    Approximate Newton-type Method.
    Xu, Yang, Roosta-Khorasani, Re, Mahoney (2016). Sub-sampled Newton Methods with Non-uniform
    Sampling.
    Wang, Zhu, Ma (2018). Optimal Subsampling for Large Sample Logistic Regression.
    """

    quantity = "curvature and slope"

    def __init__(self, *, tol: float = 0.0, sample_size: int | None = None, seed: int = 0) -> None:
        self.tol = checked_tolerance(tol)
        self.sample_size = None if sample_size is None else whole("sample_size", sample_size, 2)
        self.seed = whole("seed", seed, 0, 2**128)

    def _gap(self, problem: Any, result: Result) -> float:
        parts = result.state["parts"]
        return self._distance(problem, result.solution, parts["progress"], parts["bounds"])

    def _distance(self, problem: Any, solution: Any, progress: Any, bounds: Any) -> float:
        """Return how far a solution is from the minimum, at most; not a number without l2."""
        if problem.l2 == 0.0:
            return math.nan
        if not progress["ahead"]:
            return float(bounds["gap"])
        with np.errstate(over="ignore", invalid="ignore"):
            primal, dual = self._begin(problem, solution).pass_over()
        return float(primal - max(dual, bounds["dual"]))

    def takes_all(self, problem: Any) -> bool:
        """Return whether rounds take all rows, and none are drawn."""
        return self._rows_drawn(problem) >= int(problem.n)

    def solve(
        self,
        problem: Any,
        sampler: Sampler | None,
        *,
        rounds: int,
        start: ArrayLike | None,
        stop: Callable[[], bool],
    ) -> Minimum:
        """Do as `minimize`, without what `resume` needs.

        Without a sampler, all rows are taken.
        """
        run = self._begin(problem, start)
        progress, bounds = run.progress[0], run.bounds[0]
        execution = Execution(problem, sampler, run)
        if sampler is not None:
            sampler.quantity = self.quantity
        while progress.rounds < rounds and not (stop() or run.ended()):
            wrong = self._call_sampler(execution, 1, stop)
            if wrong >= 0 or not run.finite():
                raise DivergenceError(
                    f"Newton diverged in round {progress.rounds}: {self._advice(problem)}"
                )
        solution = self._solution(problem, run)
        gap = self._relative(problem, self._distance(problem, solution, progress, bounds))
        return Minimum(solution, int(progress.rounds), gap, float(bounds.primal))

    def rounds_per_epoch(self, problem: Any) -> int:
        """Return 1: a round passes over all rows."""
        return 1

    def _check(self, problem: Any) -> None:
        check_dual(problem, "Newton", smooth=True)
        if problem.l1 > 0:
            raise ValueError(
                "Newton needs a problem with l1 = 0: l1_ratio = 0, got "
                f"alpha={problem.alpha:g} and l1_ratio={problem.l1_ratio:g}"
            )

    def _rows_drawn(self, problem: Any) -> int:
        """Return the number of rows in a sample."""
        if self.sample_size is not None:
            return max(2, min(int(problem.n), self.sample_size))
        n, width, size = int(problem.n), int(problem.d + problem.fit_intercept), usual_size(problem)
        most = PRODUCTS if n <= ROWS else FEW
        whole = problem.l2 == 0.0 or n * width**2 <= most
        whole = whole or MANY * size > n
        return max(2, n if whole else size)

    def _begin(
        self, problem: Any, start: ArrayLike | None, sampler: Sampler | None = None
    ) -> NewtonRun:
        model, n, m = problem.model, problem.n, self._rows_drawn(problem)
        intercept, value = best_constant(problem)
        best = problem.as_matrix(None)
        if problem.fit_intercept:
            best[:, -1] = intercept
        reaches = np.where(model.weights > 0.0, model.norms, 0.0)
        np.square(reaches, out=reaches)
        reaches += (model.weights @ reaches) / n
        np.sqrt(reaches, out=reaches)
        return NewtonRun(
            batch=new_batch(m if m < n else 0),  # all rows are not drawn
            progress=cell(NewtonProgress(ahead=int(start is not None))),
            model=model,
            options=cell(Goal(tolerance=self.tol * value)),
            w=best.copy() if start is None else problem.as_matrix(start),
            best=best,
            bounds=cell(Bounds(primal=value, gap=value)),
            survey=Survey(
                slopes=np.zeros(n),
                curves=np.zeros(n),
                reaches=reaches,
                scores=np.zeros(n),
                gradient=np.zeros(problem.shape),
            ),
        )

    def _solution(self, problem: Any, run: NewtonRun) -> NDArray[np.float64]:
        best = np.array(run.best).reshape(problem.shape)
        if not run.progress[0].ahead:
            return best
        present = np.array(run.w).reshape(problem.shape)
        return present if run.all_rows().value(run.point) <= run.bounds[0].primal else best

    def _all_losses(self, problem: Any, run: NewtonRun) -> NDArray[np.float64]:
        return np.array(run.survey.scores)
