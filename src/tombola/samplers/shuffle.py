"""Shuffled epochs: the usual way to draw training examples."""

from typing import Any

from tombola.samplers.compiled import Compiled, CompiledSampler
from tombola.samplers.deck import Deck, deal_one, new_deck

__all__ = ["Shuffle"]


class ShuffleState(Compiled):
    """A deck of items; learns nothing."""

    deck: Deck

    def draw_one(self) -> Any:
        """Deal one item; return it and 1/n."""
        return deal_one(self.deck, self.stream), 1.0 / self.deck.items.size


class Shuffle(CompiledSampler):
    """Deals every item once, in random order, then shuffles again; learns nothing.

    Every item is equally likely at every place of an epoch, so p = 1/n and importances are 1. A
    single draw is unbiased over the shuffling. *Given the earlier draws of its epoch*, it comes
    from the remaining items only; the estimate over a whole epoch of fixed values is exact, without
    any variance.

    It needs no parameters. A draw takes O(1); memory is 4 bytes per item.

    Parameters
    ----------
    n : int
        The number of items.
    seed : int, default=0

    Examples
    --------
    >>> sorted(Shuffle(5).draw(5).indices.tolist())
    [0, 1, 2, 3, 4]
    """

    independent = False  # an epoch deals every item once
    mode = "shuffle"

    state: ShuffleState

    def __init__(self, n: int, *, quantity: str = "loss", seed: int = 0) -> None:
        super().__init__(n, seed, quantity=quantity)
        self.state = ShuffleState(stream=self._stream.state, deck=new_deck(self.n))

    def _largest_importance(self) -> float:
        return 1.0
