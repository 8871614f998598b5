"""Triton kernels of what `GroupVRB` learns from a batch: the rule of `tombola.samplers.group_rule`.

A batch is learnt from at once. Squared losses count relative to h of their item: r = l^2 / h. With
b losses in group c, of mean r, after s others:

    kappa_c moves towards r by 1 - (s + 1)(s + 2) / ((s + b + 1)(s + b + 2))
    the level of all groups likewise by 1 - u (u + 1) / ((u + B)(u + B + 1)), after u losses

A group without losses before starts from the level. For each item with k losses in the batch, of
mean square x, and its group's level L = kappa_c (A_c / (2^20 n_c))^2:

    h <- max(1/16, h + (x / L - h) k / (1 + min(V + k, max(15, k)))),   V <- min(V + k, 15)

For steady losses this is the rule of the host. Each r counts as at most 2^24 kappa_c, so that sums
are whole numbers, which are the same in any order.

Launches: `enter` and `visit` as for `VRB` (`tombola.torch.device.learn_kernels`), the weights of
members, then those of all groups.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.index import real
from tombola.samplers import group_rule
from tombola.torch.device.group_kernels import group_probability
from tombola.torch.device.kernels import WIDTH, find_slots, finish, is_last, replace, start_of
from tombola.torch.device.learn_kernels import (
    ACCEPTED,
    BATCH_FAULT,
    BATCH_LARGEST,
    FED,
    GUARD_OURS,
    GUARD_UNIFORM,
    LARGEST,
    LARGEST_IMPORTANCE,
    MEAN_SQUARE,
    NO_FAULT,
    PART_GAP,
    PART_GUARD_OURS,
    PART_GUARD_UNIFORM,
    PART_MEAN,
    PART_OTHERS,
    PARTS,
    ROOMY_BITS,
    SCALE,
    UNIT,
    WHOLE_BITS,
    add_all,
    add_up,
    faults_of,
    join_entered,
    record_trouble,
    settle_gauge,
    tally,
    unit_for,
)
from tombola.torch.device.vrb_kernels import power_of_two, total_of
from tombola.torch.device.vrb_layout import Real
from tombola.torch.device.weigh_kernels import add_row, exponent_near

__all__ = [
    "group_enter_kernel",
    "group_learn_kernel",
    "group_visit_kernel",
    "regroup_kernel",
    "weigh_members_kernel",
]

LEVEL_BEFORE = tl.constexpr(Real.LEVEL_BEFORE)
UNSEEN = tl.constexpr(float(group_rule.UNSEEN))
MEMORY = tl.constexpr(float(group_rule.MEMORY))
SMALLEST_SCORE = tl.constexpr(group_rule.SMALLEST)
SPAN_BITS = tl.constexpr(24)  # r is at most 2^24 of what its group had before ...
FAINT = tl.constexpr(2.0**-20)  # ... or, if that was less, of this times the level of all groups
GROUP_BITS = tl.constexpr(int(real.TARGET).bit_length() - 1)  # of the total of groups ...
GROUP_SLACK = tl.constexpr(5)  # ... within this many bits
LARGEST_TOTAL = tl.constexpr(2 * real.HIGH)


@triton.jit
def reference(levels, seen, group, valid, level):
    """Return what the r of a group are compared with, kappa_c, and its number of losses."""
    kappa = tl.load(levels + group, mask=valid, other=0.0)
    before = tl.load(seen + group, mask=valid, other=0)
    known = tl.maximum(tl.where(before > 0, kappa, level), FAINT * level)
    return tl.where(level > 0.0, known, 1.0), kappa, before.to(tl.float64)


@triton.jit
def grain_of(known, bits):
    """Return the unit of whole numbers that r are added as: a batch of them fits 62 bits."""
    return power_of_two(exponent_near(known) + SPAN_BITS - WHOLE_BITS + bits - ROOMY_BITS)


@triton.jit
def squares_of(loss, unit):
    """Return squared losses in the unit of the sampler."""
    root = tl.minimum(loss * unit, LARGEST)
    return root * root


@triton.jit
def kappa_after(known, kappa, before, level, losses, total, bits):
    """Return kappa of a group after the batch, from the number of its losses and their sum."""
    count = losses.to(tl.float64)
    some = count > 0.0
    mean = total.to(tl.float64) * grain_of(known, bits) / tl.where(some, count, 1.0)
    start = tl.where(before > 0.0, kappa, tl.where(level > 0.0, level, mean))
    rest = (before + 1.0) * (before + 2.0) / ((before + count + 1.0) * (before + count + 2.0))
    return tl.where(some, start + (1.0 - rest) * (mean - start), kappa)


# ---- first launch: the table, and the sums of groups


@triton.jit
def enter(
    n, reals, wholes, places, group_of, scores, levels, seen, losses_of, sums_of, indices,
    probabilities, losses, size, table, counts, sums, bits, parts, TILE: tl.constexpr,
):  # fmt: skip
    """Look for faults, and put the items of this program into the table; return their slots."""
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = own < size
    item = tl.load(indices + own, mask=inside, other=0)
    chance = tl.load(probabilities + own, mask=inside, other=1.0)
    loss = tl.load(losses + own, mask=inside, other=0.0).to(tl.float64)
    faults = faults_of(n, own, item, chance, loss)
    valid = inside & (faults == NO_FAULT)
    place = tl.load(places + item, mask=valid, other=0)
    group = tl.load(group_of + place, mask=valid, other=0).to(tl.int64)
    score = tl.load(scores + place, mask=valid, other=1.0)
    slot = find_slots(table, item, own.to(tl.int64), valid, bits)
    known, _, _ = reference(levels, seen, group, valid, tl.load(reals + MEAN_SQUARE))
    new = squares_of(loss, unit_for(reals, losses, size)) / score
    new = tl.minimum(new, known * 16777216.0)  # 2^24
    grains = tl.where(valid, new / grain_of(known, bits), 0.0).to(tl.int64)
    one = tl.full((TILE,), 1, tl.int64)
    tl.atomic_add(counts + slot, one, mask=slot >= 0, sem="relaxed")
    tl.atomic_add(sums + slot, grains, mask=slot >= 0, sem="relaxed")
    tl.atomic_add(losses_of + group, one, mask=valid, sem="relaxed")
    tl.atomic_add(sums_of + group, grains, mask=valid, sem="relaxed")
    total, others, largest, fault = tl.reduce(
        (tl.where(valid, new, 0.0), tl.zeros((TILE,), tl.float64), tl.where(valid, loss, 0.0),
         faults), 0, join_entered,
    )  # fmt: skip
    row = parts + tl.program_id(0) * PARTS
    tl.store(row + PART_MEAN, total)
    tl.store(row + PART_OTHERS, others)
    tl.atomic_max(reals + BATCH_LARGEST, largest, mask=largest > 0.0, sem="relaxed")
    tl.atomic_min(wholes + BATCH_FAULT, fault, mask=fault < NO_FAULT, sem="relaxed")
    return slot


# ---- second launch: items, and all numbers


@triton.jit
def visit(
    board, n, groups, count, reals, wholes, starts, areas, places, group_of, scores, visits, levels,
    seen, losses_of, sums_of, indices, probabilities, losses, size, table, counts, sums, slot, bits,
    parts, chosen, HEIGHT: tl.constexpr, GROUP_HEIGHT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Learn from the losses of this program, and clear its part of the table.

    The last position of an item in the batch speaks for all. `chosen` receives the places whose
    weights are to be written, -1 elsewhere.
    """
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    fine = tl.load(wholes + BATCH_FAULT) == NO_FAULT
    inside = own < tl.where(fine, size, 0)
    item = tl.load(indices + own, mask=inside, other=0)
    place = tl.load(places + item, mask=inside, other=0)
    group = tl.load(group_of + place, mask=inside, other=0).to(tl.int64)
    score = tl.load(scores + place, mask=inside, other=1.0)
    visited = tl.load(visits + place, mask=inside, other=0).to(tl.float64)
    leading = is_last(table, slot, own)
    times = tl.load(counts + slot, mask=leading, other=1).to(tl.float64)
    total = tl.load(sums + slot, mask=leading, other=0)
    tl.debug_barrier()  # threads that share a slot or an item have all read it
    zero = tl.zeros((TILE,), tl.int64)
    tl.store(table + slot, zero, mask=leading)
    tl.store(counts + slot, zero, mask=leading)
    tl.store(sums + slot, zero, mask=leading)
    leading = leading & inside

    chance = tl.load(probabilities + own, mask=inside, other=1.0)
    loss = tl.load(losses + own, mask=inside, other=0.0).to(tl.float64)
    square = squares_of(loss, unit_for(reals, losses, size))
    level = tl.load(reals + MEAN_SQUARE)
    known, kappa, before = reference(levels, seen, group, inside, level)
    in_group = tl.load(losses_of + group, mask=inside, other=0)
    of_group = tl.load(sums_of + group, mask=inside, other=0)
    kappa = kappa_after(known, kappa, before, level, in_group, of_group, bits)
    members = tl.load(starts + group + 1, mask=inside, other=1)
    members -= tl.load(starts + group, mask=inside, other=0)
    area = tl.load(areas + group, mask=inside, other=1).to(tl.float64)
    root = area / (UNSEEN * members.to(tl.float64))
    typical = kappa * root * root
    moves = leading & (typical > 0.0)
    mean = score * (total.to(tl.float64) * grain_of(known, bits)) / times
    window = 1.0 + tl.minimum(visited + times, tl.maximum(MEMORY, times))
    moved = score + (mean / tl.where(moves, typical, 1.0) - score) * times / window
    tl.store(scores + place, tl.maximum(moved, SMALLEST_SCORE), mask=moves)
    visited = tl.minimum(visited + times, MEMORY)
    tl.store(visits + place, visited.to(tl.uint8), mask=moves)
    tl.store(chosen + own, tl.where(moves, place, -1), mask=own < size)

    candidate = group_probability(
        board, n, groups, count, starts, areas, place, group, inside, HEIGHT, GROUP_HEIGHT
    )
    items = n.to(tl.float64)
    guard_uniform = tl.where(inside, square / (items * chance), 0.0)
    guard_ours = guard_uniform / (items * candidate)
    ours, uniform, u = tally(n, reals, tl.load(wholes + FED), inside, chance, loss)
    none = tl.zeros((TILE,), tl.float64)
    surprise = tl.where(inside, -tl.log(chance), 0.0)
    found = tl.reduce(
        (none, none, guard_ours, guard_uniform, ours, uniform, ours * ours, uniform * uniform,
         ours * uniform, u, u * u, surprise, u), 0, add_all,
    )  # fmt: skip
    row = parts + tl.program_id(0) * PARTS
    for which in tl.static_range(12):
        tl.store(row + PART_GAP + which, found[which])
    tl.atomic_max(reals + LARGEST_IMPORTANCE, found[12], mask=found[12] > 0.0, sem="relaxed")


