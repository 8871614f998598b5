"""Shuffled epochs: a deck of all items, shuffled as it is dealt."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.index.layout import place_type
from tombola.random import Words, integers_below, next_below
from tombola.state import Cell, Ints, Record, State, array, cell, integer

__all__ = [
    "Cards", "Deck", "Turn", "deal_among", "deal_in_numpy", "deal_one", "new_deck", "swap_in",
]  # fmt: skip


class Turn(Record):
    """Where the deal is."""

    place: int = integer("the place of the next item to deal", 0, "items.size - 1", default=0)


class Cards(State):
    """Items in the order of an epoch, and the place of the next one to deal."""

    items: NDArray[Any] = array("the items of the epoch, in order", 0, "scores.size - 1")
    turn: Cell[Turn]


class Deck(Cards):
    """A deck that holds every item once."""

    items: NDArray[Any] = array("all items, in the order of the epoch", 0, "items.size - 1")

    def fault(self, saved: Mapping[str, Any]) -> str:
        """Return what is wrong with the items."""
        once = is_permutation(saved["items"])
        return "" if once else "items must hold every item exactly once"


def new_deck(n: int) -> Deck:
    """Return a deck of n items, before its first epoch."""
    return Deck(items=np.arange(n, dtype=place_type(n)), turn=cell(Turn()))


@kernel(inline=True)
def swap_in(items: NDArray[Any], place: Any, end: Any, stream: Cell[Words]) -> Any:
    """Swap a random one of the items from `place` to before `end` into `place`; return it."""
    other = place + next_below(stream, np.uint64(end - place))
    item = items[other]
    items[other] = items[place]
    items[place] = item
    return item


@kernel(inline=True)
def deal_one(deck: Cards, stream: Cell[Words]) -> Any:
    """Deal the next item; after the last one, a new shuffled epoch begins."""
    return deal_among(deck, deck.items.size, stream)


@kernel(inline=True)
def deal_among(deck: Cards, length: Any, stream: Cell[Words]) -> Any:
    """Deal the next of the first `length` items of a deck; after the last one, begin again.

    Each item dealt takes one swap of a Fisher-Yates shuffle, so there is no pause between epochs.
    """
    place = deck.turn[0].place
    item = swap_in(deck.items, place, length, stream)
    deck.turn[0].place = place + 1 if place + 1 < length else 0
    return np.int64(item)


def deal_in_numpy(deck: Cards, count: int, words: Callable[[int], Any]) -> Ints:
    """Return the next items, as calls of `deal_one` would; `words` returns the next words."""
    length, items = deck.items.size, deck.items.data  # whose elements are Python's integers
    place_now = deck.turn["place"]
    places = (place_now.item() + np.arange(count)) % length
    others = places + integers_below(length - places, words)
    dealt = []
    for place, other in zip(places.tolist(), others.tolist(), strict=True):
        item = items[other]
        items[other] = items[place]
        items[place] = item
        dealt.append(item)
    place_now[0] = (place_now.item() + count) % length
    return np.array(dealt, dtype=np.int64)


@kernel(allocates=True)
def is_permutation(items: NDArray[Any]) -> Any:
    """Return whether an array contains each of 0 to n - 1 exactly once."""
    seen = np.zeros(items.size, dtype=np.uint8)
    for item in items:
        if item < 0 or item >= items.size or seen[item]:
            return False
        seen[item] = 1
    return True
