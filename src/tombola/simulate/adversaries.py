"""Adversaries: each chooses the losses of all items, round after round.

An adversary is one small function on a subclass of `Adversary`: `fill` writes the losses of a
round. It is compiled together with the sampler's own functions.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numba.extending import overload
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import kernel, name_by_source
from tombola.random import Stream, next_word

__all__ = [
    "Adversary",
    "Decaying",
    "Equal",
    "Neglect",
    "Noisy",
    "Outlier",
    "Sparse",
    "Starved",
    "Stationary",
    "Switching",
    "fill_losses",
    "log_normal",
    "next_normals",
    "next_unit",
]

# Children of a seed's stream: apart from the samplers' own and from those of ranks and workers.
LOSSES, ROUNDS = 2**63, 2**63 + 1


class _Arrays(NamedTuple):
    words: NDArray[np.uint64]  # the adversary's own random stream
    clock: NDArray[np.int64]  # rounds played
    base: NDArray[np.float64]  # a number for each item
    other: NDArray[np.float64]  # and another one
    numbers: NDArray[np.float64]  # whatever else it needs to know


class Adversary(_Arrays):
    """Chooses the losses of all items, round after round.

    A subclass writes `fill`, in the part of Python that numba compiles, and builds itself with
    `made`. It keeps its own clock: a second `play` goes on where the first one ended.

    Examples
    --------
    >>> class Ramp(Adversary):
    ...     __slots__ = ()
    ...     def __new__(cls, n):
    ...         return cls.made(np.arange(1.0, n + 1))
    ...     @staticmethod
    ...     def fill(adversary, t, probabilities, out):
    ...         for item in range(out.size):
    ...             out[item] = adversary.base[item] * (t + 1)
    >>> Ramp(3).losses()
    array([1., 2., 3.])
    """

    __slots__ = ()

    steady = False  # whether losses may be held for some rounds without changing the game

    @classmethod
    def made(
        cls,
        base: ArrayLike,
        other: ArrayLike = (),
        numbers: ArrayLike = (),
        seed: int = 0,
    ) -> Self:
        """Return an adversary over arrays of its own."""
        arrays = [np.array(array, dtype=np.float64).reshape(-1) for array in (base, other, numbers)]
        words = Stream(seed).child(ROUNDS).state
        return tuple.__new__(cls, (words, np.zeros(1, dtype=np.int64), *arrays))

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """Write the losses of round t, counted from 0, into `out`.

        `probabilities` is the distribution that the player has chosen for this round.
        """
        raise NotImplementedError

    def losses(self, probabilities: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the losses of the next round, and go on to the one after."""
        n = len(self.base)
        given = np.full(n, 1.0 / n) if probabilities is None else probabilities
        out = np.empty(n)
        fill_losses(self, np.asarray(given, dtype=np.float64), out)
        self.clock[0] += 1
        return out

    def __repr__(self) -> str:
        name = type(self).__name__.rpartition("_")[0]
        return f"{name}({len(self.base)} items, round {self.clock[0]})"

    def __reduce__(self) -> Any:
        return tuple.__new__, (type(self), tuple(self))

    def __init_subclass__(cls) -> None:
        name_by_source(cls)


def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
    """Call the adversary's own `fill`."""
    type(adversary).fill(adversary, t, probabilities, out)


@overload(fill, strict=False)
def _(adversary: Any, t: Any, probabilities: Any, out: Any) -> Any:
    return adversary.instance_class.fill