@triton.jit
def settle(groups, reals, wholes, indices, probabilities, losses, size, parts, programs):
    """Move all numbers on, or record the fault."""
    fault = tl.load(wholes + BATCH_FAULT)
    if fault == NO_FAULT:
        fed = tl.load(wholes + FED)
        if programs > 1:
            add_up(parts, programs)
        unit = unit_for(reals, losses, size)
        settle_gauge(reals, fed, size, parts)
        ours = tl.load(reals + GUARD_OURS) + tl.load(parts + PART_GUARD_OURS)
        uniform = tl.load(reals + GUARD_UNIFORM) + tl.load(parts + PART_GUARD_UNIFORM)
        before, count = fed.to(tl.float64), tl.cast(size, tl.float64)
        rest = before * (before + 1.0) / ((before + count) * (before + count + 1.0))
        level, mean = tl.load(reals + MEAN_SQUARE), tl.load(parts + PART_MEAN) / count
        moved = level + (1.0 - rest) * (mean - level)
        scale = tl.load(reals + SCALE)
        grown = tl.where(moved > 0.0, moved, 1.0) / tl.where(level > 0.0, level, 1.0)
        off = exponent_near(total_of(groups).to(tl.float64) * tl.sqrt(grown)) - GROUP_BITS
        off = tl.where((off > GROUP_SLACK) | (off < -GROUP_SLACK), off, 0)
        tl.debug_barrier()  # all threads have read them
        tl.store(reals + UNIT, unit)
        tl.store(reals + GUARD_OURS, ours)
        tl.store(reals + GUARD_UNIFORM, uniform)
        tl.store(reals + LEVEL_BEFORE, level)
        tl.store(reals + MEAN_SQUARE, moved)
        tl.store(reals + SCALE, scale * power_of_two(-off))
        tl.store(wholes + FED, fed + size)
    else:
        record_trouble(reals, wholes, indices, probabilities, losses, fault)
    tl.debug_barrier()
    tl.store(wholes + ACCEPTED, tl.where(fault == NO_FAULT, 1, 0).to(tl.int64))
    tl.store(wholes + BATCH_FAULT, tl.full((), NO_FAULT, tl.int64))
    tl.store(reals + BATCH_LARGEST, tl.full((), 0.0, tl.float64))


