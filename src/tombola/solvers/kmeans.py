"""Mini-batch k-means."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.kmeans import KMeans, kept, nearest, pull
from tombola.problems.rows import Sparse
from tombola.random import Stream
from tombola.samplers import VRB, Sampler
from tombola.solvers.base import GRADIENTS, ROUND, Solver, variance_ratio
from tombola.solvers.plus_plus import plus_plus
from tombola.validation import whole

__all__ = ["MiniBatchKMeans"]

START, POINT = 0, 1  # streams under the solver's seed: for the start, and for the bounds


class Clustering(NamedTuple):
    """Problem, centres and scratch space, as one argument for the kernels."""

    items: NDArray[np.int64]  # drawn: B of them
    chances: NDArray[np.float64]
    importances: NDArray[np.float64]
    losses: NDArray[np.float64]  # to be fed back
    clock: NDArray[np.int64]
    model: Any
    w: NDArray[np.float64]  # the centres: see tombola.problems.kmeans.Centres
    counts: NDArray[np.float64]
    shares: NDArray[np.float64]
    squares: NDArray[np.float64]
    labels: NDArray[np.int64]  # scratch (B,): nearest centres
    distances: NDArray[np.float64]  # scratch (n_clusters,)

    @staticmethod
    def step(run: Any) -> Any:
        """Take one step with the items drawn; return the first one of bad loss, or -1."""
        return step_kmeans(run)


@kernel
def step_kmeans(run: Clustering) -> Any:
    """Find the centre nearest to each item drawn, then move them; return a bad loss, or -1."""
    model, batch = run.model, run.items.size
    run.clock[ROUND] += 1
    run.clock[GRADIENTS] += batch
    for b in range(batch):
        item = run.items[b]
        q = nearest(model, item, run, run.distances)
        run.labels[b] = q
        run.losses[b] = 2.0 * model.weights[item] * math.sqrt(run.distances[q])
        if not run.losses[b] < math.inf:
            return b
    for b in range(batch):
        amount = run.importances[b] * model.weights[run.items[b]]
        if amount > 0.0:
            pull(model, run.items[b], amount, run, run.labels[b])
    return -1


class MiniBatchKMeans(Solver):
    """Mini-batch k-means with importances: each centre is the average of what came to it.

        q_b = the centre nearest to x_b                            for all B items drawn, then
        u = s_b / (n p_b);  count_q += u;  q += u / count_q (x_b - q)    for each, q = q_b

    Fed back is 2 s_b |x_b - q_b|, the norm of the gradient, as it was before the round. A
    centre that no item came to keeps its place.

    Parameters
    ----------
    batch_size : int, default=100
    subsample : int, default=1000
        Without `start`, the centres start as `plus_plus` chooses them from so many rows.
    seed : int, default=0
        For the start, and for the sampler where none is given.

    Notes
    -----
    Without a sampler it is the paper's: ``VRB(n, bound=problem.bounds(u), mixing=0.5)`` with u
    a random row. Few draws are made of each item here, so it helps to know beforehand which
    ones are far out. A round takes O(B k d); with sparse rows O(k entries of the rows drawn).

    Deviations: Sculley draws uniformly and counts 1 for each item.

    Examples
    --------
    >>> import numpy as np
    >>> from tombola.problems import KMeans
    >>> X = np.array([[0.0], [1.0], [10.0], [12.0]])
    >>> result = MiniBatchKMeans(4).minimize(KMeans(X, 2), start=[[0.0], [9.0]], rounds=1000)
    >>> result.solution.round(1)
    array([[ 0.5],
           [11. ]])

    References
    ----------
    Sculley (2010). Web-Scale K-Means Clustering.
    Borsos, Krause, Levy (2018), section 5.2.
    """

    def __init__(self, batch_size: int = 100, *, subsample: int = 1000, seed: int = 0) -> None:
        self.batch_size = whole("batch_size", batch_size, 1)
        self.subsample = whole("subsample", subsample, 1)
        self.seed = Stream(seed).seed

    def _check(self, problem: Any) -> None:
        if not isinstance(problem, KMeans):
            raise TypeError(f"MiniBatchKMeans minimises KMeans, got {type(problem).__name__}")

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> Clustering:
        if start is None:
            start = plus_plus(problem, self.subsample, Stream(self.seed, (START,)))
        return Clustering(
            items=np.zeros(self.batch_size, dtype=np.int64),
            chances=np.ones(self.batch_size),
            importances=np.ones(self.batch_size),
            losses=np.zeros(self.batch_size),
            clock=np.zeros(2, dtype=np.int64),
            model=problem.model,
            **kept(problem.as_matrix(start))._asdict(),
            labels=np.zeros(self.batch_size, dtype=np.int64),
            distances=np.zeros(problem.n_clusters),
        )

    def _solution(self, problem: Any, run: Any) -> NDArray[np.float64]:
        return np.ascontiguousarray((run.w * run.shares).T)

    def _default_sampler(self, problem: Any) -> Sampler:
        rows = np.flatnonzero(problem.model.weights)
        point = rows[Stream(self.seed, (POINT,)).integers(rows.size, 1)[0]]
        bounds = problem.bounds(point)
        if not bounds.any():  # all rows are equal
            return VRB(problem.n, seed=self.seed)
        return VRB(problem.n, bound=bounds, mixing=0.5, seed=self.seed)

    def _all_losses(self, problem: Any, run: Any) -> NDArray[np.float64]:
        norms: NDArray[np.float64] = problem.norms(self._solution(problem, run))
        return norms

    def _variance_ratio(self, problem: Any, run: Any, chances: NDArray[np.float64]) -> float:
        losses, _, mean = problem.evaluate(self._solution(problem, run))
        return variance_ratio(problem.norms_of(losses), float((mean * mean).sum()), chances)

    def _carried(self, run: Any) -> dict[str, NDArray[Any]]:
        return {"counts": run.counts}

    def _carry(self, run: Any, carried: dict[str, Any]) -> None:
        counts = carried["counts"]
        if counts.shape != run.counts.shape:
            raise ValueError(
                f"what is carried over is of {counts.size} clusters, here are {run.counts.size}"
            )
        run.counts[:] = counts
        if isinstance(run.model.rows, Sparse):  # w holds sums
            known = counts > 0
            run.w[:, known] *= counts[known]
            run.squares[known] *= counts[known] ** 2
            run.shares[known] = 1.0 / counts[known]

    def _advice(self, problem: Any) -> str:
        return "its data hold a value that is not finite, and did not when it was made"
