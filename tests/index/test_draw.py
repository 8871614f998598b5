"""Draws against the oracle, word by word."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from tombola import Stream, WeightIndex

pytestmark = pytest.mark.kernels

vectors = st.lists(
    st.one_of(st.integers(0, 9), st.integers(0, 2**40), st.integers(0, 2**57)),
    min_size=1,
    max_size=30,
).filter(any)


additions = st.one_of(st.just(0), st.integers(0, 9), st.integers(0, 2**50))


@given(vectors, st.integers(0, 2**32), st.integers(0, 40), additions)
def test_draws_are_those_of_the_oracle(weights, seed, size, uniform):
    index, words = WeightIndex(weights, seed), naive.words(seed)
    order = index._index.order.tolist()
    expected = [naive.draw(order, weights, words, uniform) for _ in range(size)]
    draw, n = index.draw(size, uniform=uniform), len(weights)
    assert draw.indices.tolist() == [item for item, _ in expected]
    assert index._stream.position == sum(used for _, used in expected)
    total = sum(weights) + n * uniform
    shares = [(weights[item] + uniform) / total for item, _ in expected]
    np.testing.assert_allclose(draw.probabilities, shares, rtol=2.0**-51, atol=0)
    np.testing.assert_allclose(draw.importances, 1 / (n * np.array(shares)), rtol=1e-15, atol=0)


@given(vectors, st.lists(st.integers(0, 700), max_size=6), additions)
def test_the_batch_size_changes_nothing(weights, sizes, uniform):
    index, whole = WeightIndex(weights, 4), WeightIndex(weights, 4)
    parts = [index.draw(size, uniform=uniform) for size in sizes]
    together = whole.draw(sum(sizes), uniform=uniform)
    for name in ("indices", "probabilities"):
        joined = [value for part in parts for value in getattr(part, name).tolist()]
        assert joined == getattr(together, name).tolist()
    assert index._stream.position == whole._stream.position
    assert [part.round for part in parts] == list(range(len(sizes)))


def test_a_batch_of_many_chunks_is_that_of_single_draws():
    singles, batch = (WeightIndex(Stream(0).integers(1000, 500), seed=8) for _ in range(2))
    expected = [singles.draw() for _ in range(3000)]
    together = batch.draw(3000)
    assert together.indices.tolist() == [draw.indices[0] for draw in expected]
    assert together.probabilities.tolist() == [draw.probabilities[0] for draw in expected]


@given(vectors, st.integers(0, 2**32), st.data())
def test_without_replacement_is_draw_and_take_away(weights, seed, data):
    size = data.draw(st.integers(0, sum(weight > 0 for weight in weights)))
    index = WeightIndex(weights, seed)
    before = [array.tobytes() for array in index._index]
    items = index.draw_distinct(size)
    after = [array.tobytes() for array in index._index]
    assert before == after
    assert index.weights.tolist() == weights
    one_by_one = WeightIndex(weights, seed)
    for item in items:
        assert one_by_one.draw().indices[0] == item
        one_by_one.set(item, 0)
    assert len(set(items.tolist())) == size
    assert one_by_one._stream.position == index._stream.position


def test_an_item_of_weight_1_alone_can_be_drawn():
    assert WeightIndex([0, 1]).draw_distinct(1).tolist() == [1]


def test_an_empty_draw_uses_no_randomness():
    for weights in ([1, 2], [0, 0], [0.0, 0.5], np.zeros(0)):
        index = WeightIndex(weights)
        assert len(index.draw(0)) == index.draw_distinct(0).size == 0
        assert index._stream.position == 0


def test_the_largest_total():
    index = WeightIndex([2**62 - 3, 3, 0])
    assert index.total == 2**62
    index.verify()
    assert (index.draw(1000).indices == 0).all()
    index.set([0], [0])
    assert (index.draw(100).indices == 1).all()
    index.set([1, 2], [2**62 - 1, 1])
    assert (index.draw(10).indices == 1).all()


def test_items_without_weight_can_be_drawn_by_what_is_added():
    for weights in ([0, 0, 0], [0.0, 0.0, 0.0]):
        draw = WeightIndex(weights).draw(50, uniform=1)
        assert set(draw.indices.tolist()) == {0, 1, 2}
        assert set(draw.probabilities.tolist()) == {1 / 3}


def test_uniform_draws_use_one_word_each():
    index = WeightIndex.uniform(1000)
    assert (index.draw(100).indices < 1000).all()
    assert index._stream.position == 100
