"""Triton kernels of weights after a batch: of items, of members of groups, and of groups.

**Items** (`VRB`). With m, D, h and V after the batch (`tombola.torch.device.learn_kernels`), the
weight of an item is

    scale sqrt((V h + k m) / (V + k)) / sqrt(m at first),   k = 1/8 + D^2 / 2   (8 D^2 if h = 0)

as an integer, at least 1. The items drawn are weighed, and two others in turn for each loss: the
sweep. For large batches it owns whole rows of leaves, and adds the change of a row to the sums at
once.

**Members and groups** (`GroupVRB`). The weight of a member is 2^20 sqrt(h), and that of a group
A_c sqrt(kappa_c), with the sum A_c of the weights of its members.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.index import real
from tombola.samplers import default_rule, group_rule
from tombola.torch.device import layout
from tombola.torch.device.draw_kernels import power_of_two
from tombola.torch.device.kernels import (
    BITS,
    FAN,
    FAN_BITS,
    WIDTH,
    change,
    replace,
    rows_of,
    start_of,
)
from tombola.torch.device.layout import Real, Whole

__all__ = [
    "exponent_near", "kappa_after", "read", "rebuild", "reference", "regroup_kernel",
    "relative_grain", "weigh", "weigh_kernel", "weigh_members_kernel",
]  # fmt: skip

MEAN_SQUARE = tl.constexpr(Real.MEAN_SQUARE)
DISAGREEMENT = tl.constexpr(Real.DISAGREEMENT)
FIRST_ROOT = tl.constexpr(Real.FIRST_ROOT)
SCALE = tl.constexpr(Real.SCALE)
LEVEL_BEFORE = tl.constexpr(Real.LEVEL_BEFORE)
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
UNSEEN = tl.constexpr(float(group_rule.UNSEEN))
ROOMY_BITS = tl.constexpr(layout.ROOMY_BITS)
WHOLE_BITS = tl.constexpr(62)  # of a sum of squares as a whole number
SPAN_BITS = tl.constexpr(24)  # r is at most 2^24 of what its group had before ...
FAINT_GROUP = tl.constexpr(2.0**-20)  # ... or, if that was less, of this times the common level


# ---- weights


@triton.jit
def exponent_near(x):
    """Return the exponent of a power of two p with x / p in [1/2, 1), from -950 to 1000."""
    bits = x.to(tl.int64, bitcast=True)
    return tl.minimum(tl.maximum(((bits >> 52) & 2047) - 1022, -950), 1000)


@triton.jit
def values_of(average, visits, mean, disagreement, first_root):
    """Return sqrt((V h + k m) / (V + k)) over the first sqrt(m); 1 before the first loss."""
    known = first_root > 0.0
    noise = tl.where(average > 0.0, PRIOR_NOISE, PRIOR_ZEROS)
    k = PRIOR + noise * disagreement * disagreement
    root = tl.sqrt((visits * average + k * mean) / (visits + k))
    return tl.where(known, root / tl.where(known, first_root, 1.0), 1.0)


@triton.jit
def weights_of(average, visited, chosen, mean, disagreement, first_root, scale, room):
    """Return weights from 1 to `room`, and which of the chosen were cut to that."""
    scaled = values_of(average, visited, mean, disagreement, first_root) * scale
    cut = scaled >= room.to(tl.float64)
    weight = tl.where(cut, room, tl.where(cut, 0.0, scaled).to(tl.int64))
    return tl.maximum(weight, 1), chosen & cut


@triton.jit
def read(board, n, scores, visits, item, chosen, HEIGHT: tl.constexpr):
    """Return h, V and the weight of items."""
    average = tl.load(scores + item, mask=chosen, other=0.0)
    visited = tl.load(visits + item, mask=chosen, other=0).to(tl.float64)
    return average, visited, tl.load(board + start_of(n, 0, HEIGHT) + item, mask=chosen, other=0)


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
        average, visited, _ = read(board, n, scores, visits, item, item < n, HEIGHT)
        value = values_of(average, visited, mean, disagreement, first_root)
        total += tl.sum(tl.where(item < n, value, 0.0), 0)
        first += BLOCK
    scale = TARGET * power_of_two(-exponent_near(total))
    tl.store(reals + SCALE, scale)
    first = tl.cast(0, tl.int64)
    while first < n:
        item = first + tl.arange(0, BLOCK)
        average, visited, _ = read(board, n, scores, visits, item, item < n, HEIGHT)
        weight, _ = weights_of(
            average, visited, item < n, mean, disagreement, first_root, scale, room
        )
        tl.store(board + start_of(n, 0, HEIGHT) + item, weight, mask=item < n)
        first += BLOCK
    tl.debug_barrier()
    sum_level(board, n, 1, HEIGHT, WIDTH)
    for level in tl.static_range(2, HEIGHT + 1):
        sum_level(board, n, level, HEIGHT, FAN)


# ---- items


@triton.jit
def weigh(
    board, n, wholes, item, average, visited, old, chosen, mean, disagreement, first_root, scale,
    room, HEIGHT: tl.constexpr, GATHER: tl.constexpr,
):  # fmt: skip
    """Write the weights of the chosen items, all different."""
    weight, cut = weights_of(average, visited, chosen, mean, disagreement, first_root, scale, room)
    change(board, n, item, old, weight, chosen, HEIGHT, GATHER)
    tl.store(wholes + CUT + tl.zeros_like(item), tl.full(item.shape, 1, tl.int64), mask=cut)


@triton.jit(do_not_specialize=["n", "size", "drawn"])
def weigh_kernel(
    board, n, reals, wholes, scores, visits, chosen, size, drawn, HEIGHT: tl.constexpr
):  # fmt: skip
    """Write the weights that a batch changes.

    The first `drawn` programs have 128 of its positions each, the others a row of the sweep. The
    cursor has passed the sweep already.
    """
    n = tl.cast(n, tl.int64)
    lane, program = tl.arange(0, WIDTH), tl.program_id(0)
    taken = tl.where(tl.load(wholes + ACCEPTED) > 0, size, 0)
    mean, disagreement = tl.load(reals + MEAN_SQUARE), tl.load(reals + DISAGREEMENT)
    first_root, scale = tl.load(reals + FIRST_ROOT), tl.load(reals + SCALE)
    room, cursor = tl.load(wholes + ROOM), tl.load(wholes + CURSOR)
    if program < drawn:
        own = program * WIDTH + lane
        item = tl.load(chosen + own, mask=own < size, other=-1)
        average, visited, old = read(board, n, scores, visits, item, item >= 0, HEIGHT)
        weigh(
            board, n, wholes, item, average, visited, old, (item >= 0) & (own < taken), mean,
            disagreement, first_root, scale, room, HEIGHT, True,
        )  # fmt: skip
    else:
        cursor = (cursor + n - (2 * size) % n) % n
        row = ((cursor >> BITS) + (program - drawn)) % rows_of(n, 0)
        item = row * WIDTH + lane
        away = tl.where(item < cursor, item + n, item) - cursor
        swept = (item < n) & (away < 2 * taken)
        average, visited, old = read(board, n, scores, visits, item, swept, HEIGHT)
        weight, cut = weights_of(
            average, visited, swept, mean, disagreement, first_root, scale, room
        )
        tl.debug_barrier()  # threads that share an item have all read it
        tl.store(board + start_of(n, 0, HEIGHT) + item, weight, mask=swept)
        add_row(board, n, row, tl.sum(tl.where(swept, weight - old, 0), 0), HEIGHT)
        tl.store(wholes + CUT + tl.zeros_like(item), tl.full((WIDTH,), 1, tl.int64), mask=cut)


# ---- members and groups


@triton.jit
def reference(levels, seen, group, valid, level):
    """Return the reference level for the r of a group, kappa_c, and its number of losses."""
    kappa = tl.load(levels + group, mask=valid, other=0.0)
    before = tl.load(seen + group, mask=valid, other=0)
    known = tl.maximum(tl.where(before > 0, kappa, level), FAINT_GROUP * level)
    return tl.where(level > 0.0, known, 1.0), kappa, before.to(tl.float64)


@triton.jit
def relative_grain(known, bits):
    """Return the unit of whole numbers that r are added as: a batch of them fits 62 bits."""
    return power_of_two(exponent_near(known) + SPAN_BITS - WHOLE_BITS + bits - ROOMY_BITS)


@triton.jit
def kappa_after(known, kappa, before, level, losses, total, bits):
    """Return kappa of a group after the batch, from the number of its losses and their sum."""
    count = losses.to(tl.float64)
    some = count > 0.0
    mean = total.to(tl.float64) * relative_grain(known, bits) / tl.where(some, count, 1.0)
    start = tl.where(before > 0.0, kappa, tl.where(level > 0.0, level, mean))
    rest = (before + 1.0) * (before + 2.0) / ((before + count + 1.0) * (before + count + 2.0))
    return tl.where(some, start + (1.0 - rest) * (mean - start), kappa)


@triton.jit(do_not_specialize=["n", "most", "size"])
def weigh_members_kernel(
    board, n, most, wholes, areas, group_of, scores, chosen, size, HEIGHT: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Write the weights 2^20 sqrt(h) of the members that a batch has moved, from 1 to `most`."""
    n, most = tl.cast(n, tl.int64), tl.cast(most, tl.int64)
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = own < tl.where(tl.load(wholes + ACCEPTED) > 0, size, 0)
    place = tl.load(chosen + own, mask=inside, other=-1)
    moved = place >= 0
    score = tl.load(scores + place, mask=moved, other=1.0)
    group = tl.load(group_of + place, mask=moved, other=0).to(tl.int64)
    old = tl.load(board + start_of(n, 0, HEIGHT) + place, mask=moved, other=0)
    weight = tl.minimum(UNSEEN * tl.sqrt(score), most.to(tl.float64)).to(tl.int64)
    weight = tl.maximum(weight, 1)
    replace(board, n, place, weight, moved, HEIGHT, True)
    tl.atomic_add(areas + group, weight - old, mask=moved & (weight != old), sem="relaxed")


