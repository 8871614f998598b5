"""Water filling against bisection, and what its integers promise whatever the values."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from budget import ALPHA
from tombola.compiling import kernel
from tombola.samplers.water_filling import choose, fill_chances, water_level

UNIT = 2**32


@kernel
def fill(values, low, high, total, chances):
    fill_chances(values, low, high, total, chances)


@kernel
def level_of(values, low, high, total):
    return water_level(values, low, high, total)


def filled(values, low, high, total):
    chances = np.zeros(len(values), dtype=np.int64)
    fill(np.asarray(values, dtype=float), low, high, total, chances)
    return chances


def by_bisection(values, low, high, total):
    """Real numbers min(high, max(low, c s)) that sum to the total."""

    def excess(log_level):
        return np.clip(np.exp(log_level) * values, low, high).sum() - total

    return np.clip(np.exp(brentq(excess, -200, 200, xtol=1e-15)) * values, low, high)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.7, 0.98])
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("floor", [0.001, 0.3, 0.9])
def test_the_level_is_that_of_bisection(share, spread, floor):
    rng = np.random.default_rng(0)
    n = 500
    values, total = rng.lognormal(0, spread, n), round(share * n) * UNIT
    low, high = int(floor * total / n), UNIT
    chances = filled(values, low, high, total)
    assert chances.sum() == total
    assert low <= chances.min() <= chances.max() <= high
    np.testing.assert_allclose(chances, by_bisection(values, low, high, total), atol=20)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(7),
        np.full(7, np.inf),
        np.full(7, np.nan),
        [1.0, np.nan, np.inf, 0.0, 5e-324, 1e308, 1e308],
        [1e-300, 1.0, 1e300, 0.0, 0.0, 0.0, 0.0],
        2.0 ** -np.arange(7.0),
        1e5 ** np.arange(7.0),
    ],
)
@pytest.mark.parametrize("total", [7, 8, 100, 7 * 60 - 1, 7 * 60])
def test_integers_sum_to_the_total_within_their_limits_whatever_the_values(values, total):
    chances = filled(values, 1, 60, total)
    assert chances.sum() == total
    assert 1 <= chances.min() <= chances.max() <= 60


@pytest.mark.parametrize("n", [1, 2, 7, 1000, 12345])
@pytest.mark.parametrize("value", [1.0, 0.1, 1 / 3, 1e-200])
def test_equal_values_get_equal_chances(n, value):
    assert (filled(np.full(n, value), 1, n * UNIT, n * UNIT) == UNIT).all()
    spread = filled(np.full(n, value), 1, UNIT, n * UNIT // 3)
    assert spread.max() - spread.min() <= 1


def test_what_is_left_over_goes_where_there_is_room():
    """One item in the midst has room, after limits have taken all others."""
    values = np.array([100.0] * 10 + [1.0] + [100.0] * 10)
    chances = filled(values, 1, 50, 20 * 50 + 33)
    assert chances.tolist() == [50] * 10 + [33] + [50] * 10


def test_what_is_left_over_goes_to_the_first_items_that_have_room():
    """Items of value 0 get what the others have no room for: evenly, then the first the rest."""
    chances = filled([0.0, 0.0, 0.0, 1.0, 1.0], 0, 60, 200)
    assert chances.tolist() == [48, 16, 16, 60, 60]


def test_what_is_too_much_is_taken_from_where_there_is_room():
    """The level is good enough, but the second item lacks 500 of its limit."""
    low, total = 2**50, 3 * 2**50
    chances = filled([float(total - low + 500), float(low - 500)], low, 4 * low, total)
    assert chances.tolist() == [total - low, low]


@pytest.mark.parametrize(
    ("values", "low", "high", "total"),
    [
        ([19.0, 11.0, 11.0, 1.0, 1.0, 23.0], 12, 28, 72),
        ([7.0, 6.0, 10.0, 6.0, 3.0], 6, 7, 32),
        ([9.0, 1.0, 21.0, 24.0, 14.0, 14.0], 4, 28, 166),
    ],
)
def test_the_level_where_an_item_is_exactly_at_a_limit(values, low, high, total):
    level = level_of(np.array(values), low, high, total)
    assert np.clip(level * np.array(values), low, high).sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("unit", [2.0**-50, 1.0, 2.0**50])
@pytest.mark.parametrize("low", [0.0, 0.2, 0.5])
def test_the_unit_of_limits_and_total_does_not_matter(unit, low):
    values = np.random.default_rng(1).lognormal(0, 2, 20)
    level = level_of(values, low * unit, unit, 12.0 * unit)
    assert level == unit * level_of(values, low, 1.0, 12.0)
    assert np.clip(level * values, low * unit, unit).sum() == pytest.approx(12 * unit, rel=1e-12)


def chosen(values, count, seeds):
    """How often each item is chosen, over seeds, and the probability that it comes with."""
    times, claimed = np.zeros(len(values)), np.zeros(len(values))
    for seed in range(seeds):
        items, probabilities = choose(np.asarray(values), count, seed)
        assert len(set(items.tolist())) == len(items) == count
        times[items] += 1
        claimed[items] = probabilities
    return times, claimed


def test_items_are_chosen_with_the_probability_that_is_returned():
    values = np.array([1.0, 2.0, 4.0, 8.0, 1000.0, 3.0])
    times, claimed = chosen(values, 3, 20_000)
    right = np.minimum(1.0, values / values[values < 1000].sum() * 2)  # the largest is certain
    np.testing.assert_allclose(claimed, right, atol=1e-8)
    assert times[4] == 20_000
    free = values < 1000
    errors = (times - 20_000 * right)[free] / np.sqrt(20_000 * right * (1 - right))[free]
    assert np.abs(errors).max() < stats.norm.isf(ALPHA)
    wrong = (times - 20_000 * 0.4)[free] / np.sqrt(20_000 * 0.24)  # as if all were equally likely
    assert np.abs(wrong).max() > stats.norm.isf(ALPHA)


def test_all_items_where_there_are_no_more():
    for count in (3, 4, 100):
        items, probabilities = choose(np.array([1.0, 5.0, 1e-300]), count, 0)
        assert items.tolist() == [0, 1, 2]
        assert probabilities.tolist() == [1.0, 1.0, 1.0]


def test_choices_depend_on_the_seed_alone():
    values = np.linspace(1.0, 2.0, 50)
    first, again, other = (choose(values, 10, seed)[0] for seed in (4, 4, 5))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
