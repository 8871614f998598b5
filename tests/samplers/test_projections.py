"""The floored distribution, against bisection and against the sorted formula of the paper."""

import numpy as np
import pytest

from tombola.samplers.rivals.projections import floor_level

pytestmark = pytest.mark.kernels


def by_bisection(values, floor):
    """p = max(a / lambda, floor), with lambda such that p sums to 1."""
    low, high = 0.0, 2 * values.sum() / max(1e-9, 1 - len(values) * floor) + 1
    for _ in range(200):
        middle = (low + high) / 2
        if middle == 0 or np.maximum(values / middle, floor).sum() > 1:
            low = middle
        else:
            high = middle
    return np.maximum(values / high, floor)


def by_sorting(values, floor):
    """Lemma 1 of El Hanchi and Stephens."""
    n = len(values)
    a = np.sort(values)[::-1]
    prefix = np.cumsum(a)
    top = np.arange(1, n + 1)
    rho = top[a >= floor * prefix / (1 - (n - top) * floor)][-1]
    return np.maximum(values * (1 - (n - rho) * floor) / prefix[rho - 1], floor)


def ours(values, floor):
    p = np.maximum(values, floor_level(values, floor))
    return p / p.sum()


def cost(values, p):
    return (values**2 / p).sum()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.7, 0.99])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 300])
def test_both_oracles_agree(n, share):
    rng = np.random.default_rng(n)
    for spread in (0.0, 0.5, 2.0, 6.0):
        values = rng.lognormal(0, spread, n) * (rng.random(n) < 0.8)
        values[0] = 1.0
        p = ours(values, share / n)
        np.testing.assert_allclose(p, by_bisection(values, share / n), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(p, by_sorting(values, share / n), rtol=1e-9, atol=1e-15)


def test_no_allowed_distribution_is_cheaper():
    rng = np.random.default_rng(0)
    values = rng.lognormal(0, 2, 8)
    best = cost(values, ours(values, 0.05))
    for _ in range(1000):
        p = 0.05 + 0.6 * rng.dirichlet(np.full(8, 0.3))
        assert cost(values, p) >= best


def test_edges():
    assert floor_level(np.zeros(5), 0.1) == 0
    assert ours(np.ones(7), 1 / 7).tolist() == [1 / 7] * 7
    np.testing.assert_allclose(ours(np.array([0, 0, 3.0]), 1 / 3), 1 / 3)  # all at the floor
    np.testing.assert_allclose(ours(np.array([0.1, 0.1, 0.1]), 0.3), 1 / 3)
    np.testing.assert_allclose(ours(np.array([0, 5.0]), 0.25), [0.25, 0.75])
    assert ours(np.array([3.0]), 1.0).tolist() == [1.0]
    np.testing.assert_allclose(ours(np.array([1e-300, 1e75]), 0.1), [0.1, 0.9])
