"""Triton kernel of the weights of `VRB` after a batch: of the items drawn, and of the sweep.

With m, D, h and V after the batch (`tombola.torch.device.learn_kernels`), the weight of an item is

    scale sqrt((V h + k m) / (V + k)) / sqrt(m at first),   k = 1/8 + D^2 / 2   (8 D^2 if h = 0)

as an integer, at least 1. The items drawn are weighed, and two others in turn for each loss: the
sweep. It owns whole rows of leaves, and adds the change of a row to the sums at once.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.index import real
from tombola.samplers import default_rule
from tombola.torch.device.kernels import (
    BITS,
    FAN,
    FAN_BITS,
    WIDTH,
    replace,
    rows_of,
    start_of,
)
from tombola.torch.device.vrb_kernels import power_of_two
from tombola.torch.device.vrb_layout import Real, Whole

__all__ = ["weigh_kernel"]

MEAN_SQUARE = tl.constexpr(Real.MEAN_SQUARE)
DISAGREEMENT = tl.constexpr(Real.DISAGREEMENT)
FIRST_ROOT = tl.constexpr(Real.FIRST_ROOT)
SCALE = tl.constexpr(Real.SCALE)
CURSOR = tl.constexpr(Whole.CURSOR)
ACCEPTED = tl.constexpr(Whole.ACCEPTED)
ROOM = tl.constexpr(Whole.ROOM)
CUT = tl.constexpr(Whole.CUT)

PRIOR = tl.constexpr(default_rule.PRIOR)
PRIOR_NOISE = tl.constexpr(default_rule.PRIOR_NOISE)
PRIOR_ZEROS = tl.constexpr(default_rule.PRIOR_ZEROS)
TARGET = tl.constexpr(real.DEVICE_TARGET)
LARGEST_WEIGHT = tl.constexpr(2 * real.HIGH)  # after a rebuild: never reached
BLOCK = tl.constexpr(1024)  # items at a time, in passes over all of them


# ---- weights


@triton.jit
def exponent_near(x):
    """Return the exponent of a power of two p with x / p in [1/2, 1), from -950 to 1000."""
    bits = x.to(tl.int64, bitcast=True)
    return tl.minimum(tl.maximum(((bits >> 52) & 2047) - 1022, -950), 1000)


@triton.jit
def root_of(average, visits, mean, disagreement):
    """Return sqrt((V h + k m) / (V + k)): `default_rule.shrunk_root`."""
    noise = tl.where(average > 0.0, PRIOR_NOISE, PRIOR_ZEROS)
    k = PRIOR + noise * disagreement * disagreement
    return tl.sqrt((visits * average + k * mean) / (visits + k))


@triton.jit
def values_of(scores, visits, item, chosen, mean, disagreement, first_root):
    """Return what weights are proportional to; 1 before the first loss, when `first_root` is 0."""
    average = tl.load(scores + item, mask=chosen, other=0.0)
    count = tl.load(visits + item, mask=chosen, other=0.0).to(tl.float64)
    known = first_root > 0.0
    root = root_of(average, count, mean, disagreement)
    return tl.where(known, root / tl.where(known, first_root, 1.0), 1.0)


@triton.jit
def weights_of(scores, visits, item, chosen, mean, disagreement, first_root, scale, room):
    """Return weights from 1 to `room`, and how many of them were cut to that."""
    scaled = values_of(scores, visits, item, chosen, mean, disagreement, first_root) * scale
    cut = scaled >= room.to(tl.float64)
    weight = tl.where(cut, room, tl.where(cut, 0.0, scaled).to(tl.int64))
    return tl.maximum(weight, 1), tl.sum((chosen & cut).to(tl.int32), 0)


@triton.jit
def add_row(board, n, row, change, HEIGHT: tl.constexpr):
    """Add the change of a row of leaves to all sums above it."""
    for level in tl.static_range(1, HEIGHT + 1):
        sums = board + start_of(n, level, HEIGHT) + (row >> (FAN_BITS * (level - 1)))
        tl.atomic_add(sums, change, mask=change != 0, sem="relaxed")


# ---- all items at once: rare


@triton.jit
def sum_level(board, n, level: tl.constexpr, HEIGHT: tl.constexpr, COLUMNS: tl.constexpr):
    """Compute the sums of a level from the rows of the level below."""
    rows = rows_of(n, level - 1)
    below = board + start_of(n, level - 1, HEIGHT)
    first = tl.cast(0, tl.int64)
    while first < rows:
        row = first + tl.arange(0, 32)
        at = below + row[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        sums = tl.sum(tl.load(at, mask=(row < rows)[:, None], other=0), 1)
        tl.store(board + start_of(n, level, HEIGHT) + row, sums, mask=row < rows)
        first += 32
    tl.debug_barrier()


@triton.jit
def rebuild(board, n, reals, scores, visits, mean, disagreement, first_root, HEIGHT: tl.constexpr):
    """Choose the scale and compute all weights."""
    room, total = tl.cast(LARGEST_WEIGHT, tl.int64), tl.cast(0.0, tl.float64)
    first = tl.cast(0, tl.int64)
    while first < n:
        item = first + tl.arange(0, BLOCK)
        value = values_of(scores, visits, item, item < n, mean, disagreement, first_root)
        total += tl.sum(tl.where(item < n, value, 0.0), 0)
        first += BLOCK
    scale = TARGET * power_of_two(-exponent_near(total))
    tl.store(reals + SCALE, scale)
    first = tl.cast(0, tl.int64)
    while first < n:
        item = first + tl.arange(0, BLOCK)
        weight, _ = weights_of(
            scores, visits, item, item < n, mean, disagreement, first_root, scale, room
        )
        tl.store(board + start_of(n, 0, HEIGHT) + item, weight, mask=item < n)
        first += BLOCK
    tl.debug_barrier()
    sum_level(board, n, 1, HEIGHT, WIDTH)
    for level in tl.static_range(2, HEIGHT + 1):
        sum_level(board, n, level, HEIGHT, FAN)


# ---- a batch


@triton.jit(do_not_specialize=["n", "size", "drawn"])
def weigh_kernel(
    board,
    n,
    reals,
    wholes,
    scores,
    visits,
    chosen,
    size,
    drawn,
    HEIGHT: tl.constexpr,
):
    """Write the weights that a batch changes.

    The first `drawn` programs have 128 of its positions each, the others a row of the sweep. The
    cursor has passed the sweep already.
    """
    n = tl.cast(n, tl.int64)
    if tl.load(wholes + ACCEPTED) > 0:
        mean, disagreement = tl.load(reals + MEAN_SQUARE), tl.load(reals + DISAGREEMENT)
        first_root, scale = tl.load(reals + FIRST_ROOT), tl.load(reals + SCALE)
        room = tl.load(wholes + ROOM)
        lane, program = tl.arange(0, WIDTH), tl.program_id(0)
        if program < drawn:
            own = program * WIDTH + lane
            item = tl.load(chosen + own, mask=own < size, other=-1)
            weight, cut = weights_of(
                scores, visits, item, item >= 0, mean, disagreement, first_root, scale, room
            )
            replace(board, n, item, weight, item >= 0, HEIGHT, True)
        else:
            cursor = (tl.load(wholes + CURSOR) + n - (2 * size) % n) % n
            row = ((cursor >> BITS) + (program - drawn)) % rows_of(n, 0)
            item = row * WIDTH + lane
            away = tl.where(item < cursor, item + n, item) - cursor
            swept = (item < n) & (away < 2 * size)
            weight, cut = weights_of(
                scores, visits, item, swept, mean, disagreement, first_root, scale, room
            )
            leaf = board + start_of(n, 0, HEIGHT) + item
            old = tl.load(leaf, mask=swept, other=0)
            tl.debug_barrier()  # threads that share an item have all read it
            tl.store(leaf, weight, mask=swept)
            add_row(board, n, row, tl.sum(tl.where(swept, weight - old, 0), 0), HEIGHT)
        if cut > 0:
            tl.store(wholes + CUT, tl.cast(1, tl.int64))
