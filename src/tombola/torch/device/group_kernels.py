"""Triton kernel of a draw of `GroupVRB`: by weight, from all items, or from all groups.

Items are sorted by group: the members of group c are at the places from starts[c] on. Two boards
hold the weights of members, by place, and of groups. To draw a member of a group by weight, a dart
below the group's area is thrown at the board of members, beyond all weights before the group.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.torch.device.kernels import (
    BITS,
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
from tombola.torch.device.vrb_kernels import hand_out, mode_after, move_on, total_of
from tombola.torch.device.vrb_layout import Whole

__all__ = ["group_draw_kernel", "group_probability"]

SHUFFLING = tl.constexpr(Whole.SHUFFLING)
ATTEMPTS = tl.constexpr(64)
PARTS = tl.constexpr(8)  # of the mixture: any item, any group and member, and six by weight
ITEM, GROUP = tl.constexpr(0), tl.constexpr(1)
GROUP_LANE, MEMBER_LANE = tl.constexpr(2**30), tl.constexpr(3 * 2**30)  # of random words


@triton.jit
def before(board, n, place, HEIGHT: tl.constexpr):
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


@triton.jit(do_not_specialize=["n", "count", "size", "bits", "block"])
def group_draw_kernel(
    board,
    n,
    groups,
    count,
    reals,
    wholes,
    starts,
    areas,
    members,
    group_of,
    indices,
    probabilities,
    importances,
    size,
    bits,
    block,
    HEIGHT: tl.constexpr,
    GROUP_HEIGHT: tl.constexpr,
    TILE: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Draw `size` items with their probabilities; the last program to finish moves the state on."""
    n, count = tl.cast(n, tl.int64), tl.cast(count, tl.int64)
    size, block = tl.cast(size, tl.int64), tl.cast(block, tl.int64)
    lane = (tl.program_id(0) * TILE + tl.arange(0, TILE)).to(tl.int64)
    key, position = tl.load(board + KEY), tl.load(board + POSITION)
    mode = tl.load(wholes + SHUFFLING)
    after = mode_after(reals, mode)
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
    beyond = before(board, n, first, HEIGHT) + tl.where(by_weight, throw, 0)
    place = descend(board, n, beyond, HEIGHT, GROUPS)
    place = tl.where(by_weight, place, tl.where(part == ITEM, dart, first + throw))
    probability = group_probability(
        board, n, groups, count, starts, areas, place, group, place >= 0, HEIGHT, GROUP_HEIGHT
    )
    item = tl.load(members + place).to(tl.int64)
    hand_out(
        n, key, wholes, lane, size, bits, mode, after, item, probability, indices, probabilities,
        importances,
    )  # fmt: skip
    if unlucky > 0:
        record(board, UNLUCKY, position, 0)
    if finish(board):
        move_on(board, reals, wholes, size, block, mode, after)
