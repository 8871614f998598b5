"""Mini-batch k-means, with rows drawn by a sampler."""

import copy
import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola import solvers
from tombola.coreset import Coreset
from tombola.estimators.base import (
    DrawingEstimator,
    Part,
    checked_rows,
    checked_weights,
    checks_parameters,
    draw_seeds,
)
from tombola.estimators.clusters import (
    Clusters,
    assign,
    clustering_problem,
    enough,
    lloyd,
    one_thread,
)
from tombola.estimators.parameters import COUNT, FROM_0, ClusterStarts, parameter
from tombola.estimators.part_fit import run_rows
from tombola.problems import KMeans
from tombola.samplers import Sampler
from tombola.samplers.latest import Latest
from tombola.samplers.registry import make_sampler
from tombola.solvers.choice import Choice

__all__ = ["MiniBatchKMeans"]

STARTS, STEPS = 3, 10  # from each of them, steps of Lloyd's algorithm, at most


@dataclass(kw_only=True, eq=False, repr=False)
class MiniBatchKMeans(Clusters, ClusterStarts, DrawingEstimator):
    """Mini-batch k-means, by adaptive draws of rows.

        (1/n) sum_i s_i min_q |x_i - q|^2

    The first draws are clustered by Lloyd's algorithm; mini-batches go on from there, with the
    weight of these rows. Rows far from their centre carry the noise: by default half of the draws
    are shuffled, and half go by the latest distance of a row to its centre, at first to the mean.

    Parameters
    ----------
    n_clusters : int, default=8
    init : {"k-means++", "random"}, callable or array-like of shape (n_clusters, d), \
default="k-means++"
        The initial centres. Unless they are given, the first `init_size` draws are clustered, by
        scikit-learn's `KMeans` from such a start; a function (X, n_clusters, random_state) gets
        their rows.
    n_init : "auto" or int, default="auto"
        The number of such starts, of which the best for these rows is kept; "auto": 3.
    init_size : int, optional
        By default 3 * batch_size, or 3 * n_clusters if that is less than n_clusters.
    batch_size : int, default=1024
    max_iter : int, default=100
        The largest number of epochs, of n draws each.
    reassignment_ratio : float, default=1e-5
        Every 10 n_clusters draws, a centre of less than this share of the largest count moves to a
        row of the mini-batch, drawn by its squared distance. scikit-learn's 0.01 gives up small
        clusters of rows far out, which may cost more than it gains.
    compute_labels : bool, default=True
        Whether all rows are assigned to the centres after a fit.
    max_no_improvement : int or None, default=10
        `fit` stops after this many mini-batches in a row that have not lowered the average cost,
        which is smoothed over half an epoch. None: this does not stop it.
    tol : float or None, default=0.0
        Above 0, `fit` also stops when the squared distances that the centres have moved in an
        epoch sum to less than tol times the variance of the rows. None: all epochs are run,
        whatever max_no_improvement is.
    sampler : str, Sampler or callable, default="auto"
        How rows are drawn: "auto" (as above), "vrb" (`VRB` without bounds), "shuffle" or
        "uniform". A sampler over the rows of X is left unchanged: a new one is made with its
        parameters and seed. A function (n, seed, groups) returns a sampler; its groups are None.
    random_state : int, RandomState or None, default=None
    warm_start : bool, default=False
        Whether `fit` starts from the centres of the last one.
    verbose : int, default=0
        Above 0, a line is printed for each epoch.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, d)
    labels_ : ndarray of shape (n,)
        The nearest centre of each row of the last call; not with ``compute_labels=False``.
    inertia_ : float
        The sum of the squared distances of these rows to it, times their sample weights. With
        ``compute_labels=False``, an estimate from the last mini-batches.
    gauge_ : Gauge
        The worth of the sampling.
    n_iter_ : int
        Epochs run, the last one perhaps in part.
    n_steps_ : int
        Mini-batches, over all calls of `partial_fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X has column names.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, _ = make_blobs(500, centers=[[1, 1], [9, 9]], random_state=0)
    >>> model = MiniBatchKMeans(2, random_state=0).fit(X)
    >>> sorted(model.cluster_centers_.round().tolist())
    [[1.0, 1.0], [9.0, 9.0]]
    """

    init_size: int | None = parameter(None, COUNT, None)
    batch_size: int = parameter(1024, COUNT)
    max_no_improvement: int | None = parameter(10, COUNT, None)
    tol: float | None = parameter(0.0, FROM_0, None)
    reassignment_ratio: float = parameter(1e-5, FROM_0)
    compute_labels: bool = parameter(True, "boolean")

    @checks_parameters
    def fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> "MiniBatchKMeans":
        """Find the centres; return self.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            C-ordered float32 and float64, and CSR, are not copied.
        y : ignored
        sample_weight : array-like, shape (n,), optional
            A weight of 2 is the same as the row twice.
        """
        again = self.warm_start and hasattr(self, "cluster_centers_")
        return self._fit(X, sample_weight, again, None)

    @checks_parameters
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> "MiniBatchKMeans":
        """Continue with one epoch over these rows, which may be new; parameters as in `fit`.

        The centres are kept, with the number of rows that each is the average of.
        """
        return self._fit(X, sample_weight, hasattr(self, "cluster_centers_"), 1)

    def parts(
        self, X: Any, y: Any = None, sample_weight: NDArray[np.float64] | None = None
    ) -> list[Part]:
        """Return the problem that `fit` solves, in a list; X is already validated."""
        return [Part(None, partial(clustering_problem, X, self.n_clusters, sample_weight), None)]

    def choose(
        self, problem: KMeans, seed: int = 0, groups: Any = None, *, epochs: int | None = None
    ) -> Choice:
        """Return how `fit` solves a problem: see `LinearClassifier.choose`.

        The seed is also for the start. Without `epochs`, it runs until nothing improves.
        """
        tol = self.tol if epochs is None else None
        solver = solvers.MiniBatchKMeans(
            min(self.batch_size, problem.n),
            subsample=self._init_size(problem.n),
            max_no_improvement=None if tol is None else self.max_no_improvement,
            reassignment_ratio=self.reassignment_ratio,
            seed=seed,
        )
        own = partial(far_first, problem, seed)
        sampler = partial(make_sampler, self.sampler, problem.n, seed, groups, own=own)
        epoch = solver.rounds_per_epoch(problem)
        most = max(1, problem.n * self.max_iter // solver.batch_size)
        rounds = most if epochs is None else epoch * epochs
        return Choice("kmeans", "batches", solver, sampler, tol or None, epoch, rounds)

    def _given_start(self) -> Any:
        """Return the initial centres, None if they are to be found."""
        if isinstance(self.init, str) or callable(self.init):
            return None
        if self.n_init not in ("auto", 1):
            warnings.warn(
                f"n_init={self.n_init} is not used: the initial centres are given",
                RuntimeWarning,
                stacklevel=5,
            )
        return np.asarray(self.init, dtype=np.float64)

    def _init_size(self, n: int) -> int:
        """Return the number of rows that are clustered at the start."""
        k, size = self.n_clusters, self.init_size
        if size is None:
            size = 3 * min(self.batch_size, n)
        elif size < k:
            warnings.warn(
                f"init_size={size} should be larger than n_clusters={k}: it is taken as {3 * k}",
                RuntimeWarning,
                stacklevel=6,
            )
        return min(n, 3 * k if size < k else size)

    def _start(self, X: Any, problem: KMeans, choice: Choice) -> tuple[Any, dict[str, Any]]:
        """Cluster the first draws; return the centres, and how much each is the average of."""
        n, k, weights = problem.n, self.n_clusters, problem.model.weights
        if n < k:
            raise ValueError(f"n_samples={n} should be >= n_clusters={k}")
        rows, size = Coreset(np.arange(n), weights), choice.solver.subsample
        if size < n:
            draw = choice.sampler.draw(size)
            amounts = np.bincount(draw.indices, draw.importances, n) * weights
            rows = enough(Coreset(np.flatnonzero(amounts), amounts[amounts > 0]), k, weights)
        model = lloyd(
            X if rows.indices.size == n else X[rows.indices], rows.weights, choice.solver.seed,
            n_clusters=k, init=self.init, max_iter=STEPS, verbose=self.verbose,
            n_init=STARTS if self.n_init == "auto" else self.n_init,
        )  # fmt: skip
        counts = np.bincount(model.labels_, rows.weights, k)
        return model.cluster_centers_, {"counts": counts}

    def _fit(
        self, X: Any, sample_weight: Any, again: bool, epochs: int | None
    ) -> "MiniBatchKMeans":
        """Find the centres; if `again`, from those that there are."""
        fresh = epochs is None or not again
        X = checked_rows(self, X, reset=fresh)
        start = self.cluster_centers_ if again else self._given_start()
        if fresh:
            self._past: dict[str, Any] = {"calls": 0, "carried": None}
            self.n_steps_ = 0
        (n, d), k, past = X.shape, self.n_clusters, self._past
        if start is not None and start.shape != (k, d):
            raise ValueError(f"the centres to start from have shape {start.shape}, not {(k, d)}")
        (part,) = self.parts(X, None, checked_weights(sample_weight, X))
        problem = part.make()
        seed = draw_seeds(self.random_state, 1, past["calls"])[0]
        choice, carried = self.choose(problem, seed, part.groups, epochs=epochs), past["carried"]
        if start is None:
            start, carried = self._start(X, problem, choice)
        watch = _Watch(problem, self.verbose, choice.tol)
        observer = self.observe(0, part)
        begin = {"start": start, "carry": carried}
        with one_thread():
            result = run_rows(problem, choice, watch, observer, begin)
        observer.end(result, math.nan, watch.converged)
        self._past = {"calls": past["calls"] + 1, "carried": result.state["carried"]}
        if self.compute_labels:
            self._settle(problem, result.solution)
        else:
            self.cluster_centers_ = result.solution.astype(X.dtype)
            self.inertia_ = n * float(result.state["parts"]["average"]["now"])
        self.gauge_ = copy.deepcopy(choice.sampler.gauge)
        self.n_iter_ = -(-result.item_gradients // n)
        self.n_steps_ += result.rounds
        return self


def far_first(problem: KMeans, seed: int) -> Sampler:
    """Return `Latest`, which draws rows by their distance to the mean before it knows better."""
    weights = problem.model.weights
    among = None if weights.all() else np.flatnonzero(weights)
    sampler = Latest(problem.n, among=among, seed=seed)
    sampler.update_all(problem.norms_of(around_mean(problem)))
    return sampler


def around_mean(problem: KMeans) -> NDArray[np.float64]:
    """Return the losses of all rows with one centre, their mean."""
    mean = assign(problem, np.zeros((1, problem.d))).means
    return assign(problem, mean).losses


class _Watch:
    """The stopping rule, called after each epoch: whether the centres have stopped moving."""

    def __init__(self, problem: Any, verbose: int, tol: float | None) -> None:
        self.verbose, self.tol = verbose, tol or 0.0
        self.epoch, self.converged = 0, False
        self.before: NDArray[np.float64] | None = None
        self.spread = 0.0
        if tol:
            self.spread = float(around_mean(problem).mean())

    def __call__(self, rounds: int, solution: NDArray[np.float64], loss: float) -> bool:
        """Return whether to stop."""
        self.epoch += 1
        before, self.before = self.before, solution
        moved = np.inf if before is None else float(((solution - before) ** 2).sum())
        if self.verbose:
            print(
                f"epoch {self.epoch}"
                + (f": centres moved by {moved**0.5:.6g}" if before is not None else "")
            )
        self.converged = bool(self.tol) and moved <= self.tol * self.spread
        return self.converged
