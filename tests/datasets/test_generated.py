"""Generated data sets have the structure that they claim; data without it fail the tests."""

import numpy as np
import pytest

from tombola.datasets import DataError, heavy_tailed, imbalanced, load, uneven_regression

MAKERS = {"imbalanced": imbalanced, "heavy_tailed": heavy_tailed, "uneven": uneven_regression}


@pytest.mark.parametrize("name", MAKERS)
def test_a_seed_decides_everything(name):
    make = MAKERS[name]
    first, again, other = make(300, seed=1), make(300, seed=1), make(300, seed=2)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert first.checksum == again.checksum != other.checksum
    assert "seed=1" in first.source
    assert first.X.shape[0] == 300
    assert first.X.flags.c_contiguous


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()[1].copy()
    imbalanced(100)
    np.testing.assert_array_equal(before, np.random.get_state()[1])


def test_imbalanced_rows_are_shifted_along_either_half():
    data = imbalanced(n=20_000, d=10, rare=0.1, seed=3)
    assert data.y.sum() == 2_000
    first, second = data.X[:, :5].sum(axis=1) / 5**0.5, data.X[:, 5:].sum(axis=1) / 5**0.5
    rare = data.y == 1
    # means of 2,000 and of 18,000 rows: five standard errors are 0.15 and 0.04
    assert abs(first[rare].mean() - 2.7) < 0.15
    assert abs(second[rare].mean() - 0.3) < 0.15
    assert abs(first[~rare].mean()) < 0.04
    one_way = (first[rare] > 1.5).mean(), (second[rare] > 1.5).mean()
    assert one_way == pytest.approx(
        (0.9 * 0.933 + 0.1 * 0.067, 0.1 * 0.933 + 0.9 * 0.067), abs=0.05
    )


@pytest.mark.parametrize("rare", [0.0, 1.0, 1e-9, float("nan")])
def test_imbalanced_needs_rows_of_both_classes(rare):
    with pytest.raises(DataError, match="both classes"):
        imbalanced(100, rare=rare)


def test_distant_heavy_tailed_clusters_are_smaller():
    data = heavy_tailed(n=50_000, d=4, clusters=9, seed=1)
    sizes = np.bincount(data.y)
    assert sizes.sum() == 50_000
    shares = 1 / np.arange(1, 10) ** 3
    np.testing.assert_allclose(sizes, 50_000 * shares / shares.sum(), atol=10)
    for k in range(9):
        middle = np.linalg.norm(np.median(data.X[data.y == k], axis=0))
        assert abs(middle - 10 * k) < 1.0
    # a few rows in a thousand carry much of the cost of centres near the origin
    cost = (data.X**2).sum(axis=1)
    assert (data.y >= 6).mean() < 0.006
    assert cost[data.y >= 6].sum() > 0.15 * cost.sum()


def test_the_tails_of_heavy_tailed_are_those_of_pareto():
    """With many columns, the norm of a row is close to its factor."""
    X = heavy_tailed(n=50_000, d=50, clusters=1, seed=2).X
    radii = np.linalg.norm(X - np.median(X, axis=0), axis=1) / np.sqrt(50)
    normal = np.linalg.norm(np.random.default_rng(0).normal(size=X.shape), axis=1) / np.sqrt(50)
    for t in (2.0, 3.0, 4.0):
        expected = t**-3
        assert abs((radii > t).mean() - expected) < 0.15 * expected
        assert (normal > t).mean() < 0.01 * expected  # rows without tails fail


def test_more_clusters_than_rows_are_refused():
    with pytest.raises(DataError, match="9 clusters need at least as many rows"):
        heavy_tailed(8, clusters=9)


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.5])
def test_uneven_rows_have_the_requested_spread_and_noise(spread):
    data = uneven_regression(n=5_000, d=200, spread=spread, noise=0.3, seed=4)
    lengths = np.log(np.linalg.norm(data.X, axis=1))
    assert abs(lengths.std() - np.hypot(spread, 1 / np.sqrt(2 * 200))) < 0.05 * max(spread, 0.1)
    w, *_ = np.linalg.lstsq(data.X, data.y, rcond=None)
    residuals = data.y - data.X @ w
    assert abs(residuals.std() / 0.3 * np.sqrt(5_000 / 4_800) - 1) < 0.05


def test_generators_name_bad_arguments():
    with pytest.raises(DataError, match="noise must be finite"):
        uneven_regression(noise=-1.0)
    with pytest.raises(ValueError, match="n must be at least 2, got 1"):
        imbalanced(1)


def test_they_have_names():
    assert load("imbalanced").checksum == imbalanced().checksum
