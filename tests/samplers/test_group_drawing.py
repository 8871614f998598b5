"""The draws of `GroupVRB`, next to a slow version made of Python integers."""

import itertools

import numpy as np
import pytest
from numba import njit

import naive
from tombola import GroupVRB
from tombola.index.layout import Index, build
from tombola.samplers.group_drawing import rest_below
from tombola.samplers.group_vrb import DARTS

pytestmark = pytest.mark.kernels


class Words:
    """The words of a stream; `last_61_below` maps the last 61 bits of a word, exactly."""

    def __init__(self, seed, path=()):
        self.words = naive.words(seed, path)

    def next(self):
        return next(self.words)

    def below(self, bound):
        return naive.integer_below(bound, self.words)[0]

    def last_61_below(self, word, bound):
        while True:
            value, rest = divmod(word % 2**61 * bound, 2**61)
            if rest >= 2**61 % bound:
                return value
            word = self.next()


def hit(dart, order, weights):
    """The item whose column a dart lands in, or None if that is above its weight."""
    for item in order:
        if dart < naive.column(weights[item]):
            return item if dart < weights[item] else None
        dart -= naive.column(weights[item])
    raise AssertionError("off the board")


def area_of(weights):
    return sum(naive.column(weight) for weight in weights)


class SlowDraws:
    """Draw after draw, as the module describes it."""

    def __init__(self, sampler, seed):
        self.state, self.seed, self.turn = sampler.state, seed, 0
        self.stream, self.darts = Words(seed), Words(seed, (DARTS,))

    def draw(self):
        state, n = self.state, self.state.place.size
        word = self.stream.next()
        if word >> 61 == 0:
            return self.stream.last_61_below(word, n)
        if word >> 61 == 1:
            c = self.stream.last_61_below(word, state.levels.size)
            place = state.starts[c] + self.stream.below(int(state.starts[c + 1] - state.starts[c]))
            return int(state.item[place])
        weights = state.index.weights.tolist()
        c = None
        while c is None:
            dart = self.stream.last_61_below(word, area_of(weights))
            c = hit(dart, state.index.order.tolist(), weights)
            word = self.stream.next() if c is None else None
        return int(state.item[state.starts[c] + self.member(c)])

    def member(self, c):
        members = slice(self.state.starts[c], self.state.starts[c + 1])
        weights = self.state.members.weights[members].tolist()
        order = self.state.members.order[members].tolist()
        area, word, child, member = area_of(weights), self.darts.next(), 0, None
        while member is None:
            dart, rest = divmod(word * area, 2**64)
            member = hit(dart, order, weights) if rest >= 2**64 % area else None
            later = naive.words(self.seed, (DARTS, child))
            word = next(itertools.islice(later, self.turn, None))
            child += 1
        self.turn += 1
        return member


@pytest.mark.parametrize("size", [1, 7, 40, 600])
def test_draws_are_those_of_the_slow_version(size):
    rng, groups = np.random.default_rng(size), np.arange(50) % 11 % 4
    sampler = GroupVRB(groups, shuffle=False, seed=5)
    slow = SlowDraws(sampler, 5)
    for _ in range(max(3, 120 // size)):
        draw = sampler.draw(size)
        assert draw.indices.tolist() == [slow.draw() for _ in range(size)]
        sampler.update(draw, rng.lognormal(groups[draw.indices], 1.5))


@pytest.mark.parametrize("size", [1, 40])
def test_draws_by_small_weights_are_those_of_the_slow_version(size):
    """All levels of a column are met, the first one above the weight too."""
    groups = np.arange(30) % 5
    sampler = GroupVRB(groups, shuffle=False, seed=6)
    top, members, starts = sampler.state.index, sampler.state.members, sampler.state.starts
    top.weights[:] = 3, 5, 1, 2, 9
    members.weights[:] = 1 + np.arange(30) % 7
    build(top)
    for c, (first, end) in enumerate(itertools.pairwise(starts)):
        arrays = (array[first:end] for array in members[1:4])
        build(Index(members.sums[c : c + 1], *arrays))
    slow = SlowDraws(sampler, 6)
    for _ in range(400 // size):
        draw = sampler.draw(size)
        assert draw.indices.tolist() == [slow.draw() for _ in range(size)]


def test_probabilities_are_those_of_the_formula():
    groups = np.arange(60) ** 2 % 5
    sampler = GroupVRB(groups, shuffle=False)
    for _ in range(20):
        draw = sampler.draw(50)
        sampler.update(draw, 1.0 + draw.indices % 7)
    labels, counts = np.unique(groups, return_counts=True)
    weights = np.empty(60)
    weights[sampler.state.item] = sampler.state.members.weights
    learnt = np.empty(60)
    for c, label in enumerate(labels):
        inside = groups == label
        share = sampler.state.index.weights[c] / sampler.state.index.weights.sum()
        learnt[inside] = share * weights[inside] / weights[inside].sum()
    balanced = 1 / (len(labels) * counts[np.searchsorted(labels, groups)])
    expected = 0.75 * learnt + 0.125 / 60 + 0.125 * balanced
    np.testing.assert_allclose(sampler.probabilities(), expected, rtol=1e-14)
    assert sampler.probabilities().sum() == pytest.approx(1.0, abs=1e-14)


def test_the_last_61_bits_give_each_integer_equally_often():
    # words at both ends of each integer's range: one below is rejected, or gives the one before
    sampler = GroupVRB([0, 1])
    for bound in (3, 7, 1000, 2**60 - 1, 2**60):
        rejected = 2**61 % bound
        for value in (0, 1, bound // 2, bound - 1):
            first = -(-(value * 2**61 + rejected) // bound)  # the least word that is accepted
            last = (value * 2**61 + 2**61 - 1) // bound
            assert last - first + 1 == 2**61 // bound
            for word in (first, last, first + 2**63, last + 3 * 2**61):
                assert below(sampler.state.stream, np.uint64(word), np.uint64(bound)) == value
            assert sampler.state.stream[0].position == 0  # no other word was needed
            if (first - 1) * bound >= value * 2**61:
                below(sampler.state.stream, np.uint64(first - 1), np.uint64(bound))
                assert sampler.state.stream[0].position > 0
                sampler.reset()


@njit
def below(stream, word, bound):
    return rest_below(stream, word, bound)
