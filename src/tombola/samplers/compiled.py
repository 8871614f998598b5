"""Samplers with compiled rules, which can run inside compiled loops (games and solvers)."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import entry, kernel
from tombola.draws import Draw
from tombola.random import Words
from tombola.samplers.base import Sampler
from tombola.state import Cell, Floats, Ints, State, derived

__all__ = ["Compiled", "CompiledSampler"]


@kernel
def draw_in_turn(state: "Compiled", items: Ints, probabilities: Floats) -> None:
    """Draw a batch item by item, from any state."""
    for j in range(items.size):
        items[j], probabilities[j] = state.draw_one()


@kernel
def update_in_turn(state: "Compiled", items: Ints, probabilities: Floats, losses: Floats) -> None:
    """Learn from a batch loss by loss, for any state."""
    for j in range(items.size):
        state.update_one(items[j], probabilities[j], losses[j])


class Compiled(State):
    """Base class of the states of compiled samplers.

    A state is a named tuple of declared parts: arrays, records and other states. Kernels take it as
    one argument and call its methods, which are written in the subset of Python that numba
    compiles.
    """

    stream: Cell[Words] = derived("the random words, whose position the sampler saves")

    draw_many: ClassVar[Any] = draw_in_turn  # a kernel that draws a batch
    update_many: ClassVar[Any] = update_in_turn  # a kernel that learns from a batch

    def draw_one(self) -> Any:
        """Draw one item; return it and its probability."""
        raise NotImplementedError

    def update_one(self, item: int, probability: float, loss: float) -> None:
        """Learn from one loss; the default learns nothing."""

    def update_all(self, losses: Floats) -> None:
        """Learn from the losses of all items at once; the default learns nothing."""

    def fill_probabilities(self, out: Floats) -> None:
        """Write the probability of every item; the default is 1/n."""
        out[:] = 1.0 / out.size


@kernel
def fill_all(state: Compiled, out: Floats) -> None:
    """Write the probability of every item, for any state."""
    state.fill_probabilities(out)


class CompiledSampler(Sampler):
    """A sampler with a compiled rule.

    Attributes
    ----------
    state : Compiled
        The mutable state, as one argument for kernels.
    """

    state: Compiled
    _draw_code: Callable[..., None] | None = None  # machine code for this state, after first use
    _update_code: Callable[..., None] | None = None

    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | Draw:
        items, probabilities = np.empty(size, dtype=np.int64), np.empty(size)
        if self._draw_code is None:
            self._draw_code = entry(type(self.state).draw_many, self.state, items, probabilities)
        self._draw_code(self.state, items, probabilities)
        return items, probabilities

    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        arguments = (self.state, draw.indices, draw.probabilities, losses)
        if self._update_code is None:
            self._update_code = entry(type(self.state).update_many, *arguments)
        self._update_code(*arguments)

    def probabilities(self) -> NDArray[np.float64]:
        """Return the distribution as of the latest draw, with the feedback since then, in O(n)."""
        out = np.empty(self.n)
        fill_all(self.state, out)
        return out