@triton.jit(do_not_specialize=["count", "bits"])
def regroup_kernel(
    groups, count, reals, wholes, areas, levels, seen, losses_of, sums_of, bits,
    GROUP_HEIGHT: tl.constexpr,
):  # fmt: skip
    """Move kappa of all groups, and write their weights A_c sqrt(kappa_c); a row a program."""
    count, bits = tl.cast(count, tl.int64), tl.cast(bits, tl.int64)
    row = tl.program_id(0).to(tl.int64)
    group = row * WIDTH + tl.arange(0, WIDTH)
    inside = group < count
    in_group = tl.load(losses_of + group, mask=inside, other=0)
    of_group = tl.load(sums_of + group, mask=inside, other=0)
    level = tl.load(reals + LEVEL_BEFORE)
    known, kappa, before = reference(levels, seen, group, inside, level)
    kappa = kappa_after(known, kappa, before, level, in_group, of_group, bits)
    tl.debug_barrier()
    zero = tl.zeros((WIDTH,), tl.int64)
    tl.store(losses_of + group, zero, mask=inside)
    tl.store(sums_of + group, zero, mask=inside)
    if tl.load(wholes + ACCEPTED) > 0:
        after = before.to(tl.int64) + in_group
        tl.store(levels + group, kappa, mask=inside)
        tl.store(seen + group, after, mask=inside)
        level = tl.load(reals + MEAN_SQUARE)
        kappa = tl.where(after > 0, kappa, level)
        kappa = tl.where(level > 0.0, kappa, 1.0)
        area = tl.load(areas + group, mask=inside, other=0).to(tl.float64)
        scaled = area / UNSEEN * tl.sqrt(kappa) * tl.load(reals + SCALE)
        most = (tl.cast(LARGEST_WEIGHT, tl.int64) // count).to(tl.float64)
        weight = tl.maximum(tl.minimum(scaled, most).to(tl.int64), 1)
        leaf = groups + start_of(count, 0, GROUP_HEIGHT) + group
        old = tl.load(leaf, mask=inside, other=0)
        tl.debug_barrier()
        tl.store(leaf, weight, mask=inside)
        add_row(groups, count, row, tl.sum(tl.where(inside, weight - old, 0), 0), GROUP_HEIGHT)