@kernel(allocates=True)  # an adversary may use slices
def fill_losses(
    adversary: Adversary, probabilities: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Write the losses of the adversary's present round."""
    fill(adversary, adversary.clock[0], probabilities, out)


# --- randomness -----------------------------------------------------------------------------


@kernel
def next_unit(words: NDArray[np.uint64]) -> Any:
    """Hand out a number in (0, 1): the middle of one of 2^52 equal parts."""
    return (np.float64(next_word(words) >> np.uint64(12)) + 0.5) * 2.0**-52


@kernel
def next_normals(words: NDArray[np.uint64]) -> Any:
    """Hand out two independent standard normal numbers (Box, Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(next_unit(words)))
    angle = 2.0 * math.pi * next_unit(words)
    return radius * math.cos(angle), radius * math.sin(angle)


@kernel
def fill_log_normal(words: NDArray[np.uint64], sigma: Any, out: NDArray[np.float64]) -> None:
    """Write exp(sigma z), with z standard normal, for each item."""
    for item in range(0, out.size, 2):
        first, second = next_normals(words)
        out[item] = math.exp(sigma * first)
        if item + 1 < out.size:
            out[item + 1] = math.exp(sigma * second)


def log_normal(n: int, sigma: float = 1.5, seed: int = 0) -> NDArray[np.float64]:
    """Return n log-normal losses, a function of the seed alone.

    >>> log_normal(3, seed=1).round(3)
    array([1.888, 0.68 , 9.428])
    """
    out = np.empty(n)
    fill_log_normal(Stream(seed).child(LOSSES).state, sigma, out)
    return out


# --- adversaries ----------------------------------------------------------------------------


class Stationary(Adversary):
    """Plays the same losses in all rounds: l_t = b.

    >>> Stationary([3.0, 1.0]).losses()
    array([3., 1.])
    """

    __slots__ = ()
    steady = True

    def __new__(cls, losses: ArrayLike) -> Self:
        """Take the losses b."""
        return cls.made(losses)

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i)."""
        out[:] = adversary.base


class Equal(Adversary):
    """Plays the same loss for all items: nothing is to be gained.

    >>> Equal(3).losses()
    array([1., 1., 1.])
    """

    __slots__ = ()
    steady = True

    def __new__(cls, n: int, loss: float = 1.0) -> Self:
        """Take the number of items and their loss."""
        return cls.made(np.full(n, loss))

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = l."""
        out[:] = adversary.base


class Switching(Adversary):
    """Plays some losses, and from round `at` on others: half of the horizon, say.

    >>> game = Switching([3.0, 1.0], [1.0, 3.0], at=1)
    >>> game.losses(), game.losses()
    (array([3., 1.]), array([1., 3.]))
    """

    __slots__ = ()
    steady = True

    def __new__(cls, first: ArrayLike, second: ArrayLike, at: int) -> Self:
        """Take both losses, and the round of the change."""
        return cls.made(first, second, [at])

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i) before the change, b'(i) after it."""
        out[:] = adversary.base if t < adversary.numbers[0] else adversary.other


class Decaying(Adversary):
    """Moves from some losses to others, as those of SGD do: the drift of ``1 / sqrt(t)``.

        l_t(i) = b'(i) + (b(i) - b'(i)) / sqrt(1 + t/n)

    >>> game = Decaying([3.0, 1.0], [1.0, 1.0])
    >>> [game.losses()[0].item() for _ in range(7)][::6]
    [3.0, 2.0]
    """

    __slots__ = ()
    steady = True

    def __new__(cls, first: ArrayLike, last: ArrayLike) -> Self:
        """Take the first losses, b, and those in the limit, b'."""
        return cls.made(first, last)

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b'(i) + (b(i) - b'(i)) / sqrt(1 + t/n)."""
        share = 1.0 / math.sqrt(1.0 + t / out.size)
        for item in range(out.size):
            last = adversary.other[item]
            out[item] = last + (adversary.base[item] - last) * share


class Noisy(Adversary):
    """Multiplies each loss, in each round, by a log-normal number.

    >>> Noisy([3.0, 1.0], seed=1).losses().round(3)
    array([3.873, 0.737])
    """

    __slots__ = ()

    def __new__(cls, losses: ArrayLike, sigma: float = 1.0, seed: int = 0) -> Self:
        """Take the losses b, and the standard deviation of the logarithm of the noise."""
        return cls.made(losses, (), [sigma], seed)

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i) exp(sigma z), z standard normal."""
        fill_log_normal(adversary.words, adversary.numbers[0], out)
        for item in range(out.size):
            out[item] *= adversary.base[item]


