"""Triton kernel of an update of `VRB`: the rule of `tombola.samplers.parameter_free`, in chunks.

One program learns from a batch, chunk after chunk, in the order of positions. Within a chunk:

    1  m after each loss: a scan of m <- m + s (x - m); where m would more than double, it is
       doubled, and the scan begins again after that loss
    2  h and V of each item: its first position in the chunk walks along the later ones
    3  D after each loss: a scan
    4  the gauge, and the guard with the weights before the chunk
    5  the weights of the items drawn, and of two items of the sweep for each loss, with m and D
       after the last loss that concerns them

All sums are in a fixed order, without atomics on floating-point numbers.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.samplers import parameter_free, shrunk_averages, weighted
from tombola.torch.device.kernels import FAN, WIDTH, replace, rows_of, start_of
from tombola.torch.device.vrb_kernels import power_of_two, total_of, uniform_weight
from tombola.torch.device.vrb_layout import Real, Trouble, Whole

__all__ = ["SCRATCH", "learn_kernel"]

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
FED = tl.constexpr(Whole.FED)
CURSOR = tl.constexpr(Whole.CURSOR)
TROUBLE = tl.constexpr(Whole.TROUBLE)
WHERE = tl.constexpr(Whole.WHERE)
BAD_INDEX = tl.constexpr(Trouble.INDEX)
BAD_PROBABILITY = tl.constexpr(Trouble.PROBABILITY)
BAD_LOSS = tl.constexpr(Trouble.LOSS)
KINDS = tl.constexpr(Trouble.KINDS)

TOO_LARGE = tl.constexpr(parameter_free.TOO_LARGE)
LAST = tl.constexpr(shrunk_averages.LAST)
CLIP = tl.constexpr(shrunk_averages.CLIP)
PRIOR = tl.constexpr(shrunk_averages.PRIOR)
PRIOR_NOISE = tl.constexpr(shrunk_averages.PRIOR_NOISE)
PRIOR_ZEROS = tl.constexpr(shrunk_averages.PRIOR_ZEROS)
TARGET = tl.constexpr(weighted.TARGET)
HIGH = tl.constexpr(weighted.HIGH)
LOW = tl.constexpr(weighted.LOW)
SMALL = tl.constexpr(weighted.SMALL)
MOST = tl.constexpr(2**62)  # what no total exceeds
SMALLEST = tl.constexpr(2.0**-200)  # of probabilities, as for a `tombola.Draw`
NO_FAULT = tl.constexpr(2**62)
INFINITY = tl.constexpr(float("inf"))
BLOCK = tl.constexpr(1024)  # items at a time, where all are looked at

SCRATCH = 4  # numbers for each position of a chunk: m, l^2, h and V before the loss
MEANS, SQUARES, PAST, PAST_VISITS = (tl.constexpr(k) for k in range(4))


# ---- numbers


@triton.jit
def put(numbers, place, value):
    """Write a number of the state."""
    tl.store(numbers + place, value)


@triton.jit
def exponent_near(x):
    """Return the exponent of a power of two p with x / p in [1/2, 1), from -950 to 1000."""
    bits = x.to(tl.int64, bitcast=True)
    return tl.minimum(tl.maximum(((bits >> 52) & 2047) - 1022, -950), 1000)


@triton.jit
def pace(count, n):
    """Return the share of the newest value in a mean of `count` earlier ones, at least 1/n."""
    return tl.maximum(1.0 / (count + 1.0), 1.0 / n)


@triton.jit
def root_of(average, visits, mean, disagreement):
    """Return sqrt((V h + k m) / (V + k)): `shrunk_averages.shrunk_root`."""
    noise = tl.where(average > 0.0, PRIOR_NOISE, PRIOR_ZEROS)
    k = PRIOR + noise * disagreement * disagreement
    return tl.sqrt((visits * average + k * mean) / (visits + k))


@triton.jit
def weight_of(value, scale, room):
    """Return a value times the scale as an integer from 1 to `room`, and whether that cut it."""
    scaled = value * scale
    cut = scaled >= room.to(tl.float64)
    weight = tl.where(cut, room, tl.where(cut, 0.0, scaled).to(tl.int64))
    return tl.maximum(weight, 1), cut


@triton.jit
def then(a, b, c, d):
    """Return x -> c (a x + b) + d: one step of a linear recurrence after another."""
    return c * a, c * b + d


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
def sum_rows(board, n, HEIGHT: tl.constexpr):
    """Compute all sums from the leaves."""
    sum_level(board, n, 1, HEIGHT, WIDTH)
    for level in tl.static_range(2, HEIGHT + 1):
        sum_level(board, n, level, HEIGHT, FAN)


@triton.jit
def begin_anew(board, n, reals, scores, visits, HEIGHT: tl.constexpr):
    """Start over: past losses are negligible compared with the latest one."""
    scale = TARGET * power_of_two(-exponent_near(n.to(tl.float64)))
    first = tl.cast(0, tl.int64)
    while first < n:
        item = first + tl.arange(0, BLOCK)
        tl.store(scores + item, tl.zeros((BLOCK,), tl.float64), mask=item < n)
        tl.store(visits + item, tl.zeros((BLOCK,), tl.float32), mask=item < n)
        leaf = board + start_of(n, 0, HEIGHT) + item
        tl.store(leaf, tl.zeros((BLOCK,), tl.int64) + scale.to(tl.int64), mask=item < n)
        first += BLOCK
    put(reals, SCALE, scale)
    put(reals, UNIT, 0.0)
    put(reals, MEAN_SQUARE, 0.0)
    put(reals, DISAGREEMENT, 0.0)
    put(reals, COMPARED, 0.0)
    put(reals, GUARD_OURS, 0.0)
    put(reals, GUARD_UNIFORM, 0.0)
    tl.debug_barrier()
    sum_rows(board, n, HEIGHT)


@triton.jit
def value_of(reals, scores, visits, item, inside):
    """Return the values of items from what is known now; 1 before the first loss."""
    average = tl.load(scores + item, mask=inside, other=0.0)
    count = tl.load(visits + item, mask=inside, other=0.0).to(tl.float64)
    mean, disagreement = tl.load(reals + MEAN_SQUARE), tl.load(reals + DISAGREEMENT)
    known = tl.load(reals + UNIT) > 0.0
    root = root_of(average, count, mean, disagreement)
    return tl.where(known, root / tl.where(known, tl.load(reals + FIRST_ROOT), 1.0), 1.0)


@triton.jit
def rebuild(board, n, reals, scores, visits, HEIGHT: tl.constexpr):
    """Choose the scale and compute all weights."""
    total = tl.cast(0.0, tl.float64)
    first = tl.cast(0, tl.int64)
    while first < n:
        item = first + tl.arange(0, BLOCK)
        value = value_of(reals, scores, visits, item, item < n)
        total += tl.sum(tl.where(item < n, value, 0.0), 0)
        first += BLOCK
    scale = TARGET * power_of_two(-exponent_near(total))
    tl.debug_barrier()
    put(reals, SCALE, scale)
    room = tl.cast(MOST // 4, tl.int64)
    first = tl.cast(0, tl.int64)
    while first < n:
        item = first + tl.arange(0, BLOCK)
        value = value_of(reals, scores, visits, item, item < n)
        weight, _ = weight_of(value, scale, room)
        tl.store(board + start_of(n, 0, HEIGHT) + item, weight, mask=item < n)
        first += BLOCK
    tl.debug_barrier()
    sum_rows(board, n, HEIGHT)


# ---- the parts of a chunk


@triton.jit
def means_of(new, share, mean, length, scratch, CHUNK: tl.constexpr):
    """Stage 1: m after each loss. It at most doubles, unless it is 0.

    As long as all values are equal to m it stays the same, to the last digit.
    """
    lane = tl.arange(0, CHUNK)
    share_of_first = tl.sum(tl.where(lane == 0, share, 0.0), 0)
    base = tl.where(share_of_first < 1.0, mean, tl.sum(tl.where(lane == 0, new, 0.0), 0))
    after = tl.zeros((CHUNK,), tl.float64)
    begin = tl.cast(0, tl.int64)
    while begin < length:
        fresh = (lane >= begin) & (lane < length)
        gain = tl.where(fresh, 1.0 - share, 1.0)
        step = tl.where(fresh, share * new, 0.0)
        gain, step = tl.associative_scan((gain, step), 0, then)
        changes = tl.cumsum((fresh & (new != base)).to(tl.int32), 0)
        moved = tl.where(changes > 0, gain * mean + step, base)
        after = tl.where(lane >= begin, moved, after)
        tl.store(scratch + MEANS * CHUNK + lane, after)
        tl.debug_barrier()
        before = tl.load(scratch + MEANS * CHUNK + lane - 1, mask=lane > begin, other=0.0)
        before = tl.where(lane == begin, mean, before)
        double = fresh & (before > 0.0) & (after > 2.0 * before)
        found = tl.min(tl.where(double, lane, CHUNK), 0)
        begin = tl.minimum(found, length).to(tl.int64)
        if begin < length:  # m doubles here, and goes on from there
            mean = 2.0 * tl.sum(tl.where(lane == begin, before, 0.0), 0)
            base = mean
            after = tl.where(lane == begin, mean, after)
            begin += 1
        tl.debug_barrier()
    return after


@triton.jit
def pairs_of(indices, done, length, item, lane, CHUNK: tl.constexpr, PAIRS: tl.constexpr):
    """Return the first, the next and the last position of each item in the chunk.

    Positions are compared with `lane`; -1 as the last one and CHUNK as the others mean none.
    """
    first = tl.full((CHUNK, PAIRS), CHUNK, tl.int32)
    following = tl.full((CHUNK, PAIRS), CHUNK, tl.int32)
    last = tl.full((CHUNK, PAIRS), -1, tl.int32)
    begin = tl.cast(0, tl.int64)
    while begin < length:
        place = begin.to(tl.int32) + tl.arange(0, PAIRS)
        other = tl.load(indices + done + place, mask=place < length, other=-1)
        equal = item[:, None] == other[None, :]
        position = place[None, :]
        first = tl.where(equal, tl.minimum(first, position), first)
        last = tl.where(equal, tl.maximum(last, position), last)
        later = equal & (position > lane[:, None])
        following = tl.where(later, tl.minimum(following, position), following)
        begin += PAIRS
    return tl.min(first, 1), tl.min(following, 1), tl.max(last, 1)


@triton.jit
def visit(scores, visits, item, leading, following, scratch, CHUNK: tl.constexpr):
    """Stage 2: h and V of each item before and after each of its losses, in order.

    `scratch` has the squares, and receives h and V before each loss. A walk has at most CHUNK
    steps. The link from a position to the next one of its item is in the row of means, as whole
    numbers.
    """
    cursor = tl.arange(0, CHUNK)
    tl.store(scratch + MEANS * CHUNK + cursor, following.to(tl.float64))
    average = tl.load(scores + item, mask=leading, other=0.0)
    count = tl.load(visits + item, mask=leading, other=0.0).to(tl.float64)
    tl.debug_barrier()
    walking = leading
    left, steps = tl.sum(walking.to(tl.int32), 0), tl.cast(0, tl.int32)
    while (left > 0) & (steps < CHUNK):
        tl.store(scratch + PAST * CHUNK + cursor, average, mask=walking)
        tl.store(scratch + PAST_VISITS * CHUNK + cursor, count, mask=walking)
        square = tl.load(scratch + SQUARES * CHUNK + cursor, mask=walking, other=0.0)
        moved = average + (square - average) / tl.minimum(count + 1.0, LAST)
        average = tl.where(walking, moved, average)
        count = tl.where(walking, count + 1.0, count)
        link = tl.load(scratch + MEANS * CHUNK + cursor, mask=walking, other=CHUNK).to(tl.int32)
        walking = walking & (link < CHUNK)
        cursor = tl.where(walking, link, cursor)
        left = tl.sum(walking.to(tl.int32), 0)
        steps += 1
    tl.debug_barrier()
    tl.store(scores + item, average, mask=leading)
    tl.store(visits + item, count.to(tl.float32), mask=leading)
    tl.debug_barrier()


@triton.jit
def disagreements_of(square, past, count, inside, reals, n):
    """Stage 3: D after each loss; the state moves on."""
    compared, start = tl.load(reals + COMPARED), tl.load(reals + DISAGREEMENT)
    counts = inside & (count > 0.0) & (square + past > 0.0)
    both = tl.where(counts, square + past, 1.0)
    distance = 1.0 - 2.0 * tl.sqrt(square * past) / both
    number = compared + tl.cumsum(counts.to(tl.int32), 0).to(tl.float64)
    share = tl.where(counts, pace(number, n), 0.0)
    _, step = tl.associative_scan((1.0 - share, share * (distance - start)), 0, then)
    tl.debug_barrier()
    put(reals, COMPARED, compared + tl.sum(counts.to(tl.int32), 0).to(tl.float64))
    return start + step


@triton.jit
def judge(board, n, reals, item, inside, square, chance, HEIGHT: tl.constexpr):
    """Stage 4a: the guard's sums; the probabilities in adaptive mode are those before the chunk."""
    count = n.to(tl.float64)
    total, spread = uniform_weight(tl.load(reals + MIXING), total_of(board), n)
    weight = tl.load(board + start_of(n, 0, HEIGHT) + item, mask=inside, other=0)
    weight = tl.where(total > 0, weight, 0)
    candidate = (weight + spread).to(tl.float64) / (total + n * spread).to(tl.float64)
    uniform = tl.where(inside, square / (count * chance), 0.0)
    ours = tl.sum(uniform / (count * candidate), 0) + tl.load(reals + GUARD_OURS)
    plain = tl.sum(uniform, 0) + tl.load(reals + GUARD_UNIFORM)
    tl.debug_barrier()
    put(reals, GUARD_OURS, ours)
    put(reals, GUARD_UNIFORM, plain)


