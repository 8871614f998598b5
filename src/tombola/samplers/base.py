"""What every sampler does: validate, draw tickets, take feedback, save and load its state."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.archive import CheckpointError, write
from tombola.compiling import check_fit, entry, load_parts, saved_parts
from tombola.draws import Draw
from tombola.gauge import Gauge, new_tally, record
from tombola.random import Stream
from tombola.validation import whole

__all__ = ["Sampler"]

FORMAT = 2  # of state_dict()
LARGEST_SUM = 1e300  # of anything in a tally


class Sampler(ABC):
    """The online player: chooses a distribution over n items, round after round.

    A sampler writes three methods, `_draw`, `_update` and `probabilities`, and names its
    mutable arrays in `_arrays`; everything else is here.

    Parameters
    ----------
    n : int
        The number of items.
    seed : int
        From 0 to 2^128 - 1; same seed and same feedback, same draws.
    parameters : dict, optional
        All else that the constructor of the subclass was given: a saved sampler is made again
        from them. Numbers, strings, None or arrays.

    Attributes
    ----------
    n : int
    quantity : str
        What is fed to `update`: "loss", unless whoever feeds it says "gradient norm". The
        gauge reports it, since a ratio of losses says nothing about gradients.
    feedback : {"drawn", "all"}
        Which losses it learns from: those of drawn items, by `update`, or those of all items, by
        `update_all`.
    tally : ndarray
        The rounds played and the sums behind the gauge, for compiled loops; see `new_tally`.
    """

    feedback: ClassVar[Literal["drawn", "all"]] = "drawn"
    keeps_items: ClassVar[bool] = True  # whether its state grows with n
    _record_code: ClassVar[Callable[..., int] | None] = None  # machine code, once used

    def __init__(
        self,
        n: int,
        seed: int,
        parameters: dict[str, Any] | None = None,
        *,
        quantity: str = "loss",
    ) -> None:
        self.n = whole("n", n, 1)
        self.quantity = str(quantity)
        self.parameters: dict[str, Any] = {"n": self.n, **(parameters or {}), "seed": seed}
        if self.quantity != "loss":
            self.parameters["quantity"] = self.quantity
        self._stream = Stream(seed)
        self.tally = new_tally()
        self._rounds = self.tally["rounds"]  # a view: quicker to reach

    # --- to be written by a sampler ---------------------------------------------------------

    @abstractmethod
    def _draw(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | Draw:
        """Return items and their probabilities, each array new; or a whole `Draw`."""

    @abstractmethod
    def _update(self, draw: Draw, losses: NDArray[np.float64]) -> None:
        """Learn from losses that have been checked; repeated items count each time."""

    @abstractmethod
    def probabilities(self) -> NDArray[np.float64]:
        """Return the distribution of the latest draws, changed by feedback since; takes O(n)."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that change, by name: they are saved and, in place, loaded."""
        return {}

    def _largest_importance(self) -> float:
        """Return an upper bound on 1 / (n p), over all items, as of now."""
        return np.inf

    @property
    def mode(self) -> str:
        """What the sampler does now: "adaptive", or "shuffle" where that does as well."""
        return "adaptive"

    # --- what users call --------------------------------------------------------------------

    def draw(self, size: int = 1) -> Draw:
        """Draw ``size`` items, independently and with replacement (`Shuffle`: by epochs).

        Zero uses no randomness. What is drawn depends on the feedback so far and on nothing else.
        """
        if type(size) is not int or size < 0:
            size = whole("size", size, 0)
        drawn = self._draw(size)
        if not isinstance(drawn, Draw):
            # of one type and layout: the kernels that learn from it are compiled for that
            items = np.ascontiguousarray(drawn[0], dtype=np.int64)
            probabilities = np.ascontiguousarray(drawn[1], dtype=np.float64)
            drawn = Draw.made(items, probabilities, self.n, self.rounds)
        self._rounds[0] += 1
        return drawn

    @property
    def rounds(self) -> int:
        """The number of draws made so far: calls of `draw`, and rounds of compiled loops."""
        return int(self._rounds[0])

    def update(self, draw: Draw, losses: ArrayLike) -> None:
        """Learn from the losses of drawn items: now, later, out of order, or for a part.

        For a part of a draw pass that part: ``update(draw[mask], losses[mask])``.

        Parameters
        ----------
        draw : Draw
            From this sampler or from another one over the same items.
        losses : array-like of float, shape (len(draw),)
            Non-negative and finite: loss values or gradient norms, *not* multiplied by the
            importance.
        """
        if self.feedback == "all":
            raise TypeError(
                f"{type(self).__name__} learns from the losses of all items: call "
                "update_all(losses); VRB learns from those of drawn items"
            )
        self._update(draw, self._checked(draw, losses))

    def _checked(self, draw: Draw, losses: ArrayLike) -> NDArray[np.float64]:
        if not isinstance(draw, Draw):
            raise TypeError(f"draw must be a tombola.Draw, got {type(draw).__name__}")
        if draw.n != self.n:
            raise ValueError(f"the draw is over {draw.n} items, this sampler has {self.n}")
        array = np.asarray(losses)
        if array.dtype != np.float64:
            if array.dtype.kind not in "fiu":
                raise TypeError(f"losses must hold numbers, got dtype {array.dtype}")
            array = array.astype(np.float64)
        # one layout for all: each other one would be compiled for, a pause of half a second
        array = np.require(array, requirements=["C", "W"])
        if array.shape != draw.indices.shape:
            raise ValueError(
                f"losses must have shape {draw.indices.shape}, one for each item drawn, "
                f"got {array.shape}"
            )
        tallied = (self.tally, self.n, draw.probabilities, array)
        if Sampler._record_code is None:
            Sampler._record_code = entry(record, *tallied)
        wrong = Sampler._record_code(*tallied)
        if wrong >= 0:
            raise ValueError(
                f"losses[{wrong}] is {array[wrong]} (item {draw.indices[wrong]}): "
                "losses must be finite and not negative"
            )
        return array

    @property
    def gauge(self) -> Gauge:
        """Live estimates, from the feedback alone, of what the sampling is worth."""
        return Gauge(self.tally, self.n, self._largest_importance(), self.mode, self.quantity)

    def reset(self) -> None:
        """Forget everything: the sampler is as new, and repeats its draws."""
        self.__init__(**self.parameters)  # type: ignore[misc]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the sampler in one file, which `tombola.load` reads; see `tombola.save`."""
        write(path, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return all that the sampler is: a copy, nested dicts of arrays, numbers and strings."""
        return {
            "class": type(self).__name__,
            "format": FORMAT,
            "parameters": {name: _copied(value) for name, value in self.parameters.items()},
            "quantity": self.quantity,
            "position": self._stream.position,
            "tally": saved_parts(self.tally),
            "parts": self._saved(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where another sampler of the same class and parameters was.

        Raises
        ------
        CheckpointError
            A ValueError: where the state is of another sampler, or not sound. Nothing has changed.
        """
        check_parameters(type(self), state)
        for name, mine in self.parameters.items():
            given = state["parameters"].get(name)
            if name != "quantity" and not np.array_equal(mine, given):
                raise CheckpointError(f"the state was saved with another {name}")
        try:
            position = whole("position", state["position"], 0, 2**63)
            check_fit(self.tally, state["tally"], "tally")
        except (TypeError, ValueError) as error:
            raise CheckpointError(str(error)) from None
        for name, given in state["tally"].items():
            if not 0 <= given <= LARGEST_SUM and name != "cross_spread":
                raise CheckpointError(f"tally.{name} is {given}, not from 0 to {LARGEST_SUM}")
        self._check(state["parts"])
        load_parts(self.tally, state["tally"])
        self._stream.position = position
        self._load(state["parts"])
        self.quantity = state["quantity"]

    def _saved(self) -> dict[str, Any]:
        """Return a copy of what changes, besides stream and tally."""
        return {name: array.copy() for name, array in self._arrays().items()}

    def _check(self, parts: Mapping[str, Any]) -> None:
        """Raise a CheckpointError where parts that were saved do not fit."""
        try:
            check_fit(self._arrays(), parts)
        except ValueError as error:
            raise CheckpointError(str(error)) from None

    def _load(self, parts: Mapping[str, Any]) -> None:
        """Write parts that were saved, and checked, into place."""
        load_parts(self._arrays(), parts)

    def __reduce__(self) -> Any:
        """Pickle and copy what `state_dict` holds: the classes of boards have no lasting names."""
        return _made_again, (type(self), self.state_dict())

    def __repr__(self) -> str:
        shown = [
            f"{name}={value if np.ndim(value) == 0 else f'<{len(value)} values>'}"
            for name, value in self.parameters.items()
            if value is not None
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def check_parameters(kind: type[Sampler], state: Mapping[str, Any]) -> None:
    """Raise a CheckpointError unless a state has everything, and is of this class and format."""
    if not isinstance(state, Mapping):
        raise CheckpointError(f"a state is a dict, got {type(state).__name__}")
    if state.get("class") != kind.__name__ or state.get("format") != FORMAT:
        raise CheckpointError(
            f"the state is of {state.get('class')!r}, format {state.get('format')}; "
            f"this is a {kind.__name__}, format {FORMAT}"
        )
    kinds = {"parameters": Mapping, "quantity": str, "position": int, "tally": Mapping}
    for name, expected in {**kinds, "parts": Mapping}.items():
        if not isinstance(state.get(name), expected):
            raise CheckpointError(f"the state has no {name!r}: it is not from state_dict()")


def _made_again(kind: Any, state: dict[str, Any]) -> Any:
    sampler = kind(**state["parameters"])
    sampler.load_state_dict(state)
    return sampler


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
