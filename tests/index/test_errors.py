"""Bad input: the error names argument, position and value, and nothing has changed."""

import numpy as np
import pytest

from tombola import WeightIndex

pytestmark = pytest.mark.kernels

BAD_WEIGHTS = [
    ([1, -2], ValueError, r"weights\[1\] is -2, but weights must not be negative"),
    ([1, 2.5], ValueError, r"weights\[1\] is 2.5, not a whole number"),
    ([np.nan, 1], ValueError, r"weights\[0\] is nan, not a whole number"),
    ([1, np.inf], ValueError, r"weights\[1\] is inf, not a whole number"),
    ([-1.0, 0.0], ValueError, r"weights\[0\] is -1, but weights must not be negative"),
    ([1, 2**62], ValueError, "beyond the limit of 2.62"),
    ([0, 2**62 + 1], ValueError, "beyond the limit of 2.62"),
    (np.array([2**63, 1], np.uint64), ValueError, r"weights\[0\] is 9223372036854775808, beyond"),
    ([2**70, 1], ValueError, r"weights\[0\] is 1180591620717411303424, beyond the limit"),
    ([1, -(2**70)], ValueError, r"weights\[1\] is -1180591620717411303424, beyond the limit"),
    ([1e19, 1], ValueError, r"weights\[0\] is 1e\+19, beyond the limit of 2\^62"),
    (["1", "2"], TypeError, "weights must hold integers, got dtype <U1"),
    ([True, False], TypeError, "weights must hold integers, got dtype bool"),
    ([1j, 2], TypeError, "weights must hold integers, got dtype complex128"),
    ([None, 2], TypeError, "weights must hold integers, got dtype object"),
    ([[1, 2]], ValueError, r"weights must have one dimension, got shape \(1, 2\)"),
    ([[1], [2, 3]], ValueError, "weights must have one dimension"),
]
BAD_ITEMS = [
    ([0, 3], IndexError, r"items\[1\] is 3, out of range for an index of 3 items"),
    ([-1, 0], IndexError, r"items\[0\] is -1, out of range for an index of 3 items"),
    (np.array([0, 2**64 - 1], np.uint64), IndexError, rf"items\[1\] is {2**63 - 1}, out of range"),
    ([0.0, 1.0], TypeError, "items must hold integers, got dtype float64"),
    ([True, False], TypeError, "items must hold integers, got dtype bool"),
    ([[0, 1]], ValueError, r"items must have one dimension, got shape \(1, 2\)"),
    ([0], ValueError, "items and weights must have the same length, got 1 and 2"),
]


def is_real(weights):
    try:
        return np.asarray(weights).dtype.kind == "f"
    except ValueError:  # rows of different lengths
        return False


def digest(index):
    return [array.tobytes() for array in index._index]


@pytest.fixture
def index():
    return WeightIndex([1, 2, 3])


@pytest.mark.parametrize(("weights", "error", "message"), BAD_WEIGHTS)
def test_bad_weights(index, weights, error, message):
    before = digest(index)
    with pytest.raises(error, match=message):
        index.set([0, 1], weights)
    with pytest.raises(error, match=message):
        index.extend(weights)
    assert digest(index) == before
    if not is_real(weights):
        with pytest.raises(error, match=message):
            WeightIndex(weights)


BAD_REAL = [
    ([1.0, -2.0], ValueError, r"weights\[1\] is -2.0: weights must be finite and not neg"),
    ([np.nan, 1.0], ValueError, r"weights\[0\] is nan: weights must be finite"),
    ([1.0, np.inf], ValueError, r"weights\[1\] is inf: weights must be finite"),
    ([[0.5]], ValueError, r"weights must have one dimension, got shape \(1, 1\)"),
    (["1", "2"], TypeError, "weights must hold"),
    ([True, False], TypeError, "weights must hold"),
    ([0.5j, 2], TypeError, "weights must hold"),
]


