"""Triton kernel of a draw of `VRB`: by weight and mixing, or dealt from a shuffled epoch.

With weights a_i of sum A and the uniform weight U, a dart in [0, A + n U) that lands below A
descends the board; above, every item has U of the darts. So item i is drawn with probability
(a_i + U) / (A + n U), exactly, as by `tombola.samplers.weighted`.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.samplers import fallback
from tombola.torch.device.kernels import (
    CELLS,
    FAN,
    KEY,
    POSITION,
    UNLUCKY,
    descend,
    finish,
    random_below,
    record,
    start_of,
)
from tombola.torch.device.permutation_kernels import item_at
from tombola.torch.device.vrb_layout import Real, Whole

__all__ = ["draw_kernel", "total_of", "uniform_weight"]

MIXING = tl.constexpr(Real.MIXING)
OURS = tl.constexpr(Real.GUARD_OURS)
UNIFORM = tl.constexpr(Real.GUARD_UNIFORM)
FED = tl.constexpr(Whole.FED)
LEFT = tl.constexpr(Whole.LEFT)
SHUFFLING = tl.constexpr(Whole.SHUFFLING)
DEALT = tl.constexpr(Whole.DEALT)
DRAWN = tl.constexpr(Whole.DRAWN)
ROUNDS = tl.constexpr(Whole.ROUNDS)
ENTER = tl.constexpr(fallback.ENTER)
LEAVE = tl.constexpr(fallback.LEAVE)
ATTEMPTS = tl.constexpr(64)


@triton.jit
def total_of(board):
    """Return the sum of all weights."""
    return tl.sum(tl.load(board + CELLS + tl.arange(0, FAN)), 0)


@triton.jit
def power_of_two(exponent):
    """Return 2^exponent, from -1022 to 1023, as a float64."""
    return ((exponent.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)


@triton.jit
def mixing_of(fed, n):
    """Return theta = min(1, sqrt(n / (4 u))) after u losses."""
    share = n.to(tl.float64) / (4.0 * tl.maximum(fed, 1).to(tl.float64))
    return tl.where(4 * fed <= n, 1.0, tl.sqrt(share))


@triton.jit
def uniform_weight(mixing, total, n):
    """Return A and U of a mixture: where every draw is uniform, 0 and 1.

    U is the smallest integer for which the uniform share is at least `mixing`.
    """
    apart = tl.where(mixing < 1.0, 1.0 - mixing, 1.0)
    share = mixing / apart * total.to(tl.float64)
    only = (mixing >= 1.0) | (share >= 2305843009213693952.0)  # 2^61
    share = tl.where(only, 0.0, share)
    return tl.where(only, 0, total), (share / n.to(tl.float64)).to(tl.int64) + 1


@triton.jit
def mode_after(reals, before):
    """Return the mode that the guard's ratio selects for a new block: 1 for shuffled epochs."""
    ours, uniform = tl.load(reals + OURS), tl.load(reals + UNIFORM)
    ratio = tl.where(uniform > 0.0, ours / tl.where(uniform > 0.0, uniform, 1.0), 1.0)
    limit = tl.where(before > 0, ENTER, LEAVE)
    return tl.where(ratio < limit, 0, 1).to(tl.int64)


@triton.jit
def hand_out(
    n, key, wholes, lane, size, bits, before, after, item, probability, indices, probabilities,
    importances,
):  # fmt: skip
    """Write what was drawn, or deal from shuffled epochs.

    Positions from `left` on belong to new blocks, in the mode `after`: the guard's ratio does not
    change within a draw, so all of them are in one mode.
    """
    left, dealt = tl.load(wholes + LEFT), tl.load(wholes + DEALT)
    shuffled = tl.where(lane < left, before, after) > 0
    skipped = tl.where(before > 0, 0, left)  # positions before the first one that is dealt
    if (before > 0) | ((after > 0) & (size > left)):
        number = tl.where(shuffled, dealt + lane - skipped, 0)
        item = tl.where(shuffled, item_at(key, number // n, number % n, n, bits), item)
    probability = tl.where(shuffled, 1.0 / n.to(tl.float64), probability)
    inside = lane < size
    tl.store(indices + lane, item, mask=inside)
    tl.store(probabilities + lane, probability, mask=inside)
    importance = 1.0 / (n.to(tl.float64) * probability)
    tl.store(importances + lane, importance.to(tl.float32), mask=inside)


@triton.jit
def move_on(board, reals, wholes, size, block, before, after):
    """Move the stream, the guard and all counts on, after a draw."""
    left, dealt = tl.load(wholes + LEFT), tl.load(wholes + DEALT)
    ours, uniform = tl.load(reals + OURS), tl.load(reals + UNIFORM)
    drawn, rounds = tl.load(wholes + DRAWN), tl.load(wholes + ROUNDS)
    position = tl.load(board + POSITION)
    beyond = tl.maximum(size - left, 0)
    blocks = (beyond + block - 1) // block
    halves = power_of_two(-tl.minimum(blocks, 1000))
    first = tl.where(before > 0, tl.minimum(size, left), 0)
    tl.debug_barrier()  # all threads have read them
    tl.store(reals + OURS, ours * halves)
    tl.store(reals + UNIFORM, uniform * halves)
    tl.store(wholes + LEFT, left - size + blocks * block)
    tl.store(wholes + SHUFFLING, tl.where(blocks > 0, after, before))
    tl.store(wholes + DEALT, dealt + first + tl.where(after > 0, beyond, 0))
    tl.store(wholes + DRAWN, drawn + size)
    tl.store(wholes + ROUNDS, rounds + 1)
    tl.store(board + POSITION, position + 1)


@triton.jit(do_not_specialize=["n", "size", "bits", "block"])
def draw_kernel(
    board,
    n,
    reals,
    wholes,
    indices,
    probabilities,
    importances,
    size,
    bits,
    block,
    HEIGHT: tl.constexpr,
    TILE: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Draw `size` items with their probabilities; the last program to finish moves the state on."""
    n, size, block = tl.cast(n, tl.int64), tl.cast(size, tl.int64), tl.cast(block, tl.int64)
    lane = tl.program_id(0) * TILE + tl.arange(0, TILE)
    key, position = tl.load(board + KEY), tl.load(board + POSITION)
    before = tl.load(wholes + SHUFFLING)
    after = mode_after(reals, before)
    mixing = mixing_of(tl.load(wholes + FED), n)
    total, spread = uniform_weight(mixing, total_of(board), n)
    darts = total + n * spread
    dart, unlucky = random_below(key, position, lane, darts, ATTEMPTS)
    by_weight = dart < total
    item = descend(board, n, tl.where(by_weight, dart, 0), HEIGHT, GROUPS)
    item = tl.where(by_weight, item, tl.minimum((dart - total) // spread, n - 1))
    weight = tl.where(total > 0, tl.load(board + start_of(n, 0, HEIGHT) + item), 0)
    probability = (weight + spread).to(tl.float64) / darts.to(tl.float64)
    hand_out(
        n, key, wholes, lane, size, bits, before, after, item, probability, indices,
        probabilities, importances,
    )  # fmt: skip
    if unlucky > 0:
        record(board, UNLUCKY, position, 0)
    if finish(board):
        tl.store(reals + MIXING, mixing)
        move_on(board, reals, wholes, size, block, before, after)
