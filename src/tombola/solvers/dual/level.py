"""What dual ascent keeps besides its dual variables: u, the centre, the strength, the intercept.

They are plain arrays and a `level` record, without rows: the same kernels serve `SDCA`, which has
all rows, and a driver that has none and adds up what others computed (`tombola.dask`).
`tombola.solvers.dual.run` explains the words.
"""

import math
from typing import Any

import numpy as np

from tombola.compiling import kernel
from tombola.solvers.proximal import soft
from tombola.state import MOST as FINITE
from tombola.state import Cell, Floats, Record, cell, real

__all__ = [
    "Level",
    "intercept_at",
    "move_centre",
    "new_level",
    "penalties",
    "pull_for",
    "set_strength",
    "write_solution",
]

NEAR, STIFF = 0.1, 100.0  # the pull is at least NEAR |x|^2, and STIFF strength / (mean curvature)
MOST = 1e3  # and at most this many times |x|^2 + strength
TINY = float(np.finfo(np.float64).tiny)


class Level(Record):
    """The numbers of dual ascent."""

    scale: float = real("strength n", TINY)
    share: float = real("l2 / strength", TINY, 1.0)
    threshold: float = real("l1 / strength")
    total: float = real("the sum of s_i a_i / scale", -FINITE, default=0.0)
    intercept: float = real("the intercept", -FINITE)
    pull: float = real("the penalty of the augmented Lagrangian", default=0.0)


def new_level(l1: float, l2: float, n: int, intercept: float) -> Cell[Level]:
    """Return the level of a run before its first step."""
    return cell(Level(scale=l2 * n, share=1.0, threshold=l1 / l2, intercept=intercept))


def intercept_at(level: Cell[Level], mean: Floats, w: Floats, point: Floats) -> float:
    """Return the intercept where steps begin at w, near a point: mean w + b stays."""
    away = point[: mean.size] - (w - level[0].total * mean)
    return float(point[mean.size] + mean @ away)


@kernel
def write_solution(level: Cell[Level], mean: Floats, w: Floats, out: Floats) -> None:
    """Write w and the intercept, if `out` is longer than w."""
    d = mean.size
    for j in range(d):
        out[j] = soft(w[j] - level[0].total * mean[j], level[0].threshold)
    if out.size > d:
        out[d] = level[0].intercept


@kernel
def penalties(
    level: Cell[Level],
    mean: Floats,
    w: Floats,
    centre: Floats,
    side: Floats,
    ratio: float,
    l1: float,
    l2: float,
) -> Any:
    """Return the penalty of w, and that of the dual whose heavier side is scaled by a ratio.

    `side` is the sum of s_i a_i x_i / scale over that side.
    """
    at = level[0]
    penalty = dual_penalty = 0.0
    for j in range(mean.size):
        primal = soft(w[j] - at.total * mean[j], at.threshold)
        penalty += 0.5 * l2 * primal * primal + l1 * abs(primal)
        u = w[j] - (1.0 - at.share) * centre[j] - (1.0 - ratio) * side[j]
        dual = soft(u, at.threshold) / at.share  # soft(v, l1 / lambda)
        dual_penalty += 0.5 * l2 * dual * dual
    return penalty, dual_penalty


@kernel(inline=True)
def pull_for(level: Cell[Level], length: float, n: int, curvature: float) -> Any:
    """Return the penalty of the augmented Lagrangian for a mean curvature of the losses."""
    strength = level[0].scale / n
    stiff = STIFF * strength / curvature if curvature > 0.0 else math.inf
    return min(max(NEAR * length, stiff), MOST * (length + strength))


@kernel
def set_strength(
    level: Cell[Level],
    mean: Floats,
    w: Floats,
    centre: Floats,
    strength: float,
    n: int,
    l1: float,
    l2: float,
) -> None:
    """Set the strength lambda + kappa; w changes with it, b does not."""
    at = level[0]
    share, ratio = l2 / strength, at.scale / (strength * n)
    for j in range(mean.size):
        before = w[j]
        own = before - (1.0 - at.share) * centre[j]
        w[j] = ratio * own + (1.0 - share) * centre[j]
        moved = w[j] - before - (ratio - 1.0) * at.total * mean[j]
        at.intercept -= mean[j] * moved
    at.total *= ratio
    at.scale, at.share, at.threshold = strength * n, share, l1 / strength


@kernel
def move_centre(
    level: Cell[Level], mean: Floats, w: Floats, centre: Floats, previous: Floats, restart: bool
) -> None:
    """Move the centre to w + beta (w - the last w), and u with it; to w, if progress is slow."""
    at = level[0]
    if at.share == 1.0:
        return
    root = math.sqrt(at.share)
    beta = 0.0 if restart else (1.0 - root) / (1.0 + root)
    for j in range(mean.size):
        now = soft(w[j] - at.total * mean[j], at.threshold)
        moved = now + beta * (now - previous[j])
        move = (1.0 - at.share) * (moved - centre[j])
        centre[j], previous[j] = moved, now
        w[j] += move
        at.intercept -= mean[j] * move
