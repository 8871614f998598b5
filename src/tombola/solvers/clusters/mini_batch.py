"""Mini-batch k-means."""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel
from tombola.problems.kmeans import (
    Assignment,
    KMeans,
    KMeansModel,
    Moved,
    assign_items,
    assign_rows,
    follow,
    move,
    new_assignment,
)
from tombola.random import Stream, Words, word_of_child
from tombola.samplers import VRB, Sampler
from tombola.solvers.base import Solver, variance_ratio
from tombola.solvers.clusters.plus_plus import greedy_plus_plus
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
LARGE = 256  # items in a round: the most that are assigned one by one
SEEN = 10  # items of each cluster, on average, between two reassignments


class Rule(Record):
    """When a run ends, and when centres are reassigned."""

    share: float = derived("the share of a round in the average cost")
    patience: int = derived("rounds without a new least average; 0: no end")
    ratio: float = derived("a centre of a lower share of the largest count is moved")
    every: int = derived("rounds between two reassignments")


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

    rule: Cell[Rule] = derived("when the run ends, and when centres are reassigned")
    average: Cell[Average]
    model: KMeansModel = derived("the arrays of the problem")
    centres: Centres
    stream: Cell[Words] = derived("the random words of reassignments, a child for each round")
    moved: Moved = derived("the centres, as items are compared with them")
    products: NDArray[Any] = derived("space for the products of an item with the centres")
    found: Assignment = derived("the nearest centre of each item drawn")
    amounts: Floats = derived("importance times weight of each item drawn")
    costs: Floats = derived("its squared distance times that")

    def step(self) -> Any:
        """Move centres to the averages of all their items; return a bad loss's position, or -1."""
        batch, found, weights = self.batch, self.found, self.model.weights
        w, counts, cost = self.centres.w, self.centres.counts, 0.0
        self.progress[0].rounds += 1
        for b in range(batch.items.size):
            self.amounts[b] = batch.importances[b] * weights[batch.items[b]]
        follow(self.moved, self.model.rows)
        found.masses[:] = 0.0
        found.sums[:] = 0.0
        assign_rows(self.model, batch.items, self.amounts, self.moved, self.products, found)
        for b in range(batch.items.size):
            batch.losses[b] = 2.0 * weights[batch.items[b]] * math.sqrt(found.squared[b])
            if not batch.losses[b] < math.inf:
                return b
            self.costs[b] = self.amounts[b] * found.squared[b]
            cost += self.costs[b]
        for q in range(counts.size):
            if found.masses[q] > 0.0:
                counts[q] += found.masses[q]
                for j in range(w.shape[1]):
                    w[q, j] += (found.sums[q, j] - found.masses[q] * w[q, j]) / counts[q]
        self.end_round(cost / batch.items.size)
        return -1

    def end_round(self, cost: float) -> None:
        """Average the costs of rounds but the first; reassign centres if that is due."""
        rule, progress, average = self.rule[0], self.progress[0], self.average[0]
        progress.item_gradients += self.batch.items.size
        if progress.rounds <= 2:
            average.now = average.least = cost
        else:
            average.now += rule.share * (cost - average.now)
            average.since = 0 if average.now < average.least else average.since + 1
            average.least = min(average.least, average.now)
        counts = self.centres.counts
        due = progress.rounds % rule.every == 0 or counts[counts.argmin()] == 0.0
        if due and rule.ratio > 0.0:
            self.reassign()

    def reassign(self) -> None:
        """Move centres that have seen little to items of the batch, drawn by their costs.

        At most half as many as there are items, those that have seen least first. They count as the
        one that has seen the least of the others.
        """
        w, counts, costs = self.centres.w, self.centres.counts, self.costs
        least = counts[counts.argmax()]
        few = min(self.rule[0].ratio, 1.0) * least
        for count in counts:
            if count >= few:
                least = min(least, count)
        for j in range(costs.size // 2):
            q = counts.argmin()
            if not counts[q] < few:
                return
            word = word_of_child(self.stream, self.progress[0].rounds, np.uint64(j))
            b = place_of(costs, np.uint64(word))
            if b < 0:
                return
            costs[b] = 0.0
            w[q] = 0.0
            self.model.rows.add_row(self.batch.items[b], 1.0, w[q])
            counts[q] = least

    def prefetch_item(self, item: int) -> None:
        """Prefetch the row."""
        self.model.rows.prefetch_row(item)

    def ended(self) -> Any:
        """Return whether the average cost has not fallen for as many rounds as the patience.

        At the start the average is of fewer rounds than it is smoothed over: that does not count.
        """
        rule = self.rule[0]
        if rule.patience == 0 or self.average[0].since < rule.patience:
            return False
        return self.progress[0].rounds * rule.share >= 1.0

    def finite(self) -> bool:
        """Return whether the centres are finite."""
        return bool(np.isfinite(self.centres.w).all())


@kernel
def place_of(masses: Floats, word: Any) -> Any:
    """Return a position, drawn in proportion to masses by a random word; -1 if all are 0."""
    point = np.float64(word >> np.uint64(11)) * 2.0**-53  # from 0 to below 1
    total, passed = 0.0, 0.0
    for mass in masses:
        total += mass
    for b in range(masses.size):
        passed += masses[b]
        if passed > point * total:
            return b
    return -1


class LargeRun(KMeansRun):
    """The same in numpy, with products of matrices: there is little to compile for few rounds."""

    compiled: ClassVar[bool] = False

    def step(self) -> Any:
        """Move centres to the averages of all their items; return a bad loss's position, or -1."""
        self.progress[0].rounds += 1
        batch, weights = self.batch, self.model.weights[self.batch.items]
        w, counts, amounts = self.centres.w, self.centres.counts, batch.importances * weights
        found = assign_items(self.model, batch.items, amounts, move(w, self.model.rows))
        batch.losses[:] = 2.0 * weights * np.sqrt(found.squared)
        bad = ~(batch.losses < math.inf)
        if bad.any():
            return int(bad.argmax())
        np.multiply(amounts, found.squared, out=self.costs)
        (some,) = np.nonzero(found.masses)
        masses = found.masses[some]
        counts[some] += masses
        w[some] += (found.sums[some] - masses[:, None] * w[some]) / counts[some, None]
        self.end_round(float(self.costs.mean()))
        return -1


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
        size, shape, model = self.batch_size, problem.shape, problem.model
        w = problem.as_matrix(start)
        moved = move(w, model.rows)
        return (LargeRun if size > LARGE else KMeansRun)(
            batch=new_batch(size),
            progress=cell(Progress()),
            rule=cell(
                Rule(
                    share=min(1.0, 2.0 * size / (problem.n + 1)),
                    patience=self.max_no_improvement or 0,
                    ratio=self.reassignment_ratio,
                    every=-(-SEEN * problem.n_clusters // size),
                )
            ),
            average=cell(Average()),
            model=model,
            centres=Centres(w=w, counts=np.zeros(len(w))),
            stream=Stream(self.seed, (AGAIN,)).state,
            moved=moved,
            products=np.empty(len(w), moved.columns.dtype),
            found=new_assignment(size, shape),
            amounts=np.empty(size),
            costs=np.empty(size),
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
