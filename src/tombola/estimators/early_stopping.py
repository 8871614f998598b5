"""Rows that are held out, and the stopping rule that watches the score on them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils.extmath import safe_sparse_dot

from tombola.problems.linear import LinearProblem

__all__ = ["EarlyStopping", "HeldOut", "split_rows"]


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

    Parameters
    ----------
    held : HeldOut
    tol : float or None
        An epoch counts as progress if its score is at least the best one before plus `tol`. None:
        never stop.
    patience : int
        The epochs without progress after which it stops.
    name : str or None
        Begins a line for each epoch; None prints nothing.
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
