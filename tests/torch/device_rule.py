"""The rule of `VRB` on a device, batch by batch, in plain numpy."""

import math

import numpy as np

LARGEST = 2.0**250
TARGET, HIGH, LOW = 2.0**46, 2**60, 2**10


class BatchRule:
    """All that a sampler knows, and what it learns from a batch; it does not draw."""

    def __init__(self, n):
        self.n, self.fed, self.unit, self.mean, self.gap, self.compared = n, 0, 0.0, 0.0, 0.0, 0
        self.first_root, self.cursor = 0.0, 0
        self.scale = TARGET / 2.0 ** n.bit_length()
        self.scores, self.visits = np.zeros(n), np.zeros(n)
        self.weights = [int(self.scale)] * n
        self.guard_ours = self.guard_uniform = 0.0
        self.block = self.left = n * -(-256 // n)
        self.shuffling = 0
        self.gauge = []  # pairs of l u and l sqrt(u), which are not squared here

    def draw(self, size):
        """Count the draws of the guard's blocks, each in the mode that its ratio selects."""
        while size > self.left:
            size -= self.left
            ratio = self.guard_ours / self.guard_uniform if self.guard_uniform > 0 else 1.0
            self.shuffling = int(ratio >= (0.9 if self.shuffling else 0.95))
            self.guard_ours /= 2
            self.guard_uniform /= 2
            self.left = self.block
        self.left -= size

    def update(self, items, chances, losses, mixing):
        n, size = self.n, len(items)
        if self.unit == 0.0 and any(losses > 0):
            first = losses[losses > 0][0]
            self.unit = 2.0 ** -math.frexp(first)[1]
        squares = np.minimum(losses * self.unit, LARGEST) ** 2
        grain, most = self._grain(size)
        squares = self._move_mean(squares, squares / (n * chances), size)
        if self.first_root == 0.0 and self.unit > 0.0:
            self.first_root = math.sqrt(self.mean)
        distances = []
        for item in dict.fromkeys(items.tolist()):
            own = squares[items == item]
            count = len(own)
            square = (
                own[0]
                if count == 1
                else np.floor(np.minimum(own / grain, most)).sum() * grain / count
            )
            past, visits = self.scores[item], self.visits[item]
            if visits > 0:
                self._judge(item, chances[items == item][-1], square * count, mixing)
            if visits > 0 and square + past > 0:
                distances += [1 - 2 * math.sqrt(square * past) / (square + past)] * count
            window = min(visits + count, max(32, count))
            self.scores[item] += (square - past) * count / window
            self.visits[item] += count
        if distances:
            self.compared += len(distances)
            share = max(1 / (self.compared + 1), 1 / max(n, len(distances)))
            self.gap += share * sum(distance - self.gap for distance in distances)
        swept = [(self.cursor + k) % n for k in range(min(2 * size, n))]
        for item in {*items.tolist(), *swept}:
            self.weights[item] = self._weight(item)
        self.cursor = (self.cursor + 2 * size) % n
        self.fed += size
        self.gauge += zip(losses / (n * chances), losses / np.sqrt(n * chances), strict=True)

    def _grain(self, size):
        """The unit and the largest of the whole numbers that squares of one item are added as.

        Squares of later batches are below it; in the first one they may not be.
        """
        most = 16 * self.n * self.mean if self.mean > 0 else 2.0**20
        bits = max((8 * size - 1).bit_length(), 14)
        return 2.0 ** (math.frexp(most)[1] - 62 + bits - 3), 2.0 ** (62 - bits + 3)

    def _move_mean(self, squares, new, size):
        """Move m; return squares, each clipped by the m that it alone would lead to."""
        share = max(1 / (self.fed + 1), 1 / self.n)
        alone = (1 - share) * self.mean + share * new
        if self.mean > 0:
            alone = np.minimum(alone, 2 * self.mean)
        squares = np.minimum(squares, 8 * self.n * alone)
        share = max(1 / (self.fed + size), 1 / max(self.n, size))
        if (new != self.mean).any():
            if self.mean > 0:
                new = np.minimum(new, (1 + 1 / share) * self.mean)
            self.mean = max(0, 1 - size * share) * self.mean + share * new.sum()
        if self.mean < 2.0**-700:
            self.mean = 0.0
        return squares

    def _judge(self, item, chance, square, mixing):
        """Add the squares of an item that had a loss before the batch."""
        total = sum(self.weights)
        uniform = mixing >= 1 or mixing / (1 - mixing) * total >= 2.0**61
        spread = 1 if uniform else int(mixing / (1 - mixing) * total / self.n) + 1
        weight = 0 if uniform else self.weights[item]
        candidate = (weight + spread) / ((0 if uniform else total) + self.n * spread)
        self.guard_uniform += square / (self.n * chance)
        self.guard_ours += square / (self.n * chance) / (self.n * candidate)

    def _weight(self, item):
        value = 1.0
        if self.unit > 0.0:
            average, visits = self.scores[item], self.visits[item]
            k = 0.125 + (0.5 if average > 0 else 8.0) * self.gap**2
            value = math.sqrt((visits * average + k * self.mean) / (visits + k)) / self.first_root
        return max(1, int(value * self.scale))

    def spreads(self):
        """Sums and squared distances from the mean, relative to the largest loss so far."""
        pairs = np.array(self.gauge) ** 2
        return pairs.sum(0), ((pairs - pairs.mean(0)) ** 2).sum(0)
