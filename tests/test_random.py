import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import budget
import naive
from tombola import Stream
from tombola import random as generator
from tombola.state import CheckpointError

pytestmark = pytest.mark.kernels

# Random123's published vectors for philox4x64, 10 rounds: counter, key, result.
PUBLISHED = [
    (
        "0000000000000000 0000000000000000 0000000000000000 0000000000000000",
        "0000000000000000 0000000000000000",
        "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b",
    ),
    (
        "ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff",
        "ffffffffffffffff ffffffffffffffff",
        "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
    ),
    (
        "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
        "452821e638d01377 be5466cf34e90c6c",
        "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
    ),
]


def from_hex(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "result"), PUBLISHED)
def test_published_vectors(counter, key, result):
    arguments = [np.uint64(word) for word in from_hex(counter) + from_hex(key)]
    assert [int(word) for word in generator.philox(*arguments)] == from_hex(result)
    assert list(naive.philox(from_hex(counter), from_hex(key))) == from_hex(result)


@given(seed=st.integers(0, 2**128 - 1), path=st.lists(st.integers(0, 2**64 - 2), max_size=3))
@example(seed=2**128 - 1, path=[1, 2, 3])
@example(seed=2**127 + 2**64 + 5, path=[2**64 - 2])
def test_words_are_those_of_numpy_and_of_the_oracle(seed, path):
    ours = Stream(seed, path).words(23)
    counter = [0] + [level + 1 for level in path] + [0] * (3 - len(path))
    before = (sum(c << (64 * i) for i, c in enumerate(counter)) - 1) % 2**256
    numpys = np.random.Philox(key=seed, counter=before)  # numpy counts on, then computes
    assert (ours == numpys.random_raw(23)).all()
    assert ours.tolist() == list(itertools.islice(naive.words(seed, path), 23))


@given(st.lists(st.integers(0, 11), max_size=12), st.integers(0, 50))
def test_a_word_is_a_function_of_its_position(sizes, start):
    reference = Stream(5).words(sum(sizes) + start)
    stream = Stream(5)
    stream.position = start
    for size in sizes:
        before = stream.position
        assert (stream.words(size) == reference[before : before + size]).all()
        assert stream.position == before + size


def test_single_words_are_those_of_the_batch():
    stream = Stream(9)
    singles = [int(generator.next_word(stream.state)) for _ in range(11)]
    assert singles == Stream(9).words(11).tolist()


def test_position_moves_backwards():
    stream = Stream(1)
    first = stream.words(7)
    stream.position = 2
    assert (stream.words(5) == first[2:]).all()


def test_state_dict_continues_the_stream():
    stream = Stream(2**100 + 3, (4, 5))
    stream.words(6)
    copy = Stream.from_state_dict(stream.state_dict())
    assert repr(copy) == repr(stream)
    assert (copy.words(9) == stream.words(9)).all()


def test_children_use_different_counters():
    paths = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (2**64 - 2,), (0, 2**64 - 2)]
    counters = {tuple(Stream(3, path).state[0].path) for path in paths}
    assert len(counters) == len(paths)  # and for one key Philox is a bijection on counters
    words = np.concatenate([Stream(3, path).words(1000) for path in paths])
    assert len(np.unique(words)) == len(words)
    assert Stream(3).child(0).child(1).path == (0, 1)


# --- integers below a bound, enumerated with words of few bits -----------------------------


def counts_below(bound, bits, rejected):
    """How often each integer comes out when every word of `bits` bits is used once.

    A short word stands in the top bits of a long one; then the low half of the product is
    that of the short words, shifted up, and so is the number of rejected ones.
    """
    counts = np.zeros(bound, dtype=int)
    for word in range(2**bits):
        value, accepted = generator.bounded(
            np.uint64(word << (64 - bits)), np.uint64(bound), np.uint64(rejected << (64 - bits))
        )
        counts[value] += accepted
    return counts


