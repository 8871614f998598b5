"""The default rule, `VRB` without parameters, against the formulas of its docstring."""

import math

import numpy as np
import pytest

from tombola import VRB, Draw
from tombola.index.real import power_of_two_near
from tombola.samplers.arithmetic import cube_root, normalised, pace

pytestmark = pytest.mark.kernels

LOW, HIGH, TARGET = 2**10, 2**60, 2**50


class Oracle:
    """Plain numbers; losses are not normalised, weights are integers of any size."""

    def __init__(self, n, fade=1.0):
        self.n, self.fade = n, fade
        self.fed, self.cursor = 0, 0
        self.block = self.left = n * math.ceil(256 / n)
        self.shuffling, self.mixing = False, 1.0
        self.forget()

    def forget(self):
        self.first_loss, self.scale = None, TARGET / 2 ** math.frexp(self.n)[1]
        self.h, self.visits = [0.0] * self.n, [0.0] * self.n
        self.m = self.d = self.compared = self.first_root = self.ours = self.uniform = 0.0
        self.weights = [int(self.scale)] * self.n

    def value(self, i):
        if self.first_loss is None:
            return 1.0
        k = 1 / 8 + (0.5 if self.h[i] > 0 else 8) * self.d**2
        squared = (self.visits[i] * self.h[i] + k * self.m) / (self.visits[i] + k)
        return math.sqrt(squared) / self.first_root

    def put(self, i):
        self.weights[i] = max(1, int(self.value(i) * self.scale))

    def added(self):
        """The uniform weight, or None if all draws are uniform."""
        if self.mixing == 1.0:
            return None
        return int(self.mixing / (1 - self.mixing) * sum(self.weights) / self.n) + 1

    def chance(self, i):
        u = self.added()
        if u is None:
            return 1 / self.n
        return (self.weights[i] + u) / (sum(self.weights) + self.n * u)

    def draw(self, size):
        """Begin blocks as needed; return the probabilities of all items, for each draw."""
        chances = []
        while size:
            self.mixing = min(1.0, math.sqrt(self.n / (4 * self.fed))) if self.fed else 1.0
            if self.left == 0:
                ratio = self.ours / self.uniform if self.uniform else 1.0
                self.shuffling = ratio >= (0.9 if self.shuffling else 0.95)
                self.left, self.ours, self.uniform = self.block, self.ours / 2, self.uniform / 2
            part = min(size, self.left)
            self.left, size = self.left - part, size - part
            chances += part * [self.probabilities()]
        return np.array(chances)

    def probabilities(self):
        return [1 / self.n if self.shuffling else self.chance(i) for i in range(self.n)]

    def learn(self, i, p, loss):
        share = max(1 / (self.fed + 1), 1 / self.n)
        faint = self.first_loss and self.m <= 2.0**-200 * self.first_root**2 and loss > 0
        if faint or (self.first_loss and loss > self.first_loss * 2.0**100):
            self.forget()
        squared = loss**2
        if self.first_loss is None and loss > 0:
            self.first_loss = 2.0 ** math.frexp(loss)[1]
            self.first_root = math.sqrt(share * squared / (self.n * p))
        if self.first_loss:
            moved = (1 - share) * self.m + share * squared / (self.n * p)
            self.m = min(moved, 2 * self.m) if self.m else moved
            self.m = max(self.m, 2.0**-200 * self.first_root**2)
            squared = min(squared, 8 * self.n * self.m)
        if self.visits[i] and self.first_loss:
            self.uniform += squared / (self.n * p)
            self.ours += squared / (self.n * p) / (self.n * self.chance(i))
        if self.visits[i] and squared + self.h[i] > 0:
            self.compared += 1
            gap = 1 - 2 * math.sqrt(squared * self.h[i]) / (squared + self.h[i])
            share = max(1 / (self.compared + 1), 1 / self.n)
            self.d = (1 - share) * self.d + share * gap
        self.h[i] += (squared - self.h[i]) / min(self.visits[i] + 1, 32)
        self.visits[i] += 1
        self.fed += 1
        self.put(i)
        for _ in range(2):
            self.visits[self.cursor] *= self.fade
            self.put(self.cursor)
            self.cursor = (self.cursor + 1) % self.n
        if not LOW * self.n <= sum(self.weights) <= HIGH:
            values = [self.value(j) for j in range(self.n)]
            self.scale = TARGET / 2.0 ** math.frexp(sum(values))[1]
            self.weights = [max(1, int(value * self.scale)) for value in values]


