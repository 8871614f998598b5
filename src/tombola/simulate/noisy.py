"""Adversaries whose losses are random in each round."""

from typing import Any, Self

from numpy.typing import ArrayLike

from tombola.random import Words
from tombola.simulate.adversary import Adversary, as_losses
from tombola.simulate.randomness import fill_log_normal, loss_words, next_unit
from tombola.state import Cell, Floats, Record, cell, derived

__all__ = ["Noisy", "Sparse"]


class Noise(Record):
    """What the losses are multiplied by."""

    level: float = derived("the parameter of its distribution")


class Random(Adversary, init=False):
    """Base class of adversaries that multiply losses by random numbers."""

    base: Floats = derived("the losses without noise, b")
    words: Cell[Words]
    noise: Cell[Noise]

    @classmethod
    def from_losses(cls, losses: ArrayLike, seed: int, level: float) -> Self:
        """Take the losses b, the seed, and the parameter of the noise."""
        base, noise = as_losses(losses), cell(Noise(level=float(level)))
        return cls.build(base.size, base=base, words=loss_words(seed), noise=noise)


class Noisy(Random, init=False):
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

    def __new__(cls, losses: ArrayLike, sigma: float = 1.0, seed: int = 0) -> Self:
        """Take the losses b, and the standard deviation of the logarithm of the noise."""
        return cls.from_losses(losses, seed, sigma)

    def fill(self, t: Any, probabilities: Floats, out: Floats) -> None:
        """l_t(i) = b(i) exp(sigma z), z standard normal."""
        fill_log_normal(self.words, self.noise[0].level, out)
        for item in range(out.size):
            out[item] *= self.base[item]


class Sparse(Random, init=False):
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

    def __new__(cls, losses: ArrayLike, density: float = 0.2, seed: int = 0) -> Self:
        """Take the losses b, and the probability that one is not 0."""
        return cls.from_losses(losses, seed, density)

    def fill(self, t: Any, probabilities: Floats, out: Floats) -> None:
        """l_t(i) = b(i) with the given probability, else 0."""
        for item in range(out.size):
            kept = next_unit(self.words) < self.noise[0].level
            out[item] = self.base[item] if kept else 0.0
