"""The base class of all samplers: validation, draws, feedback, saving and loading."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import entry
from tombola.draws import Draw
from tombola.gauge import Gauge, Tally, new_tally, record
from tombola.random import Stream
from tombola.state import (
    LARGEST_COUNT,
    Arrays,
    CheckpointError,
    Document,
    State,
    body_of,
    count,
    mapping,
    text,
)
from tombola.state.archive import write
from tombola.validation import brief, whole

__all__ = ["Sampler"]

FORMAT = 3  # version of state_dict()


class SamplerState(Document):
    """What `Sampler.state_dict` returns, besides its class and format."""

    parameters: Mapping[str, Any] = mapping("the arguments of the constructor")
    quantity: str = text("what the sampler is fed with")
    position: int = count("words of the random stream used so far")
    tally: Mapping[str, Any] = mapping("the sums behind the gauge: see `tombola.gauge.Tally`")
    parts: Mapping[str, Any] = mapping("what the sampler has learnt, as its state declares it")


class Sampler(ABC):
    """The online player: chooses a distribution over n items, round after round.

    A subclass implements `_draw`, `_update` and `probabilities`. Its mutable state is a `State`
    in the attribute `state`, or a few arrays that `_arrays` returns; this class does the rest.

    Parameters
    ----------
    n : int
        The number of items.
    seed : int
        From 0 to 2^128 - 1. The same seed and the same feedback give the same draws, in a forked
        child and in a copy too: they repeat what the original draws next, as numpy's generators
        do. Processes that should draw differently make their samplers themselves, each with a
        seed of its own.
    parameters : dict, optional
        The other arguments of the subclass's constructor: numbers, strings, None or arrays. A
        saved sampler is reconstructed from them.

    Attributes
    ----------
    n : int
    quantity : str
        What the caller passes to `update`: "loss" (the default) or "gradient norm". The gauge
        reports it, since a ratio for losses says nothing about gradients.
    feedback : {"drawn", "all"}
        Which losses it learns from: those of drawn items, through `update`, or those of all items,
        through `update_all`.
    fixed_size : bool
        Whether ``draw(size)`` draws exactly that many items; otherwise as many in expectation.
    tally : ndarray
        The number of rounds and the sums behind the gauge; compiled loops update it. See
        `tombola.gauge.new_tally`.
    """

    feedback: ClassVar[Literal["drawn", "all"]] = "drawn"
    fixed_size: ClassVar[bool] = True
    keeps_items: ClassVar[bool] = True  # whether its state grows with n
    state: State | None = None
    _record_code: ClassVar[Callable[..., int] | None] = None  # machine code, after first use

    def __init__(
        self,
        n: int,
        seed: int,
        parameters: dict[str, Any] | None = None,
        *,
        quantity: str = "loss",
    ) -> None:
        self.n = whole("n", n, 1)
        if self.n > LARGEST_COUNT:
            raise ValueError(f"n must be at most 2^60, got {brief(self.n)}")
        self.quantity = str(quantity)
        self.parameters: dict[str, Any] = {"n": self.n, **(parameters or {}), "seed": seed}
        if self.quantity != "loss":
            self.parameters["quantity"] = self.quantity
        self._stream = Stream(seed)
        self.tally = new_tally()
        self._rounds = self.tally["rounds"]  # a view, for faster access

    # --- to be implemented by subclasses ----------------------------------------------------

    @abstractmethod
    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | Draw:
        """Return items and their probabilities as new arrays, or a `Draw`."""

    @abstractmethod
    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        """Learn from validated losses; an item that occurs twice counts twice."""

    @abstractmethod
    def probabilities(self) -> NDArray[np.float64]:
        """Return the distribution as of the latest draw, with the feedback since then, in O(n)."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the mutable arrays by name; they are saved, and loaded in place."""
        return {}

    @classmethod
    def _entries(cls, parameters: Mapping[str, Any]) -> int:
        """Return how many entries the largest array of a state has, at least, given parameters.

        A file that holds less cannot make us allocate more.
        """
        if not cls.keeps_items:
            return 0
        n = parameters.get("n")
        given = [value.size for value in parameters.values() if isinstance(value, np.ndarray)]
        return n if isinstance(n, int) else max(given, default=0)

    def _largest_importance(self) -> float:
        """Return an upper bound on 1 / (n p) over all items, in the current state."""
        return np.inf

    @property
    def mode(self) -> str:
        """The current mode: "adaptive", or "shuffle" while the sampler deals shuffled epochs."""
        return "adaptive"

    @property
    def independent(self) -> bool:
        """Whether every draw is unbiased given all earlier draws.

        If not, it is unbiased over the choice and the shuffling of its epoch, and the earlier draws
        of the epoch tell something about it. `SAGA` and `SVRG` need independent draws.
        """
        return True

    @property
    def epoch_length(self) -> int:
        """The number of draws that make up an epoch; n, unless the sampler says otherwise."""
        return self.n

    # --- public interface -------------------------------------------------------------------

    def draw(self, size: int = 1) -> Draw:
        """Draw ``size`` items, with replacement if the sampler is `independent`, else by epochs.

        A size of zero uses no random words. The items depend only on the seed, the draws made and
        the feedback received so far.
        """
        if type(size) is not int or size < 0:
            size = whole("size", size, 0)
        played = self._rounds.item()
        drawn = self._draw(size)
        if not isinstance(drawn, Draw):
            # the kernels that learn from a draw are compiled for this type and layout
            items = np.ascontiguousarray(drawn[0], dtype=np.int64)
            probabilities = np.ascontiguousarray(drawn[1], dtype=np.float64)
            drawn = Draw.made(items, probabilities, self.n, played)
        self._rounds[0] = played + 1
        return drawn

    @property
    def rounds(self) -> int:
        """The number of rounds so far: calls of `draw`, and rounds of compiled loops."""
        return int(self._rounds.item())

    def update(self, draw: Draw, losses: ArrayLike) -> None:
        """Learn from the losses of drawn items.

        Feedback may arrive late, out of order, or for part of a draw:
        ``update(draw[mask], losses[mask])``.

        Parameters
        ----------
        draw : Draw
            A draw of this sampler, or of another one over the same items.
        losses : array-like of float, shape (len(draw),)
            Non-negative and finite: loss values or gradient norms, *not* multiplied by the
            importance.
        """
        if self.feedback == "all":
            raise TypeError(
                f"{type(self).__name__} learns from the losses of all items: call "
                "update_all(losses); VRB learns from those of drawn items"
            )
        if not isinstance(draw, Draw):
            raise TypeError(f"draw must be a tombola.Draw, got {type(draw).__name__}")
        if draw.n != self.n:
            raise ValueError(f"the draw is over {draw.n} items, this sampler has {self.n}")
        array = _as_losses(losses, draw.indices.shape, "item drawn")
        wrong = self._record(draw.probabilities, array)
        if wrong >= 0:
            raise ValueError(
                f"losses[{wrong}] is {array[wrong]} (item {draw.indices[wrong]}): "
                "losses must be finite and not negative"
            )
        self._update(draw, array)

    def _record(self, probabilities: NDArray[np.float64], losses: NDArray[np.float64]) -> int:
        """Add losses to the gauge and return -1, or return the position of a bad one."""
        tallied = (self.tally, self.n, probabilities, losses)
        if Sampler._record_code is None:
            Sampler._record_code = entry(record, *tallied)
        return Sampler._record_code(*tallied)

    def _checked_all(self, losses: ArrayLike) -> NDArray[np.float64]:
        """Return the losses of all items, for `update_all`, or raise an error that names one."""
        array = _as_losses(losses, (self.n,), "item")
        if not 0.0 <= array.min() <= array.max() < np.inf:
            position = int((~(np.isfinite(array) & (array >= 0))).argmax())
            raise ValueError(
                f"losses[{position}] is {array[position]}: losses must be finite and not negative"
            )
        return array

    @property
    def gauge(self) -> Gauge:
        """Live estimates of the benefit over uniform sampling, from the feedback alone."""
        return Gauge(self.tally, self.n, self._largest_importance(), self.mode, self.quantity)

    def reset(self) -> None:
        """Return to the initial state: the sampler then repeats its draws."""
        self.__init__(**self.parameters)  # type: ignore[misc]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the sampler to a file that `tombola.load` reads; see `tombola.save`."""
        write(path, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the full state: nested dicts of arrays, numbers and strings."""
        return {
            "class": type(self).__name__,
            "format": FORMAT,
            "parameters": {name: _copied(value) for name, value in self.parameters.items()},
            "quantity": self.quantity,
            "position": self._stream.position,
            "tally": Tally.saved(self.tally),
            "parts": self._parts().saved(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a sampler of the same class and parameters.

        Raises
        ------
        CheckpointError
            If the state is invalid or belongs to another sampler; nothing has changed then. It is
            a ValueError.
        """
        saved = read_sampler(type(self), state)
        mine, theirs = self.parameters, saved.parameters
        for name in {**mine, **theirs}:
            equal = name in mine and name in theirs and _same(mine[name], theirs[name])
            if name != "quantity" and not equal:
                raise CheckpointError(f"the state was saved with another {name}")
        parts = self._parts()
        Tally.check(self.tally, saved.tally, "tally")
        parts.check(saved.parts)
        Tally.load(self.tally, saved.tally)
        self._stream.position = saved.position
        parts.load(saved.parts)
        self.quantity = saved.quantity

    def _parts(self) -> State | Arrays:
        """Return the mutable state, except for stream and tally."""
        return Arrays(self._arrays()) if self.state is None else self.state

    def __reduce__(self) -> Any:
        """Pickle and copy through `state_dict`: the names of state classes may change."""
        return _reconstructed, (type(self), self.state_dict())

    def __repr__(self) -> str:
        shown = [
            f"{name}={value if np.ndim(value) == 0 else f'<{len(value)} values>'}"
            for name, value in self.parameters.items()
            if value is not None
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def read_sampler(kind: type[Sampler], state: Mapping[str, Any]) -> SamplerState:
    """Return the entries of a state of this class and format, or raise a CheckpointError."""
    return SamplerState.read(body_of(state, kind.__name__, FORMAT))


def _reconstructed(kind: Any, state: dict[str, Any]) -> Any:
    sampler = kind(**state["parameters"])
    sampler.load_state_dict(state)
    return sampler


def _as_losses(losses: ArrayLike, shape: tuple[int, ...], what: str) -> NDArray[np.float64]:
    """Return losses of this shape, of the type and layout that kernels are compiled for."""
    array = np.asarray(losses)
    if array.dtype != np.float64:
        if array.dtype.kind not in "fiu":
            raise TypeError(f"losses must hold numbers, got dtype {array.dtype}")
        array = array.astype(np.float64)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    if array.shape != shape:
        raise ValueError(f"losses must have shape {shape}, one for each {what}, got {array.shape}")
    return array


def _same(mine: Any, given: Any) -> bool:
    """Return whether a saved parameter equals that of a sampler, whatever it holds."""
    if isinstance(mine, np.ndarray):
        if type(given) is np.ndarray:
            return np.array_equal(mine, given)
        mine = mine.tolist()  # what is kept with tensors has lists of labels
    if isinstance(mine, (list, tuple)):
        same_size = isinstance(given, (list, tuple)) and len(given) == len(mine)
        return same_size and all(map(_same, mine, given))
    return not isinstance(given, (list, tuple)) and np.ndim(given) == 0 and bool(mine == given)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
