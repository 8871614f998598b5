"""Adversaries whose losses change slowly, once or not at all."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tombola.simulate.adversary import Adversary, as_losses
from tombola.state import Cell, Floats, Record, cell, derived

__all__ = ["Decaying", "Equal", "Starved", "Stationary", "Switching"]


class Stationary(Adversary, init=False):
    """Plays the same losses in all rounds: l_t = b.

    Parameters
    ----------
    losses : array-like of float, shape (n,)
        b.

    Examples
    --------
    >>> Stationary([3.0, 1.0]).losses()
    array([3., 1.])
    """

    steady = True

    base: Floats = derived("the losses, b")

    def __new__(cls, losses: ArrayLike) -> Self:
        """Take the losses b."""
        base = as_losses(losses)
        return cls.build(base.size, base=base)

    def fill(self, t: Any, probabilities: Floats, out: Floats) -> None:
        """l_t(i) = b(i)."""
        out[:] = self.base


class Equal(Stationary, init=False):
    """Plays the same loss for all items, so that no distribution beats the uniform one.

    Parameters
    ----------
    n : int
    loss : float, default=1.0

    Examples
    --------
    >>> Equal(3).losses()
    array([1., 1., 1.])
    """

    def __new__(cls, n: int, loss: float = 1.0) -> Self:
        """Take the number of items and their loss."""
        return super().__new__(cls, np.full(n, loss))


class Change(Record):
    """When the losses change."""

    at: int = derived("the round")


class Switching(Adversary, init=False):
    """Plays some losses before round `at` and others from then on.

    Parameters
    ----------
    before, after : array-like of float, shape (n,)
    at : int

    Examples
    --------
    >>> game = Switching([3.0, 1.0], [1.0, 3.0], at=1)
    >>> game.losses(), game.losses()
    (array([3., 1.]), array([1., 3.]))
    """

    steady = True

    before: Floats = derived("the losses before the change")
    after: Floats = derived("the losses after it")
    change: Cell[Change]

    def __new__(cls, before: ArrayLike, after: ArrayLike, at: int) -> Self:
        """Take both losses, and the round of the change."""
        first = as_losses(before)
        change = cell(Change(at=int(at)))
        return cls.build(first.size, before=first, after=as_losses(after), change=change)

    def fill(self, t: Any, probabilities: Floats, out: Floats) -> None:
        """l_t(i) = b(i) before the change, b'(i) after it."""
        out[:] = self.before if t < self.change[0].at else self.after


class Starved(Switching, init=False):
    """Gives some items tiny losses while they are learnt, and large ones later.

    The last n/20 items (at least one, at most 50) are starved.

    Parameters
    ----------
    losses : array-like of float, shape (n,)
    at : int
        The round of the change.
    tiny, large : float
        The factors of the starved losses before and after the change.

    Examples
    --------
    >>> game = Starved([1.0, 1.0], at=1)
    >>> game.losses(), game.losses()
    (array([1.   , 0.001]), array([ 1., 10.]))
    """

    def __new__(cls, losses: ArrayLike, at: int, tiny: float = 1e-3, large: float = 10.0) -> Self:
        """Take the losses, the round of the change, and the factors before and after it."""
        before, after = as_losses(losses), as_losses(losses)
        starved = max(1, min(50, len(before) // 20))
        before[-starved:] *= tiny
        after[-starved:] *= large
        return super().__new__(cls, before, after, at)


class Decaying(Adversary, init=False):
    """Moves from some losses to others at the rate ``1 / sqrt(t)``, as the losses of SGD do.

        l_t(i) = b'(i) + (b(i) - b'(i)) / sqrt(1 + t/n)

    Parameters
    ----------
    first, last : array-like of float, shape (n,)
        b, the losses of the first round, and b', those in the limit.

    Examples
    --------
    >>> game = Decaying([3.0, 1.0], [1.0, 1.0])
    >>> [game.losses()[0].item() for _ in range(7)][::6]
    [3.0, 2.0]
    """

    steady = True

    first: Floats = derived("the losses at the start, b")
    last: Floats = derived("the losses in the limit, b'")

    def __new__(cls, first: ArrayLike, last: ArrayLike) -> Self:
        """Take the first losses, b, and those in the limit, b'."""
        begin = as_losses(first)
        return cls.build(begin.size, first=begin, last=as_losses(last))

    def fill(self, t: Any, probabilities: Floats, out: Floats) -> None:
        """l_t(i) = b'(i) + (b(i) - b'(i)) / sqrt(1 + t/n)."""
        share = 1.0 / math.sqrt(1.0 + t / out.size)
        for item in range(out.size):
            last = self.last[item]
            out[item] = last + (self.first[item] - last) * share
