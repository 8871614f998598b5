"""How the checks play a sampler."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.draws import Draw

__all__ = ["Factory", "feed", "fixed_losses", "play", "play_round", "trace"]

Factory = Callable[[int, int], Any]  # from n and a seed to a new sampler


def fixed_losses(n: int) -> NDArray[np.float64]:
    """Return losses from near 0 to 1 that are uneven enough to adapt to."""
    return (np.arange(1, n + 1) / n) ** 2


def feed(sampler: Any, draw: Draw, losses: NDArray[np.float64]) -> None:
    """Pass a sampler the losses that it learns from, out of those of all items."""
    if sampler.feedback == "all":
        sampler.update_all(losses)
    else:
        sampler.update(draw, losses[draw.indices])


def play_round(sampler: Any, size: int, losses: Any = None) -> Draw:
    """Draw and feed once."""
    draw: Draw = sampler.draw(size)
    feed(sampler, draw, fixed_losses(sampler.n) if losses is None else losses)
    return draw


def play(sampler: Any, rounds: int = 40) -> None:
    """Play rounds of 16 draws; the default is enough for any sampler to begin to adapt."""
    for _ in range(rounds):
        play_round(sampler, 16)


def trace(sampler: Any) -> dict[str, Any]:
    """Play 45 rounds and return everything that can be observed of them."""
    draws = [play_round(sampler, size) for size in [1, 5, 40] * 15]
    return {
        "indices": np.concatenate([draw.indices for draw in draws]),
        "probabilities": np.concatenate([draw.probabilities for draw in draws]),
        "final distribution": sampler.probabilities(),
    }
