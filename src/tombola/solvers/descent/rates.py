"""Rates: constant, falling, following the gradients, or searched.

The search is that of SAGA and SVRG; it follows the curvature of the items drawn.

L_i is the largest curvature of item i anywhere. At its present inner product, and for the
importance u_i that it is drawn with, it has

    q_i = u_i s_i |x_i|^2 phi'',        at most L_Q = max_i u_i L_i for the initial draws

measured as a secant: if the part of the step that is due to the item moves its z to z',
rate q_i = |phi'(z') - phi'(z)| / |phi'(z) - y_i|, with the stored slope y_i. That takes one
evaluation of phi, and no pass over the row.

*The mean.* If errors of the iterate have no preferred direction, the noise of a step over its
progress is about rate (sum q_i^2 / sum q_i) / 2: items count by their share of the curvature.
So, with sums over the last epoch or so, and never less than the safe rate,

    rate = 1 / (6 (sum q^2 / sum q + l2))       or   1 / (3 (L_Q + l2))

*The guard.* No step may overshoot the minimum of the item drawn: rate q_i > 1 lowers the rate at
once, before the step. It rises again as the largest q seen is forgotten, by half in an epoch.

The rate changes twice an epoch, and when the guard says so. docs/decisions/saga_rate.md compares
it with the line search of Schmidt, Le Roux, Bach (2017).
"""

import math
from typing import Any

from tombola.compiling import kernel
from tombola.solvers.descent.run import DescentRun, Search, SearchingRun
from tombola.solvers.proximal import soft
from tombola.state import Cell, cell

__all__ = [
    "CONSTANT",
    "DIAGONAL",
    "NORM",
    "PERIODS",
    "ROOT",
    "SEARCHED",
    "STRONGLY_CONVEX",
    "current_rate",
    "diagonal_step",
    "examined_rate",
    "new_search",
    "rate_is_due",
    "renewed_rate",
]

# schedules: rate_t is
CONSTANT = 0  # rate
ROOT = 1  # rate / sqrt(t)
STRONGLY_CONVEX = 2  # 2 / (convexity t)
NORM = 3  # rate / sqrt(sum_s |g_s|^2)
DIAGONAL = 4  # rate / sqrt(sum_s g_{s,j}^2), for each coordinate j
SEARCHED = 5  # rate, which the search changes

# the search
DIVISOR, SAFE = 6.0, 3.0  # of the mean of q, and of L_Q
PERIODS = 2  # changes of the rate in an epoch
FORGET = 0.5 ** (1.0 / PERIODS)  # what is left of the largest q after a period
SPARING = 4  # one item in this many is measured for the mean
LEAST = 2.0**-20  # of the mean, relative to L_Q
CLEAR = 1e-7  # slopes that changed by less than this, relative to them, are rounding
EXACT = 1e-9  # a step that ends this close to the minimum of its item does not overshoot
TRIALS = 60  # of lower rates, each at most half of the last if that is far too large


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


def new_search(n: int, smoothness: float) -> Cell[Search]:
    """Return the state before the first round: as if all items of an epoch had q = L_Q."""
    seen = n / SPARING
    return cell(Search(smoothness=smoothness, squares=seen, sums=seen))


@kernel(inline=True)
def rate_is_due(run: SearchingRun) -> Any:
    """Return whether a period has ended."""
    rounds = run.progress[0].rounds
    return rounds > 0 and rounds % run.options[0].period == 0


@kernel(inline=True)
def renewed_rate(run: SearchingRun) -> Any:
    """Return the rate of the next period; 1 if the problem is linear."""
    search, l2 = run.search[0], run.model.settings[0].l2
    mean = max(search.squares / search.sums, LEAST) if search.sums > 0.0 else LEAST
    worst = search.smoothness
    smooth = min(DIVISOR * (mean * worst + l2), SAFE * (worst + l2))
    smooth = max(smooth, search.largest * worst + l2)
    search.largest *= FORGET
    return 1.0 / smooth if smooth > 0.0 else 1.0


@kernel(inline=True)
def examined_rate(run: SearchingRun, b: Any) -> Any:
    """Measure item b of the batch, whose z is in `scratch`; return the rate, or a lower one."""
    model, scratch, search = run.model, run.scratch, run.search[0]
    item, rate = run.batch.items[b], run.rates[0].rate
    weight = model.weights[item]
    reach = run.batch.importances[b] * model.norms[item] ** 2  # of a step, in z, per rate and slope
    counts = run.progress[0].rounds % SPARING == 0
    if not counts and rate * reach * weight * run.options[0].curvature <= 1.0:
        return rate
    squared = total = 0.0
    for k in range(scratch.z.size):
        squared += (scratch.slopes[b, k] - run.stored.table[item, k]) ** 2
        total += scratch.slopes[b, k] ** 2
    if not squared > CLEAR * CLEAR * total:
        return rate
    share = math.inf  # rate q
    for _ in range(TRIALS):
        for k in range(scratch.z.size):
            change = scratch.slopes[b, k] - run.stored.table[item, k]
            scratch.trial[k] = scratch.z[k] - rate * reach * change
        model.slopes(item, scratch.trial, scratch.trial_slopes)
        moved = 0.0
        for k in range(scratch.z.size):
            moved += (weight * scratch.trial_slopes[k] - scratch.slopes[b, k]) ** 2
        share = math.sqrt(moved / squared)
        if share <= 1.0 + EXACT:
            break
        rate /= share if share < 2.0 else 2.0
    if search.smoothness > 0.0 and share < math.inf:
        q = share / (rate * search.smoothness)
        search.largest = max(search.largest, q)
        if counts:
            keep = 1.0 - SPARING / (SPARING + model.weights.size)
            search.squares = keep * search.squares + q * q
            search.sums = keep * search.sums + q
    return rate
