"""What an adversary is: a named tuple with a compiled function that writes the losses."""

from typing import Any, ClassVar, Self

import numpy as np
from numba.extending import overload
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel, name_by_source, new_record

__all__ = ["Adversary", "as_losses", "fill_losses"]


class Adversary:
    """Chooses the losses of all items, round after round.

    A subclass is also a named tuple of arrays and records: `progress`, which counts the rounds,
    and whatever its losses depend on. It writes `fill` in the part of Python that numba compiles,
    and constructs itself with `build`. A second `play` continues where the first one ended.

    Attributes
    ----------
    steady : bool
        Whether a game may hold the losses for a few rounds without changing much.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> class RampParts(NamedTuple):
    ...     progress: np.ndarray
    ...     slope: np.ndarray
    >>> class Ramp(Adversary, RampParts):
    ...     __slots__ = ()
    ...     def __new__(cls, n):
    ...         return cls.build(n, slope=np.arange(1.0, n + 1))
    ...     @staticmethod
    ...     def fill(adversary, t, probabilities, out):
    ...         for item in range(out.size):
    ...             out[item] = adversary.slope[item] * (t + 1)
    >>> Ramp(3).losses()
    array([1., 2., 3.])
    """

    __slots__ = ()

    steady: ClassVar[bool] = False

    @classmethod
    def build(cls, n: int, **parts: Any) -> Self:
        """Return an adversary over n items, made of these parts, before its first round."""
        parts["progress"] = new_record(rounds=0, items=n)
        names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
        return tuple.__new__(cls, [parts[name] for name in names])  # type: ignore[type-var]

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """Write the losses of round t, counted from 0, into `out`.

        `probabilities` is the distribution that the player has chosen for this round.
        """
        raise NotImplementedError

    def losses(self, probabilities: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the losses of the next round, and advance to the one after it."""
        n = self.n
        given = np.full(n, 1.0 / n) if probabilities is None else probabilities
        out = np.empty(n)
        fill_losses(self, np.asarray(given, dtype=np.float64), out)
        self._progress.rounds += 1
        return out

    @property
    def n(self) -> int:
        """The number of items."""
        return int(self._progress.items)

    @property
    def rounds(self) -> int:
        """The number of rounds played."""
        return int(self._progress.rounds)

    @property
    def _progress(self) -> Any:
        return self.progress[0]  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        name = type(self).__name__.rpartition("_")[0]
        return f"{name}({self.n} items, round {self.rounds})"

    def __reduce__(self) -> Any:
        return tuple.__new__, (type(self), tuple(self))  # type: ignore[arg-type]

    def __init_subclass__(cls) -> None:
        name_by_source(cls, cls.fill)


def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
    """Call the adversary's own `fill`."""
    type(adversary).fill(adversary, t, probabilities, out)


@overload(fill, strict=False)
def _(adversary: Any, t: Any, probabilities: Any, out: Any) -> Any:
    return adversary.instance_class.fill


@kernel(allocates=True)  # an adversary may use slices
def fill_losses(
    adversary: Any, probabilities: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Write the losses of the adversary's current round."""
    fill(adversary, adversary.progress[0].rounds, probabilities, out)


def as_losses(values: ArrayLike) -> NDArray[np.float64]:
    """Return a copy of the losses as one array of float64."""
    return np.array(values, dtype=np.float64).reshape(-1)
