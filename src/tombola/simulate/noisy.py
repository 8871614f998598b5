"""Adversaries whose losses are random in each round."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import new_record
from tombola.compiling.records import Record
from tombola.simulate.adversary import Adversary, as_losses
from tombola.simulate.randomness import fill_log_normal, loss_words, next_unit

__all__ = ["Noisy", "Sparse"]


class RandomParts(NamedTuple):
    """The losses without noise, the random words, and the parameter of the noise."""

    progress: Record
    base: NDArray[np.float64]
    words: NDArray[np.uint64]
    noise: Record


def _parts(losses: ArrayLike, seed: int, **noise: float) -> dict[str, Any]:
    base = as_losses(losses)
    return {"n": base.size, "base": base, "words": loss_words(seed), "noise": new_record(**noise)}


class Noisy(Adversary, RandomParts):
    """Multiplies each loss, in each round, by a log-normal number.

    Parameters
    ----------
    losses : array-like of float, shape (n,)
    sigma : float, default=1.0
        The standard deviation of the logarithm of the noise.
    seed : int, default=0

    Examples
    --------
    >>> Noisy([3.0, 1.0], seed=1).losses().round(3)
    array([3.873, 0.737])
    """

    __slots__ = ()

    def __new__(cls, losses: ArrayLike, sigma: float = 1.0, seed: int = 0) -> Self:
        """Take the losses b, and the standard deviation of the logarithm of the noise."""
        return cls.build(**_parts(losses, seed, sigma=float(sigma)))

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i) exp(sigma z), z standard normal."""
        fill_log_normal(adversary.words, adversary.noise[0].sigma, out)
        for item in range(out.size):
            out[item] *= adversary.base[item]


class Sparse(Adversary, RandomParts):
    """Plays each loss with some probability and 0 otherwise, as hinge losses do.

    Parameters
    ----------
    losses : array-like of float, shape (n,)
    density : float, default=0.2
        The probability that a loss is not 0.
    seed : int, default=0

    Examples
    --------
    >>> Sparse([3.0, 1.0, 2.0, 4.0], seed=1).losses()
    array([0., 0., 0., 4.])
    """

    __slots__ = ()

    def __new__(cls, losses: ArrayLike, density: float = 0.2, seed: int = 0) -> Self:
        """Take the losses b, and the probability that one is not 0."""
        return cls.build(**_parts(losses, seed, density=float(density)))

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i) with the given probability, else 0."""
        for item in range(out.size):
            kept = next_unit(adversary.words) < adversary.noise[0].density
            out[item] = adversary.base[item] if kept else 0.0
