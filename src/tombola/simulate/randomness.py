"""Random numbers for losses: uniform, normal and log-normal."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola.compiling import kernel
from tombola.random import Stream, Words, next_word
from tombola.state import Cell

__all__ = ["fill_log_normal", "log_normal", "loss_words", "next_normals", "next_unit"]

# Children of a seed's stream: distinct from those of samplers, ranks and workers.
LOSSES, ROUNDS = 2**63, 2**63 + 1


def loss_words(seed: int) -> Cell[Words]:
    """Return the random words that an adversary uses from round to round."""
    return Stream(seed).child(ROUNDS).state


@kernel
def next_unit(words: Cell[Words]) -> Any:
    """Return a uniform number in (0, 1): the middle of one of 2^52 equal intervals."""
    return (np.float64(next_word(words) >> np.uint64(12)) + 0.5) * 2.0**-52


@kernel
def next_normals(words: Cell[Words]) -> Any:
    """Return two independent standard normal numbers (Box, Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(next_unit(words)))
    angle = 2.0 * math.pi * next_unit(words)
    return radius * math.cos(angle), radius * math.sin(angle)


@kernel
def fill_log_normal(words: Cell[Words], sigma: Any, out: NDArray[np.float64]) -> None:
    """Write exp(sigma z) for each item, with z standard normal."""
    for item in range(0, out.size, 2):
        first, second = next_normals(words)
        out[item] = math.exp(sigma * first)
        if item + 1 < out.size:
            out[item + 1] = math.exp(sigma * second)


def log_normal(n: int, sigma: float = 1.5, seed: int = 0) -> NDArray[np.float64]:
    """Return n log-normal losses that depend on the seed alone.

    Parameters
    ----------
    n : int
    sigma : float, default=1.5
        The standard deviation of the logarithm.
    seed : int, default=0

    Examples
    --------
    >>> log_normal(3, seed=1).round(3)
    array([1.888, 0.68 , 9.428])
    """
    out = np.empty(n)
    fill_log_normal(Stream(seed).child(LOSSES).state, sigma, out)
    return out
