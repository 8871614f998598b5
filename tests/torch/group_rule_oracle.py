"""The rule of `GroupVRB` on a device, batch by batch, in plain numpy."""

import math

import numpy as np

UNSEEN = 2**20


class GroupBatchRule:
    """All that a sampler knows, by item, and what it learns from a batch; it does not draw."""

    def __init__(self, numbers):
        self.numbers = np.asarray(numbers)
        self.n, self.sizes = len(numbers), np.bincount(numbers)
        self.count = len(self.sizes)
        self.fed, self.unit, self.level = 0, 0.0, 0.0
        self.scores, self.visits = np.ones(self.n), np.zeros(self.n)
        self.weights = np.full(self.n, UNSEEN)
        self.levels, self.seen = np.zeros(self.count), np.zeros(self.count, dtype=int)
        self.scale = 2.0**50 / 2.0 ** self.n.bit_length()
        self.group_weights = (self.sizes * self.scale).astype(np.int64)
        self.guard_ours = self.guard_uniform = 0.0

    def probabilities(self):
        """The adaptive distribution."""
        c = self.numbers
        areas = np.bincount(c, self.weights)
        shares = self.group_weights / self.group_weights.sum()
        floors = 0.125 / self.n + 0.125 / (self.count * self.sizes)
        return 0.75 * shares[c] * self.weights / areas[c] + floors[c]

    def update(self, items, chances, losses):
        size, c = len(items), self.numbers[items]
        if self.unit == 0.0 and any(losses > 0):
            self.unit = 2.0 ** -math.frexp(losses[losses > 0][0])[1]
        squares = (losses * self.unit) ** 2
        uniform = squares / (self.n * chances)
        self.guard_uniform += uniform.sum()
        self.guard_ours += (uniform / (self.n * self.probabilities()[items])).sum()
        reference = np.maximum(np.where(self.seen > 0, self.levels, self.level), self.level / 2**20)
        reference = reference if self.level > 0 else np.ones(self.count)
        bits = max((size - 1).bit_length(), 11)
        grain = 2.0 ** (np.frexp(reference)[1] + 24 - 62 + bits)
        relative = np.minimum(squares / self.scores[items], 2**24 * reference[c])
        whole = np.floor(relative / grain[c]) * grain[c]
        old = self.level
        self.level += (
            1 - self.fed * (self.fed + 1) / ((self.fed + size) * (self.fed + size + 1))
        ) * (relative.mean() - old)
        areas = np.bincount(self.numbers, self.weights)
        for group in set(c.tolist()):
            own = whole[c == group]
            s, b, mean = self.seen[group], len(own), own.mean()
            start = self.levels[group] if s else (old if old > 0 else mean)
            rest = (s + 1) * (s + 2) / ((s + b + 1) * (s + b + 2))
            self.levels[group] = start + (1 - rest) * (mean - start)
            self.seen[group] += b
        for item in set(items.tolist()):
            group = self.numbers[item]
            typical = self.levels[group] * (areas[group] / (UNSEEN * self.sizes[group])) ** 2
            if typical > 0:
                own = whole[items == item]
                k, h, v = len(own), self.scores[item], self.visits[item]
                step = (h * own.mean() / typical - h) * k / (1 + min(v + k, max(15, k)))
                self.scores[item] = max(1 / 16, h + step)
                self.visits[item] = min(v + k, 15)
                self.weights[item] = max(1, int(UNSEEN * math.sqrt(self.scores[item])))
        self.fed += size
        self._weigh_groups(old)

    def _weigh_groups(self, old):
        grown = (self.level or 1.0) / (old or 1.0)
        off = math.frexp(float(self.group_weights.sum()) * math.sqrt(grown))[1] - 50
        self.scale *= 2.0 ** -(off if abs(off) > 5 else 0)
        kappa = np.where(self.seen > 0, self.levels, self.level)
        kappa = kappa if self.level > 0 else np.ones(self.count)
        values = np.bincount(self.numbers, self.weights) / UNSEEN * np.sqrt(kappa) * self.scale
        values = np.minimum(values, 2**61 // self.count)
        self.group_weights = np.maximum(1, values.astype(np.int64))
