"""Frequencies at sizes that cannot be enumerated; `budget` says how sure they are."""

import numpy as np
import pytest

import budget
from tombola import Stream, WeightIndex

DRAWS = 5_000_000


@pytest.fixture(scope="module")
def weights():
    normal = np.random.default_rng(0).normal(0, 1.5, 1000)
    return np.maximum(1, np.round(20 * np.exp(normal))).astype(np.int64)


def excess(index, weights):
    return budget.chi_square_excess(
        np.bincount(index.draw(DRAWS).indices, minlength=len(weights)), weights
    )


def test_frequencies(weights):
    assert excess(WeightIndex(weights, seed=1), weights) < 1


def test_frequencies_of_real_weights(weights):
    """Whole numbers times a third: what is drawn by is not whole, and rounded."""
    assert excess(WeightIndex(weights / 3, seed=1), weights) < 1


def test_frequencies_see_a_coarse_scale(weights):
    """The wrong converter makes integers of one unit in a hundred of the average weight."""
    unit = weights.mean() / 100
    assert excess(WeightIndex(np.maximum(1, np.floor(weights / unit)), seed=1), weights) > 1


def test_frequencies_after_many_changes(weights):
    index, stream = WeightIndex.uniform(len(weights), seed=1), Stream(2)
    for _ in range(300):
        index.set(stream.integers(len(weights), 50), stream.integers(10_000, 50))
    index.set(np.arange(len(weights)), weights)
    assert excess(index, weights) < 1


def test_frequencies_see_off_by_one(weights):
    """The wrong sampler draws by weight + 1, as `level <= weight` would."""
    assert excess(WeightIndex(weights + 1, seed=1), weights) > 1


def test_frequencies_see_biased_rounding(weights):
    """The wrong sampler rounds its weights to five significant bits."""
    unit = 2 ** np.maximum(0, np.ceil(np.log2(weights)).astype(int) - 5)
    assert excess(WeightIndex((weights // unit) * unit, seed=1), weights) > 1


def pair_excess(items, weights):
    n = len(weights)
    counts = np.bincount(items[:-1:2] * n + items[1::2], minlength=n * n)
    return budget.chi_square_excess(counts, np.outer(weights, weights).ravel())


def test_successive_draws_are_independent():
    weights = np.arange(1, 31)
    items = WeightIndex(weights, seed=5).draw(2_000_000).indices.copy()
    assert pair_excess(items, weights) < 1
    repeats = np.arange(1, len(items), 20)
    items[repeats] = items[repeats - 1]  # the wrong sampler repeats one draw in twenty
    assert pair_excess(items, weights) > 1


def modulo_4_deviations(items, weights):
    """Deviation of the frequencies modulo 4 from exact, in standard errors."""
    shares = np.bincount(np.arange(len(weights)) % 4, weights=weights) / weights.sum()
    observed = np.bincount(items % 4, minlength=4) / len(items)
    return np.abs(observed - shares) / np.sqrt(shares * (1 - shares) / len(items))


@pytest.mark.slow
def test_more_than_2_to_the_25_items():
    """float32 cannot tell neighbouring items apart here, and peers draw 37% instead of 25%."""
    n = 2**25 + 3
    weights = np.arange(n) % 7 + 1
    items = WeightIndex(weights, seed=6).draw(4_000_000).indices
    assert (modulo_4_deviations(items, weights) < 5).all()

    mass = Stream(6).words(4_000_000).astype(np.float64) / 2.0**64
    edges = np.cumsum(weights)
    float32_mass = (mass.astype(np.float32) * np.float32(edges[-1])).astype(np.int64)
    wrong = np.minimum(np.searchsorted(edges, float32_mass, side="right"), n - 1)
    assert (modulo_4_deviations(wrong, weights) > 5).any()
