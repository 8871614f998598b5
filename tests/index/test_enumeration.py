"""Not statistics: every dart and every (short) word is tried, the counts must be equal."""

import itertools

import numba
import numpy as np
import pytest
from numba import njit

from tombola import Stream, WeightIndex
from tombola.index.drawing import draw_one, locate, throw
from tombola.index.layout import Index

pytestmark = pytest.mark.kernels

BITS = 6  # of a short word
VECTORS = [
    weights
    for n, largest in ((1, 9), (2, 7), (3, 6), (4, 4), (5, 3))
    for weights in itertools.product(range(largest + 1), repeat=n)
    if any(weights)
]


def board(weights):
    return WeightIndex(weights)._index


@njit
def hits_of_all_darts(index, slack):
    hits = np.zeros(index.weights.size, dtype=np.int64)
    for dart in range(index.sums[0].area):
        place, level = locate(index.sums[0], dart)
        if level < index.weights[index.order[place]] + slack:
            hits[index.order[place]] += 1
    return hits


@njit
def last_column(index, dart):
    return locate(index.sums[0], dart)


def hits_of_all_words(weights, bits=BITS, wrong=0, uniform=0):
    """Throw every word of `bits` bits once (see test_random.counts_below)."""
    index = board(weights)
    area = int(index.sums[0].area) + len(weights) * uniform
    words = np.arange(2**bits, dtype=np.uint64) << np.uint64(64 - bits)
    rejected = np.uint64((2**bits % area + wrong) << (64 - bits))
    out = np.empty(2**bits, dtype=np.int64)
    drawn_by = np.empty_like(out)
    hits, used = throw(index, words, rejected, out, drawn_by, uniform)
    assert (drawn_by[:hits] == index.weights[out[:hits]] + uniform).all()
    assert used == 2**bits
    return np.bincount(out[:hits], minlength=len(weights)), 2**bits // area


def test_every_item_is_hit_by_as_many_darts_as_its_weight():
    for weights in VECTORS:
        assert hits_of_all_darts(board(weights), 0).tolist() == list(weights)


def test_every_item_is_drawn_by_words_in_proportion_to_its_weight():
    for weights in VECTORS:
        drawn, words_per_dart = hits_of_all_words(weights)
        assert (drawn == np.multiply(weights, words_per_dart)).all(), weights


@pytest.mark.parametrize("uniform", [1, 2, 5])
def test_what_is_added_to_every_weight_counts_exactly(uniform):
    for weights in [*VECTORS, (0,), (0, 0, 0)]:
        drawn, words_per_dart = hits_of_all_words(weights, uniform=uniform)
        assert (drawn == np.add(weights, uniform) * words_per_dart).all(), weights


@pytest.mark.parametrize("uniform", [0, 1, 2, 5])
def test_the_first_and_the_last_word_of_every_dart(uniform):
    """They are in the middle of what the guide of a plan distinguishes, by their leading bits."""
    for weights in VECTORS[:: 1 if uniform else 4]:
        index = board(weights)
        area = int(index.sums[0].area) + len(weights) * uniform
        edges = [-(-(dart << 64) // area) for dart in range(area + 1)]
        words = np.array([*edges[:-1], *(edge - 1 for edge in edges[1:])], dtype=np.uint64)
        out = np.empty(words.size, dtype=np.int64)
        hits, _ = throw(index, words, np.uint64(0), out, np.empty_like(out), uniform)
        counts = np.bincount(out[:hits], minlength=len(weights))
        assert (counts == 2 * np.add(weights, uniform)).all(), weights


def test_the_last_dart_of_a_large_board():
    out, last = np.empty(1, dtype=np.int64), np.array([2**64 - 1], dtype=np.uint64)
    for weights, uniform in (((0,), 2**63 - 1), ((0, 2**61), 2**61 - 1)):
        hit = throw(board(weights), last, np.uint64(0), out, np.empty_like(out), uniform)
        assert hit == (1, 1)
        assert out[0] == len(weights) - 1


@njit
def hits_of_single_draws(index, stream, words, uniform):
    hits = np.zeros(index.weights.size, dtype=np.int64)
    for word in words:
        stream[0].position = np.uint64(1)  # within a block: what is next is in the buffer
        stream[0].buffer[1] = word
        item = draw_one(index, stream, uniform)
        if stream[0].position == 2:  # it took no other word
            hits[item] += 1
    return hits


@pytest.mark.parametrize("uniform", [0, 1, 2, 5])
def test_every_dart_of_a_single_draw(uniform):
    for weights in VECTORS:
        index = board(weights)
        area = int(index.sums[0].area) + len(weights) * uniform
        words = np.array([((2 * dart + 1) << 63) // area for dart in range(area)], dtype=np.uint64)
        hits = hits_of_single_draws(index, Stream(0).state, words, uniform)
        assert (hits == np.add(weights, uniform)).all(), weights


SIZES = range(1, 131)
if numba.config.DISABLE_JIT:  # a hundred times as slow, and all sizes take the same lines
    SIZES = (1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 130)


@pytest.mark.parametrize("n", SIZES)
def test_every_size(n):
    stream = Stream(n)
    for weights in (np.ones(n, int), stream.integers(9, n), stream.integers(2000, n), np.arange(n)):
        if weights.any():
            assert (hits_of_all_darts(board(weights), 0) == weights).all()


def test_enumeration_sees_one_level_too_many():
    """The wrong sampler accepts `level <= weight`."""
    wrong = [list(hits_of_all_darts(board(w), 1)) != list(w) for w in VECTORS]
    assert any(wrong)
    assert wrong[VECTORS.index((3,))]


def test_enumeration_sees_wrong_rejection_of_words():
    """Off by one either way, in what `throw` rejects, biases some weight vectors."""
    for off in (-1, 1):
        biased = 0
        for weights in VECTORS:
            area = int(board(weights).sums[0].area)
            if 2**BITS % area + off >= 0:
                drawn, words_per_dart = hits_of_all_words(weights, wrong=off)
                biased += (drawn != np.multiply(weights, words_per_dart)).any()
        assert biased > 100


def test_enumeration_sees_float32_mass():
    """A cumulative sum in float32 loses an item whose weight is below its rounding."""
    weights = np.array([2**24, 1, 2**24])
    edges = np.cumsum(weights, dtype=np.float32)
    assert edges[0] == edges[1]  # item 1 cannot be reached there
    index = board(weights)
    area = int(index.sums[0].area)
    place, level = last_column(index, area - 1)  # the last column is the lowest: item 1
    assert (index.order[place], level, index.weights[1]) == (1, 0, 1)


def test_sets_and_extensions_leave_an_exact_board():
    stream = Stream(0)
    index = WeightIndex(stream.integers(50, 20))
    for round_number in range(200):
        if round_number % 20 == 0:
            index.extend(stream.integers(50, 2))
        items = stream.integers(len(index), 4)
        index.set(items, stream.integers(1 << int(stream.integers(9, 1)[0]), 4))
        index.verify()
        arrays = index._index
        state = Index(arrays.sums, arrays.weights[: len(index)], arrays.order, arrays.position)
        assert (hits_of_all_darts(state, 0) == index.weights).all()
