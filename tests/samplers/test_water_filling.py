"""Water filling against bisection, and what its integers promise whatever the values."""

import numpy as np
import pytest
from scipy.optimize import brentq

from tombola.compiling import kernel
from tombola.samplers.water_filling import fill_chances

UNIT = 2**32


@kernel
def fill(values, low, high, total, chances):
    fill_chances(values, low, high, total, chances)


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
