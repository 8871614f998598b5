"""Mini-batch k-means, with rows drawn by a sampler."""

import copy
import math
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from tombola import solvers
from tombola.estimators.base import (
    DrawingEstimator,
    Part,
    checked_rows,
    checked_weights,
    checks_parameters,
    draw_seeds,
)
from tombola.estimators.clusters import Clusters, clustering_problem
from tombola.estimators.lloyd import assign
from tombola.estimators.part_fit import run_rows
from tombola.problems import KMeans
from tombola.samplers import Sampler
from tombola.samplers.registry import UNGROUPED, make_sampler
from tombola.solvers.choice import Choice

__all__ = ["MiniBatchKMeans"]


@dataclass(eq=False, repr=False)
class MiniBatchKMeans(Clusters, DrawingEstimator):
    """Mini-batch k-means, by adaptive draws of rows.

        (1/n) sum_i s_i min_q |x_i - q|^2

    Rows far from their centre carry the noise: by default they are drawn by the paper's `VRB`
    with a bound for each row, from its distance to a random one (section 5.2).

    Parameters
    ----------
    n_clusters : int, default=8
    init : "k-means++" or array-like of shape (n_clusters, d), default="k-means++"
        The initial centres; k-means++ chooses them from a subsample of the rows.
    batch_size : int, default=1024
    subsample : int, default=3072
    max_iter : int, default=100
        The largest number of epochs, of n draws each.
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
        The nearest centre of each row of the last call.
    inertia_ : float
        The sum of the squared distances of these rows to it, times their sample weights.
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

    n_clusters: int = 8
    _: KW_ONLY
    init: Any = "k-means++"
    batch_size: int = 1024
    subsample: int = 3072
    max_iter: int = 100
    max_no_improvement: int | None = 10
    tol: float | None = 0.0
    sampler: Any = "auto"
    random_state: Any = None

    samplers = UNGROUPED

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DrawingEstimator._parameter_constraints,
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions({"k-means++"}), "array-like"],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "subsample": [Interval(Integral, 1, None, closed="left")],
        "max_no_improvement": [None, Interval(Integral, 1, None, closed="left")],
        "tol": [None, Interval(Real, 0, None, closed="left")],
        "sampler": [StrOptions(set(samplers)), Sampler, callable],
    }

    @checks_parameters
    def fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> "MiniBatchKMeans":
        """Find the centres.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
            C-ordered float32 and float64, and CSR, are not copied.
        y : ignored
        sample_weight : array-like, shape (n,), optional
            A weight of 2 is the same as the row twice.

        Returns
        -------
        self
        """
        again = self.warm_start and hasattr(self, "cluster_centers_")
        X = checked_rows(self, X, reset=True)
        start = self.cluster_centers_ if again else self._given_start()
        self._past: dict[str, Any] = {"calls": 0, "carried": None}
        self.n_steps_ = 0
        return self._fit(X, sample_weight, start, None)

    @checks_parameters
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> "MiniBatchKMeans":
        """Continue with one epoch over these rows, which may be new; parameters as in `fit`.

        The centres are kept, with the number of rows that each is the average of.
        """
        fresh = not hasattr(self, "cluster_centers_")
        X = checked_rows(self, X, reset=fresh)
        if fresh:
            self._past, self.n_steps_ = {"calls": 0, "carried": None}, 0
        start = self._given_start() if fresh else self.cluster_centers_
        return self._fit(X, sample_weight, start, 1)

    def parts(
        self, X: Any, y: Any = None, sample_weight: NDArray[np.float64] | None = None
    ) -> list[Part]:
        """Return the problem that `fit` solves, in a list; X is already validated."""
        return [Part(None, partial(clustering_problem, X, self.n_clusters, sample_weight), None)]

    def choose(
        self, problem: KMeans, seed: int = 0, groups: Any = None, *, epochs: int | None = None
    ) -> Choice:
        """Return how `fit` solves a problem: solver, sampler and rounds, all of them new.

        Parameters
        ----------
        problem : tombola.problems.KMeans
            Of a part: see `parts`.
        seed : int, default=0
            For the start, the draws, and the bounds that "auto" draws by.
        groups : ignored, unless `sampler` is a function
        epochs : int, optional
            Run this many, all of them, without a tolerance; by default at most `max_iter`,
            until nothing improves.
        """
        tol = self.tol if epochs is None else None
        solver = solvers.MiniBatchKMeans(
            min(self.batch_size, problem.n),
            subsample=self.subsample,
            max_no_improvement=None if tol is None else self.max_no_improvement,
            seed=seed,
        )
        own = partial(solver._default_sampler, problem)
        sampler = partial(make_sampler, self.sampler, problem.n, seed, groups, own=own)
        epoch = solver.rounds_per_epoch(problem)
        rounds = epoch * (self.max_iter if epochs is None else epochs)
        return Choice("kmeans", "batches", solver, sampler, tol or None, epoch, rounds)

    def _given_start(self) -> Any:
        return None if isinstance(self.init, str) else np.asarray(self.init, dtype=np.float64)

    def _fit(self, X: Any, sample_weight: Any, start: Any, epochs: int | None) -> "MiniBatchKMeans":
        n, d = X.shape
        k, past = self.n_clusters, self._past
        if start is None and n < k:
            raise ValueError(f"n_samples={n} should be >= n_clusters={k}")
        if start is not None and start.shape != (k, d):
            raise ValueError(f"the centres to start from have shape {start.shape}, not {(k, d)}")
        (part,) = self.parts(X, None, checked_weights(sample_weight, X))
        problem = part.make()
        seed = draw_seeds(self.random_state, 1, past["calls"])[0]
        choice = self.choose(problem, seed, part.groups, epochs=epochs)
        watch = _Watch(problem, self.verbose, choice.tol)
        observer = self.observe(0, part)
        begin = {"start": start, "carry": past["carried"]}
        result = run_rows(problem, choice, watch, observer, begin)
        observer.end(result, math.nan, watch.converged)
        self._past = {"calls": past["calls"] + 1, "carried": result.state["carried"]}
        self.cluster_centers_ = result.solution
        found = assign(problem, result.solution)
        self.labels_, self.inertia_ = found.labels, float(found.losses.sum())
        self.gauge_ = copy.deepcopy(choice.sampler.gauge)
        self.n_iter_ = -(-result.item_gradients // n)
        self.n_steps_ += result.rounds
        return self


class _Watch:
    """The stopping rule, called after each epoch: whether the centres have stopped moving."""

    def __init__(self, problem: Any, verbose: int, tol: float | None) -> None:
        self.verbose, self.tol = verbose, tol or 0.0
        self.epoch, self.converged = 0, False
        self.before: NDArray[np.float64] | None = None
        self.spread = 0.0
        if tol:
            weights = problem.model.weights
            mean = problem._evaluate(np.zeros((1, problem.d)))[2][0] / 2.0  # minus that of s_i x_i
            self.spread = float((weights * problem.model.squares).mean() - (mean * mean).sum())

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
