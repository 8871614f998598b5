"""Triton kernels of the draws of `VRB` and `GroupVRB`.

**By weight.** With weights a_i of sum A and the uniform weight U, a dart in [0, A + n U) that lands
below A descends the board; above, every item has U of the darts. So item i is drawn with
probability (a_i + U) / (A + n U), exactly, as by `tombola.samplers.weighted`.

**By group.** Items are sorted by group: the members of group c are at the places from starts[c] on.
Two boards hold the weights of members, by place, and of groups. To draw a member of a group by
weight, a dart below the group's area is thrown at the board of members, beyond all weights before
the group.

**Shuffled epochs without a deck.** A Feistel network on the smallest power of two N >= n, whose
halves have 19 bits at most, permutes 0 .. N - 1. If it leads outside 0 .. n - 1 it is applied
again, until it leads back (cycle walking): an exact permutation of 0 .. n - 1. There are N - n < n
places outside, so the walk is bounded by n steps; two are expected. The result is rotated by a
random number below n. Every item is therefore equally likely at every place, whatever the network
does.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.samplers import fallback
from tombola.torch.device.kernels import (
    BITS,
    CELLS,
    FAN,
    FAN_BITS,
    KEY,
    POSITION,
    UNLUCKY,
    WIDTH,
    descend,
    finish,
    random_below,
    record,
    start_of,
)
from tombola.torch.device.layout import Real, Whole

__all__ = ["draw_kernel", "group_draw_kernel", "group_probability", "total_of", "uniform_weight"]

MIXING = tl.constexpr(Real.MIXING)
GUARD_OURS = tl.constexpr(Real.GUARD_OURS)
GUARD_UNIFORM = tl.constexpr(Real.GUARD_UNIFORM)
FED = tl.constexpr(Whole.FED)
LEFT = tl.constexpr(Whole.LEFT)
SHUFFLING = tl.constexpr(Whole.SHUFFLING)
DEALT = tl.constexpr(Whole.DEALT)
DRAWN = tl.constexpr(Whole.DRAWN)
ROUNDS = tl.constexpr(Whole.ROUNDS)
ENTER = tl.constexpr(fallback.ENTER)
LEAVE = tl.constexpr(fallback.LEAVE)
ATTEMPTS = tl.constexpr(64)
PARTS = tl.constexpr(8)  # of a group's mixture: any item, any group and member, and six by weight
ITEM, GROUP = tl.constexpr(0), tl.constexpr(1)
# lanes of random words; those of draws are below 2^30
GROUP_LANE, MEMBER_LANE = tl.constexpr(2**30), tl.constexpr(3 * 2**30)
ROTATION, KEYS = tl.constexpr(2**31), tl.constexpr(2**31 + 1)


# ---- numbers


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
    """Return A and U of a mixture; 0 and 1 if every draw is uniform.

    U is the smallest integer for which the uniform share is at least `mixing`.
    """
    apart = tl.where(mixing < 1.0, 1.0 - mixing, 1.0)
    share = mixing / apart * total.to(tl.float64)
    only = (mixing >= 1.0) | (share >= 2305843009213693952.0)  # 2^61
    share = tl.where(only, 0.0, share)
    return tl.where(only, 0, total), (share / n.to(tl.float64)).to(tl.int64) + 1


@triton.jit
def quotient(a, b):
    """Return a // b for 0 <= a, 0 < b, both below 2^62, and a // b below 2^50.

    The float64 quotient is off by one at most; a division of integers takes far longer.
    """
    near = (a.to(tl.float64) / b.to(tl.float64)).to(tl.int64)
    rest = a - near * b
    return near + (rest >= b).to(tl.int64) - (rest < 0).to(tl.int64)


# ---- shuffled epochs


@triton.jit
def mixed(word):
    """Return a hash of 32 bits in which every bit depends on all (MurmurHash3's finaliser)."""
    word = (word ^ (word >> 16)) * 0x85EBCA6B
    word = (word ^ (word >> 13)) * 0xC2B2AE35
    return word ^ (word >> 16)


@triton.jit
def two_rounds(high, low, first, second, high_mask, low_mask):
    """Return both halves after two rounds; each changes one half by a function of the other."""
    high = high ^ (mixed(low + first) & high_mask)
    low = low ^ (mixed(high + second) & low_mask)
    return high, low


@triton.jit
def item_at(key, epoch, place, n, bits):
    """Return the item at each place of each epoch, all below n; `bits` has n <= 2^bits < 2 n."""
    lane = tl.zeros_like(place)
    low_epoch, high_epoch = epoch.to(tl.uint32), (epoch >> 32).to(tl.uint32)
    keys = (lane + KEYS).to(tl.uint32)
    attempt = tl.full((), 0, tl.uint32)
    a, b, c, d = tl.philox(key, low_epoch, high_epoch, keys, attempt)
    e, f, g, h = tl.philox(key, low_epoch, high_epoch, keys, attempt + 1)
    low_bits = tl.cast(bits // 2, tl.int64)
    one = tl.cast(1, tl.int64)
    low_mask = ((one << low_bits) - 1).to(tl.uint32)
    high_mask = ((one << (bits - low_bits)) - 1).to(tl.uint32)
    outside = place >= 0
    value, steps, left = place, tl.cast(0, tl.int64), tl.cast(1, tl.int32)
    while (left > 0) & (steps <= n):
        high, low = (value >> low_bits).to(tl.uint32), value.to(tl.uint32) & low_mask
        high, low = two_rounds(high, low, a, b, high_mask, low_mask)
        high, low = two_rounds(high, low, c, d, high_mask, low_mask)
        high, low = two_rounds(high, low, e, f, high_mask, low_mask)
        high, low = two_rounds(high, low, g, h, high_mask, low_mask)
        value = tl.where(outside, (high.to(tl.int64) << low_bits) | low.to(tl.int64), value)
        outside = value >= n
        left = tl.sum(outside.to(tl.int32), 0)
        steps += 1
    rotation, _ = random_below(key, epoch, lane + ROTATION, n, ATTEMPTS)
    value += rotation
    return tl.where(value >= n, value - n, value)


# ---- common to all draws


@triton.jit
def guard_of(reals, wholes):
    """Return the numbers of the guard before a draw, which reads them before it waits for others.

    These are the mode (1 for shuffled epochs), the draws left in this block, items dealt, items
    drawn, draws, and the sums whose ratio selects the next mode.
    """
    return (
        tl.load(wholes + SHUFFLING), tl.load(wholes + LEFT), tl.load(wholes + DEALT),
        tl.load(wholes + DRAWN), tl.load(wholes + ROUNDS), tl.load(reals + GUARD_OURS),
        tl.load(reals + GUARD_UNIFORM),
    )  # fmt: skip


@triton.jit
def hand_out(
    board, n, key, position, reals, wholes, guard, lane, out, size, room, bits, block, item,
    probability, unlucky,
):  # fmt: skip
    """Write the draws, or deal from shuffled epochs; the last program updates the state.

    Items are in `out`, probabilities from `room` on, importances (of float32) from 2 `room` on.

    Positions from `left` on belong to new blocks, in the mode `after`: the guard's ratio does not
    change within a draw, so all of them are in one mode. Returns whether this was the last program.
    """
    before, left, dealt, drawn, rounds, ours, uniform = guard
    ratio = tl.where(uniform > 0.0, ours / tl.where(uniform > 0.0, uniform, 1.0), 1.0)
    after = tl.where(ratio < tl.where(before > 0, ENTER, LEAVE), 0, 1).to(tl.int64)
    shuffled = tl.where(lane < left, before, after) > 0
    skipped = tl.where(before > 0, 0, left)  # positions before the first one that is dealt
    if (before > 0) | ((after > 0) & (size > left)):
        number = tl.where(shuffled, dealt + lane - skipped, 0)
        item = tl.where(shuffled, item_at(key, number // n, number % n, n, bits), item)
    probability = tl.where(shuffled, 1.0 / n.to(tl.float64), probability)
    inside = lane < size
    tl.store(out + lane, item, mask=inside)
    probabilities = tl.cast(out + room, tl.pointer_type(tl.float64), bitcast=True)
    importances = tl.cast(out + 2 * room, tl.pointer_type(tl.float32), bitcast=True)
    tl.store(probabilities + lane, probability, mask=inside)
    importance = 1.0 / (n.to(tl.float64) * probability)
    tl.store(importances + lane, importance.to(tl.float32), mask=inside)
    if unlucky > 0:
        record(board, UNLUCKY, position, 0)
    last = finish(board, "relaxed")
    if last:
        beyond = tl.maximum(size - left, 0)
        blocks = (beyond + block - 1) // block
        halves = power_of_two(-tl.minimum(blocks, 1000))
        first = tl.where(before > 0, tl.minimum(size, left), 0)
        tl.store(reals + GUARD_OURS, ours * halves)
        tl.store(reals + GUARD_UNIFORM, uniform * halves)
        tl.store(wholes + LEFT, left - size + blocks * block)
        tl.store(wholes + SHUFFLING, tl.where(blocks > 0, after, before))
        tl.store(wholes + DEALT, dealt + first + tl.where(after > 0, beyond, 0))
        tl.store(wholes + DRAWN, drawn + size)
        tl.store(wholes + ROUNDS, rounds + 1)
        tl.store(board + POSITION, position + 1)
    return last


# ---- draws by weight


@triton.jit(do_not_specialize=["n", "size", "room", "bits", "block"])
def draw_kernel(
    board, n, reals, wholes, out, size, room, bits, block,
    HEIGHT: tl.constexpr, TILE: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """Draw `size` items with their probabilities; the last program to finish moves the state on."""
    n, size, block = tl.cast(n, tl.int64), tl.cast(size, tl.int64), tl.cast(block, tl.int64)
    lane = tl.program_id(0) * TILE + tl.arange(0, TILE)
    key, position = tl.load(board + KEY), tl.load(board + POSITION)
    guard = guard_of(reals, wholes)
    fed, total = tl.load(wholes + FED), total_of(board)
    mixing = mixing_of(fed, n)
    total, spread = uniform_weight(mixing, total, n)
    darts = total + n * spread
    dart, unlucky = random_below(key, position, lane, darts, ATTEMPTS)
    by_weight = dart < total
    item = descend(board, n, tl.where(by_weight, dart, 0), HEIGHT, GROUPS)
    item = tl.where(by_weight, item, tl.minimum(quotient(dart - total, spread), n - 1))
    weight = tl.where(total > 0, tl.load(board + start_of(n, 0, HEIGHT) + item), 0)
    probability = (weight + spread).to(tl.float64) / darts.to(tl.float64)
    if hand_out(
        board, n, key, position, reals, wholes, guard, lane, out, size, room, bits, block, item,
        probability, unlucky,
    ):  # fmt: skip
        tl.store(reals + MIXING, mixing)


# ---- draws by group


@triton.jit
def weight_before(board, n, place, HEIGHT: tl.constexpr):
    """Return the sum of all weights before each place."""
    column = tl.arange(0, WIDTH)
    row = board + start_of(n, 0, HEIGHT) + (place >> BITS) * WIDTH
    left = column[None, :] < (place & (WIDTH - 1))[:, None]
    total = tl.sum(tl.load(row[:, None] + column[None, :], mask=left, other=0), 1)
    column = tl.arange(0, FAN)
    for level in tl.static_range(1, HEIGHT + 1):
        entry = place >> (BITS + FAN_BITS * (level - 1))
        row = board + start_of(n, level, HEIGHT) + (entry >> FAN_BITS) * FAN
        left = column[None, :] < (entry & (FAN - 1))[:, None]
        total += tl.sum(tl.load(row[:, None] + column[None, :], mask=left, other=0), 1)
    return total


@triton.jit
def group_probability(
    board, n, groups, count, starts, areas, place, group, inside, HEIGHT: tl.constexpr,
    GROUP_HEIGHT: tl.constexpr,
):  # fmt: skip
    """Return 3/4 (W_c / W) (a_i / A_c) + 1/8 (1/n) + 1/8 (1 / (K n_c))."""
    weight = tl.load(board + start_of(n, 0, HEIGHT) + place, mask=inside, other=1).to(tl.float64)
    share = tl.load(groups + start_of(count, 0, GROUP_HEIGHT) + group, mask=inside, other=1)
    area = tl.load(areas + group, mask=inside, other=1).to(tl.float64)
    members = tl.load(starts + group + 1, mask=inside, other=1)
    members -= tl.load(starts + group, mask=inside, other=0)
    ours, all_ = share.to(tl.float64) * weight, total_of(groups).to(tl.float64) * area
    floor = 0.125 / n.to(tl.float64) + 0.125 / (count * members).to(tl.float64)
    return 0.75 * ours / all_ + floor


@triton.jit(do_not_specialize=["n", "count", "size", "room", "bits", "block"])
def group_draw_kernel(
    board, n, groups, count, reals, wholes, starts, areas, members, group_of, out, size, room, bits,
    block, HEIGHT: tl.constexpr,
    GROUP_HEIGHT: tl.constexpr, TILE: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """Draw `size` items with their probabilities; the last program to finish moves the state on."""
    n, count = tl.cast(n, tl.int64), tl.cast(count, tl.int64)
    size, block = tl.cast(size, tl.int64), tl.cast(block, tl.int64)
    lane = (tl.program_id(0) * TILE + tl.arange(0, TILE)).to(tl.int64)
    key, position = tl.load(board + KEY), tl.load(board + POSITION)
    guard = guard_of(reals, wholes)
    part, unlucky = random_below(key, position, lane, tl.cast(PARTS, tl.int64), ATTEMPTS)
    bound = tl.where(part == ITEM, n, tl.where(part == GROUP, count, total_of(groups)))
    dart, more = random_below(key, position, lane + GROUP_LANE, bound, ATTEMPTS)
    unlucky += more
    by_weight = part > GROUP
    group = descend(groups, count, tl.where(by_weight, dart, 0), GROUP_HEIGHT, GROUPS)
    group = tl.where(part == GROUP, dart, group)
    group = tl.where(part == ITEM, tl.load(group_of + tl.where(part == ITEM, dart, 0)), group)
    first, end = tl.load(starts + group), tl.load(starts + group + 1)
    bound = tl.where(by_weight, tl.load(areas + group), end - first)
    throw, more = random_below(key, position, lane + MEMBER_LANE, bound, ATTEMPTS)
    unlucky += more
    beyond = weight_before(board, n, first, HEIGHT) + tl.where(by_weight, throw, 0)
    place = descend(board, n, beyond, HEIGHT, GROUPS)
    place = tl.where(by_weight, place, tl.where(part == ITEM, dart, first + throw))
    probability = group_probability(
        board, n, groups, count, starts, areas, place, group, place >= 0, HEIGHT, GROUP_HEIGHT
    )
    item = tl.load(members + place).to(tl.int64)
    hand_out(
        board, n, key, position, reals, wholes, guard, lane, out, size, room, bits, block, item,
        probability, unlucky,
    )  # fmt: skip
