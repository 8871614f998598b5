"""Shuffled epochs: what most people use today."""

from tombola.samplers.board import MODE, SHUFFLE, Board, BoardSampler

__all__ = ["Shuffle"]


class ShuffleBoard(Board):
    """Learns nothing; all weights are equal, and nobody draws by them."""


class Shuffle(BoardSampler):
    """Deals every item once, in random order, then shuffles again; learns nothing.

    Each place in an epoch is equally likely to hold each item, so p = 1/n and importances are
    1. A single draw is unbiased over the shuffling; *given the earlier draws of its epoch* it
    comes from the items that are left, and only the epoch as a whole gives every item its due:
    the estimate over a whole epoch of fixed values is exact, without any variance.

    Needs nothing; O(1) a draw, 4 bytes an item for the deck (and an unused index).

    Parameters
    ----------
    n : int
    seed : int, default=0

    Examples
    --------
    >>> sorted(Shuffle(5).draw(5).indices.tolist())
    [0, 1, 2, 3, 4]
    """

    state_class = ShuffleBoard

    def __init__(self, n: int, *, seed: int = 0) -> None:
        super().__init__(n, seed, deck=True)
        self.state.clock[MODE] = SHUFFLE
        self._rebuild()