@pytest.mark.parametrize("bits", [1, 4, 7])
def test_every_integer_comes_from_equally_many_words(bits):
    for bound in range(1, 2**bits + 1):
        assert (counts_below(bound, bits, 2**bits % bound) == 2**bits // bound).all()


def test_enumeration_sees_a_wrong_number_of_rejected_words():
    for wrong in (-1, 1):
        bounds = [bound for bound in range(3, 128) if 2**7 % bound + wrong >= 0]
        unequal = [len(set(counts_below(b, 7, 2**7 % b + wrong))) > 1 for b in bounds]
        assert sum(unequal) > len(bounds) // 2
    assert len(set(counts_below(100, 7, 0))) > 1  # multiply and shift without rejection


@given(st.integers(1, 2**63))
def test_rejected_words_are_counted_exactly(bound):
    assert generator.rejected_below(np.uint64(bound)) == 2**64 % bound


@given(st.integers(1, 2**63), st.integers(0, 2**64))
@example(2**63, 1)  # half of the words end below the bound, and none is rejected
@example(2**62 + 1, 1)
@example(3 * 2**61 + 5, 1)
@example(2**63 - 1, 1)
def test_integers_are_those_of_the_oracle(bound, seed):
    stream, words = Stream(seed), naive.words(seed)
    expected = [naive.integer_below(bound, words) for _ in range(5)]
    assert stream.integers(bound, 5).tolist() == [value for value, _ in expected]
    assert stream.position == sum(used for _, used in expected)


def test_the_ends_of_all_ranges():
    assert Stream(0).words(0).size == Stream(0).integers(5, 0).size == 0
    assert Stream(0).integers(1, 3).tolist() == [0, 0, 0]
    stream = Stream(1)
    stream.position = 2**63 - 1
    assert stream.position == 2**63 - 1


def test_states_of_all_streams_have_the_same_type():
    """Kernels are compiled once."""
    states = [Stream(3, path).state for path in ((), (1,), (1, 2, 3))]
    assert len({state.dtype for state in states}) == 1


@pytest.mark.parametrize("position", [0, 1, 6, 4099])
def test_the_word_of_a_child_is_that_of_its_stream(position):
    parent, child = Stream(5, (9,)), Stream(5, (9, 2))
    child.position = position
    word = generator.word_of_child(parent.state, 2, np.uint64(position))
    assert word == child.words(1)[0]


def test_bits_are_fair():
    ones = np.unpackbits(Stream(11).words(20_000).view(np.uint8)).reshape(20_000, 64).sum(axis=0)
    counts = np.concatenate([ones, 20_000 - ones])
    assert budget.chi_square_excess(counts, np.ones(128)) < 1
    stuck = counts.copy()
    stuck[[3, 67]] = 20_000, 0
    assert budget.chi_square_excess(stuck, np.ones(128)) > 1


def test_global_generators_are_left_alone():
    import random

    before = random.getstate(), np.random.get_state()[1].tobytes()
    Stream(1).integers(7, 100)
    assert before == (random.getstate(), np.random.get_state()[1].tobytes())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Stream(-1), ValueError, "seed must be from 0 to .*, got -1"),
        (lambda: Stream(2**128), ValueError, "seed must be from 0"),
        (lambda: Stream(1.5), TypeError, "seed must be an integer, got 1.5 of type float"),
        (lambda: Stream(True), TypeError, "seed must be an integer, got True"),
        (lambda: Stream(0, (1, -2)), ValueError, r"path\[1\] must be from 0 to .*, got -2"),
        (lambda: Stream(0, (2**64 - 1,)), ValueError, r"path\[0\]"),
        (lambda: Stream(0, (1, 2, 3, 4)), ValueError, "path has 4 levels, at most 3"),
        (lambda: Stream(0, (1, 2, 3)).child(4), ValueError, "path has 4 levels"),
        (lambda: Stream(0).words(-1), ValueError, "size must be from 0 to .*, got -1"),
        (lambda: Stream(0).words(2**63), ValueError, "size must be from 0 to .*, got"),
        (lambda: Stream(0).integers(5, -1), ValueError, "size must be from 0 to .*, got -1"),
        (lambda: Stream(0).integers(5, 2**63), ValueError, "size must be from 0 to .*, got"),
        (lambda: setattr(Stream(0), "position", 2**63), ValueError, "position must be from 0"),
        (lambda: Stream(0).integers(0, 3), ValueError, "bound is 0"),
        (lambda: Stream(0).integers(2**63 + 1, 3), ValueError, "bound must be from 0"),
        (lambda: Stream(0).integers(2.0, 3), TypeError, "bound must be an integer"),
        (lambda: setattr(Stream(0), "position", -1), ValueError, "position must be from 0"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        (
            "seed",
            2**128,
            "seed must be an integer from 0 to 2.128 - 1",
        ),
        ("seed", -1, "seed must be an integer"),
        ("path", [1, 2, 3, 4], "path has 4 levels, at most 3 fit"),
        ("path", [0, 2**64 - 1], "path.1 must be an integer from 0 to"),
        ("position", 2**63, "position must be an integer"),
    ],
)
def test_what_is_not_a_stream_is_refused(entry, value, message):
    stream = Stream(5, (1,))
    words = stream.words(7)
    with pytest.raises(CheckpointError, match=message):
        stream.load_state_dict({**stream.state_dict(), entry: value})
    assert (stream.seed, stream.path, stream.position) == (5, (1,), 7)
    other = Stream(0)
    other.load_state_dict(Stream(5, (1,)).state_dict())
    np.testing.assert_array_equal(other.words(7), words)


def test_loaded_words_continue_within_a_block():
    stream, other = Stream(3), Stream(3)
    stream.words(6)  # two words into a block of four
    generator.Words.load(other.state, generator.Words.saved(stream.state))
    assert other.words(5).tolist() == stream.words(5).tolist()
