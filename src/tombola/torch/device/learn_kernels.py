"""Triton kernels of what `VRB` learns from a batch: the rule of `tombola.samplers.default_rule`.

A batch is learnt from at once. With B losses l, of items drawn with probability p, after u others,
and z = l^2 / (n p):

    w = max(1 / (u + B), 1 / max(n, B))
    m <- (1 - B w) m + w sum of min(z, (1 + 1/w) m),   or of z while m is 0

Each l^2 counts as at most 8 n times the m that it alone would lead to. For each item with c losses
in the batch, of mean square x:

    h <- h + (x - h) c / min(V + c, max(32, c)),   V <- V + c

and D moves by the distance between x and h before. For B = 1 this is the rule of the host.

Two launches: `enter` puts the items of the batch into a table, with the number of their losses and
the sum of their squares as whole numbers, which are the same in any order; `visit` moves h and V,
and its last program all numbers. A small batch has one program, and one launch. The weights follow
in `tombola.torch.device.weigh_kernels`.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.index import real
from tombola.samplers import default_rule, weighted
from tombola.torch.device import layout
from tombola.torch.device.kernels import (
    find_slots,
    finish,
    is_last,
    start_of,
)
from tombola.torch.device.vrb_kernels import power_of_two, total_of, uniform_weight
from tombola.torch.device.vrb_layout import Part, Real, Trouble, Whole
from tombola.torch.device.weigh_kernels import exponent_near, rebuild

__all__ = ["enter_kernel", "learn_kernel", "visit_kernel"]

MIXING = tl.constexpr(Real.MIXING)
UNIT = tl.constexpr(Real.UNIT)
MEAN_SQUARE = tl.constexpr(Real.MEAN_SQUARE)
DISAGREEMENT = tl.constexpr(Real.DISAGREEMENT)
COMPARED = tl.constexpr(Real.COMPARED)
FIRST_ROOT = tl.constexpr(Real.FIRST_ROOT)
SCALE = tl.constexpr(Real.SCALE)
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
CURSOR = tl.constexpr(Whole.CURSOR)
TROUBLE = tl.constexpr(Whole.TROUBLE)
WHERE = tl.constexpr(Whole.WHERE)
BATCH_FAULT = tl.constexpr(Whole.BATCH_FAULT)
ACCEPTED = tl.constexpr(Whole.ACCEPTED)
ROOM = tl.constexpr(Whole.ROOM)
CUT = tl.constexpr(Whole.CUT)
PART_MEAN = tl.constexpr(Part.MEAN)
PART_OTHERS = tl.constexpr(Part.OTHERS)
PART_GAP = tl.constexpr(Part.GAP)
PART_COMPARED = tl.constexpr(Part.COMPARED)
PART_GUARD_OURS = tl.constexpr(Part.GUARD_OURS)
PART_GUARD_UNIFORM = tl.constexpr(Part.GUARD_UNIFORM)
PART_OURS = tl.constexpr(Part.OURS)
PART_UNIFORM = tl.constexpr(Part.UNIFORM)
PART_OURS_SQUARED = tl.constexpr(Part.OURS_SQUARED)
PART_UNIFORM_SQUARED = tl.constexpr(Part.UNIFORM_SQUARED)
PART_CROSS = tl.constexpr(Part.CROSS)
PART_IMPORTANCE = tl.constexpr(Part.IMPORTANCE)
PART_IMPORTANCE_SQUARED = tl.constexpr(Part.IMPORTANCE_SQUARED)
PART_SURPRISE = tl.constexpr(Part.SURPRISE)
PARTS = tl.constexpr(Part.SIZE)
BAD_INDEX = tl.constexpr(Trouble.INDEX)
BAD_PROBABILITY = tl.constexpr(Trouble.PROBABILITY)
BAD_LOSS = tl.constexpr(Trouble.LOSS)
KINDS = tl.constexpr(Trouble.KINDS)

LAST = tl.constexpr(default_rule.LAST)
CLIP = tl.constexpr(default_rule.CLIP)
FAINT = tl.constexpr(2.0**-700)  # a smaller m counts as 0: only a run of zeros leads there
LARGEST = tl.constexpr(2.0**250)  # what a loss counts as at most, relative to the first
FIRST_LARGEST = tl.constexpr(2.0**20)  # the same, squared, for duplicates in the first batch
SMALLEST = tl.constexpr(2.0**-200)  # of probabilities, as for a `tombola.Draw`
MOST_IMPORTANCE = tl.constexpr(2.0**200)  # in the gauge: keeps its fourth power finite
WHOLE_BITS = tl.constexpr(62)  # of a sum of squares as a whole number
ROOMY_BITS = tl.constexpr(layout.ROOMY_BITS)
HIGH = tl.constexpr(real.HIGH)
LOW = tl.constexpr(real.LOW)
SMALL = tl.constexpr(weighted.SMALL)
LIMIT = tl.constexpr(layout.LIMIT)
NO_FAULT = tl.constexpr(layout.NO_FAULT)
INFINITY = tl.constexpr(float("inf"))
ROWS = tl.constexpr(64)  # programs at a time, in sums over all
BLOCK = tl.constexpr(1024)  # losses at a time, where one program looks at all


# ---- faults


@triton.jit
def faults_of(n, position, item, chance, loss):
    """Return position * KINDS + kind where something is out of range, else NO_FAULT."""
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


# ---- numbers of a batch


@triton.jit
def unit_for(reals, losses, size):
    """Return the unit of losses: a power of two near the inverse of the first one above 0."""
    unit = tl.load(reals + UNIT)
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
    window = tl.maximum(n.to(tl.float64), count)
    share = tl.maximum(1.0 / (before + count), 1.0 / window)
    rest = tl.where(before + count <= window, before / (before + count), 1.0 - count / window)
    return share, rest


@triton.jit
def squares_of(loss, chance, n, unit, mean, fed):
    """Return l^2 / (n p), and l^2, at most 8 n times the m that it alone would lead to."""
    count = n.to(tl.float64)
    root = tl.minimum(loss * unit, LARGEST)
    square = root * root
    new = square / (count * chance)
    share = tl.maximum(1.0 / (fed.to(tl.float64) + 1.0), 1.0 / count)
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


# ---- first launch: the table


@triton.jit
def enter(
    n, reals, wholes, indices, probabilities, losses, size, table, counts, sums, bits, parts,
    TILE: tl.constexpr,
):  # fmt: skip
    """Look for faults, and put the items of this program into the table; return their slots."""
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = own < size
    item = tl.load(indices + own, mask=inside, other=0)
    chance = tl.load(probabilities + own, mask=inside, other=1.0)
    loss = tl.load(losses + own, mask=inside, other=0.0).to(tl.float64)
    fed, mean = tl.load(wholes + FED), tl.load(reals + MEAN_SQUARE)
    faults = faults_of(n, own, item, chance, loss)
    valid = inside & (faults == NO_FAULT)
    slot = find_slots(table, item, own.to(tl.int64), valid, bits)
    new, square = squares_of(loss, chance, n, unit_for(reals, losses, size), mean, fed)
    grains = tl.minimum(
        square / grain_of(n, mean, bits), power_of_two(-bits + WHOLE_BITS + ROOMY_BITS)
    )
    grains = tl.where(valid, grains, 0.0).to(tl.int64)
    tl.atomic_add(counts + slot, tl.full((TILE,), 1, tl.int64), mask=slot >= 0, sem="relaxed")
    tl.atomic_add(sums + slot, grains, mask=slot >= 0, sem="relaxed")
    share, _ = share_of(fed, n, size)
    capped = tl.where(mean > 0.0, tl.minimum(new, (1.0 + 1.0 / share) * mean), new)
    others = tl.where(valid & (new != mean), 1.0, 0.0)
    total, others, largest, fault = tl.reduce(
        (tl.where(valid, capped, 0.0), others, tl.where(valid, loss, 0.0), faults), 0, join_entered
    )
    row = parts + tl.program_id(0) * PARTS
    tl.store(row + PART_MEAN, total)
    tl.store(row + PART_OTHERS, others)
    tl.atomic_max(reals + BATCH_LARGEST, largest, mask=largest > 0.0, sem="relaxed")
    tl.atomic_min(wholes + BATCH_FAULT, fault, mask=fault < NO_FAULT, sem="relaxed")
    return slot


@triton.jit
def join_entered(total, others, largest, fault, a, b, c, d):
    """Return sums, the largest loss, and the first fault."""
    return total + a, others + b, tl.maximum(largest, c), tl.minimum(fault, d)


@triton.jit(do_not_specialize=["n", "size", "bits"])
def enter_kernel(
    n, reals, wholes, indices, probabilities, losses, size, table, counts, sums, slots, bits, parts,
    TILE: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    """The first launch for a large batch.

    DOUBLE says whether losses are float64: what is compiled for one type serves no other.
    """
    slot = enter(
        tl.cast(n, tl.int64), reals, wholes, indices, probabilities, losses, size, table, counts,
        sums, tl.cast(bits, tl.int64), parts, TILE,
    )  # fmt: skip
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(slots + own, slot, mask=own < size)


# ---- second launch: items


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
    """Move h and V; return by how much D is exceeded, and the number of losses compared."""
    window = tl.minimum(visited + times, tl.maximum(LAST, times))
    tl.store(scores + item, average + (square - average) * times / window, mask=leading)
    tl.store(visits + item, (visited + times).to(tl.float32), mask=leading)
    both = square + average
    compared = leading & (visited > 0.0) & (both > 0.0)
    distance = 1.0 - 2.0 * tl.sqrt(square * average) / tl.where(compared, both, 1.0)
    gap = tl.where(compared, times * (distance - disagreement), 0.0)
    return gap, tl.where(compared, times, 0.0)


@triton.jit
def judge(board, n, reals, item, known, square, chance, HEIGHT: tl.constexpr):
    """Return the guard's second moments, with the adaptive probabilities before the batch.

    `known` are the last positions of items that had a loss before it, `square` their sums.
    """
    count = n.to(tl.float64)
    total, spread = uniform_weight(tl.load(reals + MIXING), total_of(board), n)
    weight = tl.load(board + start_of(n, 0, HEIGHT) + item, mask=known, other=0)
    weight = tl.where(total > 0, weight, 0)
    candidate = (weight + spread).to(tl.float64) / (total + n * spread).to(tl.float64)
    uniform = tl.where(known, square / (count * chance), 0.0)
    return uniform / (count * candidate), uniform


@triton.jit
def ratio_of(reals):
    """Return the largest loss so far, this batch included, and the one before relative to it."""
    old = tl.load(reals + LARGEST_LOSS)
    largest = tl.maximum(old, tl.load(reals + BATCH_LARGEST))
    return largest, old / tl.where(largest > 0.0, largest, 1.0)


@triton.jit
def tally(n, reals, fed, inside, chance, loss):
    """Return l^2 u^2 and l^2 u less their means before the batch, and u, for the gauge."""
    largest, ratio = ratio_of(reals)
    count = tl.maximum(fed, 1).to(tl.float64)
    relative = loss / tl.where(largest > 0.0, largest, 1.0)
    u = tl.minimum(1.0 / (n.to(tl.float64) * chance), MOST_IMPORTANCE)
    uniform = relative * relative * u
    ours = uniform * u - tl.load(reals + OURS) * (ratio * ratio) / count
    uniform -= tl.load(reals + UNIFORM) * (ratio * ratio) / count
    return tl.where(inside, ours, 0.0), tl.where(inside, uniform, 0.0), tl.where(inside, u, 0.0)


@triton.jit
def visit(
    board, n, reals, wholes, scores, visits, indices, probabilities, losses, size, table, counts,
    sums, slot, bits, parts, chosen, HEIGHT: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Learn from the losses of this program, and clear its part of the table.

    The last position of an item in the batch speaks for all. Where the batch has a fault, nothing
    is learnt. `chosen` receives the items whose weights are to be written, -1 elsewhere.
    """
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    fine = tl.load(wholes + BATCH_FAULT) == NO_FAULT
    inside = own < tl.where(fine, size, 0)
    item = tl.load(indices + own, mask=inside, other=0)
    average = tl.load(scores + item, mask=inside, other=0.0)
    visited = tl.load(visits + item, mask=inside, other=0.0).to(tl.float64)
    leading = is_last(table, slot, own)
    times = tl.load(counts + slot, mask=leading, other=1).to(tl.float64)
    total = tl.load(sums + slot, mask=leading, other=0).to(tl.float64)
    tl.debug_barrier()  # threads that share a slot or an item have all read it
    zero = tl.zeros((TILE,), tl.int64)
    tl.store(table + slot, zero, mask=leading)
    tl.store(counts + slot, zero, mask=leading)
    tl.store(sums + slot, zero, mask=leading)
    leading = leading & inside

    chance = tl.load(probabilities + own, mask=inside, other=1.0)
    loss = tl.load(losses + own, mask=inside, other=0.0).to(tl.float64)
    fed, mean = tl.load(wholes + FED), tl.load(reals + MEAN_SQUARE)
    _, square = squares_of(loss, chance, n, unit_for(reals, losses, size), mean, fed)
    new = tl.where(times == 1.0, square, total * grain_of(n, mean, bits) / times)
    gap, compared = visit_items(
        scores, visits, item, average, visited, leading, new, times, tl.load(reals + DISAGREEMENT)
    )
    known = leading & (visited > 0.0)
    guard_ours, guard_uniform = judge(board, n, reals, item, known, times * new, chance, HEIGHT)
    ours, uniform, u = tally(n, reals, fed, inside, chance, loss)
    surprise = tl.where(inside, -tl.log(chance), 0.0)
    found = tl.reduce(
        (gap, compared, guard_ours, guard_uniform, ours, uniform, ours * ours, uniform * uniform,
         ours * uniform, u, u * u, surprise, u), 0, add_all,
    )  # fmt: skip
    row = parts + tl.program_id(0) * PARTS
    for which in tl.static_range(12):
        tl.store(row + PART_GAP + which, found[which])
    tl.atomic_max(reals + LARGEST_IMPORTANCE, found[12], mask=found[12] > 0.0, sem="relaxed")
    away = item - tl.load(wholes + CURSOR)
    away = tl.where(away < 0, away + n, away)
    swept = away < 2 * size  # the sweep writes its weight
    tl.store(chosen + own, tl.where(leading & (swept == 0), item, -1), mask=own < size)


