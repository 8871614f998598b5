"""Shuffled epochs without a deck: a keyed permutation, computed place by place.

A Feistel network on the smallest power of two N >= n, whose halves have 19 bits at most, permutes
0 .. N - 1. Where it leads outside 0 .. n - 1 it is applied again, until it leads back (cycle
walking): an exact permutation of 0 .. n - 1. There are N - n < n places outside, so the walk is
bounded by n steps; two are expected.

The result is rotated by a random number below n. Every item is therefore equally likely at every
place, whatever the network does.

Importing this module needs Triton.
"""

import triton
import triton.language as tl

from tombola.torch.device.kernels import random_below

__all__ = ["item_at"]

# lanes of random words; those of draws are below 2^30
ROTATION = tl.constexpr(2**31)
KEYS = tl.constexpr(2**31 + 1)
ATTEMPTS = tl.constexpr(64)


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