@triton.jit
def tally(n, reals, wholes, lane, inside, chance, loss):
    """Stage 4b: the gauge; `tombola.gauge.record_one`, for all losses of a chunk."""
    old = tl.load(reals + LARGEST_LOSS)
    largest = tl.maximum(old, tl.max(loss, 0))
    safe = tl.where(largest > 0.0, largest, 1.0)
    ratio = tl.where(largest > old, old / safe, 1.0)
    square, fourth = ratio * ratio, ratio * ratio * ratio * ratio
    relative = loss / safe
    u = tl.where(inside, 1.0 / (n.to(tl.float64) * chance), 0.0)
    u = tl.minimum(u, 1.6069380442589903e60)  # 2^200
    uniform = relative * relative * u
    ours = uniform * u
    ours_start, uniform_start = tl.load(reals + OURS) * square, tl.load(reals + UNIFORM) * square
    count = tl.maximum(tl.load(wholes + FED) + lane, 1).to(tl.float64)
    ours_gap = ours - (ours_start + (tl.cumsum(ours, 0) - ours)) / count
    uniform_gap = uniform - (uniform_start + (tl.cumsum(uniform, 0) - uniform)) / count
    ours_gap = tl.where(inside, ours_gap, 0.0)
    uniform_gap = tl.where(inside, uniform_gap, 0.0)
    ours_spread = tl.load(reals + OURS_SPREAD) * fourth + tl.sum(ours_gap * ours_gap, 0)
    spread = tl.load(reals + UNIFORM_SPREAD) * fourth + tl.sum(uniform_gap * uniform_gap, 0)
    cross = tl.load(reals + CROSS_SPREAD) * fourth + tl.sum(ours_gap * uniform_gap, 0)
    importance = tl.load(reals + IMPORTANCE) + tl.sum(u, 0)
    squared = tl.load(reals + IMPORTANCE_SQUARED) + tl.sum(u * u, 0)
    surprise = tl.load(reals + SURPRISE) - tl.sum(tl.where(inside, tl.log(chance), 0.0), 0)
    most = tl.maximum(tl.load(reals + LARGEST_IMPORTANCE), tl.max(u, 0))
    tl.debug_barrier()
    put(reals, OURS, ours_start + tl.sum(ours, 0))
    put(reals, OURS_SPREAD, ours_spread)
    put(reals, UNIFORM, uniform_start + tl.sum(uniform, 0))
    put(reals, UNIFORM_SPREAD, spread)
    put(reals, CROSS_SPREAD, cross)
    put(reals, IMPORTANCE, importance)
    put(reals, IMPORTANCE_SQUARED, squared)
    put(reals, SURPRISE, surprise)
    put(reals, LARGEST_LOSS, largest)
    put(reals, LARGEST_IMPORTANCE, most)


