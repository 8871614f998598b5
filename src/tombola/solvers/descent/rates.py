"""The rates of SGD and AdaGrad: constant, falling, or following the gradients."""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.solvers.descent.run import DescentRun
from tombola.solvers.proximal import soft

__all__ = [
    "CONSTANT",
    "DIAGONAL",
    "NORM",
    "ROOT",
    "SEARCHED",
    "STRONGLY_CONVEX",
    "current_rate",
    "diagonal_step",
]

# schedules: rate_t is
CONSTANT = 0  # rate
ROOT = 1  # rate / sqrt(t)
STRONGLY_CONVEX = 2  # 2 / (convexity t)
NORM = 3  # rate / sqrt(sum_s |g_s|^2)
DIAGONAL = 4  # rate / sqrt(sum_s g_{s,j}^2), for each coordinate j
SEARCHED = 5  # rate, which a line search changes


@kernel(inline=True)
def current_rate(run: DescentRun) -> Any:
    """Return the rate of this round; with DIAGONAL, the one chosen."""
    rates, options = run.rates[0], run.options[0]
    if options.schedule == ROOT:
        return rates.rate / math.sqrt(rates.earlier_rounds + run.progress[0].rounds)
    if options.schedule == STRONGLY_CONVEX:
        return 2.0 / (options.convexity * (rates.earlier_rounds + run.progress[0].rounds))
    if options.schedule == NORM:
        return rates.rate / math.sqrt(rates.square_sum) if rates.square_sum > 0.0 else 0.0
    return rates.rate


@kernel(inline=True)
def diagonal_step(w: Any, g: Any, root: Any, rate: Any, l1: Any, l2: Any) -> Any:
    """Return prox(w - rate / root g) with one division, and none by 0; root: sqrt(sum g^2)."""
    return soft(w * root - rate * g, rate * l1) / (root + rate * l2) if root > 0.0 else w
