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
    index, stream, words = WeightIndex(weights), Stream(seed), naive.words(seed)
    order = index._index.order.tolist()
    expected = [naive.draw(order, weights, words, uniform) for _ in range(size)]
    assert index.draw(size, stream, uniform=uniform).tolist() == [item for item, _ in expected]
    assert stream.position == sum(used for _, used in expected)


@given(vectors, st.lists(st.integers(0, 700), max_size=6), additions)
def test_the_batch_size_changes_nothing(weights, sizes, uniform):
    index, stream, whole = WeightIndex(weights), Stream(4), Stream(4)
    parts = [index.draw(size, stream, uniform=uniform) for size in sizes]
    together = index.draw(sum(sizes), whole, uniform=uniform)
    assert np.concatenate([*parts, np.empty(0, int)]).tolist() == together.tolist()
    assert stream.position == whole.position


def test_a_batch_of_many_chunks_is_that_of_single_draws():
    index = WeightIndex(Stream(0).integers(1000, 500))
    singles, batch = Stream(8), Stream(8)
    expected = [index.draw(1, singles)[0] for _ in range(3000)]
    assert index.draw(3000, batch).tolist() == expected


@given(vectors, st.integers(0, 2**32), st.data())
def test_without_replacement_is_draw_and_take_away(weights, seed, data):
    size = data.draw(st.integers(0, sum(weight > 0 for weight in weights)))
    index, stream = WeightIndex(weights), Stream(seed)
    before = [array.tobytes() for array in index._index]
    items = index.draw(size, stream, replace=False)
    after = [array.tobytes() for array in index._index]
    assert before == after
    assert index.weights.tolist() == weights
    one_by_one, again = WeightIndex(weights), Stream(seed)
    for item in items:
        assert one_by_one.draw(1, again)[0] == item
        one_by_one.set(item, 0)
    assert len(set(items.tolist())) == size
    assert again.position == stream.position


def test_an_empty_draw_uses_no_randomness():
    stream = Stream(0)
    assert WeightIndex([1, 2]).draw(0, stream).shape == (0,)
    assert WeightIndex([0, 0]).draw(0, stream).shape == (0,)
    assert stream.position == 0


def test_the_largest_total():
    index = WeightIndex([2**62 - 3, 3, 0])
    assert index.total == 2**62
    index.verify()
    items = index.draw(1000, Stream(0))
    assert (items == 0).all()
    index.set([0], [0])
    assert (index.draw(100, Stream(0)) == 1).all()
    index.set([1, 2], [2**62 - 1, 1])
    assert (index.draw(10, Stream(0)) == 1).all()


def test_items_without_weight_can_be_drawn_by_what_is_added():
    index = WeightIndex([0, 0, 0])
    assert set(index.draw(50, Stream(0), uniform=1).tolist()) == {0, 1, 2}


def test_uniform_draws_use_one_word_each():
    index, stream = WeightIndex.uniform(1000), Stream(0)
    assert (index.draw(100, stream) < 1000).all()
    assert stream.position == 100
