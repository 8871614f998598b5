"""Shuffled epochs: a deck of all items, shuffled as it is dealt."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel, new_record
from tombola.compiling.records import Record
from tombola.index.layout import place_type
from tombola.random import next_below

__all__ = ["Deck", "deal_among", "deal_one", "new_deck"]


class Deck(NamedTuple):
    """The items in the order of this epoch, and the place of the next one to deal."""

    items: NDArray[Any]
    turn: Record


def new_deck(n: int) -> Deck:
    """Return a deck of n items, before its first epoch."""
    return Deck(np.arange(n, dtype=place_type(n)), new_record(place=0))


@kernel(inline=True)
def deal_one(deck: Deck, stream: Record) -> Any:
    """Deal the next item; after the last one, a new shuffled epoch begins."""
    return deal_among(deck, deck.items.size, stream)


@kernel(inline=True)
def deal_among(deck: Deck, length: Any, stream: Record) -> Any:
    """Deal the next of the first `length` items of a deck; after the last one, begin again.

    Each item dealt takes one swap of a Fisher-Yates shuffle, so there is no pause between epochs.
    """
    items, place = deck.items, deck.turn[0].place
    other = place + next_below(stream, np.uint64(length - place))
    item = items[other]
    items[other] = items[place]
    items[place] = item
    deck.turn[0].place = place + 1 if place + 1 < length else 0
    return np.int64(item)


@kernel(allocates=True)
def is_permutation(items: NDArray[Any]) -> Any:
    """Return whether an array contains each of 0 to n - 1 exactly once."""
    seen = np.zeros(items.size, dtype=np.uint8)
    for item in items:
        if item < 0 or item >= items.size or seen[item]:
            return False
        seen[item] = 1
    return True