# ---- its last program: numbers


@triton.jit
def add_up(parts, programs):
    """Add up the sums of all programs, in the row of the first one."""
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


@triton.jit
def settle_gauge(reals, fed, size, sums):
    """Move the gauge on: sums, and squared distances from the mean (Welford's, for a batch)."""
    largest, ratio = ratio_of(reals)
    square, fourth = ratio * ratio, ratio * ratio * ratio * ratio
    before, count = fed.to(tl.float64), tl.cast(size, tl.float64)
    ours, uniform = tl.load(sums + PART_OURS), tl.load(sums + PART_UNIFORM)
    grown, after = count / tl.maximum(before, 1.0), before + count
    ours_start, uniform_start = tl.load(reals + OURS) * square, tl.load(reals + UNIFORM) * square
    spread = tl.maximum(tl.load(sums + PART_OURS_SQUARED) - ours * ours / after, 0.0)
    ours_spread = tl.load(reals + OURS_SPREAD) * fourth + spread
    spread = tl.maximum(tl.load(sums + PART_UNIFORM_SQUARED) - uniform * uniform / after, 0.0)
    uniform_spread = tl.load(reals + UNIFORM_SPREAD) * fourth + spread
    spread = tl.load(sums + PART_CROSS) - ours * uniform / after
    cross_spread = tl.load(reals + CROSS_SPREAD) * fourth + spread
    importance = tl.load(reals + IMPORTANCE) + tl.load(sums + PART_IMPORTANCE)
    squared = tl.load(reals + IMPORTANCE_SQUARED) + tl.load(sums + PART_IMPORTANCE_SQUARED)
    surprise = tl.load(reals + SURPRISE) + tl.load(sums + PART_SURPRISE)
    tl.debug_barrier()  # all threads have read them
    tl.store(reals + OURS, ours_start + (ours + ours_start * grown))
    tl.store(reals + UNIFORM, uniform_start + (uniform + uniform_start * grown))
    tl.store(reals + OURS_SPREAD, ours_spread)
    tl.store(reals + UNIFORM_SPREAD, uniform_spread)
    tl.store(reals + CROSS_SPREAD, cross_spread)
    tl.store(reals + IMPORTANCE, importance)
    tl.store(reals + IMPORTANCE_SQUARED, squared)
    tl.store(reals + SURPRISE, surprise)
    tl.store(reals + LARGEST_LOSS, largest)


