"""`EpochVRB`, `InfoBatch`, `KVib` and `VRM`, draw by draw against their rules in plain Python.

As in `test_rules.py`, and the items too: the rules take the same words of the generator.
"""

import itertools
import math

import numpy as np
import pytest
from test_bandit_rules import ParameterFree
from test_rules import fitting, some_losses, unit_of

import naive
import tombola
from states import leaves
from tombola.samplers.water_filling import fill_chances

pytestmark = pytest.mark.kernels


def water_filled(values, low, high, total):
    """Integers from low to high of sum `total`; `test_water_filling.py` is about them."""
    chances = np.empty(len(values), dtype=np.int64)
    fill_chances(np.array(values), low, high, total, chances)
    return chances


class Words:
    """The words of a sampler's generator, and integers that are made of them."""

    def __init__(self, seed):
        self.words = naive.words(seed)

    def below(self, bound):
        return naive.integer_below(bound, self.words)[0]

    def swap(self, items, place, end):
        """Exchange an item with a random one, from there to the end; return what came."""
        other = place + self.below(end - place)
        items[place], items[other] = items[other], items[place]
        return items[place]


class Epochs(ParameterFree):
    """Chosen epochs; see `tombola.samplers.epoch_vrb`. What is learnt is as in `VRB`."""

    def __init__(self, n, *, share=1.0, seed=0):
        super().__init__(n, shuffle=False)
        self.words, self.place, length = Words(seed), 0, max(1, round(share * n))
        self.unit = 2 ** min(32, 62 - length.bit_length())
        self.total = length * self.unit
        self.least, extra = divmod(self.total, n)
        self.chances = np.array([self.least + (i < extra) for i in range(n)])
        self.items = [i % n for i in range(length)]

    def begin_epoch(self):
        n, fed, even = self.n, self.rule["fed"], self.total // self.n
        self.rule["mixing"] = 1.0 if 4 * fed <= n else math.sqrt(n / (4 * fed))
        self.least = min(even, int(self.rule["mixing"] * even) + 1)
        most = self.unit if len(self.items) < n else self.total
        values = [self.value(i) for i in range(n)]
        self.chances = water_filled(values, self.least, most, self.total)
        point, order = self.words.below(self.unit), list(range(n))
        for k in range(n):
            self.words.swap(order, k, n)
        ends = np.cumsum(self.chances[order])
        self.items = [order[np.searchsorted(ends, x, "right")]
                      for x in range(point, self.total, self.unit)]  # fmt: skip

    def draw(self, size):
        drawn, chances = [], []
        for _ in range(size):
            if self.place == 0:
                self.begin_epoch()
            item = self.words.swap(self.items, self.place, len(self.items))
            self.place = (self.place + 1) % len(self.items)
            drawn.append(item)
            chances.append(self.chances[item] / self.total)
        return drawn, chances

    def learn(self, i, p, loss):
        self.absorb(i, p, loss)
        self.rule["fed"] += 1

    def probabilities(self):
        return self.chances / self.total

    def largest_importance(self):
        return self.total / (self.n * self.least)

    def state(self):
        names = "mixing", "fed", "unit", "mean_square", "disagreement", "compared", "first_root"
        return {
            "rule": {"least": self.least, **{name: self.rule[name] for name in names}},
            "chosen": {"items": np.array(self.items), "turn": {"place": self.place}},
            "chances": self.chances, "scores": self.h, "visits": self.visits,
        }  # fmt: skip


