"""`Latest` called from Python draws what compiled loops draw; what it uses, against the kernels."""

import numpy as np
import pytest

from tombola import Latest
from tombola.gauge import new_tally, record, record_many
from tombola.random import Stream, fill_words, integers_below, multiply_apart, take_words
from tombola.samplers.compiled import draw_in_turn

EVERY_THIRD = np.arange(0, 300, 3)


@pytest.mark.parametrize(
    ("n", "plan", "among"),
    [(10, None, None), (200, 50, None), (300, None, EVERY_THIRD), (37, 100, None), (1, 2, None)],
)
def test_the_items_of_the_compiled_rule(n, plan, among):
    one, other = (Latest(n, plan=plan, among=among, seed=3) for _ in range(2))
    rng = np.random.default_rng(0)
    for turn in range(8):
        size = int(rng.integers(0, 90))
        items, chances = np.empty(size, dtype=np.int64), np.empty(size)
        draw_in_turn(one.state, items, chances)
        draw = other.draw(size)
        np.testing.assert_array_equal(draw.indices, items)
        np.testing.assert_array_equal(draw.probabilities, chances)
        if turn % 3 == 1:
            losses = rng.exponential(size=n) * (rng.uniform(size=n) < 0.7)
            other.update_all(losses)
            one.state.scores[:] = losses
            one.state.plan.turn[0].place = one.state.plan.items.size
        losses = rng.exponential(size=size)
        other.update(draw, losses)
        one.state.scores[items] = losses
        assert one._stream.position == other._stream.position


@pytest.mark.parametrize("seed", [0, 7, 2**127 + 5])
@pytest.mark.parametrize("path", [(), (3,), (1, 2, 2**64 - 2)])
def test_words_are_those_of_the_kernels(seed, path):
    for position in (0, 1, 3, 4, 9, 2**40 + 1):
        for size in (0, 1, 3, 4, 5, 13):
            one, other = Stream(seed, path), Stream(seed, path)
            one.position = other.position = position
            out, after, ahead = (np.empty(k, dtype=np.uint64) for k in (size, 5, 5))
            fill_words(one.state, out)
            np.testing.assert_array_equal(take_words(other.state, size), out)
            fill_words(one.state, after)
            fill_words(other.state, ahead)
            np.testing.assert_array_equal(ahead, after)


def test_rejected_words_are_replaced():
    """A bound of 3 2^61 rejects a quarter of all words; halves of products are exact."""
    bounds = np.full(200, 3 * 2**61)
    stream = Stream(5)
    found = integers_below(bounds, stream.words)
    np.testing.assert_array_equal(found, Stream(5).integers(3 * 2**61, 200))
    assert stream.position > 220
    words = Stream(1).words(50)
    high, low = multiply_apart(words, words[::-1].copy())
    for word, other, h, l in zip(words, words[::-1], high, low, strict=True):  # noqa: E741
        assert (int(h) << 64) + int(l) == int(word) * int(other)


def test_the_gauge_of_many_losses():
    rng, one, other = np.random.default_rng(0), new_tally(), new_tally()
    for turn in range(4):
        chances, losses = rng.uniform(0.01, 1, size=50), rng.exponential(size=50) * (turn + 1)
        assert record(one, 100, chances, losses) == record_many(other, 100, chances, losses) == -1
    for name in one.dtype.names:
        np.testing.assert_allclose(other[name], one[name], rtol=1e-12)
    before = other.copy()
    assert record_many(other, 100, np.ones(3), np.array([1.0, np.nan, -1.0])) == 1
    assert (other == before).all()
    assert record_many(other, 100, np.ones(0), np.zeros(0)) == -1
    assert (other == before).all()