@triton.jit
def settle_rule(n, reals, fed, size, unit, sums):
    """Move m, D and the guard on; return m, D and the root that values are relative to."""
    mean, old_unit = tl.load(reals + MEAN_SQUARE), tl.load(reals + UNIT)
    before, start = tl.load(reals + COMPARED), tl.load(reals + DISAGREEMENT)
    root = tl.load(reals + FIRST_ROOT)
    ours = tl.load(reals + GUARD_OURS) + tl.load(sums + PART_GUARD_OURS)
    uniform = tl.load(reals + GUARD_UNIFORM) + tl.load(sums + PART_GUARD_UNIFORM)
    share, rest = share_of(fed, n, size)
    moved = rest * mean + share * tl.load(sums + PART_MEAN)
    mean = tl.where(tl.load(sums + PART_OTHERS) > 0.0, moved, mean)
    mean = tl.where(mean < FAINT, 0.0, mean)
    root = tl.where((old_unit == 0.0) & (unit > 0.0), tl.sqrt(mean), root)
    compared = tl.load(sums + PART_COMPARED)
    window = tl.maximum(n.to(tl.float64), compared)
    share = tl.maximum(1.0 / (before + compared + 1.0), 1.0 / window)
    disagreement = start + share * tl.load(sums + PART_GAP)
    tl.debug_barrier()  # all threads have read them
    tl.store(reals + UNIT, unit)
    tl.store(reals + MEAN_SQUARE, mean)
    tl.store(reals + FIRST_ROOT, root)
    tl.store(reals + COMPARED, before + compared)
    tl.store(reals + DISAGREEMENT, disagreement)
    tl.store(reals + GUARD_OURS, ours)
    tl.store(reals + GUARD_UNIFORM, uniform)
    return mean, disagreement, root