class Pruned:
    """Epochs that leave out some items below the mean; see `tombola.samplers.rivals.info_batch`."""

    rtol = 0.0

    def __init__(self, n, epochs, *, prune=0.5, until=0.875, seed=0):
        self.n, self.prune, self.stop, self.words = n, prune, until * epochs, Words(seed)
        self.items, self.losses, self.below = list(range(n)), np.full(n, -1.0), np.zeros(n, int)
        self.number, self.length, self.kept, self.place = 0, n, 0, 0

    def begin_epoch(self):
        known = self.losses[self.losses >= 0]
        self.below[:] = 0
        if 0 < self.number < self.stop and known.size:
            mean = known.min()
            for loss in known:
                mean += (loss - known.min()) / known.size
            self.below[:] = (self.losses >= 0) & (self.losses < mean)
        front = 0
        for place, item in enumerate(self.items):
            if not self.below[item]:
                self.items[place], self.items[front] = self.items[front], item
                front += 1
        self.kept = self.n - front - int(self.prune * (self.n - front))
        self.length = front + self.kept
        self.number += 1
        for place in range(front, self.length):
            self.words.swap(self.items, place, self.n)

    def draw(self, size):
        drawn, chances = [], []
        for _ in range(size):
            if self.place == 0:
                self.begin_epoch()
            item = self.words.swap(self.items, self.place, self.length)
            self.place = (self.place + 1) % self.length
            drawn.append(item)
            chances.append(self.probabilities()[item])
        return drawn, chances

    def learn(self, i, p, loss):
        self.losses[i] = loss

    def probabilities(self):
        count = int(self.below.sum())
        chance = self.kept / (count * self.length) if count else 0.0
        return np.where(self.below == 1, chance, 1 / self.length)

    def largest_importance(self):
        return 1 / (1 - self.prune)

    def state(self):
        epoch = {"number": self.number, "length": self.length, "below": int(self.below.sum()),
                 "kept": self.kept}  # fmt: skip
        deck = {"items": np.array(self.items), "turn": {"place": self.place}}
        return {"epoch": epoch, "deck": deck, "below": self.below, "losses": self.losses}


