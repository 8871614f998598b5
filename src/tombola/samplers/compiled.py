"""Samplers whose rule is compiled, so that they run inside compiled loops: games and solvers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import by_type, kernel
from tombola.draws import Draw
from tombola.samplers.base import Sampler

__all__ = ["CompiledSampler", "draw_one", "fill_probabilities", "update_one"]


@by_type
def draw_one(board: Any) -> Any:
    """Draw one item; return it and its probability."""


@by_type
def update_one(board: Any, item: Any, probability: Any, loss: Any) -> None:
    """Learn from one loss."""


@by_type
def fill_probabilities(board: Any, out: Any) -> None:
    """Write the probability of every item, in the present mode."""


@kernel
def draw_in_turn(board: Any, items: Any, probabilities: Any) -> None:
    """Draw a batch one by one, from any board."""
    for j in range(items.size):
        items[j], probabilities[j] = draw_one(board)


@kernel
def update_in_turn(board: Any, items: Any, probabilities: Any, losses: Any) -> None:
    """Learn from a batch one by one, for any board."""
    for j in range(items.size):
        update_one(board, items[j], probabilities[j], losses[j])


@kernel
def fill_all(board: Any, out: Any) -> None:
    """Write the probability of every item, for any board."""
    fill_probabilities(board, out)


class CompiledSampler(Sampler):
    """A sampler whose rule is compiled: all its arrays are a `board`, one argument for kernels.

    The class of the board has the static methods `draw_one`, `update_one` and
    `fill_probabilities`. So the sampler runs inside compiled loops: games and solvers.
    """

    state: Any

    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | Draw:
        items, probabilities = np.empty(size, dtype=np.int64), np.empty(size)
        draw_in_turn(self.state, items, probabilities)
        return items, probabilities

    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        update_in_turn(self.state, draw.indices, draw.probabilities, losses)

    def probabilities(self) -> NDArray[np.float64]:
        """Return the distribution of the latest draws, changed by feedback since; O(n)."""
        out = np.empty(self.n)
        fill_all(self.state, out)
        return out
