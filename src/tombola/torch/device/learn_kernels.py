"""Triton kernels for the updates of `VRB` and `GroupVRB`, from a whole batch at once.

**Items**: the rule of `tombola.samplers.default_rule`. With B losses l, of items drawn with
probability p, after u others, and z = l^2 / (n p):

    w = max(1 / (u + B), 1 / max(n, B))
    m <- (1 - B w) m + w sum of min(z, (1 + 1/w) m),   or of z while m is 0

Each l^2 counts as at most 8 n times the m that it alone would lead to. For each item with c losses
in the batch, of mean square x:

    h <- h + (x - h) c / min(V + c, max(32, c)),   V <- V + c

and D moves by the distance between x and h before. For B = 1 this is the rule of the host.

**Groups**: the rule of `tombola.samplers.group_rule`. Squared losses count relative to h of their
item: r = l^2 / h. With b losses in group c, of mean r, after s others:

    kappa_c moves towards r by 1 - (s + 1)(s + 2) / ((s + b + 1)(s + b + 2))
    the level of all groups (kept as m) likewise by 1 - u (u + 1) / ((u + B)(u + B + 1))

A group without losses before starts from the level. For each item with k losses in the batch, of
mean square x, and its group's level L = kappa_c (A_c / (2^20 n_c))^2:

    h <- max(1/16, h + (x / L - h) k / (1 + min(V + k, max(15, k)))),   V <- min(V + k, 15)

For steady losses this is the rule of the host. Each r counts as at most 2^24 kappa_c.

**Launches.** Losses of the same item are counted and their squares summed, as whole numbers, which
are the same in any order. A small batch has one program, `learn_kernel`, which compares all pairs
of its items, and writes the weights of `VRB` as well. A large one has a table of items: `enter`
fills it; `visit` moves h and V, and its last program all numbers. The weights follow in
`tombola.torch.device.weigh_kernels`. With GROUPED a kernel is that of `GroupVRB`; without, those of
its arguments that are about groups are not read.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.index import real
from tombola.samplers import default_rule, group_rule, weighted
from tombola.torch.device import layout
from tombola.torch.device.draw_kernels import (
    group_probability,
    power_of_two,
    quotient,
    total_of,
    uniform_weight,
)
from tombola.torch.device.kernels import find_slots, finish, is_last
from tombola.torch.device.layout import Real, Trouble, Whole
from tombola.torch.device.weigh_kernels import (
    ACCEPTED,
    CURSOR,
    CUT,
    DISAGREEMENT,
    FIRST_ROOT,
    LEVEL_BEFORE,
    MEAN_SQUARE,
    ROOM,
    ROOMY_BITS,
    SCALE,
    UNSEEN,
    WHOLE_BITS,
    exponent_near,
    kappa_after,
    read,
    rebuild,
    reference,
    relative_grain,
    weigh,
)

__all__ = ["enter_kernel", "learn_kernel", "visit_kernel"]

MIXING = tl.constexpr(Real.MIXING)
UNIT = tl.constexpr(Real.UNIT)
COMPARED = tl.constexpr(Real.COMPARED)
GUARD_OURS = tl.constexpr(Real.GUARD_OURS)
GUARD_UNIFORM = tl.constexpr(Real.GUARD_UNIFORM)
OURS = tl.constexpr(Real.OURS)
OURS_SPREAD = tl.constexpr(Real.OURS_SPREAD)
UNIFORM = tl.constexpr(Real.UNIFORM)
UNIFORM_SPREAD = tl.constexpr(Real.UNIFORM_SPREAD)
CROSS_SPREAD = tl.constexpr(Real.CROSS_SPREAD)
IMPORTANCE = tl.constexpr(Real.IMPORTANCE)
IMPORTANCE_SQUARED = tl.constexpr(Real.IMPORTANCE_SQUARED)
SURPRISE = tl.constexpr(Real.SURPRISE)
LARGEST_LOSS = tl.constexpr(Real.LARGEST_LOSS)
LARGEST_IMPORTANCE = tl.constexpr(Real.LARGEST_IMPORTANCE)
BAD_VALUE = tl.constexpr(Real.BAD_VALUE)
BATCH_LARGEST = tl.constexpr(Real.BATCH_LARGEST)
FED = tl.constexpr(Whole.FED)
TROUBLE = tl.constexpr(Whole.TROUBLE)
WHERE = tl.constexpr(Whole.WHERE)
BATCH_FAULT = tl.constexpr(Whole.BATCH_FAULT)
PARTS = tl.constexpr(layout.PARTS)
SUMS = tl.constexpr(12)  # of `visit`
BAD_INDEX = tl.constexpr(Trouble.INDEX)
BAD_PROBABILITY = tl.constexpr(Trouble.PROBABILITY)
BAD_LOSS = tl.constexpr(Trouble.LOSS)
KINDS = tl.constexpr(Trouble.KINDS)

LAST = tl.constexpr(default_rule.LAST)
CLIP = tl.constexpr(default_rule.CLIP)
FAINT = tl.constexpr(2.0**-700)  # a smaller m counts as 0: only a run of zeros leads there
LARGEST = tl.constexpr(2.0**250)  # the cap on losses, relative to the first
FIRST_LARGEST = tl.constexpr(2.0**20)  # the same, squared, for duplicates in the first batch
SMALLEST = tl.constexpr(2.0**-200)  # of probabilities, as for a `tombola.Draw`
MOST_IMPORTANCE = tl.constexpr(2.0**200)  # in the gauge: keeps its fourth power finite
HIGH = tl.constexpr(real.HIGH)
LOW = tl.constexpr(real.LOW)
SMALL = tl.constexpr(weighted.SMALL)
LIMIT = tl.constexpr(layout.LIMIT)
NO_FAULT = tl.constexpr(layout.NO_FAULT)
INFINITY = tl.constexpr(float("inf"))
ROWS = tl.constexpr(64)  # programs at a time, in sums over all
BLOCK = tl.constexpr(1024)  # losses at a time, if one program reads them all
SPAN = tl.constexpr(2.0**24)  # r counts as at most this times what its group had before
MEMORY = tl.constexpr(float(group_rule.MEMORY))
SMALLEST_SCORE = tl.constexpr(group_rule.SMALLEST)
GROUP_BITS = tl.constexpr(int(real.TARGET).bit_length() - 1)  # of the total of groups ...
GROUP_SLACK = tl.constexpr(5)  # ... within this many bits


# ---- faults


@triton.jit
def faults_of(n, position, item, chance, loss):
    """Return position * KINDS + kind if something is out of range, else NO_FAULT."""
    kind = tl.where((loss >= 0.0) & (loss < INFINITY), 0, BAD_LOSS)
    kind = tl.where((chance >= SMALLEST) & (chance <= 1.0), kind, BAD_PROBABILITY)
    kind = tl.where((item >= 0) & (item < n), kind, BAD_INDEX)
    return tl.where(kind > 0, position.to(tl.int64) * KINDS + kind, NO_FAULT)


@triton.jit
def record_trouble(reals, wholes, indices, probabilities, losses, fault):
    """Keep the first fault until the host asks for it."""
    if tl.load(wholes + TROUBLE) == 0:
        where, kind = fault // KINDS, fault % KINDS
        value = tl.load(losses + where).to(tl.float64)
        if kind == BAD_INDEX:
            value = tl.load(indices + where).to(tl.float64)
        if kind == BAD_PROBABILITY:
            value = tl.load(probabilities + where)
        tl.debug_barrier()  # all threads have read it
        tl.store(reals + BAD_VALUE, value)
        tl.store(wholes + WHERE, where)
        tl.store(wholes + TROUBLE, kind)


# ---- numbers before a batch, all read before anything that waits for others


@triton.jit
def rule_of(reals, wholes):
    """Return the numbers that all programs learn by."""
    return (
        tl.load(wholes + FED), tl.load(wholes + CURSOR), tl.load(reals + UNIT),
        tl.load(reals + MEAN_SQUARE), tl.load(reals + MIXING), tl.load(reals + DISAGREEMENT),
        tl.load(reals + LARGEST_LOSS), tl.load(reals + OURS), tl.load(reals + UNIFORM),
    )  # fmt: skip


@triton.jit
def numbers_of(reals, wholes):
    """Return the numbers that only the last program needs."""
    return (
        tl.load(wholes + CUT), tl.load(reals + SCALE), tl.load(reals + FIRST_ROOT),
        tl.load(reals + COMPARED), tl.load(reals + GUARD_OURS), tl.load(reals + GUARD_UNIFORM),
        tl.load(reals + OURS_SPREAD), tl.load(reals + UNIFORM_SPREAD),
        tl.load(reals + CROSS_SPREAD), tl.load(reals + IMPORTANCE),
        tl.load(reals + IMPORTANCE_SQUARED), tl.load(reals + SURPRISE),
    )  # fmt: skip


# ---- numbers of a batch


@triton.jit
def unit_for(unit, losses, size):
    """Return the unit of losses: a power of two near the inverse of the first one above 0."""
    begin = tl.cast(0, tl.int32)
    while (unit == 0.0) & (begin < size):
        position = begin + tl.arange(0, BLOCK)
        loss = tl.load(losses + position, mask=position < size, other=0.0).to(tl.float64)
        first = tl.min(tl.where(loss > 0.0, position, size), 0)
        if first < size:
            unit = power_of_two(-exponent_near(tl.load(losses + first).to(tl.float64)))
        begin += BLOCK
    return unit


@triton.jit
def share_of(fed, n, size):
    """Return w, and 1 - B w."""
    count, before = tl.cast(size, tl.float64), fed.to(tl.float64)
    window = tl.minimum(before + count, tl.maximum(n.to(tl.float64), count))
    young = before + count <= window
    part = tl.where(young, before, count) / window
    return 1.0 / window, tl.where(young, part, 1.0 - part)


@triton.jit
def squares_of(loss, unit):
    """Return squared losses in the unit of the sampler."""
    root = tl.minimum(loss * unit, LARGEST)
    return root * root


@triton.jit
def clipped(square, chance, n, mean, fed):
    """Return l^2 / (n p), and l^2, at most 8 n times the m that it alone would lead to."""
    count = n.to(tl.float64)
    new = square / (count * chance)
    share = 1.0 / tl.minimum(fed.to(tl.float64) + 1.0, count)
    moved = (1.0 - share) * mean + share * new
    moved = tl.where(mean > 0.0, tl.minimum(moved, 2.0 * mean), moved)
    return new, tl.minimum(square, CLIP * count * moved)


@triton.jit
def grain_of(n, mean, bits):
    """Return the unit of whole numbers that squares are added as: a batch of them fits 62 bits.

    A batch has at most 2^(bits - 3) losses. Squares are at most 16 n m.
    """
    most = tl.where(mean > 0.0, 2.0 * CLIP * n.to(tl.float64) * mean, FIRST_LARGEST)
    return power_of_two(exponent_near(most) - WHOLE_BITS + bits - ROOMY_BITS)


# ---- the items of a batch


@triton.jit
def batch_of(indices, probabilities, losses, size, own):
    """Return items, probabilities and losses of positions, and which of them there are."""
    inside = own < size
    item = tl.load(indices + own, mask=inside, other=0)
    chance = tl.load(probabilities + own, mask=inside, other=1.0)
    return item, chance, tl.load(losses + own, mask=inside, other=0.0).to(tl.float64), inside


@triton.jit
def look(
    n, size, own, item, chance, loss, place, score, inside, unit, fed, mean, group_of, levels, seen,
    losses_of, sums_of, bits, TILE: tl.constexpr, GROUPED: tl.constexpr,
):  # fmt: skip
    """Look for faults, and compute the sums for m and for groups.

    Returns which items are valid, their squares as whole numbers, the sums for m, the largest
    loss, and the first fault.
    """
    faults = faults_of(n, own, item, chance, loss)
    valid = inside & (faults == NO_FAULT)
    square = squares_of(loss, unit)
    if GROUPED:
        group = tl.load(group_of + place, mask=valid, other=0).to(tl.int64)
        known, _, _ = reference(levels, seen, group, valid, mean)
        counted = tl.minimum(square / score, known * SPAN)
        grains = tl.where(valid, counted / relative_grain(known, bits), 0.0).to(tl.int64)
        one = tl.full((TILE,), 1, tl.int64)
        tl.atomic_add(losses_of + group, one, mask=valid, sem="relaxed")
        tl.atomic_add(sums_of + group, grains, mask=valid, sem="relaxed")
        others = tl.zeros((TILE,), tl.float64)
    else:
        new, square = clipped(square, chance, n, mean, fed)
        grains = tl.minimum(
            square / grain_of(n, mean, bits), power_of_two(-bits + WHOLE_BITS + ROOMY_BITS)
        )
        grains = tl.where(valid, grains, 0.0).to(tl.int64)
        share, _ = share_of(fed, n, size)
        counted = tl.where(mean > 0.0, tl.minimum(new, (1.0 + 1.0 / share) * mean), new)
        others = tl.where(valid & (new != mean), 1.0, 0.0)
    total, others, largest, fault = tl.reduce(
        (tl.where(valid, counted, 0.0), others, tl.where(valid, loss, 0.0), faults), 0, join_looked
    )
    return valid, grains, total, others, largest, fault


@triton.jit
def join_looked(total, others, largest, fault, a, b, c, d):
    """Return sums, the largest loss, and the first fault."""
    return total + a, others + b, tl.maximum(largest, c), tl.minimum(fault, d)


@triton.jit
def pairs(item, valid, grains, TILE: tl.constexpr):
    """Return which positions are the last of their item, its number of losses, and their sum."""
    lane = tl.arange(0, TILE)
    key = tl.where(valid, item, -1 - lane)
    word = key.to(tl.int32)  # of most batches, no two items have the same low half
    leading, times, total = valid, tl.full((TILE,), 1, tl.int32), grains
    if tl.sum(tl.sum((word[:, None] == word[None, :]).to(tl.int32), 0), 0) > TILE:
        later = lane[:, None] > lane[None, :]
        found = tl.sum(tl.where(key[:, None] == key[None, :], tl.where(later, 65537, 1), 0), 0)
        leading, times = valid & (found < 65536), found & 65535
        if tl.max(times, 0) > 1:
            total = tl.sum(tl.where(key[:, None] == key[None, :], grains[:, None], 0), 0)
    return leading, times, total


@triton.jit(do_not_specialize=["n", "size", "bits"])
def enter_kernel(
    n, reals, wholes, scores, places, group_of, levels, seen, losses_of, sums_of, indices,
    probabilities, losses, size, table, counts, sums, slots, bits, parts, TILE: tl.constexpr,
    DOUBLE: tl.constexpr, GROUPED: tl.constexpr,
):  # fmt: skip
    """The first launch for a large batch: the table.

    DOUBLE says whether losses are float64: each type of losses has compiled code of its own.
    """
    n, bits = tl.cast(n, tl.int64), tl.cast(bits, tl.int64)
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    item, chance, loss, inside = batch_of(indices, probabilities, losses, size, own)
    fed, mean = tl.load(wholes + FED), tl.load(reals + MEAN_SQUARE)
    known = inside & (item >= 0) & (item < n)
    place, score = item, loss
    if GROUPED:
        place = tl.load(places + item, mask=known, other=0)
        score = tl.load(scores + place, mask=known, other=1.0)
    unit = unit_for(tl.load(reals + UNIT), losses, size)
    valid, grains, total, others, largest, fault = look(
        n, size, own, item, chance, loss, place, score, inside, unit, fed, mean, group_of, levels,
        seen, losses_of, sums_of, bits, TILE, GROUPED,
    )  # fmt: skip
    row = parts + tl.program_id(0) * PARTS
    tl.store(row, total)
    tl.store(row + 1, others)
    tl.atomic_max(reals + BATCH_LARGEST, largest, mask=largest > 0.0, sem="relaxed")
    tl.atomic_min(wholes + BATCH_FAULT, fault, mask=fault < NO_FAULT, sem="relaxed")
    slot = find_slots(table, item, own.to(tl.int64), valid, bits)
    tl.atomic_add(counts + slot, tl.full((TILE,), 1, tl.int64), mask=slot >= 0, sem="relaxed")
    tl.atomic_add(sums + slot, grains, mask=slot >= 0, sem="relaxed")
    tl.store(slots + own, slot, mask=inside)


# ---- items and groups


@triton.jit
def add_all(
    a, b, c, d, e, f, g, h, i, j, k, m, n,
    aa, bb, cc, dd, ee, ff, gg, hh, ii, jj, kk, mm, nn,
):  # fmt: skip
    """Return twelve sums, and the larger one of the last numbers."""
    return (
        a + aa, b + bb, c + cc, d + dd, e + ee, f + ff, g + gg, h + hh, i + ii, j + jj, k + kk,
        m + mm, tl.maximum(n, nn),
    )  # fmt: skip


@triton.jit
def visit_items(scores, visits, item, average, visited, leading, square, times, disagreement):
    """Move h and V; return them, by how much D is exceeded, and the number of losses compared."""
    window = tl.minimum(visited + times, tl.maximum(LAST, times))
    moved = average + (square - average) * times / window
    count = (visited + times).to(tl.float32)
    tl.store(scores + item, moved, mask=leading)
    tl.store(visits + item, count, mask=leading)
    both = square + average
    compared = leading & (visited > 0.0) & (both > 0.0)
    distance = 1.0 - 2.0 * tl.sqrt(square * average) / tl.where(compared, both, 1.0)
    gap = tl.where(compared, times * (distance - disagreement), 0.0)
    return moved, count.to(tl.float64), gap, tl.where(compared, times, 0.0)


@triton.jit
def judge(n, mixing, total, weight, known, square, chance):
    """Return the guard's second moments, with the adaptive probabilities before the batch.

    `known` are the last positions of items that had a loss before it, `square` their sums.
    """
    count = n.to(tl.float64)
    total, spread = uniform_weight(mixing, total, n)
    weight = tl.where(total > 0, weight, 0)
    candidate = (weight + spread).to(tl.float64) / (total + n * spread).to(tl.float64)
    uniform = tl.where(known, square / (count * chance), 0.0)
    return uniform / (count * candidate), uniform


@triton.jit
def tally(n, fed, old_largest, largest, ours_sum, uniform_sum, inside, chance, loss):
    """Return l^2 u^2 and l^2 u less their means before the batch, and u, for the gauge."""
    most = tl.maximum(old_largest, largest)
    ratio = old_largest / tl.where(most > 0.0, most, 1.0)
    count = tl.maximum(fed, 1).to(tl.float64)
    relative = loss / tl.where(most > 0.0, most, 1.0)
    u = tl.minimum(1.0 / (n.to(tl.float64) * chance), MOST_IMPORTANCE)
    uniform = relative * relative * u
    ours = uniform * u - ours_sum * (ratio * ratio) / count
    uniform -= uniform_sum * (ratio * ratio) / count
    return tl.where(inside, ours, 0.0), tl.where(inside, uniform, 0.0), tl.where(inside, u, 0.0)


@triton.jit
def visit_members(scores, visits, place, score, visited, moves, square, times, typical):
    """Move h, relative to what is typical of the group, and V; of items with `times` losses."""
    window = 1.0 + tl.minimum(visited + times, tl.maximum(MEMORY, times))
    moved = score + (square / tl.where(moves, typical, 1.0) - score) * times / window
    tl.store(scores + place, tl.maximum(moved, SMALLEST_SCORE), mask=moves)
    tl.store(visits + place, tl.minimum(visited + times, MEMORY).to(tl.uint8), mask=moves)


@triton.jit
def visit(
    board, n, groups, count, reals, rule, scores, visits, starts, areas, group_of, levels, seen,
    losses_of, sums_of, own, item, place, chance, loss, known, score, visited, weight, taken, unit,
    area, largest, leading, times, total, bits, HEIGHT: tl.constexpr, GROUP_HEIGHT: tl.constexpr,
    GROUPED: tl.constexpr,
):  # fmt: skip
    """Learn from the losses of this program at the first `taken` positions of the batch.

    The last position of an item in the batch, `leading`, speaks for all its `times` losses. Returns
    the places whose weights are to be written, -1 elsewhere, with h and V of items, and the sums
    that `settle` takes.
    """
    fed, _, _, mean, mixing, disagreement, old_largest, ours_sum, uniform_sum = rule
    learnt = known & (own < taken)
    leading = leading & learnt
    square = squares_of(loss, unit)
    if GROUPED:
        group = tl.load(group_of + place, mask=known, other=0).to(tl.int64)
        before, kappa, past = reference(levels, seen, group, known, mean)
        in_group = tl.load(losses_of + group, mask=known, other=0)
        of_group = tl.load(sums_of + group, mask=known, other=0)
        members = tl.load(starts + group + 1, mask=known, other=1)
        members -= tl.load(starts + group, mask=known, other=0)
        members_area = tl.load(areas + group, mask=known, other=1).to(tl.float64)
        candidate = group_probability(
            board, n, groups, count, starts, areas, place, group, known, HEIGHT, GROUP_HEIGHT
        )
        kappa = kappa_after(before, kappa, past, mean, in_group, of_group, bits)
        root = members_area / (UNSEEN * members.to(tl.float64))
        typical = kappa * root * root
        moves = leading & (typical > 0.0)
        new = score * (total.to(tl.float64) * relative_grain(before, bits)) / times
        visit_members(scores, visits, place, score, visited, moves, new, times, typical)
        chosen = tl.where(moves, place, -1)
        items = n.to(tl.float64)
        guard_uniform = tl.where(learnt, square / (items * chance), 0.0)
        guard_ours = guard_uniform / (items * candidate)
        gap, compared = tl.zeros_like(square), tl.zeros_like(square)
        moved, visited = score, visited
    else:
        _, square = clipped(square, chance, n, mean, fed)
        new = tl.where(times == 1.0, square, total.to(tl.float64) * grain_of(n, mean, bits) / times)
        judged = leading & (visited > 0.0)
        guard_ours, guard_uniform = judge(n, mixing, area, weight, judged, times * new, chance)
        moved, visited, gap, compared = visit_items(
            scores, visits, item, score, visited, leading, new, times, disagreement
        )
        chosen = tl.where(leading, item, -1)
    ours, uniform, u = tally(
        n, fed, old_largest, largest, ours_sum, uniform_sum, learnt, chance, loss
    )
    surprise = tl.where(learnt, -tl.log(chance), 0.0)
    found = tl.reduce(
        (gap, compared, guard_ours, guard_uniform, ours, uniform, ours * ours, uniform * uniform,
         ours * uniform, u, u * u, surprise, u), 0, add_all,
    )  # fmt: skip
    most = found[SUMS]
    tl.atomic_max(reals + LARGEST_IMPORTANCE, most, mask=most > 0.0, sem="relaxed")
    return chosen, moved, visited, found[:SUMS]


@triton.jit
def outside_sweep(chosen, cursor, n, size):
    """Return the chosen items without those whose weight the sweep writes; -1 for these."""
    away = chosen - cursor
    away = tl.where(away < 0, away + n, away)
    swept = away < 2 * size
    return tl.where(swept == 0, chosen, -1)


# ---- the last program: numbers


@triton.jit
def add_up(parts, programs):
    """Add up the rows of all programs: the sum for m, how many losses differ from m, and others."""
    columns = tl.arange(0, PARTS)
    found = tl.zeros((ROWS, PARTS), tl.float64)
    for begin in range(0, programs, ROWS):
        row = begin + tl.arange(0, ROWS)
        at = parts + row[:, None] * PARTS + columns[None, :]
        found += tl.load(at, mask=(row < programs)[:, None], other=0.0)
    sums = tl.sum(found, 0)
    tl.debug_barrier()  # all threads have read the first row
    tl.store(parts + columns, sums)
    tl.debug_barrier()
    at = parts + 2
    return tl.load(parts), tl.load(parts + 1), (
        tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4),
        tl.load(at + 5), tl.load(at + 6), tl.load(at + 7), tl.load(at + 8), tl.load(at + 9),
        tl.load(at + 10), tl.load(at + 11),
    )  # fmt: skip


@triton.jit
def settle(
    board, n, groups, reals, wholes, rule, numbers, learnt, others, sums, scores, visits, indices,
    probabilities, losses, size, unit, fault, largest, total, room, HEIGHT: tl.constexpr,
    GROUPED: tl.constexpr,
):  # fmt: skip
    """Move all numbers on by the sums of the batch, or record the fault.

    Returns how many losses weights are to follow, and m, D, the root, the scale and the room.
    """
    fed, cursor, old_unit, mean, _, disagreement, old_largest, ours_start, uniform_start = rule
    (cut, scale, root, past, guard_ours, guard_uniform, ours_spread, uniform_spread, cross_spread,
     importance, squared, surprise) = numbers  # fmt: skip
    taken = size
    if fault == NO_FAULT:
        (gap, compared, more_ours, more_uniform, ours, uniform, ours_squared, uniform_squared,
         cross, more_importance, more_squared, more_surprise) = sums  # fmt: skip
        tl.debug_barrier()  # all threads have read all numbers
        largest = tl.maximum(old_largest, largest)
        ratio = old_largest / tl.where(largest > 0.0, largest, 1.0)

        # the gauge: sums, and squared distances from the mean (Welford's, for a batch)
        square, fourth = ratio * ratio, ratio * ratio * ratio * ratio
        before, count = fed.to(tl.float64), tl.cast(size, tl.float64)
        grown, after = count / tl.maximum(before, 1.0), before + count
        ours_start, uniform_start = ours_start * square, uniform_start * square
        spread = tl.maximum(ours_squared - ours * ours / after, 0.0)
        tl.store(reals + OURS_SPREAD, ours_spread * fourth + spread)
        spread = tl.maximum(uniform_squared - uniform * uniform / after, 0.0)
        tl.store(reals + UNIFORM_SPREAD, uniform_spread * fourth + spread)
        tl.store(reals + CROSS_SPREAD, cross_spread * fourth + (cross - ours * uniform / after))
        tl.store(reals + OURS, ours_start + (ours + ours_start * grown))
        tl.store(reals + UNIFORM, uniform_start + (uniform + uniform_start * grown))
        tl.store(reals + IMPORTANCE, importance + more_importance)
        tl.store(reals + IMPORTANCE_SQUARED, squared + more_squared)
        tl.store(reals + SURPRISE, surprise + more_surprise)
        tl.store(reals + LARGEST_LOSS, largest)
        tl.store(reals + GUARD_OURS, guard_ours + more_ours)
        tl.store(reals + GUARD_UNIFORM, guard_uniform + more_uniform)
        tl.store(reals + UNIT, unit)
        tl.store(wholes + FED, fed + size)
        if GROUPED:
            rest = before * (before + 1.0) / (after * (after + 1.0))
            moved = mean + (1.0 - rest) * (learnt / count - mean)
            grown = tl.where(moved > 0.0, moved, 1.0) / tl.where(mean > 0.0, mean, 1.0)
            off = exponent_near(total.to(tl.float64) * tl.sqrt(grown)) - GROUP_BITS
            off = tl.where((off > GROUP_SLACK) | (off < -GROUP_SLACK), off, 0)
            tl.store(reals + LEVEL_BEFORE, mean)
            tl.store(reals + SCALE, scale * power_of_two(-off))
            tl.store(reals + MEAN_SQUARE, moved)
        else:
            share, rest = share_of(fed, n, size)
            mean = tl.where(others > 0.0, rest * mean + share * learnt, mean)
            mean = tl.where(mean < FAINT, 0.0, mean)
            root = tl.where((old_unit == 0.0) & (unit > 0.0), tl.sqrt(mean), root)
            window = tl.maximum(n.to(tl.float64), compared)
            disagreement += 1.0 / tl.minimum(past + compared + 1.0, window) * gap
            tl.store(reals + MEAN_SQUARE, mean)
            tl.store(reals + FIRST_ROOT, root)
            tl.store(reals + COMPARED, past + compared)
            tl.store(reals + DISAGREEMENT, disagreement)
            rebuilt, scale, room = rescale(
                board, n, reals, wholes, scores, visits, mean, disagreement, root, scale, total,
                cut, cursor, size, room, HEIGHT,
            )  # fmt: skip
            taken = tl.where(rebuilt > 0, 0, size)
    else:
        record_trouble(reals, wholes, indices, probabilities, losses, fault)
        taken = 0 * size
    tl.debug_barrier()
    tl.store(wholes + ACCEPTED, tl.where(fault == NO_FAULT, 1, 0).to(tl.int64))
    tl.store(wholes + BATCH_FAULT, tl.full((), NO_FAULT, tl.int64))
    tl.store(reals + BATCH_LARGEST, tl.full((), 0.0, tl.float64))
    return taken, mean, disagreement, root, scale, room


@triton.jit
def room_of(total, n, size):
    """Return the largest weight that the batch may write: the total stays below the limit."""
    return (-total + LIMIT) // tl.minimum(n, 3 * tl.cast(size, tl.int64))


@triton.jit
def rescale(
    board, n, reals, wholes, scores, visits, mean, disagreement, root, scale, total, cut, cursor,
    size, room, HEIGHT: tl.constexpr,
):  # fmt: skip
    """Move the sweep on; change the scale if weights are out of range.

    Returns 1 if all weights were computed, which then need no more, the scale and the room.
    """
    rebuilt = tl.cast(0, tl.int32)
    above = (total > HIGH) | (cut > 0)
    if above | (total < LOW * n):
        if n <= SMALL:
            rebuild(board, n, reals, scores, visits, mean, disagreement, root, HEIGHT)
            room, rebuilt = room_of(tl.maximum(total, total_of(board)), n, size), rebuilt + 1
        elif cursor + 2 * size >= n:  # once in a pass of the sweep, which then does the rest
            scale *= tl.where(above, 0.5, 2.0)
            tl.store(reals + SCALE, scale)
    further = cursor + 2 * size
    tl.store(wholes + CURSOR, further - n * quotient(further, n))
    tl.store(wholes + CUT, tl.cast(0, tl.int64))
    tl.store(wholes + ROOM, room)
    return rebuilt, scale, room


# ---- launches


@triton.jit(do_not_specialize=["n", "count", "size", "bits", "programs"])
def visit_kernel(
    board, n, groups, count, reals, wholes, scores, visits, starts, areas, places, group_of, levels,
    seen, losses_of, sums_of, indices, probabilities, losses, size, table, counts, sums, slots,
    bits, parts, chosen, programs, HEIGHT: tl.constexpr, GROUP_HEIGHT: tl.constexpr,
    TILE: tl.constexpr, DOUBLE: tl.constexpr, GROUPED: tl.constexpr,
):  # fmt: skip
    """The second launch for a large batch: h, V and all numbers; clears the table."""
    n, bits = tl.cast(n, tl.int64), tl.cast(bits, tl.int64)
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    slot = tl.load(slots + own, mask=own < size, other=-1)
    fault, largest = tl.load(wholes + BATCH_FAULT), tl.load(reals + BATCH_LARGEST)
    item, chance, loss, inside = batch_of(indices, probabilities, losses, size, own)
    rule = rule_of(reals, wholes)
    cursor, unit = rule[1], rule[2]
    known = inside & (item >= 0) & (item < n)
    times = tl.load(counts + slot, mask=slot >= 0, other=1)
    total = tl.load(sums + slot, mask=slot >= 0, other=0)
    leading = is_last(table, slot, own)
    place = item
    if GROUPED:
        place = tl.load(places + item, mask=known, other=0)
    area = total_of(groups if GROUPED else board)
    score, visited, weight = read(board, n, scores, visits, place, known, HEIGHT)
    room = room_of(area, n, size)  # a division that takes as long as these reads
    unit, numbers = unit_for(unit, losses, size), numbers_of(reals, wholes)
    tl.debug_barrier()  # threads that share a slot or an item have all read it
    zero = tl.zeros((TILE,), tl.int64)
    tl.store(table + slot, zero, mask=leading)
    tl.store(counts + slot, zero, mask=leading)
    tl.store(sums + slot, zero, mask=leading)
    times = tl.where(leading, times, 1).to(tl.float64)
    score = tl.where(known, score, 1.0)
    found, _, _, own_sums = visit(
        board, n, groups, tl.cast(count, tl.int64), reals, rule, scores, visits, starts, areas,
        group_of, levels, seen, losses_of, sums_of, own, item, place, chance, loss, known, score,
        visited, weight, tl.where(fault == NO_FAULT, size, 0), unit, area, largest, leading, times,
        total, bits, HEIGHT, GROUP_HEIGHT, GROUPED,
    )  # fmt: skip
    row = parts + tl.program_id(0) * PARTS + 2
    for which in tl.static_range(SUMS):
        tl.store(row + which, own_sums[which])
    if not GROUPED:
        found = outside_sweep(found, cursor, n, size)
    tl.store(chosen + own, found, mask=inside)
    if finish(board, "acq_rel"):
        learnt, others, all_sums = add_up(parts, programs)
        settle(
            board, n, groups, reals, wholes, rule, numbers, learnt, others, all_sums, scores,
            visits, indices, probabilities, losses, size, unit, fault, largest, area, room, HEIGHT,
            GROUPED,
        )  # fmt: skip


@triton.jit(do_not_specialize=["n", "count", "size", "bits"])
def learn_kernel(
    board, n, groups, count, reals, wholes, scores, visits, starts, areas, places, group_of, levels,
    seen, losses_of, sums_of, indices, probabilities, losses, size, bits, parts, chosen,
    HEIGHT: tl.constexpr, GROUP_HEIGHT: tl.constexpr, TILE: tl.constexpr, DOUBLE: tl.constexpr,
    GROUPED: tl.constexpr,
):  # fmt: skip
    """All of it for a small batch, in one program; with items, their weights as well."""
    n, bits = tl.cast(n, tl.int64), tl.cast(bits, tl.int64)
    own = tl.arange(0, TILE)
    item, chance, loss, inside = batch_of(indices, probabilities, losses, size, own)
    rule = rule_of(reals, wholes)
    fed, cursor, unit, mean = rule[:4]
    known = inside & (item >= 0) & (item < n)
    place = item
    if GROUPED:
        place = tl.load(places + item, mask=known, other=0)
    area = total_of(groups if GROUPED else board)
    score, visited, weight = read(board, n, scores, visits, place, known, HEIGHT)
    away = tl.arange(0, 2 * TILE)
    swept = tl.where(cursor + away < n, cursor + away, cursor + away - n)
    near = (away < 2 * size) & (away < n)
    if not GROUPED:
        swept_average, swept_visits, old = read(board, n, scores, visits, swept, near, HEIGHT)
    room = room_of(area, n, size)  # a division that takes as long as these reads
    score = tl.where(known, score, 1.0)
    unit = unit_for(unit, losses, size)
    valid, grains, learnt, others, largest, fault = look(
        n, size, own, item, chance, loss, place, score, inside, unit, fed, mean, group_of,
        levels, seen, losses_of, sums_of, bits, TILE, GROUPED,
    )  # fmt: skip
    leading, times, total = pairs(item, valid, grains, TILE)
    numbers = numbers_of(reals, wholes)
    tl.debug_barrier()
    found, average, visited, sums = visit(
        board, n, groups, tl.cast(count, tl.int64), reals, rule, scores, visits, starts, areas,
        group_of, levels, seen, losses_of, sums_of, own, item, place, chance, loss, known, score,
        visited, weight, tl.where(fault == NO_FAULT, size, 0), unit, area, largest, leading,
        times.to(tl.float64), total, bits, HEIGHT, GROUP_HEIGHT, GROUPED,
    )  # fmt: skip
    if GROUPED:
        tl.store(chosen + own, found, mask=inside)
        tl.debug_barrier()
    else:
        drawn = found
        found = outside_sweep(drawn, cursor, n, size)
        if tl.max((found != drawn).to(tl.int32), 0) > 0:  # the batch has moved h and V of the sweep
            tl.debug_barrier()
            swept_average, swept_visits, _ = read(board, n, scores, visits, swept, near, HEIGHT)
    taken, mean, disagreement, root, scale, room = settle(
        board, n, groups, reals, wholes, rule, numbers, learnt, others, sums, scores, visits,
        indices, probabilities, losses, size, unit, fault, largest, area, room, HEIGHT, GROUPED,
    )  # fmt: skip
    if not GROUPED:
        weigh(
            board, n, wholes, found, average, visited, weight, (found >= 0) & (own < taken), mean,
            disagreement, root, scale, room, HEIGHT, False,
        )  # fmt: skip
        weigh(
            board, n, wholes, swept, swept_average, swept_visits, old, near & (away < 2 * taken),
            mean, disagreement, root, scale, room, HEIGHT, False,
        )  # fmt: skip