class Coins:
    """Each item by a coin of its own; see `tombola.samplers.rivals.k_vib`."""

    rtol = 1e-12

    def __init__(self, n, *, bound, mixing=None, horizon=None, seed=0):
        theta = mixing or min(1.0, (n / horizon) ** (1 / 3))
        self.theta = math.ceil(theta * 2**32) / 2**32
        self.n, self.words, self.nominal = n, Words(seed), 1
        self.unit = unit_of(math.sqrt(bound))
        self.bound, self.w = bound * self.unit**2, np.zeros(n)

    def chances(self):
        """In units, with how many of them make one."""
        size, n, theta = self.nominal, self.n, self.theta
        one = 2 ** (62 - size.bit_length())
        even = size * one // n
        uniform = min(even, int(theta * even) + 1)
        most = min(one - uniform, one - int(theta * one) + 1) if size <= n else size * one
        values = np.sqrt(self.w + self.bound * n / (theta * size))
        return water_filled(values, 0, most, size * one - n * uniform) + uniform, one

    def draw(self, size):
        if size == 0:
            return [], []
        self.nominal = size
        chances, one = self.chances()
        times = [int(c) // one + (self.words.below(one) < int(c) % one) for c in chances]
        drawn = [i for i in range(self.n) for _ in range(times[i])]
        return drawn, [chances[i] / (size * one) for i in drawn]

    def learn(self, i, p, loss, size):
        self.w[i] += min(loss * self.unit, 2.0**250) ** 2 / (size * p)

    def probabilities(self):
        chances, one = self.chances()
        return chances / (self.nominal * one)

    def largest_importance(self):
        return (1 + 1e-9) / self.theta

    def state(self):
        return {"latest": {"nominal": self.nominal}, "scores": self.w}


def game(rule, sampler, rounds, seed, wild, sizes=(0, 1, 2, 5, 9, 20)):
    """Play, and compare items, their probabilities and all numbers after each round."""
    rng, n = np.random.default_rng(seed), sampler.n
    for k in range(rounds):
        theirs = leaves(sampler.state_dict()["parts"])
        mine = leaves(rule.state())
        assert set(theirs) - {"rule.drawn"} == set(mine), k
        for name in mine:
            assert fitting(mine[name], theirs[name], rule.rtol), (k, name)
        assert fitting(rule.probabilities(), sampler.probabilities(), rule.rtol), k
        limit = sampler._largest_importance()
        assert limit == pytest.approx(rule.largest_importance(), rel=1e-15), k
        size = int(rng.choice(sizes))
        draw, (items, chances) = sampler.draw(size), rule.draw(size)
        assert draw.indices.tolist() == items, k
        assert fitting(np.array(chances), draw.probabilities, rule.rtol), k
        if rng.integers(3) == 0:  # somebody else's draw
            p = np.exp(rng.uniform(-35 if wild else -2, 0.5, size)) / n
            draw = tombola.Draw(rng.integers(n, size=size), np.minimum(p, 1.0), n)
        losses = some_losses(rng, len(draw), 1.0, wild) if len(draw) else np.empty(0)
        sampler.update(draw, losses)
        more = (draw.size,) if isinstance(rule, Coins) else ()
        for i, p, loss in zip(draw.indices, draw.probabilities, losses, strict=True):
            rule.learn(int(i), float(p), float(loss), *more)


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize(
    ("n", "share"), [(1, 1.0), (2, 0.1), (9, 1.0), (9, 0.6), (12, 2.3), (40, 0.9), (3, 50.0)]
)
def test_chosen_epochs(n, share, wild):
    rule, sampler = Epochs(n, share=share, seed=5), tombola.EpochVRB(n, share=share, seed=5)
    rule.rtol = 1e-12 if wild else 0.0
    game(rule, sampler, 80, n, wild)


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize(
    ("n", "given"),
    [(1, {}), (2, {}), (9, {}), (9, {"prune": 0.9, "until": 1.0}), (30, {"prune": 0.3}),
     (12, {"prune": 0.0}), (5, {"until": 0.0})],
)  # fmt: skip
def test_pruned_epochs(n, given, wild):
    rule = Pruned(n, 21, seed=6, **given)
    game(rule, tombola.InfoBatch(n, 21, seed=6, **given), 150, n, wild)
    assert rule.number > 21 or n > 9


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize(
    ("n", "given"),
    [(1, {"bound": 1.0, "mixing": 0.5}), (7, {"bound": 4.0, "mixing": 0.1}),
     (12, {"bound": 1e-9, "horizon": 700}), (5, {"bound": 1e150, "mixing": 1.0}),
     (20, {"bound": 0.01, "mixing": 0.003})],
)  # fmt: skip
def test_coins(n, given, wild):
    rule, sampler = Coins(n, seed=7, **given), tombola.KVib(n, seed=7, **given)
    game(rule, sampler, 60, n, wild, sizes=(0, 1, 2, 5, n - 1, n, n + 1, 3 * n))


@pytest.mark.parametrize("k", [1, 3])
def test_items_of_a_mixture(k):
    """A component off its board, then an item off that of the component, word by word."""
    rows = np.array([[1.0, 0.0, 4.0, 2.0, 7.0], [0, 1, 0, 0, 0], [5, 5, 0, 0, 1]])[:k]
    sampler, words = tombola.VRM(rows, mixing=0.3, seed=8), naive.words(8)
    index, parts = sampler.state.index, sampler.state.components
    for size in (1, 30, 300):
        drawn = []
        for _ in range(size):
            c, _ = naive.draw(index.order.tolist(), index.weights.tolist(), words)
            if c == k:
                drawn.append(naive.integer_below(5, words)[0])
                continue
            mine = slice(*parts.starts[c : c + 2])
            board = parts.members.order[mine].tolist(), parts.members.weights[mine].tolist()
            drawn.append(parts.items[mine][naive.draw(*board, words)[0]])
        draw = sampler.draw(size)
        assert draw.indices.tolist() == drawn
        sampler.update(draw, 1.0 + draw.indices)
    assert list(itertools.accumulate(np.count_nonzero(rows, axis=1))) == parts.starts[1:].tolist()
