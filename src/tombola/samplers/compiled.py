"""Samplers with compiled rules, which can run inside compiled loops (games and solvers)."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import by_type, entry, kernel, name_by_source
from tombola.draws import Draw
from tombola.samplers.base import Sampler
from tombola.samplers.saving import check_state, load_state, save_state

__all__ = [
    "Compiled",
    "CompiledSampler",
    "draw_one",
    "fill_probabilities",
    "update_all",
    "update_one",
]


@kernel
def draw_in_turn(state: Any, items: Any, probabilities: Any) -> None:
    """Draw a batch item by item, from any state."""
    for j in range(items.size):
        items[j], probabilities[j] = draw_one(state)


@kernel
def update_in_turn(state: Any, items: Any, probabilities: Any, losses: Any) -> None:
    """Learn from a batch loss by loss, for any state."""
    for j in range(items.size):
        update_one(state, items[j], probabilities[j], losses[j])


class Compiled:
    """Base class of the states of compiled samplers, whose methods kernels find by type.

    A state is a named tuple of arrays, records and nested named tuples; kernels take it as one
    argument. The static methods are written in the subset of Python that numba compiles.
    """

    __slots__ = ()

    derived: ClassVar[tuple[str, ...]] = ()  # parts that the constructor derives; not saved
    draw_many: ClassVar[Any] = draw_in_turn  # a kernel that draws a batch
    update_many: ClassVar[Any] = update_in_turn  # a kernel that learns from a batch

    @classmethod
    def limits(cls, state: Any) -> dict[str, tuple[float, float]]:
        """Return the valid range of numbers and arrays of a state, by dotted name.

        By default floats must be finite, and not negative in ``rule``; integers must be from 0 to
        2^60.
        """
        return {}

    @classmethod
    def fault(cls, state: Any, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with saved parts whose numbers are in range; "" if nothing is."""
        return ""

    @classmethod
    def index_starts(cls, state: Any, name: str) -> NDArray[np.int64]:
        """Return where each part of an index begins, and where the last one ends."""
        return np.array([0, getattr(state, name).weights.size])

    @staticmethod
    def draw_one(state: Any) -> Any:
        """Draw one item; return it and its probability."""
        raise NotImplementedError

    @staticmethod
    def update_one(state: Any, item: Any, probability: Any, loss: Any) -> None:
        """Learn from one loss; the default learns nothing."""

    @staticmethod
    def update_all(state: Any, losses: Any) -> None:
        """Learn from the losses of all items at once; the default learns nothing."""

    @staticmethod
    def fill_probabilities(state: Any, out: Any) -> None:
        """Write the probability of every item; the default is 1/n."""
        out[:] = 1.0 / out.size

    def __init_subclass__(cls) -> None:
        name_by_source(cls)


draw_one = by_type(Compiled.draw_one)
update_one = by_type(Compiled.update_one)
update_all = by_type(Compiled.update_all)
fill_probabilities = by_type(Compiled.fill_probabilities)


@kernel
def fill_all(state: Any, out: Any) -> None:
    """Write the probability of every item, for any state."""
    fill_probabilities(state, out)


class CompiledSampler(Sampler):
    """A sampler with a compiled rule.

    Attributes
    ----------
    state : Compiled
        The mutable state, as one argument for kernels.
    """

    state: Any
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

    def _saved(self) -> dict[str, Any]:
        return save_state(self.state)

    def _check(self, parts: Mapping[str, Any]) -> None:
        check_state(self.state, parts)

    def _load(self, parts: Mapping[str, Any]) -> None:
        load_state(self.state, parts)

    def probabilities(self) -> NDArray[np.float64]:
        """Return the distribution as of the latest draw, with the feedback since then, in O(n)."""
        out = np.empty(self.n)
        fill_all(self.state, out)
        return out
