"""Triton kernels of the board: draw, set and add, in integers only.

`tombola.torch.device.layout` describes the board. Every kernel is bounded, reads and writes within
its tensors whatever these hold, and leaves the same bytes whatever order its programs run in.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.torch.device import layout
from tombola.torch.device.layout import Cell, Fault

__all__ = ["add_kernel", "apply_kernel", "draw_kernel", "insert_kernel", "set_kernel"]

BITS = tl.constexpr(layout.BITS)
FAN_BITS = tl.constexpr(layout.FAN_BITS)
WIDTH = tl.constexpr(layout.WIDTH)
FAN = tl.constexpr(layout.FAN)
CELLS = tl.constexpr(layout.CELLS)
POSITION_BITS = tl.constexpr(layout.POSITION_BITS)
POSITION_MASK = tl.constexpr((1 << layout.POSITION_BITS) - 1)
NO_FAULT = tl.constexpr(layout.NO_FAULT)

KEY = tl.constexpr(Cell.KEY)
POSITION = tl.constexpr(Cell.POSITION)
KIND = tl.constexpr(Cell.KIND)
WHERE = tl.constexpr(Cell.WHERE)
VALUE = tl.constexpr(Cell.VALUE)
TICKET = tl.constexpr(Cell.TICKET)

INDEX = tl.constexpr(Fault.INDEX)
WEIGHT = tl.constexpr(Fault.WEIGHT)
AMOUNT = tl.constexpr(Fault.AMOUNT)
RANGE = tl.constexpr(Fault.RANGE)
CROWDED = tl.constexpr(Fault.CROWDED)
EMPTY = tl.constexpr(Fault.EMPTY)
UNLUCKY = tl.constexpr(Fault.UNLUCKY)
KINDS = tl.constexpr(Fault.KINDS)

GOLDEN = tl.constexpr(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads items over slots
PROGRAMS = tl.constexpr(512)  # faults of programs that are read at a time


# ---- the board


@triton.jit
def rows_of(n, level: tl.constexpr):
    """Return the number of rows of a level: n / (128 * 32^level), rounded up."""
    return ((n - 1) >> (BITS + FAN_BITS * level)) + 1


@triton.jit
def start_of(n, level: tl.constexpr, HEIGHT: tl.constexpr):
    """Return where a level begins: after the cells and all levels above it."""
    start = tl.cast(CELLS, tl.int64)
    for above in tl.static_range(level + 1, HEIGHT + 1):
        start += rows_of(n, above) * FAN
    return start


@triton.jit
def pick(sums, rest):
    """Find where `rest` lands among sums: the k with s_0 + .. + s_(k-1) <= rest < .. + s_k.

    Returns k, and the remainder, which is below s_k.
    """
    ends = tl.cumsum(sums, 1)
    passed = ends <= rest[:, None]
    place = tl.minimum(tl.sum(passed.to(tl.int32), 1), sums.shape[1] - 1)
    return place, rest - tl.max(tl.where(passed, ends, 0), 1)


@triton.jit
def pick_leaf(leaves, row, rest, GROUPS: tl.constexpr):
    """Find where `rest` lands in a row of leaves, at once or by way of the sums of GROUPS groups.

    Groups take a second read of a part of the row, and fewer instructions.
    """
    first = leaves + row * WIDTH
    if GROUPS == 1:
        place, rest = pick(tl.load(first[:, None] + tl.arange(0, WIDTH)[None, :]), rest)
    else:
        group, inner = tl.arange(0, GROUPS) * (WIDTH // GROUPS), tl.arange(0, WIDTH // GROUPS)
        sums = tl.sum(tl.load(first[:, None, None] + (group[:, None] + inner[None, :])[None]), 2)
        chosen, rest = pick(sums, rest)
        start = chosen * (WIDTH // GROUPS)
        place, rest = pick(tl.load((first + start)[:, None] + inner[None, :]), rest)
        place += start
    return place


@triton.jit
def descend(board, n, dart, HEIGHT: tl.constexpr, GROUPS: tl.constexpr):
    """Return the item that each dart in [0, total) lands on: item i has weights[i] of them."""
    row = tl.zeros_like(dart)
    for down in tl.static_range(HEIGHT):
        first = board + start_of(n, HEIGHT - down, HEIGHT) + row * FAN
        column, dart = pick(tl.load(first[:, None] + tl.arange(0, FAN)[None, :]), dart)
        row = tl.minimum(row * FAN + column, rows_of(n, HEIGHT - down - 1) - 1)
    leaf = pick_leaf(board + start_of(n, 0, HEIGHT), row, dart, GROUPS)
    return tl.minimum(row * WIDTH + leaf, n - 1)


@triton.jit
def add_to_top(board, entry, delta):
    """Add to sums of the top row: first up within the program, then one addition for each sum.

    Many changes fall on few sums, and additions to one address wait for each other.
    """
    column = tl.arange(0, FAN)
    change = tl.sum(tl.where(entry[:, None] == column[None, :], delta[:, None], 0), 0)
    tl.atomic_add(board + CELLS + column, change, mask=change != 0, sem="relaxed")


@triton.jit
def replace(board, n, item, new, chosen, HEIGHT: tl.constexpr, GATHER: tl.constexpr):
    """Write the new weights of the chosen items, all different, and add the changes to all sums.

    Integer additions: the sums do not depend on their order.
    """
    old = tl.load(board + start_of(n, 0, HEIGHT) + item, mask=chosen, other=0)
    change(board, n, item, old, new, chosen, HEIGHT, GATHER)


@triton.jit
def change(board, n, item, old, new, chosen, HEIGHT: tl.constexpr, GATHER: tl.constexpr):
    """Like `replace`, with the old weights given."""
    tl.debug_barrier()  # threads that share an item have all read it
    tl.store(board + start_of(n, 0, HEIGHT) + item, new, mask=chosen)
    delta = tl.where(chosen, new - old, 0)
    for level in tl.static_range(1, HEIGHT + 1):
        entry = item >> (BITS + FAN_BITS * (level - 1))
        if level == HEIGHT and GATHER:
            add_to_top(board, entry, delta)
        else:
            sums = board + start_of(n, level, HEIGHT) + entry
            tl.atomic_add(sums, delta, mask=delta != 0, sem="relaxed")


# ---- faults, and the end of a launch


@triton.jit
def record(board, kind, where, value):
    """Keep the first fault until the host asks for it."""
    if tl.load(board + KIND) == 0:
        tl.store(board + KIND, tl.cast(kind, tl.int64))
        tl.store(board + WHERE, tl.cast(where, tl.int64))
        tl.store(board + VALUE, tl.cast(value, tl.int64))


@triton.jit
def record_batch(board, fault, indices, values):
    """Record the first fault of a batch, `fault` = position * KINDS + kind, and the value there."""
    where, kind = fault // KINDS, fault % KINDS
    if (kind == INDEX) | (kind == RANGE):
        record(board, kind, where, tl.load(indices + where))
    else:
        record(board, kind, where, tl.load(values + where))


@triton.jit
def finish(board, sem: tl.constexpr):
    """Return whether all other programs of this launch are done; start the count again if so.

    With "acq_rel" the last program sees what the others have written. "relaxed" is faster: the
    others have used what they have read, and the last one may write there.
    """
    tl.debug_barrier()
    done = tl.atomic_add(board + TICKET, 1, sem=sem)
    last = done == tl.num_programs(0) - 1
    if last:
        tl.store(board + TICKET, tl.cast(0, tl.int64))
    return last


@triton.jit
def faults_of(position, item, value, n, least, most, kind: tl.constexpr):
    """Return position * KINDS + kind if an item or a value is out of range, else NO_FAULT."""
    fault = tl.where((value < least) | (value > most), kind, 0)
    fault = tl.where((item < 0) | (item >= n), INDEX, fault)
    return tl.where(fault > 0, position.to(tl.int64) * KINDS + fault, NO_FAULT)


@triton.jit
def first_of(faults, programs):
    """Return the first fault of a launch, from those of its programs."""
    least = tl.full((PROGRAMS,), NO_FAULT, tl.int64)
    for first in range(0, programs, PROGRAMS):
        program = first + tl.arange(0, PROGRAMS)
        fault = tl.load(faults + program, mask=program < programs, other=NO_FAULT)
        least = tl.minimum(least, fault)
    return tl.min(least, 0)


# ---- draws


@triton.jit
def random_word(key, position, lane, attempt):
    """Return 64 random bits: Philox 4x32-10 of a key and the counter (position, lane, attempt)."""
    low, high, _, _ = tl.philox(
        key, position.to(tl.uint32), (position >> 32).to(tl.uint32), lane.to(tl.uint32), attempt
    )
    return low.to(tl.uint64) | (high.to(tl.uint64) << 32)


@triton.jit
def random_below(key, position, lane, total, ATTEMPTS: tl.constexpr):
    """Return an integer in [0, total) for each lane, and the number of lanes without one.

    Lemire 2019: the high half of word * total, unless the low half is below 2^64 mod total. A low
    half that is not below total is above it: then no division is needed. Of the words, less than
    total / 2^64 <= 1/4 are rejected.
    """
    bound = total.to(tl.uint64)
    attempt = tl.full((), 0, tl.uint32)
    word = random_word(key, position, lane, attempt)
    dart = tl.umulhi(word, bound)
    rest = word * bound
    left = tl.sum((rest < bound).to(tl.int32), 0)
    if left > 0:
        rejected = (0 - bound) % bound
        pending = rest < rejected
        left = tl.sum(pending.to(tl.int32), 0)
        while (left > 0) & (attempt < ATTEMPTS - 1):
            attempt += 1
            word = random_word(key, position, lane, attempt)
            dart = tl.where(pending, tl.umulhi(word, bound), dart)
            pending = pending & (word * bound < rejected)
            left = tl.sum(pending.to(tl.int32), 0)
    return dart.to(tl.int64), left


@triton.jit(do_not_specialize=["n", "size", "room"])
def draw_kernel(
    board, n, out, size, room, HEIGHT: tl.constexpr, TILE: tl.constexpr, GROUPS: tl.constexpr,
    ATTEMPTS: tl.constexpr = 64,
):  # fmt: skip
    """Draw `size` items: out[j] = i with probability weights[i] / total.

    From `room` on are the weights of the items drawn, and at 2 `room` the total. A total of zero
    gives items -1. The last program to finish advances the position of the stream.
    """
    n = tl.cast(n, tl.int64)
    lane = tl.program_id(0) * TILE + tl.arange(0, TILE)
    key = tl.load(board + KEY)
    position = tl.load(board + POSITION)
    total = tl.sum(tl.load(board + CELLS + tl.arange(0, FAN)), 0)
    dart, unlucky = random_below(key, position, lane, total, ATTEMPTS)
    item = descend(board, n, dart, HEIGHT, GROUPS)
    weight = tl.load(board + start_of(n, 0, HEIGHT) + item)
    tl.store(out + lane, tl.where(total > 0, item, -1), mask=lane < size)
    tl.store(out + room + lane, weight, mask=lane < size)
    if unlucky > 0:
        record(board, UNLUCKY, position, 0)
    if finish(board, "relaxed"):
        tl.store(out + 2 * room, total)
        tl.store(board + POSITION, position + 1)
        if total == 0:
            record(board, EMPTY, position, 0)


# ---- small batches: one launch


@triton.jit(do_not_specialize=["n", "limit", "size"])
def set_kernel(
    board, n, limit, indices, weights, size, HEIGHT: tl.constexpr, TILE: tl.constexpr,
    CHUNK: tl.constexpr, GATHER: tl.constexpr,
):  # fmt: skip
    """Set weights: the last position of an item wins, and a batch with a fault changes nothing.

    Every program looks at the whole batch, for faults and for later positions of its own items.
    """
    n, limit = tl.cast(n, tl.int64), tl.cast(limit, tl.int64)
    own = tl.program_id(0) * TILE + tl.arange(0, TILE)
    item = tl.load(indices + own, mask=own < size, other=-1)
    new = tl.load(weights + own, mask=own < size, other=0)
    last = tl.zeros((TILE, CHUNK), tl.int32)
    faults = tl.full((CHUNK,), NO_FAULT, tl.int64)
    for first in range(0, size, CHUNK):
        position = first + tl.arange(0, CHUNK)
        inside = position < size
        other = tl.load(indices + position, mask=inside, other=-2)
        value = tl.load(weights + position, mask=inside, other=0)
        fault = faults_of(position, other, value, n, 0, limit, WEIGHT)
        faults = tl.minimum(faults, tl.where(inside, fault, NO_FAULT))
        last = tl.where(item[:, None] == other[None, :], position[None, :], last)
    fault = tl.min(faults, 0)
    accepted = tl.where(fault == NO_FAULT, size, 0)
    chosen = (own < accepted) & (tl.max(last, 1) == own)
    replace(board, n, item, new, chosen, HEIGHT, GATHER)
    if (tl.program_id(0) == 0) & (fault != NO_FAULT):
        record_batch(board, fault, indices, weights)


# ---- large batches: a table of the items in the batch, then the changes


@triton.jit
def find_slots(table, item, position, valid, bits):
    """Give every item of the batch a slot of the table, and return it; -1 if none is free.

    A slot holds (item + 1) * 2^24 + the last position of the item. Open addressing: the first slot
    of an item is a hash of it; it goes on to the next one while the slot is another item's.
    """
    slots = tl.cast(1, tl.int64) << bits
    spread = item.to(tl.uint64) * GOLDEN
    slot = (spread >> (64 - bits).to(tl.uint64)).to(tl.int64)
    key = item + 1
    entry = (key << POSITION_BITS) | position
    found = tl.full(slot.shape, -1, tl.int64)
    pending = valid
    left = tl.sum(pending.to(tl.int32), 0)
    tries = tl.cast(0, tl.int64)
    while (left > 0) & (tries < slots):
        # an entry is never negative: comparing with -1 changes nothing
        empty = tl.where(pending, 0, -1).to(tl.int64)
        seen = tl.atomic_cas(table + slot, empty, entry, sem="relaxed")
        same = pending & ((seen >> POSITION_BITS) == key)
        tl.atomic_max(table + slot, entry, mask=same, sem="relaxed")
        placed = same | (pending & (seen == 0))
        found = tl.where(placed, slot, found)
        pending = pending & (found < 0)
        slot = tl.where(pending, (slot + 1) & (slots - 1), slot)
        left = tl.sum(pending.to(tl.int32), 0)
        tries += 1
    return found


@triton.jit(do_not_specialize=["n", "least", "most", "size", "bits"])
def insert_kernel(
    board, n, least, most, indices, values, size, table, sums, slots, faults, bits,
    ADD: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Enter a batch into the table and look for faults; with ADD, sum up the amounts of an item."""
    n, least, most = tl.cast(n, tl.int64), tl.cast(least, tl.int64), tl.cast(most, tl.int64)
    position = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = position < size
    item = tl.load(indices + position, mask=inside, other=0)
    value = tl.load(values + position, mask=inside, other=0)
    valid = inside & (item >= 0) & (item < n)
    found = find_slots(table, item, position.to(tl.int64), valid, tl.cast(bits, tl.int64))
    tl.store(slots + position, found, mask=inside)
    if ADD:
        fault = faults_of(position, item, value, n, least, most, AMOUNT)
        tl.atomic_add(sums + found, value, mask=found >= 0, sem="relaxed")
    else:
        fault = faults_of(position, item, value, n, least, most, WEIGHT)
    crowded = valid & (found < 0)
    fault = tl.where(crowded, position.to(tl.int64) * KINDS + CROWDED, fault)
    tl.store(faults + tl.program_id(0), tl.min(tl.where(inside, fault, NO_FAULT), 0))