@pytest.mark.parametrize(("weights", "error", "message"), BAD_REAL)
def test_bad_real_weights(weights, error, message):
    index = WeightIndex([0.5, 2.0, 0.25])
    before = digest(index), index.weights.tolist()
    with pytest.raises(error, match=message):
        index.set([0, 1], weights)
    with pytest.raises(error, match=message):
        index.extend(weights)
    assert (digest(index), index.weights.tolist()) == before
    with pytest.raises(error, match=message):
        WeightIndex(weights)


@pytest.mark.parametrize(
    ("items", "deltas", "error", "message"),
    [
        ([0, 2, 2], [1.0, 0.5, -0.8], ValueError, r"deltas\[2\] is -0.8, and the weight of item 2"),
        ([0, 1], [1.0, np.nan], ValueError, r"deltas\[1\] is nan: deltas must be finite"),
        ([0, 1], [1.0, -np.inf], ValueError, r"deltas\[1\] is -inf: deltas must be finite"),
        ([0, 1, 1], [1.0, 1e308, 1e308], ValueError, "the weight of item 1 would become inf"),
        ([0, 3], [1.0, 1.0], IndexError, r"items\[1\] is 3, out of range"),
    ],
)
def test_bad_real_deltas_change_nothing(items, deltas, error, message):
    index = WeightIndex([0.5, 2.0, 0.25])
    before = digest(index), index.weights.tolist()
    with pytest.raises(error, match=message):
        index.add(items, deltas)
    assert (digest(index), index.weights.tolist()) == before


@pytest.mark.parametrize(
    ("uniform", "error", "message"),
    [
        (-0.5, ValueError, "uniform must be finite and not negative, got -0.5"),
        (np.nan, ValueError, "uniform must be finite and not negative, got nan"),
        ("1", TypeError, "uniform must be a number"),
        (1e9, ValueError, r"uniform is 1000000000.0: n \* uniform must be at most 32 \* total"),
    ],
)
def test_bad_uniform_of_real_weights(uniform, error, message):
    index = WeightIndex(np.ones(20))
    for item in range(20):
        index.set(item, 1e-7)  # the scale is too coarse for another draw
    before = digest(index)
    with pytest.raises(error, match=message):
        index.draw(3, uniform=uniform)
    with pytest.raises(ValueError, match="cannot draw 21 items"):
        index.draw_distinct(21)
    assert digest(index) == before
    index.draw(3, uniform=32e-7)
    assert digest(index) != before


@pytest.mark.parametrize(("items", "error", "message"), BAD_ITEMS)
def test_bad_items(index, items, error, message):
    before = digest(index)
    with pytest.raises(error, match=message):
        index.set(items, [5, 6])
    assert digest(index) == before


def test_a_bad_pair_late_in_a_batch_changes_nothing(index):
    before = digest(index)
    with pytest.raises(ValueError, match=r"weights\[2\] is -1"):
        index.set([0, 1, 2], [9, 9, -1])
    with pytest.raises(IndexError, match=r"items\[2\] is 9"):
        index.set([0, 1, 9], [9, 9, 1])
    assert digest(index) == before


def test_the_limit_counts_what_is_left_in_the_end(index):
    """In between, in sequence, the total would pass the limit; at the end it does not."""
    index.set([0, 1, 0], [2**61, 2**61, 5])
    assert index.weights.tolist() == [5, 2**61, 3]
    index.set([2, 1], [2**62 - 5, 0])  # written in this order, the first alone is too much
    assert index.total == 2**62
    index.verify()
    before = digest(index)
    with pytest.raises(ValueError, match=r"total to 4611686018427387905, beyond the limit of 2.62"):
        index.set([1], [1])
    assert digest(index) == before


@pytest.mark.parametrize("zero", [0, 0.0])
def test_nothing_to_draw_from(zero):
    index = WeightIndex([zero, zero])
    for draw in (index.draw, index.draw_distinct):
        with pytest.raises(ValueError, match=r"nothing to draw from: all 2 items .* weight 0"):
            draw(1)
    assert index._stream.position == 0
    with pytest.raises(ValueError, match="all 0 items"):
        WeightIndex([]).draw(1)


