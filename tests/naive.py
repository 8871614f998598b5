"""Slow, obvious versions of what the kernels do: the oracles of the tests."""


def philox(counter, key):
    """Philox 4x64-10 in Python integers, from the definition in Salmon et al. 2011."""
    mask = 2**64 - 1
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * c0, 0xCA5A826395121157 * c2
        c0, c1, c2, c3 = (right >> 64) ^ c1 ^ k0, right & mask, (left >> 64) ^ c3 ^ k1, left & mask
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return c0, c1, c2, c3


def words(seed, path=()):
    """Yield the words of a stream, one by one."""
    levels = [level + 1 for level in path] + [0] * (3 - len(path))
    block = 0
    while True:
        yield from philox((block, *levels), (seed % 2**64, seed >> 64))
        block += 1


def integer_below(bound, words):
    """One unbiased integer from as many words as it takes, and how many that were."""
    for used, word in enumerate(words, start=1):
        value, rest = divmod(word * bound, 2**64)
        if rest >= 2**64 % bound:
            return value, used
    raise AssertionError("out of words")


def column(weight):
    """The smallest power of two that the weight fits under; nothing for no weight."""
    return 1 << (weight - 1).bit_length() if weight else 0


def draw(order, weights, words, uniform=0):
    """One item off the board whose columns stand in this order, and the words it took."""
    columns = sum(column(weight) for weight in weights)
    area = columns + len(weights) * uniform
    used = 0
    while True:
        dart, more = integer_below(area, words)
        used += more
        if dart >= columns:
            return (dart - columns) // uniform, used
        for item in order:
            if dart < column(weights[item]):
                if column(weights[item]) > 1 and dart >= weights[item]:
                    break  # above the filled part: throw again
                return item, used
            dart -= column(weights[item])


class PrintedVRB:
    """Algorithm 1 of Borsos, Krause, Levy (2018) in floats, O(n) a draw.

    `values` are what the probabilities are proportional to. They are as stale as those of the
    sampler: an item's value is taken anew when a loss of it comes and when the sweep, two items
    a loss, passes it. With fixed mixing and no fading, that makes no difference.
    """

    def __init__(self, n, bound, mixing, fade=1.0, sweeps=False):
        self.n = n
        self.bound = [float(b) for b in bound]
        self.mixing = mixing
        self.fade = fade
        self.sweeps = sweeps
        self.scores = [0.0] * n
        self.values = [0.0] * n
        self.cursor = 0
        self.refresh_all()

    def refresh(self, item):
        self.values[item] = (self.scores[item] + self.bound[item] * self.n / self.mixing) ** 0.5

    def refresh_all(self):
        for item in range(self.n):
            self.refresh(item)

    def restart(self):
        self.scores = [0.0] * self.n
        self.refresh_all()

    def probabilities(self):
        total = sum(self.values)
        return [(1 - self.mixing) * v / total + self.mixing / self.n for v in self.values]

    def update(self, item, probability, loss):
        self.scores[item] += loss**2 / probability
        self.refresh(item)
        for _ in range(2 if self.sweeps else 0):
            self.scores[self.cursor] *= self.fade
            self.refresh(self.cursor)
            self.cursor = (self.cursor + 1) % self.n


def nearest_centre(x, centres):
    """The first of the nearest centres, and the squared distance to it."""
    squared = [sum((float(a) - float(b)) ** 2 for a, b in zip(x, c, strict=True)) for c in centres]
    return squared.index(min(squared)), min(squared)


def kmeans_round(X, weights, centres, counts, items, importances):
    """One round of mini-batch k-means on lists; returns what is fed back."""
    found = [nearest_centre(X[i], centres) for i in items]
    for (q, _), i, importance in zip(found, items, importances, strict=True):
        amount = importance * weights[i]
        counts[q] += amount
        if amount > 0:
            rate = amount / counts[q]
            centres[q] = [c + rate * (x - c) for c, x in zip(centres[q], X[i], strict=True)]
    return [2 * weights[i] * squared**0.5 for (_, squared), i in zip(found, items, strict=True)]
