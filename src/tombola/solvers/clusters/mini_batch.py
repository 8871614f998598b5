"""Mini-batch k-means."""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.problems.kmeans import KMeans, KMeansModel, assign_items, move, rows_of
from tombola.random import Stream
from tombola.samplers import VRB, Sampler
from tombola.solvers.base import Solver, variance_ratio
from tombola.solvers.clusters.plus_plus import draw_by, greedy_plus_plus
from tombola.solvers.run import Progress, Run, new_batch
from tombola.state import (
    Cell,
    Document,
    Floats,
    Record,
    State,
    array,
    cell,
    derived,
    integer,
    real,
)
from tombola.validation import not_negative, whole

__all__ = ["MiniBatchKMeans"]

START, POINT, AGAIN = 0, 1, 2  # streams under the solver's seed: start, bounds, reassignment
SEEN = 10  # items of each cluster, on average, between two reassignments


class Patience(Record):
    """When a run ends."""

    share: float = derived("the share of a round in the average cost")
    patience: int = derived("rounds without a new least average; 0: no end")


class Average(Record):
    """The cost of rounds, smoothed."""

    now: float = real("the present average", default=0.0)
    least: float = real("the least so far", 0.0, "now", default=0.0)
    since: int = integer("rounds since then", 0, "progress.rounds", default=0)


class Centres(State):
    """The centres, and how much each has seen."""

    w: Floats = array("the centres, (n_clusters, d)")
    counts: Floats = array("the weight that each centre is the average of; 0 at the start", 0.0)


class KMeansRun(Run):
    """Finds the centre nearest to each item drawn, then moves the centres."""

    compiled: ClassVar[bool] = False

    rule: Cell[Patience] = derived("when the run ends")
    average: Cell[Average]
    model: KMeansModel = derived("the arrays of the problem")
    centres: Centres
    seed: Any = derived("of the solver")
    reassignment_ratio: float = derived("a centre of a lower share of the largest count is moved")

    def step(self) -> Any:
        """Move centres to the averages of all their items; return a bad loss's position, or -1."""
        batch, progress, centres = self.batch, self.progress[0], self.centres
        w, counts = centres.w, centres.counts
        progress.rounds += 1
        progress.item_gradients += batch.items.size
        weights = self.model.weights[batch.items]
        amounts = batch.importances * weights
        moved = move(w, self.model.rows)
        _, squared, masses, sums = assign_items(self.model, batch.items, amounts, moved)
        batch.losses[:] = 2.0 * weights * np.sqrt(squared)
        bad = ~(batch.losses < math.inf)
        if bad.any():
            return int(bad.argmax())
        costs = amounts * squared
        self.include_cost(float(costs.mean()))
        some = masses > 0.0
        counts[some] += masses[some]
        w[some] += (sums[some] - masses[some, None] * w[some]) / counts[some, None]
        every = -(-SEEN * counts.size // batch.items.size)
        if self.reassignment_ratio > 0.0 and (progress.rounds % every == 0 or not counts.all()):
            self.reassign(costs)
        return -1

    def include_cost(self, cost: float) -> None:
        """Average the costs of rounds but the first; count the rounds since the least average."""
        average, rounds = self.average[0], self.progress[0].rounds
        if rounds <= 2:
            average.now = average.least = cost
        else:
            average.now += self.rule[0].share * (cost - average.now)
            average.since = 0 if average.now < average.least else average.since + 1
            average.least = min(average.least, average.now)

    def reassign(self, costs: Floats) -> None:
        """Move centres that have seen little to items of the batch, drawn by their costs.

        At most half as many as there are items. They count as the one that has seen the least of
        the others.
        """
        w, counts = self.centres.w, self.centres.counts
        few = counts < self.reassignment_ratio * counts.max()
        moving = np.flatnonzero(few)
        moving = moving[np.argsort(counts[moving], kind="stable")][: costs.size // 2]
        moving = moving[: np.count_nonzero(costs)]
        if moving.size == 0:
            return
        stream = Stream(self.seed, (AGAIN, self.progress[0].rounds))
        left, places = costs.copy(), np.empty(moving.size, dtype=np.int64)
        for j in range(places.size):
            places[j] = draw_by(left, stream)
            left[places[j]] = 0.0
        w[moving] = rows_of(self.model.rows, self.batch.items[places])
        counts[moving] = counts[~few].min()

    def ended(self) -> Any:
        """Return whether the average cost has not fallen for as many rounds as the patience.

        At the start the average is of fewer rounds than it is smoothed over: that does not count.
        """
        patience, smooth = self.rule[0].patience, self.rounds * self.rule[0].share >= 1.0
        return smooth and 0 < patience <= self.average[0].since

    def finite(self) -> bool:
        """Return whether the centres are finite."""
        return bool(np.isfinite(self.centres.w).all())


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
        scikit-learn does, but not in the first half epoch, over which it is smoothed. The cost of a
        round is that of its items before the step, times their importances; in the average it has a
        share of 2 B / (n + 1). By default all rounds are run.
    reassignment_ratio : float, default=0
        Every 10 k draws, and as long as a centre has none, centres of less than this share of the
        largest count move to items of the batch, drawn by s_b |x_b - q_b|^2 / (n p_b).
    seed : int, default=0
        For the start, reassignment, and the sampler if none is given.

    Notes
    -----
    The default sampler is the paper's: ``VRB(n, bound=problem.bounds(u), mixing=0.5)`` with u
    a random row. Each item is drawn only a few times, so it helps to know in advance which
    ones are far out. A round takes O(B k d); with sparse rows O(k entries of the rows drawn + k d).

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
        reassignment_ratio: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.batch_size = whole("batch_size", batch_size, 1)
        self.subsample = whole("subsample", subsample, 1)
        if max_no_improvement is not None:
            max_no_improvement = whole("max_no_improvement", max_no_improvement, 1)
        self.max_no_improvement = max_no_improvement
        self.reassignment_ratio = not_negative("reassignment_ratio", reassignment_ratio)
        self.seed = Stream(seed).seed

    def _check(self, problem: Any) -> None:
        if not isinstance(problem, KMeans):
            raise TypeError(f"MiniBatchKMeans minimises KMeans, got {type(problem).__name__}")

    def _begin(self, problem: Any, start: ArrayLike | None, sampler: Sampler) -> KMeansRun:
        if start is None:
            start = greedy_plus_plus(problem, self.subsample, Stream(self.seed, (START,)))
        centres = problem.as_matrix(start)
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
            centres=Centres(w=centres, counts=np.zeros(len(centres))),
            seed=self.seed,
            reassignment_ratio=self.reassignment_ratio,
        )

    def _solution(self, problem: Any, run: KMeansRun) -> NDArray[np.float64]:
        return run.centres.w.copy()

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
        counts = run.centres.counts
        counts[:] = Counts.read(carry, "carry", clusters=counts.size).counts

    def _advice(self, problem: Any) -> str:
        return "the data have been changed: they hold a value that is not finite"