@triton.jit
def settle(
    board, n, reals, wholes, scores, visits, indices, probabilities, losses, size, parts, programs,
    HEIGHT: tl.constexpr,
):  # fmt: skip
    """Move all numbers on, or record the fault; change the scale where weights are out of range."""
    fault = tl.load(wholes + BATCH_FAULT)
    if fault == NO_FAULT:
        fed, cursor = tl.load(wholes + FED), tl.load(wholes + CURSOR)
        if programs > 1:
            add_up(parts, programs)
        unit = unit_for(reals, losses, size)
        settle_gauge(reals, fed, size, parts)
        mean, disagreement, root = settle_rule(n, reals, fed, size, unit, parts)
        total, cut = total_of(board), tl.load(wholes + CUT)
        above = (total > HIGH) | (cut > 0)
        tl.debug_barrier()
        if above | (total < LOW * n):
            if n <= SMALL:
                rebuild(board, n, reals, scores, visits, mean, disagreement, root, HEIGHT)
            elif cursor + 2 * size >= n:  # once in a pass of the sweep, which then does the rest
                scale = tl.load(reals + SCALE) * tl.where(above, 0.5, 2.0)
                tl.debug_barrier()
                tl.store(reals + SCALE, scale)
        tl.store(wholes + CURSOR, (cursor + 2 * size) % n)
        tl.store(wholes + FED, fed + size)
        tl.store(wholes + CUT, tl.cast(0, tl.int64))
        written = tl.minimum(n, 3 * tl.cast(size, tl.int64))
        spare = -tl.maximum(total, total_of(board)) + LIMIT
        tl.store(wholes + ROOM, spare // written)
    else:
        record_trouble(reals, wholes, indices, probabilities, losses, fault)
    tl.debug_barrier()
    tl.store(wholes + ACCEPTED, tl.where(fault == NO_FAULT, 1, 0).to(tl.int64))
    tl.store(wholes + BATCH_FAULT, tl.full((), NO_FAULT, tl.int64))
    tl.store(reals + BATCH_LARGEST, tl.full((), 0.0, tl.float64))


@triton.jit(do_not_specialize=["n", "size", "bits", "programs"])
def visit_kernel(
    board, n, reals, wholes, scores, visits, indices, probabilities, losses, size, table, counts,
    sums, slots, bits, parts, chosen, programs, HEIGHT: tl.constexpr, TILE: tl.constexpr,
    DOUBLE: tl.constexpr,
):  # fmt: skip
    """The second launch for a large batch."""
    n, bits = tl.cast(n, tl.int64), tl.cast(bits, tl.int64)
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    slot = tl.load(slots + own, mask=own < size, other=-1)
    visit(
        board, n, reals, wholes, scores, visits, indices, probabilities, losses, size, table,
        counts, sums, slot, bits, parts, chosen, HEIGHT, TILE,
    )  # fmt: skip
    if finish(board):
        settle(
            board, n, reals, wholes, scores, visits, indices, probabilities, losses, size, parts,
            programs, HEIGHT,
        )  # fmt: skip


@triton.jit(do_not_specialize=["n", "size", "bits", "programs"])
def learn_kernel(
    board, n, reals, wholes, scores, visits, indices, probabilities, losses, size, table, counts,
    sums, slots, bits, parts, chosen, programs, HEIGHT: tl.constexpr, TILE: tl.constexpr,
    DOUBLE: tl.constexpr,
):  # fmt: skip
    """The only launch for a small batch: one program does it all."""
    n, bits = tl.cast(n, tl.int64), tl.cast(bits, tl.int64)
    slot = enter(
        n, reals, wholes, indices, probabilities, losses, size, table, counts, sums, bits, parts,
        TILE,
    )  # fmt: skip
    tl.debug_barrier()
    visit(
        board, n, reals, wholes, scores, visits, indices, probabilities, losses, size, table,
        counts, sums, slot, bits, parts, chosen, HEIGHT, TILE,
    )  # fmt: skip
    tl.debug_barrier()
    settle(
        board, n, reals, wholes, scores, visits, indices, probabilities, losses, size, parts,
        programs, HEIGHT,
    )  # fmt: skip
