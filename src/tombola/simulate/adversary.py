"""What an adversary is: a state with a compiled method that writes the losses."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from tombola.compiling import kernel
from tombola.state import Cell, Floats, Record, State, cell, count, derived

__all__ = ["Adversary", "Progress", "as_losses", "fill_losses"]


class Progress(Record):
    """How far a game is."""

    rounds: int = count("rounds played", default=0)
    items: int = derived("the number of items")


class Adversary(State, init=False):
    """Chooses the losses of all items, round after round.

    A subclass declares what its losses depend on, writes `fill` in the part of Python that numba
    compiles, and constructs itself with `build`. A second `play` continues where the first one
    ended.

    Attributes
    ----------
    steady : bool
        Whether a game may hold the losses for a few rounds without changing much.

    Examples
    --------
    >>> from tombola.state import derived
    >>> class Ramp(Adversary):
    ...     slope: np.ndarray = derived("the loss of each item per round")
    ...     def __new__(cls, n):
    ...         return cls.build(n, slope=np.arange(1.0, n + 1))
    ...     def fill(self, t, probabilities, out):
    ...         for item in range(out.size):
    ...             out[item] = self.slope[item] * (t + 1)
    >>> Ramp(3).losses()
    array([1., 2., 3.])
    """

    steady: ClassVar[bool] = False
    allocates: ClassVar[bool] = True  # `fill` may use whole arrays

    progress: Cell[Progress]

    @classmethod
    def build(cls, n: int, **parts: Any) -> Self:
        """Return an adversary over n items, made of these parts, before its first round."""
        parts["progress"] = cell(Progress(items=n))
        values: Any = [parts[name] for name in cls._fields]
        return tuple.__new__(cls, values)  # type: ignore[type-var]

    def fill(self, t: Any, probabilities: Floats, out: Floats) -> None:
        """Write the losses of round t, counted from 0, into `out`.

        `probabilities` is the distribution that the player has chosen for this round.
        """
        raise NotImplementedError

    def losses(self, probabilities: ArrayLike | None = None) -> Floats:
        """Return the losses of the next round, and advance to the one after it."""
        n = self.n
        given = np.full(n, 1.0 / n) if probabilities is None else probabilities
        out = np.empty(n)
        fill_losses(self, np.asarray(given, dtype=np.float64), out)
        self.progress[0].rounds += 1
        return out

    @property
    def n(self) -> int:
        """The number of items."""
        return int(self.progress[0].items)

    @property
    def rounds(self) -> int:
        """The number of rounds played."""
        return int(self.progress[0].rounds)

    def __repr__(self) -> str:
        name = type(self).__name__
        if "_named" in vars(type(self)):  # after its source
            name = name.rpartition("_")[0]
        return f"{name}({self.n} items, round {self.rounds})"

    def __reduce__(self) -> Any:
        return tuple.__new__, (type(self), tuple(self))  # type: ignore[arg-type]


@kernel(allocates=True)
def fill_losses(adversary: Adversary, probabilities: Floats, out: Floats) -> None:
    """Write the losses of the adversary's current round."""
    adversary.fill(adversary.progress[0].rounds, probabilities, out)


def as_losses(values: ArrayLike) -> Floats:
    """Return a copy of the losses as one array of float64."""
    return np.array(values, dtype=np.float64).reshape(-1)