def assert_agree(sampler, oracle, rel):
    rule, guard = sampler.state.rule[0], sampler.state.fallback[0]
    unit = rule.unit if rule.unit else 1.0
    assert rule.unit == (1 / oracle.first_loss if oracle.first_loss else 0.0)
    near = {"rel": rel, "abs": 1e-300}
    assert rule.mean_square == pytest.approx(oracle.m * unit * unit, **near)
    assert rule.disagreement == pytest.approx(oracle.d, rel=rel, abs=1e-12)
    assert (rule.fed, rule.compared) == (oracle.fed, oracle.compared)
    scores = [h * unit * unit for h in oracle.h]
    assert sampler.state.scores.tolist() == pytest.approx(scores, **near)
    assert sampler.state.visits.tolist() == pytest.approx(oracle.visits, rel=rel)
    assert guard.ours == pytest.approx(oracle.ours * unit * unit, **near)
    assert guard.uniform == pytest.approx(oracle.uniform * unit * unit, **near)
    assert (guard.left, bool(guard.shuffling)) == (oracle.left, oracle.shuffling)
    assert sampler.probabilities() == pytest.approx(np.array(oracle.probabilities()), rel=rel)
    assert sampler.state.sweep[0].scale == oracle.scale


def skewed(rng, i, k):
    return (1.0 + 9.0 * (i == 0)) * rng.uniform(0.5, 2.0)


def equal(rng, i, k):
    return 3.0


def with_outliers(rng, i, k):
    return 1e5 if k % 97 == 50 else skewed(rng, i, k)


def often_zero(rng, i, k):
    return skewed(rng, i, k) * (i != 1) * (k > 20) * (rng.uniform() < 0.5)


def in_leaps(rng, i, k):
    """Twice beyond what the first loss prepares for; each time it starts over."""
    return skewed(rng, i, k) * (1.0, 2.0**110, 2.0**220)[min(2, k // 300)]


def vanishing(rng, i, k):
    """From 1 to 1e-18: the weights leave the range of their scale."""
    return skewed(rng, i, k) * 10.0 ** (-min(k, 900) / 50)


@pytest.mark.parametrize("n", [1, 5, 23])
@pytest.mark.parametrize("losses", [skewed, equal, with_outliers, often_zero, in_leaps, vanishing])
def test_the_rule_against_the_oracle(n, losses):
    follow(VRB(n, seed=3), Oracle(n), losses, 1e-7)


def test_memory_against_the_oracle():
    fade = 1 / (1 + 5 / (2 * 50))  # 2 items are refreshed for each loss
    follow(VRB(5, seed=3, memory=50), Oracle(5, fade), skewed, 1e-4)  # visits are of 32 bits


def follow(sampler, oracle, losses, rel):
    rng, k = np.random.default_rng(4), 0
    for size in 20 * (1, 3, 17, 2, 40):  # from 8 on in stages
        draw = sampler.draw(size)
        expected = oracle.draw(size)[np.arange(size), draw.indices]
        assert draw.probabilities == pytest.approx(expected, rel=rel)
        fed = [losses(rng, i, k + j) for j, i in enumerate(draw.indices)]
        k += size
        sampler.update(draw, fed)
        for i, p, loss in zip(draw.indices, draw.probabilities, fed, strict=True):
            oracle.learn(int(i), float(p), float(loss))
        assert_agree(sampler, oracle, rel)


def test_a_mean_that_has_vanished_starts_from_the_next_loss():
    sampler = VRB(2, seed=1)
    sampler.update(Draw([0], [0.5], 2), [1.0])
    sampler.state.rule[0].mean_square = 0.0  # as after thousands of zeros
    sampler.update(Draw([0], [0.5], 2), [1.0])
    assert sampler.state.rule[0].mean_square == pytest.approx(0.25 * 0.5)


@pytest.mark.parametrize("x", [5e-324, 1e-300, 2.0**-950, 0.3, 0.5, 1.0, 7.0, 2.0**999, 1.7e308])
def test_the_unit_keeps_2_to_the_50_units_finite(x):
    p = power_of_two_near(x)
    assert math.frexp(p)[0] == 0.5
    assert 2.0**-950 <= p <= 2.0**1000
    assert 0.0 < 2.0**50 / p < math.inf
    if 2.0**-950 <= x < 2.0**999:
        assert 0.5 <= x / p < 1.0


def test_normalised_losses_have_finite_squares():
    assert normalised(3.0, 0.5) == 1.5
    assert normalised(1e300, 1e300) == normalised(2.0**251, 1.0) == 2.0**250


def test_the_newest_value_has_a_share_of_at_least_1_in_n():
    assert [pace(count, 4) for count in (0, 1, 3, 4, 100)] == [1.0, 0.5, 0.25, 0.25, 0.25]


@pytest.mark.parametrize("x", [1e-18, 1e-3, 0.125, 1.0])
def test_cube_roots(x):
    assert cube_root(x) == pytest.approx(x ** (1 / 3), rel=1e-14)


def test_what_the_first_epoch_shows_counts_at_its_end():
    """Only repeated items count, so a gain is seen at once, and noise is not taken for one."""
    modes = {}
    for spread, noise in ((0.5, 0.3), (0.0, 1.0)):
        generator = np.random.default_rng(5)
        losses = generator.lognormal(0, spread, 2000)
        sampler = VRB(2000, seed=5)
        for _ in range(21):
            draw = sampler.draw(100)
            fed = losses[draw.indices] * generator.lognormal(0, noise, 100)
            sampler.update(draw, fed)
        modes[spread] = sampler.mode
    assert modes == {0.5: "adaptive", 0.0: "shuffle"}
