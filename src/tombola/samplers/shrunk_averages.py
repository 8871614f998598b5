"""The formulas of `VRB` without parameters, as functions of numbers.

With h the average squared loss of an item over its V visits, m the average over all items, and D
the average distance between a loss and the past losses of its item:

    value = sqrt((V h + k m) / (V + k)),   k = 1/8 + D^2 / 2   (1/8 + 8 D^2 after only zeros)
"""

import math
from typing import Any

from tombola.compiling import kernel

__all__ = [
    "clipped",
    "distance",
    "least_mean",
    "moved_average",
    "moved_mean",
    "pace",
    "shrunk_root",
]

LAST = 32.0  # visits: the window of an item's average
CLIP = 8.0  # squared losses are clipped at CLIP n m
FAINT = 2.0**-200  # the least m, relative to the first one: about 139 n losses of zero
PRIOR, PRIOR_NOISE, PRIOR_ZEROS = 0.125, 0.5, 8.0


@kernel(inline=True)
def pace(count: Any, n: int) -> Any:
    """Return the share of the newest value in a mean of `count` earlier ones, at least 1/n."""
    return max(1.0 / (count + 1.0), 1.0 / n)


@kernel(inline=True)
def least_mean(first_root: Any) -> Any:
    """Return the least m; when losses of zero have brought it there, past losses are negligible."""
    return FAINT * (first_root * first_root)


@kernel(inline=True)
def moved_mean(mean: Any, new: Any, share: Any, least: Any) -> Any:
    """Return m after a new value, not below `least`: it at most doubles, unless it was 0."""
    moved = mean + share * (new - mean)
    return max(least, min(moved, 2.0 * mean) if mean > 0.0 else moved)


@kernel(inline=True)
def clipped(squared: Any, n: int, mean: Any) -> Any:
    """Return a squared loss, at most 8 n m."""
    return min(squared, CLIP * n * mean)


@kernel(inline=True)
def moved_average(average: Any, visits: Any, squared: Any) -> Any:
    """Return h after one more visit."""
    return average + (squared - average) / min(visits + 1.0, LAST)


@kernel(inline=True)
def distance(squared: Any, average: Any) -> Any:
    """Return how far a squared loss is from the average: 0 if equal, 1 if one of them is 0."""
    return 1.0 - 2.0 * math.sqrt(squared * average) / (squared + average)


@kernel(inline=True)
def shrunk_root(average: Any, visits: Any, mean: Any, disagreement: Any) -> Any:
    """Return sqrt((V h + k m) / (V + k))."""
    noise = PRIOR_NOISE if average > 0.0 else PRIOR_ZEROS
    k = PRIOR + noise * disagreement * disagreement
    return math.sqrt((visits * average + k * mean) / (visits + k))
