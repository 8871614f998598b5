"""The index on a device in plain Python integers, one item at a time."""

import bisect
import itertools

WORD = 2**32 - 1


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al. 2011): four words of 32 bits for a counter and a key."""
    (a, b, c, d), (low, high) = counter, key
    for _ in range(10):
        first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = second >> 32 ^ b ^ low, second & WORD, first >> 32 ^ d ^ high, first & WORD
        low, high = low + 0x9E3779B9 & WORD, high + 0xBB67AE85 & WORD
    return a, b, c, d


def key_of(seed):
    """SplitMix64 (Steele, Lea, Flood 2014), the first number after a seed."""
    z = (seed + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def random_below(seed, position, lane, total):
    """Lemire 2019: word * total >> 64, unless the rest is below 2^64 mod total."""
    key = key_of(seed)
    for attempt in range(64):
        counter = (position & WORD, position >> 32, lane, attempt)
        low, high, _, _ = philox(counter, (key & WORD, key >> 32))
        dart, rest = divmod((high << 32 | low) * total, 2**64)
        if rest >= 2**64 % total:
            return dart
    raise AssertionError("64 words in a row were rejected")


class Oracle:
    def __init__(self, weights, seed):
        self.weights, self.seed, self.position = list(weights), seed, 0

    @property
    def total(self):
        return sum(self.weights)

    def draw(self, size):
        ends = list(itertools.accumulate(self.weights))
        darts = [random_below(self.seed, self.position, j, ends[-1]) for j in range(size)]
        self.position += 1
        return [bisect.bisect_right(ends, dart) for dart in darts]

    def set(self, items, weights):
        for item, weight in zip(items, weights, strict=True):
            self.weights[item] = weight

    def add(self, items, amounts):
        for item, amount in zip(items, amounts, strict=True):
            self.weights[item] += amount

    def levels(self):
        """The sums of rows of 128, of rows of 32 of these, ... down to one row."""
        level, width = self.weights, 128
        while True:
            level = [sum(level[j : j + width]) for j in range(0, len(level), width)]
            width = 32
            yield level
            if len(level) <= width:
                return
