"""Mini-batch k-means."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.kmeans import Centres, KMeans, KMeansModel, Scratch, kept, new_scratch
from tombola.problems.rows import Sparse
from tombola.random import Stream
from tombola.samplers import VRB, Sampler
from tombola.solvers.base import Solver, variance_ratio
from tombola.solvers.clusters.plus_plus import greedy_plus_plus
from tombola.solvers.run import Progress, Run, new_batch
from tombola.state import Cell, Document, Floats, Ints, Record, array, cell, derived, integer, real
from tombola.validation import whole

__all__ = ["MiniBatchKMeans"]

START, POINT = 0, 1  # streams under the solver's seed: for the start, and for the bounds


class Patience(Record):
    """When a run ends."""

    share: float = derived("the share of a round in the average cost")
    patience: int = derived("rounds without a new least average; 0: no end")


class Average(Record):
    """The cost of rounds, smoothed."""

    now: float = real("the present average", default=0.0)
    least: float = real("the least so far", 0.0, "now", default=0.0)
    since: int = integer("rounds since then", 0, "progress.rounds", default=0)


class KMeansRun(Run):
    """Finds the centre nearest to each item drawn, then moves the centres."""

    rule: Cell[Patience] = derived("when the run ends")
    average: Cell[Average]
    model: KMeansModel = derived("the arrays of the problem")
    centres: Centres
    labels: Ints = derived("scratch (B,): nearest centres")
    squared: Floats = derived("scratch (B,): squared distances to them")
    amounts: Floats = derived("scratch (B,): importances times weights")
    scratch: Scratch = derived("scratch space")

    def step(self) -> Any:
        """Find the centre nearest to each item; return the position of a bad loss, or -1."""
        model, batch, labels, squared = self.model, self.batch, self.labels, self.squared
        self.progress[0].rounds += 1
        self.progress[0].item_gradients += batch.items.size
        model.find_nearest(batch.items, self.centres, self.scratch, labels, squared)
        cost = 0.0
        for b in range(batch.items.size):
            weight = model.weights[batch.items[b]]
            batch.losses[b] = 2.0 * weight * math.sqrt(squared[b])
            if not batch.losses[b] < math.inf:
                return b
            self.amounts[b] = batch.importances[b] * weight
            cost += self.amounts[b] * squared[b]
        include_cost(self, cost / batch.items.size)
        return -1

    def move(self) -> None:
        """Move centres to the averages of all their items."""
        self.model.include(self.batch.items, self.amounts, self.centres, self.scratch, self.labels)

    def ended(self) -> Any:
        """Return whether the average cost has not fallen for as many rounds as the patience."""
        patience = self.rule[0].patience
        return patience > 0 and self.average[0].since >= patience

    def prefetch_item(self, item: int) -> None:
        """Prefetch the row."""
        self.model.rows.prefetch_row(item)

    def finite(self) -> bool:
        """Return whether the centres are finite."""
        return bool(np.isfinite(self.centres.w).all())


@kernel(inline=True)
def include_cost(run: KMeansRun, cost: Any) -> None:
    """Average the costs of rounds but the first; count the rounds since the least average."""
    average, rounds = run.average[0], run.progress[0].rounds
    if rounds == 2:
        average.now = average.least = cost
    elif rounds > 2:
        average.now += run.rule[0].share * (cost - average.now)
        average.since = 0 if average.now < average.least else average.since + 1
        average.least = min(average.least, average.now)


class Counts(Document):
    """What a run on other items continues with."""

    counts: Floats = array("the weight of each cluster", 0.0, shape=("clusters",))


class MiniBatchKMeans(Solver):
    """Mini-batch k-means with importances: each centre is the average of its items.

        q_b = the centre nearest to x_b                            for all B items drawn, then
        u = s_b / (n p_b);  count_q += u;  q += u / count_q (x_b - q)    for each, q = q_b

    Fed back is 2 s_b |x_b - q_b|, the norm of the gradient before the round. A centre without
    items stays where it is.

    Parameters
    ----------
    batch_size : int, default=100
    subsample : int, default=1000
        Without `start`, `greedy_plus_plus` chooses the first centres from this many rows.
    max_no_improvement : int, optional
        End after this many rounds in a row without a new least value of the average cost, as
        scikit-learn does. The cost of a round is that of its items before the step, times their
        importances; in the average it has a share of 2 B / (n + 1). By default all rounds are run.
    seed : int, default=0
        For the start, and for the sampler if none is given.

    Notes
    -----
    The default sampler is the paper's: ``VRB(n, bound=problem.bounds(u), mixing=0.5)`` with u
    a random row. Each item is drawn only a few times, so it helps to know in advance which
    ones are far out. A round takes O(B k d); with sparse rows O(k entries of the rows drawn).

    Deviation: Sculley draws uniformly and counts 1 for each item.

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

    def __init__(
        self,
        batch_size: int = 100,
        *,
        subsample: int = 1000,
        max_no_improvement: int | None = None,
        seed: int = 0,
    ) -> None:
        self.batch_size = whole("batch_size", batch_size, 1)
        self.subsample = whole("subsample", subsample, 1)
        if max_no_improvement is not None:
            max_no_improvement = whole("max_no_improvement", max_no_improvement, 1)
        self.max_no_improvement = max_no_improvement
        self.seed = Stream(seed).seed

    def _check(self, problem: Any) -> None:
        if not isinstance(problem, KMeans):
            raise TypeError(f"MiniBatchKMeans minimises KMeans, got {type(problem).__name__}")

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> KMeansRun:
        if start is None:
            start = greedy_plus_plus(problem, self.subsample, Stream(self.seed, (START,)))
        return KMeansRun(
            batch=new_batch(self.batch_size),
            progress=cell(Progress()),
            rule=cell(
                Patience(
                    share=min(1.0, 2.0 * self.batch_size / (problem.n + 1)),
                    patience=self.max_no_improvement or 0,
                )
            ),
            average=cell(Average()),
            model=problem.model,
            centres=kept(problem.as_matrix(start)),
            labels=np.zeros(self.batch_size, dtype=np.int64),
            squared=np.zeros(self.batch_size),
            amounts=np.zeros(self.batch_size),
            scratch=new_scratch(problem),
        )

    def _solution(self, problem: Any, run: KMeansRun) -> NDArray[np.float64]:
        return np.ascontiguousarray((run.centres.w * run.centres.shares).T)

    def _default_sampler(self, problem: Any) -> Sampler:
        rows = np.flatnonzero(problem.model.weights)
        point = rows[Stream(self.seed, (POINT,)).integers(rows.size, 1)[0]]
        bounds = problem.bounds(point)
        if not bounds.any():  # all rows are equal
            return VRB(problem.n, seed=self.seed)
        return VRB(problem.n, bound=bounds, mixing=0.5, seed=self.seed)

    def _all_losses(self, problem: Any, run: KMeansRun) -> NDArray[np.float64]:
        norms: NDArray[np.float64] = problem.norms(self._solution(problem, run))
        return norms

    def _variance_ratio(self, problem: Any, run: KMeansRun, chances: NDArray[np.float64]) -> float:
        losses, _, mean = problem.evaluate(self._solution(problem, run))
        return variance_ratio(problem.norms_of(losses), float((mean * mean).sum()), chances)

    def _carried(self, run: KMeansRun) -> Counts:
        return Counts(counts=run.centres.counts)

    def _carry(self, run: KMeansRun, carry: Any) -> None:
        centres = run.centres
        counts = Counts.read(carry, "carry", clusters=centres.counts.size).counts
        centres.counts[:] = counts
        if isinstance(run.model.rows, Sparse):  # w holds sums
            known = counts > 0
            centres.w[:, known] *= counts[known]
            centres.squares[known] *= counts[known] ** 2
            centres.shares[known] = 1.0 / counts[known]

    def _advice(self, problem: Any) -> str:
        return "the data have been changed: they hold a value that is not finite"
