"""Adversaries that try to hurt the player."""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.compiling import new_record
from tombola.compiling.records import Record
from tombola.simulate.adversary import Adversary, as_losses

__all__ = ["Neglect", "Outlier"]


class OutlierParts(NamedTuple):
    """The item, round and size of the outlier."""

    progress: Record
    outlier: Record  # "chosen" (the item), "at" and "loss"


class Outlier(Adversary, OutlierParts):
    """Plays ones, and in a single round an enormous loss for one item.

    Parameters
    ----------
    n : int
    item, at : int
        The item and the round of the outlier.
    loss : float, default=1e6

    Examples
    --------
    >>> game = Outlier(2, item=1, at=1)
    >>> game.losses(), game.losses(), game.losses()
    (array([1., 1.]), array([1.e+00, 1.e+06]), array([1., 1.]))
    """

    __slots__ = ()

    def __new__(cls, n: int, item: int, at: int, loss: float = 1e6) -> Self:
        """Take the number of items, and the item, round and size of the outlier."""
        return cls.build(n, outlier=new_record(chosen=int(item), at=int(at), loss=float(loss)))

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = 1, except for one t and i."""
        out[:] = 1.0
        if t == adversary.outlier[0].at:
            out[adversary.outlier[0].chosen] = adversary.outlier[0].loss


class NeglectParts(NamedTuple):
    """The largest losses, the sums of squared losses, and the factor of well-fed items."""

    progress: Record
    base: NDArray[np.float64]
    squares: NDArray[np.float64]
    factor: Record  # "low"


class Neglect(Adversary, NeglectParts):
    """Looks at the player's distribution and raises the losses of the items that it neglects.

    An item is neglected if its probability is below its share in the best fixed distribution so
    far: p_t(i) < sqrt(S(i)) / sum_j sqrt(S(j)), with S(i) the sum of its squared losses. A
    neglected item has the loss b(i), the others have `low` times b(i). This adversary is not
    oblivious: its losses depend on the player's past draws. Squared losses are at most max b(i)^2.

    Parameters
    ----------
    losses : array-like of float, shape (n,)
        b, the largest losses.
    low : float, default=0.5

    Examples
    --------
    >>> game = Neglect([2.0, 2.0], low=0.5)
    >>> game.losses([0.4, 0.6]), game.losses([0.6, 0.4])
    (array([2., 1.]), array([1., 2.]))
    """

    __slots__ = ()

    def __new__(cls, losses: ArrayLike, low: float = 0.5) -> Self:
        """Take the largest losses, b, and the factor for items that are not neglected."""
        base = as_losses(losses)
        return cls.build(base.size, base=base, squares=base**2, factor=new_record(low=float(low)))

    @staticmethod
    def fill(adversary: Any, t: Any, probabilities: Any, out: Any) -> None:
        """l_t(i) = b(i) for the items that the player neglects, low b(i) for the others."""
        squares = adversary.squares
        total = 0.0
        for item in range(out.size):
            total += math.sqrt(squares[item])
        for item in range(out.size):
            neglected = probabilities[item] * total < math.sqrt(squares[item])
            part = 1.0 if neglected else adversary.factor[0].low
            out[item] = part * adversary.base[item]
            squares[item] += out[item] * out[item]