@triton.jit
def is_last(table, slot, position):
    """Return whether each position is the last one of its item, in that slot.

    If the last position has cleared the slot already, then all others see that they are not it.
    """
    entry = tl.load(table + slot, mask=slot >= 0, other=0)
    mine = (entry & POSITION_MASK) == position
    return (slot >= 0) & (entry > 0) & mine


@triton.jit(do_not_specialize=["n", "limit", "size"])
def add_kernel(
    board, n, limit, indices, size, table, sums, slots, faults, ranges, HEIGHT: tl.constexpr,
    TILE: tl.constexpr,
):  # fmt: skip
    """Look for items that would leave the range of weights: a fault at their last position.

    Faults of the batch itself come first: with one of them, sums may mean nothing.
    """
    n, limit = tl.cast(n, tl.int64), tl.cast(limit, tl.int64)
    position = tl.program_id(0) * TILE + tl.arange(0, TILE)
    slot = tl.load(slots + position, mask=position < size, other=-1)
    chosen = is_last(table, slot, position)
    item = tl.load(indices + position, mask=chosen, other=0)
    new = tl.load(sums + slot, mask=chosen, other=0)
    new += tl.load(board + start_of(n, 0, HEIGHT) + item, mask=chosen, other=0)
    outside = chosen & ((new < 0) | (new > limit))
    fault = tl.where(outside, position.to(tl.int64) * KINDS + RANGE, NO_FAULT)
    earlier = first_of(faults, tl.num_programs(0))
    fault = tl.where(earlier == NO_FAULT, tl.min(fault, 0), earlier)
    tl.store(ranges + tl.program_id(0), fault)


