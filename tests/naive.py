"""Slow, obvious versions of what the kernels do: the oracles of the tests."""

import math

import numpy as np


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


# --- problems and solvers -----------------------------------------------------------------------


def logistic(z, y):
    """Loss and derivative of one item; z holds its inner products."""
    return np.logaddexp(0.0, -y * z[0]), np.array([-y * np.exp(-np.logaddexp(0.0, y * z[0]))])


def least_squares(z, y):
    return (z[0] - y) ** 2 / 2, np.array([z[0] - y])


def squared_hinge(z, y):
    short = max(0.0, 1 - y * z[0])
    return short**2, np.array([-2 * y * short])


def hinge(z, y):
    return max(0.0, 1 - y * z[0]), np.array([-y if y * z[0] < 1 else 0.0])


def huber(z, y, epsilon=1.35):
    r = z[0] - y
    if abs(r) <= epsilon:
        return r * r / 2, np.array([r])
    return epsilon * abs(r) - epsilon**2 / 2, np.array([epsilon * np.sign(r)])


def epsilon_insensitive(z, y, epsilon=0.1):
    r = z[0] - y
    return max(0.0, abs(r) - epsilon), np.array([np.sign(r) if abs(r) > epsilon else 0.0])


def softmax(z, y):
    chances = np.exp(z - np.logaddexp.reduce(z))
    return np.logaddexp.reduce(z) - z[int(y)], chances - (np.arange(len(z)) == y)


class Model:
    """A linear model in numpy: everything of shape (outputs, width), rows dense and float64."""

    def __init__(self, loss, X, y, *, weights=None, l1=0.0, l2=0.0, fit_intercept=False, outputs=1):
        self.loss, self.y, self.l1, self.l2, self.outputs = loss, y, l1, l2, outputs
        self.fit_intercept = fit_intercept
        self.X = np.asarray(X, dtype=float)
        if fit_intercept:
            self.X = np.column_stack([self.X, np.ones(len(self.X))])
        self.n = len(self.X)
        weights = np.ones(self.n) if weights is None else np.asarray(weights, dtype=float)
        self.weights = weights / weights.mean()

    def item(self, i, w):
        """Loss and gradient of an item, with its weight."""
        value, slopes = self.loss(w @ self.X[i], self.y[i])
        return self.weights[i] * value, self.weights[i] * np.outer(slopes, self.X[i])

    def penalised(self, w):
        return w[:, :-1] if self.fit_intercept else w

    def value(self, w):
        v = self.penalised(w)
        losses = [self.item(i, w)[0] for i in range(self.n)]
        return np.mean(losses) + self.l2 / 2 * (v**2).sum() + self.l1 * np.abs(v).sum()

    def mean_gradient(self, w):
        """Of the losses alone."""
        return sum(self.item(i, w)[1] for i in range(self.n)) / self.n

    def prox(self, w, rate):
        """The minimum of l1 |v|_1 + l2/2 |v|^2 + sum_j (v_j - w_j)^2 / (2 rate_j)."""
        rate = np.broadcast_to(rate, w.shape)
        out = w.copy()
        v, r = self.penalised(w), self.penalised(rate)
        self.penalised(out)[...] = (
            np.sign(v) * np.maximum(np.abs(v) - r * self.l1, 0) / (1 + r * self.l2)
        )
        return out


def descend(
    model, method, draws, start, *, rate, schedule="constant", every=0, average=0, radius=0
):
    """Yield the iterate, and the average (or None), after each draw of (items, probabilities)."""
    w = start.copy()
    squares, sum_squared = np.zeros_like(w), 0.0
    on_file = [np.zeros_like(w) for _ in range(model.n)]
    if method == "SAGA":
        on_file = [model.item(i, w)[1] for i in range(model.n)]
    weighted, total = np.zeros_like(w), 0.0
    for t, (items, chances) in enumerate(draws, start=1):
        if method == "SVRG" and (t - 1) % every == 0:
            on_file = [model.item(i, w)[1] for i in range(model.n)]
        g = sum(on_file) / model.n
        fresh = {i: model.item(i, w)[1] for i in items}
        for i, p in zip(items, chances, strict=True):
            g = g + (fresh[i] - on_file[i]) / (model.n * p) / len(items)
        if method == "SAGA":
            for i in items:
                on_file[i] = fresh[i]
        share = 1 if average == 1 else t
        weighted, total = weighted + share * w, total + share  # w_t, where g_t was taken
        squares, sum_squared = squares + g**2, sum_squared + (g**2).sum()
        if schedule == "diagonal":
            step = np.divide(rate, np.sqrt(squares), where=squares > 0, out=np.zeros_like(squares))
        else:
            step = {
                "constant": rate,
                "root": rate / np.sqrt(t),
                "strongly convex": 2 / (model.l2 * t) if model.l2 else 0.0,
                "norm": rate / np.sqrt(sum_squared) if sum_squared else 0.0,
            }[schedule]
        w = model.prox(w - step * g, step)
        if radius and np.linalg.norm(w) > radius:
            w = w * radius / np.linalg.norm(w)
        yield w, weighted / total if average else None


def repeated_prox(v, rounds, step, threshold, shrink):
    """Repeat v -> shrink soft(v - step, threshold); also return the largest |v| on the way."""
    largest = abs(v)
    for _ in range(rounds):
        v = v - step
        v = shrink * math.copysign(max(abs(v) - threshold, 0.0), v)
        largest = max(largest, abs(v))
    return v, largest