@pytest.mark.parametrize("weights", [[1, 0, 5], [0.1, 0.0, 0.5]])
def test_too_many_without_replacement(weights):
    with pytest.raises(ValueError, match="cannot draw 3 items without replacement: only 2 of 3"):
        WeightIndex(weights).draw_distinct(3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda index: index.draw(-1), ValueError, "size must not be negative, got -1"),
        (lambda index: index.draw_distinct(-1), ValueError, "size must not be negative, got -1"),
        (lambda index: index.draw(1.0), TypeError, "size must be an integer, got 1.0"),
        (
            lambda index: index.draw(1, uniform=2**63),
            ValueError,
            r"uniform is 9223372036854775808: 2 . total .* below 2\^63$",
        ),
        (
            lambda index: index.draw(1, uniform=-1),
            ValueError,
            "uniform must not be negative, got -1",
        ),
        (
            lambda index: index.draw(1, uniform=0.5),
            TypeError,
            "uniform must be an integer, got 0.5",
        ),
        (
            lambda index: WeightIndex([]).draw(1, uniform=1),
            ValueError,
            "nothing to draw from: the index has no items",
        ),
        (lambda index: WeightIndex([1], seed=-1), ValueError, "seed must be from 0 to"),
        (
            lambda index: index.add([0, 1], [1]),
            ValueError,
            "items and deltas must have the same length, got 2 and 1",
        ),
        (lambda index: index.add([0, 3], [1, 1]), IndexError, r"items\[1\] is 3, out of range"),
        (lambda index: index.add([0, -1], [1, 1]), IndexError, r"items\[1\] is -1, out of range"),
        (lambda index: index.add([0], [0.5]), ValueError, r"deltas\[0\] is 0.5, not a whole"),
        (
            lambda index: index.add([1, 0, 1], [-1, 5, -2]),
            ValueError,
            r"deltas\[2\] is -2, and the weight of item 1 would become -1: weights must not be neg",
        ),
        (
            lambda index: index.add([0, 1, 1], [1, 2**62, 2**62]),
            ValueError,
            rf"deltas\[2\] is {2**62}, and the weight of item 1 would become {2**63 + 2}: .* 2\^62",
        ),
        (
            lambda index: index.add(np.array([0]), np.array([-(2**63)])),
            ValueError,
            rf"the weight of item 0 would become {1 - 2**63}",
        ),
        (
            lambda index: index.add([0, 1], [2**61, 2**61]),
            ValueError,
            "weights would bring the total to",
        ),
        (lambda index: index[3], IndexError, "item 3 is out of range for an index of 3 items"),
        (lambda index: index[-1], IndexError, "item -1 is out of range"),
        (lambda index: index["a"], TypeError, "item must be an integer, got 'a'"),
        (lambda index: WeightIndex.uniform(-1), ValueError, "n must not be negative"),
        (lambda index: WeightIndex.uniform(2.5), TypeError, "n must be an integer"),
    ],
)
def test_other_bad_input(index, call, error, message):
    before = digest(index)
    with pytest.raises(error, match=message):
        call(index)
    assert digest(index) == before


def test_scalars_and_other_integer_types_are_fine(index):
    index.set(1, 7)
    index.set(np.array([0], np.uint8), np.array([9], np.float32))
    index.set([], [])
    index.extend([])
    assert index.weights.tolist() == [9, 7, 3]
    assert (index[1], len(index), index.total) == (7, 3, 19)
    assert repr(index) == "WeightIndex(n=3, total=19)"
    index.add(2, 4)
    index.add([0, 2, 0], np.array([-5, 1, 6], np.int8))
    index.add([], [])
    assert index.weights.tolist() == [10, 7, 8]