# ---- launches


@triton.jit(do_not_specialize=["n", "size", "bits"])
def group_enter_kernel(
    n, reals, wholes, places, group_of, scores, levels, seen, losses_of, sums_of, indices,
    probabilities, losses, size, table, counts, sums, slots, bits, parts, TILE: tl.constexpr,
    DOUBLE: tl.constexpr,
):  # fmt: skip
    """The first launch for a large batch."""
    slot = enter(
        tl.cast(n, tl.int64), reals, wholes, places, group_of, scores, levels, seen, losses_of,
        sums_of, indices, probabilities, losses, size, table, counts, sums, tl.cast(bits, tl.int64),
        parts, TILE,
    )  # fmt: skip
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(slots + own, slot, mask=own < size)


@triton.jit(do_not_specialize=["n", "count", "size", "bits", "programs"])
def group_visit_kernel(
    board, n, groups, count, reals, wholes, starts, areas, places, group_of, scores, visits, levels,
    seen, losses_of, sums_of, indices, probabilities, losses, size, table, counts, sums, slots,
    bits, parts, chosen, programs, HEIGHT: tl.constexpr, GROUP_HEIGHT: tl.constexpr,
    TILE: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    """The second launch for a large batch."""
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    slot = tl.load(slots + own, mask=own < size, other=-1)
    visit(
        board, tl.cast(n, tl.int64), groups, tl.cast(count, tl.int64), reals, wholes, starts, areas,
        places, group_of, scores, visits, levels, seen, losses_of, sums_of, indices, probabilities,
        losses, size, table, counts, sums, slot, tl.cast(bits, tl.int64), parts, chosen, HEIGHT,
        GROUP_HEIGHT, TILE,
    )  # fmt: skip
    if finish(board):
        settle(groups, reals, wholes, indices, probabilities, losses, size, parts, programs)


@triton.jit(do_not_specialize=["n", "count", "size", "bits", "programs"])
def group_learn_kernel(
    board, n, groups, count, reals, wholes, starts, areas, places, group_of, scores, visits, levels,
    seen, losses_of, sums_of, indices, probabilities, losses, size, table, counts, sums, slots,
    bits, parts, chosen, programs, HEIGHT: tl.constexpr, GROUP_HEIGHT: tl.constexpr,
    TILE: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    """Both, for a small batch: one program does it all."""
    n, bits = tl.cast(n, tl.int64), tl.cast(bits, tl.int64)
    slot = enter(
        n, reals, wholes, places, group_of, scores, levels, seen, losses_of, sums_of, indices,
        probabilities, losses, size, table, counts, sums, bits, parts, TILE,
    )  # fmt: skip
    tl.debug_barrier()
    visit(
        board, n, groups, tl.cast(count, tl.int64), reals, wholes, starts, areas, places, group_of,
        scores, visits, levels, seen, losses_of, sums_of, indices, probabilities, losses, size,
        table, counts, sums, slot, bits, parts, chosen, HEIGHT, GROUP_HEIGHT, TILE,
    )  # fmt: skip
    tl.debug_barrier()
    settle(groups, reals, wholes, indices, probabilities, losses, size, parts, programs)


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
        most = (tl.cast(LARGEST_TOTAL, tl.int64) // count).to(tl.float64)
        weight = tl.maximum(tl.minimum(scaled, most).to(tl.int64), 1)
        leaf = groups + start_of(count, 0, GROUP_HEIGHT) + group
        old = tl.load(leaf, mask=inside, other=0)
        tl.debug_barrier()
        tl.store(leaf, weight, mask=inside)
        add_row(groups, count, row, tl.sum(tl.where(inside, weight - old, 0), 0), GROUP_HEIGHT)
