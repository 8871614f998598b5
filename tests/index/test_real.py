"""Real weights as integers: the rule against exact fractions, the scale, and draws by it."""

import contextlib
import math
import signal
import time
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from states import assert_same
from tombola import Stream, WeightIndex
from tombola.index.real import (
    CHOSEN,
    HIGH,
    LEAST,
    LOW,
    MOST,
    NONE_TAKEN,
    RealWeights,
    fill_integers,
    out_of_range,
    power_of_two_near,
    scale_for,
    to_integer,
)

pytestmark = pytest.mark.kernels

positive = st.floats(5e-324, 1.7e308)
EXPONENTS = (-12, -1, 0, 1, 10, 24, 25, 40)


def exact(value, exponent, room=2**62):
    """The rule, in fractions: rounded down, at most `room`, at least 1 if positive."""
    units = math.floor(Fraction(value) * Fraction(2) ** exponent)
    return max(min(units, room), 1 if value > 0 else 0)


def converted(values, exponent):
    out = np.empty(values.size, dtype=np.int64)
    fill_integers(values, NONE_TAKEN, exponent, out)
    return out


def wrong_on_small_words(convert):
    """Convert every finite float16 that is not negative; return how many are wrong."""
    words = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    whole = (words * 2**24).astype(np.int64)  # all are multiples of 2^-24
    count = 0
    for exponent in EXPONENTS:
        units = whole << max(exponent - 24, 0) >> max(24 - exponent, 0)
        expected = np.maximum(units, words > 0)
        assert expected[::1000].tolist() == [exact(value, exponent) for value in words[::1000]]
        count += np.count_nonzero(convert(words, exponent) != expected)
    return count


WRONG = {
    "nearest": lambda values, e: np.maximum(np.rint(np.ldexp(values, e)), values > 0),
    "up": lambda values, e: np.ceil(np.ldexp(values, e)),
    "small ones lost": lambda values, e: np.floor(np.ldexp(values, e)),
    "zero drawn": lambda values, e: np.maximum(np.floor(np.ldexp(values, e)), 1),
    "one unit too many": lambda values, e: np.floor(np.ldexp(values, e)) + (values > 0),
}


def test_every_small_word_is_rounded_down():
    assert wrong_on_small_words(converted) == 0


@pytest.mark.parametrize("name", WRONG)
def test_the_enumeration_sees_other_rules(name):
    assert wrong_on_small_words(WRONG[name]) > 0


@given(st.floats(0.0, 1.7e308), st.integers(-1100, 1190))
def test_any_value_on_any_scale(value, exponent):
    assert converted(np.array([value]), exponent)[0] == exact(value, exponent)


@given(st.floats(0.0, 1e6), st.integers(-30, 60), st.integers(1, 2**61))
def test_the_room_is_not_exceeded(value, exponent, room):
    assert to_integer(value, 2.0**exponent, room) == exact(value, exponent, room)


@pytest.mark.parametrize(
    ("x", "power"),
    [(0.5, 1.0), (0.75, 1.0), (1.0, 2.0), (3.0, 4.0), (2.0**-950, 2.0**-949), (2.0**998, 2.0**999),
     (2.0**-951, 2.0**-950), (2.0**-952, 2.0**-950), (5e-324, 2.0**-950), (2.0**999, 2.0**1000),
     (2.0**1000, 2.0**1000), (1.7e308, 2.0**1000)],
)  # fmt: skip
def test_powers_of_two_are_limited(x, power):
    assert power_of_two_near(x) == power
    assert scale_for(x, 2.0**50) == 2.0**50 / power


@pytest.mark.parametrize("n", [1, 1000])
def test_the_range_of_learnt_values(n):
    assert not out_of_range(LOW * n, LOW * n)
    assert out_of_range(LOW * n - 1, LOW * n)
    assert not out_of_range(HIGH, LOW * n)
    assert out_of_range(HIGH + 1, LOW * n)


# --- weights that are given -----------------------------------------------------------------------


def units(board):
    return [Fraction(int(weight)) for weight in board.index.weights]


@given(st.lists(positive, min_size=1, max_size=20))
def test_the_scale_is_chosen_by_the_total(values):
    board = RealWeights(np.array(values))
    total = sum(map(Fraction, values)) * Fraction(2) ** board.exponent
    assert 2 ** (CHOSEN - 1) * (1 - Fraction(1, 2**40)) <= total <= 2**CHOSEN
    assert units(board) == [exact(value, board.exponent) for value in values]