def test_weights_are_copies():
    given = np.array([1, 2])
    index = WeightIndex(given)
    given[0] = 50
    index.weights[1] = 50
    assert index.weights.tolist() == [1, 2]


@pytest.mark.parametrize(
    "part",
    [
        lambda index: index.weights,
        lambda index: index.order,
        lambda index: index.position,
        lambda index: index.sums[0].at_least,
    ],
)
def test_verify_sees_damage(part):
    index = WeightIndex([1, 2, 3, 0])
    index.verify()
    part(index._index)[1] += 1
    with pytest.raises(RuntimeError, match="the index is corrupt at"):
        index.verify()


@pytest.mark.parametrize("field", ["total", "area", "occupied"])
def test_verify_sees_a_wrong_sum(field):
    index = WeightIndex([1, 2, 3, 0])
    index._index.sums[field] += 1
    with pytest.raises(RuntimeError, match="corrupt at its sums"):
        index.verify()


def test_memory_is_16_bytes_an_item():
    assert WeightIndex.uniform(100_000).nbytes <= 16 * 100_000 + 1000


def test_a_batch_that_passes_the_limit_together_changes_nothing():
    """Each weight would fit by itself."""
    index = WeightIndex([0, 0, 5])
    before = digest(index)
    for weights in ([2**61, 2**61], [2**62 - 5, 1], [2**62, 2**62]):
        with pytest.raises(ValueError, match="weights would bring the total to"):
            index.set([0, 1], weights)
        assert digest(index) == before
    index.set([0, 1], [2**61, 2**61 - 5])
    assert index.total == 2**62
    index.verify()


def test_the_limit_itself_is_a_weight():
    for weights in ([2**62], np.array([2**62], np.uint64), np.array([2**62], object)):
        index = WeightIndex(weights)
        assert index.total == 2**62
        index.verify()


def test_arrays_with_gaps_are_fine(index):
    index.set(np.array([0, 9, 2])[::2], np.array([5, 9, 7])[::2])
    assert index.weights.tolist() == [5, 2, 7]
    assert WeightIndex(np.arange(6, dtype=np.int64)[::3]).weights.tolist() == [0, 3]


def test_growing_takes_half_as_much_again():
    index = WeightIndex.uniform(1000)
    before = index.nbytes
    for _ in range(20):
        index.extend([1])
    assert 1.4 * before < index.nbytes < 1.6 * before
    index.extend(np.ones(480, dtype=np.int64))
    assert index.nbytes < 1.6 * before  # the room of the first time
    assert index.total == len(index) == 1500


@pytest.mark.parametrize(("weights", "uniform"), [([2**60, 2**60], 2**61), ([0, 0], 2**62)])
def test_the_largest_uniform_weight(weights, uniform):
    """2 * total + n * uniform must be below 2^63."""
    index = WeightIndex(weights)
    assert set(index.draw(50, uniform=uniform - 1).indices) == {0, 1}
    with pytest.raises(ValueError, match=r"must be below 2\^63"):
        index.draw(50, uniform=uniform)


@pytest.mark.parametrize("shape", [(2, 1), (1, 2)])
def test_arrays_of_two_dimensions_are_refused(index, shape):
    """Also where they have the type and layout that kernels take."""
    flat, square = np.array([1, 2]), np.array([1, 2]).reshape(shape)
    with pytest.raises(ValueError, match="items must have one dimension"):
        index.set(square, flat)
    with pytest.raises(ValueError, match="weights must have one dimension"):
        index.set(flat, square)


def test_the_last_weight_of_an_item_counts_near_the_limit(index):
    index.set([0, 0, 1], [2**61, 5, 2**62 - 100])
    assert index.weights.tolist() == [5, 2**62 - 100, 3]


def test_verify_sees_damage_to_the_first_item():
    index = WeightIndex([1, 2, 3])
    index._index.weights[0] = -1
    with pytest.raises(RuntimeError, match="the index is corrupt at item 0"):
        index.verify()
