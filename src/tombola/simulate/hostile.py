"""Adversaries that try to hurt the player."""

import math
from typing import Any, Self

from numpy.typing import ArrayLike

from tombola.simulate.adversary import Adversary, as_losses
from tombola.state import Cell, Floats, Record, array, cell, derived

__all__ = ["Neglect", "Outlier"]


class Spike(Record):
    """What an outlier is."""

    chosen: int = derived("its item")
    at: int = derived("its round")
    loss: float = derived("its loss")


class Outlier(Adversary, init=False):
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

    outlier: Cell[Spike]

    def __new__(cls, n: int, item: int, at: int, loss: float = 1e6) -> Self:
        """Take the number of items, and the item, round and size of the outlier."""
        return cls.build(n, outlier=cell(Spike(chosen=int(item), at=int(at), loss=float(loss))))

    def fill(self, t: Any, probabilities: Floats, out: Floats) -> None:
        """l_t(i) = 1, except for one t and i."""
        out[:] = 1.0
        if t == self.outlier[0].at:
            out[self.outlier[0].chosen] = self.outlier[0].loss


class Factor(Record):
    """How losses depend on the player's distribution."""

    low: float = derived("the factor of items that are not neglected")


class Neglect(Adversary, init=False):
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

    base: Floats = derived("the largest losses, b")
    squares: Floats = array("the sums of squared losses, S", 0.0)
    factor: Cell[Factor]

    def __new__(cls, losses: ArrayLike, low: float = 0.5) -> Self:
        """Take the largest losses, b, and the factor for items that are not neglected."""
        base = as_losses(losses)
        factor = cell(Factor(low=float(low)))
        return cls.build(base.size, base=base, squares=base**2, factor=factor)

    def fill(self, t: Any, probabilities: Floats, out: Floats) -> None:
        """l_t(i) = b(i) for the items that the player neglects, low b(i) for the others."""
        squares = self.squares
        total = 0.0
        for item in range(out.size):
            total += math.sqrt(squares[item])
        for item in range(out.size):
            neglected = probabilities[item] * total < math.sqrt(squares[item])
            part = 1.0 if neglected else self.factor[0].low
            out[item] = part * self.base[item]
            squares[item] += out[item] * out[item]