def test_rounding_is_within_its_bound_and_no_positive_weight_becomes_zero():
    chance = np.random.default_rng(0)
    for trial in range(40):
        n = int(chance.integers(1, 60))
        scale = [1.0, 1e300, 1e-300, 5e-324][trial % 4]
        values = np.minimum(chance.random(n) ** chance.integers(1, 100) * scale, 1e308)
        values[0] = scale
        board = RealWeights(values)
        for _ in range(5):
            board.draw(Stream(trial), np.empty(3, dtype=np.int64))
            given, made = [Fraction(value) for value in values], units(board)
            assert all((one > 0) == (other > 0) for one, other in zip(given, made, strict=True))
            for weight, unit in zip(given, made, strict=True):
                p = weight / sum(given)
                assert abs(unit / sum(made) - p) <= (1 + n * p) / 2**49
            items = chance.integers(n, size=1 + n // 20)
            new = np.minimum(chance.random(items.size) * scale * 10.0, 1e308)
            assert board.set(np.append(items, 0), np.append(new, scale)) == -1


def test_whole_numbers_are_not_rounded():
    weights = [1, 2**40, 3, 2**48 + 5, 0]
    made = units(RealWeights(np.array(weights, dtype=float)))
    assert [unit * sum(weights) for unit in made] == [weight * sum(made) for weight in weights]
    index = WeightIndex([1.0, 2.0, 5.0])
    assert (index.total, index[2]) == (8.0, 5.0)
    assert set(index.draw(40).probabilities) == {0.125, 0.25, 0.625}


def test_the_scale_changes_only_if_the_total_leaves_its_range():
    """Of a hundred items, one changes: the total is from 2^LEAST units to 2^MOST."""
    index = WeightIndex(np.ones(100))
    board, weights = index._real, index._index.weights
    unit = 2.0**-board.exponent
    first = board.exponent
    index.set(0, 2.0**MOST * unit * (1 - 2.0**-30) - 100)  # with the old weight counted twice
    assert board.exponent == first
    index.set(0, 2.0**MOST * unit)
    assert board.exponent < first
    index.set(0, 1.0)
    assert board.exponent < first
    index.draw(1)
    assert weights.sum() < 2**CHOSEN
    index = WeightIndex([2.0**8 * 1.5, *[1.0] * 99])
    board = index._real
    first = board.exponent
    index.set(0, 1.0)
    index.draw(1)
    assert board.exponent == first
    for item in range(99):
        index.set(item, 0.0)
    index.set(99, 2.0 ** (LEAST - board.exponent))
    index.draw(1)
    assert board.exponent == first
    index.set(99, 2.0 ** (LEAST - board.exponent) * (1 - 2.0**-40))
    assert board.exponent == first
    index.draw(1)
    assert board.exponent > first


def test_positions_of_bad_values_are_found_before_anything_changes():
    board = RealWeights(np.ones(30))
    for items, new, position in (
        ([1, 30], [2.0, 2.0], 1),
        ([1, 2, -1], [2.0, 2.0, 2.0], 2),
        ([1, 2], [math.nan, 2.0], 0),
        ([1, 2], [2.0, math.inf], 1),
        ([1, 2], [2.0, -1e-300], 1),
    ):
        assert board.set(np.array(items), np.array(new)) == position
        assert (board.values == 1).all()
    assert board.set(np.array([1, 2, 1]), np.array([2.0, 3.0, 4.0])) == -1
    assert board.values[:4].tolist() == [1.0, 4.0, 3.0, 1.0]


@pytest.mark.parametrize("uniform", [0.01, 1.0, 50.0])
def test_a_real_number_is_added_to_every_weight(uniform):
    values = np.array([0.1, 0.0, 2.9])
    index = WeightIndex(values)
    index.set([0, 1, 2], values * 2.0**-3)  # the scale is finer than it need be
    index.set(0, 0.1)
    index.set([1, 2], values[1:])
    draw = index.draw(200, uniform=uniform)
    expected = (values + uniform) / (values.sum() + 3 * uniform)
    np.testing.assert_allclose(draw.probabilities, expected[draw.indices], rtol=1e-12)
    assert uniform < 1 or set(draw.indices) == {0, 1, 2}


def test_totals_beyond_float64_are_infinite():
    index = WeightIndex([1.5e308, 1.5e308])
    assert index.total == math.inf
    assert set(index.draw(50).probabilities) == {0.5}


def test_distinct_items_that_are_far_lighter_than_the_first():
    """Item k comes before k + 1, half as heavy, with probability 2/3: also at 2^-500."""
    index = WeightIndex(0.5 ** np.arange(540), seed=8)
    rounds, pairs = 100, range(500, 540, 2)
    before = [array.tobytes() for array in index._index]
    wins = 0
    for _ in range(rounds):
        items = index.draw_distinct(540)
        assert np.unique(items).size == 540
        place = np.argsort(items)
        wins += sum(place[k] < place[k + 1] for k in pairs)
    trials = rounds * len(pairs)
    assert abs(wins / trials - 2 / 3) < 5 * math.sqrt(2 / 9 / trials)  # 0.5 with one unit for all
    assert [array.tobytes() for array in index._index] == before


def test_extending_keeps_weights_and_memory_in_bounds():
    index = WeightIndex(np.full(100, 0.3))
    for k in range(60):
        index.extend([0.5, 10.0**k])
        index.verify()
    assert index.weights.tolist() == [*[0.3] * 100, *(v for k in range(60) for v in (0.5, 10.0**k))]
    assert index.nbytes < 1.6 * 24 * len(index) + 1000
    assert WeightIndex(np.ones(100_000)).nbytes <= 24 * 100_000 + 1000


def test_types_of_weights():
    assert WeightIndex([1, 2]).weights.dtype == np.int64
    assert WeightIndex([]).weights.dtype == np.int64
    assert WeightIndex(np.zeros(0)).weights.dtype == np.float64
    assert WeightIndex(np.array([1, 2], np.float32)).weights.dtype == np.float64
    assert type(WeightIndex([1, 2]).total) is type(WeightIndex([1, 2])[0]) is int
    assert type(WeightIndex([0.5]).total) is type(WeightIndex([0.5])[0]) is float
    index = WeightIndex([0.5, 1.0])
    index.set([0, 1], [3, 4])  # integers are real numbers too
    index.add(1, 2)
    index.extend(np.array([7], np.uint8))
    assert index.weights.tolist() == [3.0, 6.0, 7.0]


def test_verify_sees_a_weight_that_is_not_that_of_its_value():
    index = WeightIndex([0.5, 0.25])
    index._real.values[1] = 0.2501
    with pytest.raises(RuntimeError, match="corrupt at item 1"):
        index.verify()


# --- nothing is half changed ----------------------------------------------------------------------


class InterruptError(Exception):
    pass


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="only compiled code is never interrupted")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of the system")
@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("change", ["draw_distinct", "set"])
def test_an_interrupt_leaves_the_index_whole(monkeypatch, change, kind):
    def interrupt(number, frame):
        raise InterruptError

    n = 300_000
    index = WeightIndex((1 + np.arange(n) % 7).astype(kind))
    items, weights = np.arange(n // 2), np.full(n // 2, 9, dtype=kind)
    call = {
        "draw_distinct": lambda: index.draw_distinct(n // 2),
        "set": lambda: index.set(items, weights),
    }[change]
    call()  # compiles
    call()
    total, old = index.total, signal.signal(signal.SIGALRM, interrupt)
    try:
        for share in (0.1, 0.3, 0.5, 0.7, 0.9):
            began = time.perf_counter()
            call()
            signal.setitimer(signal.ITIMER_REAL, max(share * (time.perf_counter() - began), 1e-6))
            with contextlib.suppress(InterruptError):
                call()
                time.sleep(0.05)  # the alarm was late
            index.verify()
            assert index.total == total
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("allowed", range(6))
def test_no_memory_to_extend_changes_nothing(monkeypatch, allowed):
    index = WeightIndex([1.0, 2.0, 3.0])
    index.extend([4.0])  # compiles
    before, empty, calls = index.state_dict(), np.empty, iter(range(allowed))

    def limited(*arguments, **options):
        if next(calls, None) is None:
            raise MemoryError
        return empty(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(np, "empty", limited)
        try:
            index.extend(np.arange(100.0))
        except MemoryError:
            grown = False
        else:
            grown = True
    index.verify()
    if not grown:
        assert_same(index.state_dict(), before)
    index.set([0], [5.0])
    index.verify()
    assert len(index) == (104 if grown else 4)


@pytest.mark.parametrize("weight", [0.5, 1e-300, 1e300])
def test_the_total_is_right_before_any_draw(weight):
    index = WeightIndex(np.zeros(100))
    index.set([3], [weight])
    assert index.total == weight
    index.draw(1)
    assert index.total == weight


@pytest.mark.parametrize("uniform", [None, "", "1"])
def test_what_is_added_must_be_a_number(uniform):
    for weights in ([1, 2], [1.0, 2.0]):
        with pytest.raises(TypeError, match="uniform must be"):
            WeightIndex(weights).draw(1, uniform=uniform)


def test_a_sum_beyond_int64_is_said_as_it_is():
    with pytest.raises(ValueError, match=f"would become {2**63}"):
        WeightIndex([2**62]).add([0], [2**62])


def test_a_uniform_share_of_any_size_goes_with_weights_of_zero():
    draw = WeightIndex(np.zeros(3)).draw(5, uniform=1e300)
    assert draw.probabilities.tolist() == [1 / 3] * 5


def test_a_loaded_index_takes_as_much_memory():
    index = WeightIndex([0.5, 1.5, 2.0])
    assert WeightIndex.from_state_dict(index.state_dict()).nbytes == index.nbytes


def test_all_items_can_be_drawn_without_replacement():
    board = RealWeights(np.array([1.0, 0.0, 2.0]), replacement=False)
    board.check_enough(2)
    with pytest.raises(ValueError, match="only 2 of 3"):
        board.check_enough(3)


def test_an_item_that_is_taken_stays_off_the_board():
    board, out = RealWeights(np.ones(100), replacement=False), np.empty(1, dtype=np.int64)
    assert board.draw(Stream(0), out) == 1
    assert board.set(out, np.array([2.0])) == -1
    assert board.index.weights[out[0]] == 0
    assert board.values[out[0]] == 2.0
