"""The exact second moments of other distributions, along the path of a run."""

import numpy as np
from numpy.typing import NDArray

from tombola.advice.data import Contest
from tombola.advice.parts import Possible

__all__ = ["Account"]


class Account:
    """The losses of all items along a run, and the costs of fixed distributions that follow."""

    def __init__(self, contest: Contest) -> None:
        self.contest, self.n = contest, contest.problem.n
        self.squares = np.zeros(self.n)  # sum over draws of l^2
        self.ideal = 0.0  # sum over draws of (sum_i l)^2
        self.epochs: list[float] = []
        self.ideals: list[float] = []
        self.last = np.zeros(self.n)

    def add(self, norms: NDArray[np.float64], draws: float, since: float) -> None:
        """Add the losses after `draws` draws; they stand for the last `since` of them."""
        squares = norms * norms
        self.squares += since * squares
        self.ideal += since * float(norms.sum()) ** 2
        self.epochs.append(draws / self.n)
        self.ideals.append(ratio_of(float(norms.sum()) ** 2, self.n * float(squares.sum())))
        self.last = norms

    def possible(self) -> Possible:
        """Return the second moments of other distributions, over that of uniform draws."""
        uniform = self.n * float(self.squares.sum())
        best_group = None
        groups = self.contest.groups
        if groups is not None:
            _, numbers = np.unique(groups, return_inverse=True)
            sizes = np.bincount(numbers)
            sums = np.bincount(numbers, weights=self.squares)
            # p(i) = q_c / n_c costs sum_c n_c S_c / q_c: least at q_c ~ sqrt(n_c S_c)
            best_group = ratio_of(float(np.sqrt(sizes * sums).sum()) ** 2, uniform)
        return Possible(
            name=self.contest.name,
            ideal=ratio_of(self.ideal, uniform),
            best_fixed=ratio_of(float(np.sqrt(self.squares).sum()) ** 2, uniform),
            best_group=best_group,
            epochs=self.epochs,
            ideals=self.ideals,
        )


def ratio_of(cost: float, uniform: float) -> float:
    """Return a ratio of second moments; 1 where all losses are 0."""
    return min(cost / uniform, 1.0) if uniform > 0 else 1.0
