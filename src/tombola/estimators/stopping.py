"""When a linear model has converged: by its gap or objective, or by the score on rows held out."""

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils.extmath import safe_sparse_dot

from tombola.problems.linear import LinearProblem
from tombola.samplers import Sampler
from tombola.solvers.gap import duality_gap, unit_of
from tombola.state import Document, Floats, array, count, flag, integer, real

__all__ = ["EarlyStopping", "HeldOut", "Watch", "WatchState", "split_rows"]

PATIENCE = 5  # epochs without progress after which AdaGrad and SGD stop


class WatchState(Document):
    """What a `Watch` knows."""

    epoch: int = count("epochs so far")
    idle: int = integer("the last of them without progress", 0, "epoch")
    best: float = real("the best objective so far", -math.inf, math.inf)
    solution: Floats = array("after the last epoch", shape="shape")
    converged: bool = flag("whether it has said to stop")


class Watch:
    """The stopping rule of a run, called after each epoch; it also prints a line if asked to.

    SAGA and SVRG converge: they stop when the relative duality gap is at most tol. Without one (no
    penalty, or a loss whose conjugate is not known) they stop when no coefficient has moved, in an
    epoch, by more than tol times the largest coefficient, and no intercept by more than tol times
    the largest entry.
    AdaGrad and SGD stop when, for 5 epochs, the objective has not fallen by tol relative to the
    best epoch before. That objective is the mean over the epoch as estimated from the draws, which
    costs nothing.

    `reduced` says whether the solver is SAGA or SVRG. Without tol it never stops. `name` begins
    each line; None prints nothing. `start` is the solution at the start, None for zeros.
    """

    def __init__(
        self,
        problem: LinearProblem,
        sampler: Sampler,
        reduced: bool,
        tol: float | None,
        name: str | None,
        start: NDArray[np.float64] | None,
    ) -> None:
        self.problem, self.sampler, self.reduced = problem, sampler, reduced
        self.tol, self.name = tol, name
        self.epoch, self.idle, self.best = 0, 0, np.inf
        self.solution: Any = np.zeros(problem.shape) if start is None else start
        self.converged = False
        self._gap: float | None = None

    @property
    def gap(self) -> float:
        """The relative duality gap of the last solution, nan if there is none."""
        if self._gap is None:
            self._gap = duality_gap(self.problem, self.solution) / self._unit
        return self._gap

    def state(self) -> WatchState:
        """Return what it knows."""
        return WatchState(**{name: getattr(self, name) for name in WatchState.declared})

    def restore(self, state: WatchState) -> None:
        """Set it to what it knew."""
        for name, value in vars(state).items():
            setattr(self, name, value)
        self._gap = None

    @cached_property
    def _unit(self) -> float:
        return unit_of(self.problem)

    def __call__(self, rounds: int, solution: NDArray[np.float64], loss: float) -> bool:
        """Return whether to stop."""
        self.epoch += 1
        objective = loss + self.problem.penalty(solution)
        if self.name is not None:
            gauge = self.sampler.gauge
            print(
                f"{self.name}epoch {self.epoch}: objective {objective:.6g}, second moment over "
                f"uniform's {gauge.second_moment_ratio:.3g} ({gauge.mode})"
            )
        before, self.solution, self._gap = self.solution, solution, None
        if self.tol is None:
            return False
        if not self.reduced:
            enough = objective <= self.best - self.tol * abs(self.best)
            self.idle = 0 if enough or self.epoch == 1 else self.idle + 1
            self.best = min(self.best, objective)
            self.converged = self.idle >= PATIENCE
        elif math.isnan(self.gap):
            change, size = np.abs(solution - before), np.abs(solution)
            d = self.problem.d  # the intercept, in the last column, may be far larger
            settled = change[..., :d].max() <= self.tol * size[..., :d].max()
            self.converged = bool(settled and change.max() <= self.tol * size.max())
        else:
            self.converged = self.gap <= self.tol
        return self.converged


class HeldOut(NamedTuple):
    """Rows that are held out from a part of a fit, and how a solution is scored on them."""

    X: Any
    problem: LinearProblem  # of these rows: targets and weights
    numeric: bool  # regression

    def score(self, solution: NDArray[np.float64]) -> float:
        """Return R squared, or the accuracy of this part (one-vs-rest: of its two sides)."""
        problem = self.problem
        w = problem.as_matrix(solution)
        z = safe_sparse_dot(self.X, w[:, : problem.d].T, dense_output=True)
        if problem.fit_intercept:
            z = z + w[:, problem.d]
        targets, weights = problem.model.targets, problem.model.weights
        if self.numeric:
            return float(r2_score(targets, z[:, 0], sample_weight=weights))
        found = z.argmax(axis=1) if problem.outputs > 1 else np.where(z[:, 0] > 0, 1.0, -1.0)
        return float(np.average(found == targets, weights=weights))


class EarlyStopping:
    """Stop when the score on rows held out stops rising, and keep the best solution.

    An epoch counts as progress if its score is at least the best one before plus `tol`; it stops
    after `patience` epochs without any. tol and name are None as in `Watch`.
    """

    def __init__(self, held: HeldOut, tol: float | None, patience: int, name: str | None) -> None:
        self.held, self.tol, self.patience, self.name = held, tol, patience, name
        self.epoch, self.idle, self.best = 0, 0, -np.inf
        self.solution: Any = None
        self.converged = False

    def __call__(self, rounds: int, solution: NDArray[np.float64], loss: float) -> bool:
        """Return whether to stop."""
        self.epoch += 1
        score = self.held.score(solution)
        if self.name is not None:
            print(f"{self.name}epoch {self.epoch}: score on rows held out {score:.6g}")
        progress = self.tol is None or score >= self.best + self.tol
        self.idle = 0 if progress else self.idle + 1
        if score > self.best:
            self.best, self.solution = score, solution
        self.converged = self.idle >= self.patience
        return self.converged


def split_rows(y: NDArray[Any], share: float, stratified: bool, random_state: Any) -> Any:
    """Return the rows to train on and those to hold out, sorted."""
    kind = StratifiedShuffleSplit if stratified else ShuffleSplit
    splitter = kind(n_splits=1, test_size=share, random_state=random_state)
    train, held = next(splitter.split(np.zeros((len(y), 1)), y))
    return np.sort(train), np.sort(held)