@triton.jit
def write(
    board, n, scores, visits, item, chosen, known, mean, gap, root, scale, room,
    HEIGHT: tl.constexpr,
):  # fmt: skip
    """Stage 5: write the weights of the chosen items; return whether one was cut."""
    average = tl.load(scores + item, mask=chosen, other=0.0)
    count = tl.load(visits + item, mask=chosen, other=0.0).to(tl.float64)
    value = tl.where(known, root_of(average, count, mean, gap) / root, 1.0)
    weight, cut = weight_of(value, scale, room)
    replace(board, n, item, weight, chosen, HEIGHT, False)
    return tl.sum((chosen & cut).to(tl.int32), 0)


# ---- a chunk, and a batch


@triton.jit
def learn_chunk(
    board, n, reals, wholes, scores, visits, indices, probabilities, losses, done, size, scratch,
    HEIGHT: tl.constexpr, CHUNK: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Learn from up to CHUNK losses from position `done` on; return from how many."""
    lane = tl.arange(0, CHUNK)
    count = n.to(tl.float64)
    inside = done + lane < size
    loss = tl.load(losses + done + lane, mask=inside, other=0.0).to(tl.float64)
    chance = tl.load(probabilities + done + lane, mask=inside, other=1.0)
    if tl.load(losses + done).to(tl.float64) * tl.load(reals + UNIT) > TOO_LARGE:
        tl.debug_barrier()
        begin_anew(board, n, reals, scores, visits, HEIGHT)
    fed = tl.load(wholes + FED)
    share = pace((fed + lane).to(tl.float64), count)
    unit = tl.load(reals + UNIT)
    start = tl.cast(0, tl.int32)  # the first loss that is not 0, if the unit is not yet known
    tl.debug_barrier()
    if unit == 0.0:
        start = tl.min(tl.where(loss > 0.0, lane, CHUNK), 0)
        if start < CHUNK:
            first = tl.load(losses + done + start).to(tl.float64)
            unit = power_of_two(-exponent_near(first))
            square = first * unit * (first * unit) / (count * tl.load(probabilities + done + start))
            put(reals, UNIT, unit)
            put(reals, FIRST_ROOT, tl.sqrt(pace((fed + start).to(tl.float64), count) * square))
        tl.debug_barrier()
    too_large = tl.min(tl.where(inside & (loss * unit > TOO_LARGE), lane, CHUNK), 0)
    length = tl.minimum(tl.minimum(size - done, too_large.to(tl.int64)), CHUNK)
    inside = lane < length
    loss = tl.where(inside, loss, 0.0)
    item = tl.load(indices + done + lane, mask=inside, other=-2)

    square = loss * unit * (loss * unit)
    new = tl.where(inside, square / (count * chance), 0.0)
    mean = means_of(new, share, tl.load(reals + MEAN_SQUARE), length, scratch, CHUNK)
    square = tl.minimum(square, CLIP * count * mean)
    tl.store(scratch + SQUARES * CHUNK + lane, square)
    earliest, following, latest = pairs_of(indices, done, length, item, lane, CHUNK, PAIRS)
    leading = inside & (earliest == lane)
    tl.debug_barrier()
    visit(scores, visits, item, leading, following, scratch, CHUNK)
    past = tl.load(scratch + PAST * CHUNK + lane, mask=inside, other=0.0)
    past_visits = tl.load(scratch + PAST_VISITS * CHUNK + lane, mask=inside, other=0.0)
    gap = disagreements_of(square, past, past_visits, inside, reals, count)
    judge(board, n, reals, item, inside, square, chance, HEIGHT)
    tally(n, reals, wholes, lane, inside, chance, loss)

    cursor, scale, root = (
        tl.load(wholes + CURSOR),
        tl.load(reals + SCALE),
        tl.load(reals + FIRST_ROOT),
    )
    root = tl.where(root > 0.0, root, 1.0)
    known = lane >= tl.where(unit > 0.0, start, CHUNK)
    room = (MOST - total_of(board)) // (4 * CHUNK)
    swept = 2 * length
    away = item - cursor
    away = tl.where(away < 0, away + n, away)  # steps of the sweep before it meets the item
    meets = away + (swept - 1 - away) // n * n  # the last of them that does
    chosen = inside & (latest == lane) & ((away >= swept) | (meets // 2 < lane))
    cut = write(board, n, scores, visits, item, chosen, known, mean, gap, root, scale, room, HEIGHT)
    for turn in tl.static_range(2):
        tl.debug_barrier()
        step = 2 * lane.to(tl.int64) + turn
        target = (cursor + step) % n
        _, _, latest = pairs_of(indices, done, length, target, lane, CHUNK, PAIRS)
        chosen = inside & (latest <= lane) & (step + n >= swept)
        cut += write(
            board, n, scores, visits, target, chosen, known, mean, gap, root, scale, room, HEIGHT
        )
    tl.debug_barrier()
    end = lane == length - 1
    put(reals, MEAN_SQUARE, tl.sum(tl.where(end, mean, 0.0), 0))
    put(reals, DISAGREEMENT, tl.sum(tl.where(end, gap, 0.0), 0))
    put(wholes, CURSOR, (cursor + swept) % n)
    put(wholes, FED, fed + length)
    tl.debug_barrier()
    total = total_of(board)
    above = (total > HIGH) | (cut > 0)
    if above | (total < LOW * n):
        if n <= SMALL:
            rebuild(board, n, reals, scores, visits, HEIGHT)
        elif cursor + swept >= n:  # once in a pass of the sweep, which then does the rest
            put(reals, SCALE, scale * tl.where(above, 0.5, 2.0))
    tl.debug_barrier()
    return length


@triton.jit
def first_trouble(n, indices, probabilities, losses, size, BATCH: tl.constexpr):
    """Return position * KINDS + kind of the first fault of a batch, or NO_FAULT."""
    least = tl.full((BATCH,), NO_FAULT, tl.int64)
    begin = tl.cast(0, tl.int64)
    while begin < size:
        position = begin + tl.arange(0, BATCH)
        inside = position < size
        item = tl.load(indices + position, mask=inside, other=0)
        chance = tl.load(probabilities + position, mask=inside, other=1.0)
        loss = tl.load(losses + position, mask=inside, other=0.0).to(tl.float64)
        kind = tl.where((loss >= 0.0) & (loss < INFINITY), 0, BAD_LOSS)
        kind = tl.where((chance >= SMALLEST) & (chance <= 1.0), kind, BAD_PROBABILITY)
        kind = tl.where((item >= 0) & (item < n), kind, BAD_INDEX)
        least = tl.minimum(least, tl.where(inside & (kind > 0), position * KINDS + kind, NO_FAULT))
        begin += BATCH
    return tl.min(least, 0)


@triton.jit(do_not_specialize=["n", "size"])
def learn_kernel(
    board,
    n,
    reals,
    wholes,
    scores,
    visits,
    indices,
    probabilities,
    losses,
    size,
    scratch,
    HEIGHT: tl.constexpr,
    CHUNK: tl.constexpr,
    PAIRS: tl.constexpr,
    DOUBLE: tl.constexpr,
):
    """Learn from a batch, or record its first fault and change nothing else.

    DOUBLE says whether losses are float64: what is compiled for one type serves no other.
    """
    n, size = tl.cast(n, tl.int64), tl.cast(size, tl.int64)
    fault = first_trouble(n, indices, probabilities, losses, size, CHUNK)
    if (fault != NO_FAULT) & (tl.load(wholes + TROUBLE) == 0):
        tl.debug_barrier()  # all threads have read it
        where, kind = fault // KINDS, fault % KINDS
        value = tl.load(losses + where).to(tl.float64)
        if kind == BAD_INDEX:
            value = tl.load(indices + where).to(tl.float64)
        if kind == BAD_PROBABILITY:
            value = tl.load(probabilities + where)
        put(reals, BAD_VALUE, value)
        put(wholes, WHERE, where)
        put(wholes, TROUBLE, kind)
    done = tl.where(fault == NO_FAULT, 0, size).to(tl.int64)
    while done < size:
        done += learn_chunk(
            board, n, reals, wholes, scores, visits, indices, probabilities, losses, done, size,
            scratch, HEIGHT, CHUNK, PAIRS,
        )  # fmt: skip