@triton.jit(do_not_specialize=["n", "size"])
def apply_kernel(
    board, n, indices, values, size, table, sums, slots, faults, ADD: tl.constexpr,
    HEIGHT: tl.constexpr, TILE: tl.constexpr, GATHER: tl.constexpr,
):  # fmt: skip
    """Make the changes of a batch without a fault; clear the table; record the fault of another.

    `faults` are those of the programs of the launch before this one.
    """
    n = tl.cast(n, tl.int64)
    position = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = position < size
    slot = tl.load(slots + position, mask=inside, other=-1)
    chosen = is_last(table, slot, position)
    fault = first_of(faults, tl.num_programs(0))
    item = tl.load(indices + position, mask=chosen, other=0)
    if ADD:
        new = tl.load(sums + slot, mask=chosen, other=0)
        new += tl.load(board + start_of(n, 0, HEIGHT) + item, mask=chosen, other=0)
    else:
        new = tl.load(values + position, mask=chosen, other=0)
    tl.debug_barrier()
    tl.store(table + slot, tl.zeros_like(slot), mask=chosen)
    if ADD:
        tl.store(sums + slot, tl.zeros_like(slot), mask=chosen)
    accepted = tl.where(fault == NO_FAULT, size, 0)
    replace(board, n, item, new, chosen & (position < accepted), HEIGHT, GATHER)
    if (tl.program_id(0) == 0) & (fault != NO_FAULT):
        record_batch(board, fault, indices, values)