class Sparse(Adversary):
    """Plays each loss with some probability, else 0, as hinge losses do.

    >>> Sparse([3.0, 1.0, 2.0, 4.0], seed=1).losses()
    array([0., 0., 0., 4.])
    """

    __slots__ = ()

    def __new__(cls, losses: ArrayLike, density: float = 0.2, seed: int = 0) -> Self:
        """Take the losses b, and the probability that one is not 0."""
        return cls.made(losses, (), [density], seed)

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i) with the given probability, else 0."""
        for item in range(out.size):
            kept = next_unit(adversary.words) < adversary.numbers[0]
            out[item] = adversary.base[item] if kept else 0.0


class Outlier(Adversary):
    """Plays ones, and in a single round an enormous loss for one item.

    >>> game = Outlier(2, item=1, at=1)
    >>> game.losses(), game.losses(), game.losses()
    (array([1., 1.]), array([1.e+00, 1.e+06]), array([1., 1.]))
    """

    __slots__ = ()

    def __new__(cls, n: int, item: int, at: int, loss: float = 1e6) -> Self:
        """Take the number of items; which of them, in which round, and how large."""
        return cls.made(np.ones(n), (), [item, at, loss])

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = 1, but for one t and i."""
        out[:] = adversary.base
        if t == adversary.numbers[1]:
            out[int(adversary.numbers[0])] = adversary.numbers[2]


class Starved(Adversary):
    """Gives some items tiny losses while they are being learnt, and large ones later.

    The last n/20 items (at least one, at most 50) are starved.

    >>> game = Starved([1.0, 1.0], at=1)
    >>> game.losses(), game.losses()
    (array([1.   , 0.001]), array([ 1., 10.]))
    """

    __slots__ = ()
    steady = True

    def __new__(cls, losses: ArrayLike, at: int, tiny: float = 1e-3, large: float = 10.0) -> Self:
        """Take the losses b, the round of the change, and the factors before and after it."""
        base = np.array(losses, dtype=np.float64)
        starved = max(1, min(50, len(base) // 20))
        before, after = base.copy(), base.copy()
        before[-starved:] *= tiny
        after[-starved:] *= large
        return cls.made(before, after, [at])

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i), for the starved times tiny before the change, large after it."""
        out[:] = adversary.base if t < adversary.numbers[0] else adversary.other


class Neglect(Adversary):
    """Looks at the player's distribution and raises the losses of what it neglects.

    Neglected is an item with a probability below its share in the best fixed distribution so
    far, p_t(i) < sqrt(S(i)) / sum_j sqrt(S(j)) with S(i) the sum of its squared losses: it has
    loss b(i), others a `low` part of theirs. Not oblivious: losses depend on the player's past
    draws. The squared losses are at most max b(i)^2.

    >>> game = Neglect([2.0, 2.0], low=0.5)
    >>> game.losses([0.4, 0.6]), game.losses([0.6, 0.4])
    (array([2., 1.]), array([1., 2.]))
    """

    __slots__ = ()

    def __new__(cls, losses: ArrayLike, low: float = 0.5) -> Self:
        """Take the largest losses, b, and what part of them the well-fed items get."""
        base = np.array(losses, dtype=np.float64)
        return cls.made(base, base**2, [low])

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i) for the items that the player neglects, low b(i) for the others."""
        squares = adversary.other
        total = 0.0
        for item in range(out.size):
            total += math.sqrt(squares[item])
        for item in range(out.size):
            neglected = probabilities[item] * total < math.sqrt(squares[item])
            part = 1.0 if neglected else adversary.numbers[0]
            out[item] = part * adversary.base[item]
            squares[item] += out[item] * out[item]
