"""Coresets: unbiased by enumeration, and costs within the bound of the docstring."""

import itertools
import sys

import numpy as np
import pytest
from scipy import sparse

from budget import ALPHA, chi_square_excess
from tombola import Draw, Static, coreset

MODULE = sys.modules["tombola.coreset"]
KINDS = {"dense": np.asarray, "csr": sparse.csr_array, "csc": sparse.csc_matrix}
WEIGHTS = np.array([1.0, 0.3, 2.0, 1.0, 5.0])


def data(n=400, seed=0):
    """Many rows near their mean, a few far out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * rng.choice([1.0, 30.0], size=(n, 1), p=[0.97, 0.03])
    return X + np.array([5.0, 0.0, -2.0])


def chances(X, s):
    """The distribution of the docstring, row by row."""
    mean = sum(w * x for w, x in zip(s, X, strict=True)) / sum(s)
    squares = [w * sum((x - mean) ** 2) for w, x in zip(s, X, strict=True)]
    return np.array(
        [w / (2 * sum(s)) + a / (2 * sum(squares)) for w, a in zip(s, squares, strict=True)]
    )


# --- weights --------------------------------------------------------------------------------------


class Enumerated:
    """Takes the place of `Static`: makes every possible draw, one after the other."""

    def __init__(self, n, m, honest):
        self.draws, self.honest = list(itertools.product(range(n), repeat=m)), honest

    def __call__(self, values, seed):
        self.chances = Static(values).probabilities()
        return self

    def draw(self, m):
        items = np.array(self.draws.pop())
        self.chance = self.chances[items].prod()
        told = self.chances[items] if self.honest else np.full(m, 1 / len(self.chances))
        return Draw(items, told, len(self.chances))


def expected_weights(monkeypatch, X, m, honest=True):
    """The weight of each row in a coreset, averaged over all possible draws."""
    static = Enumerated(X.shape[0], m, honest)
    monkeypatch.setattr(MODULE, "Static", static)
    mean = np.zeros(X.shape[0])
    while static.draws:
        indices, weights = coreset(X, m, WEIGHTS)
        assert (np.diff(indices) > 0).all()
        mean[indices] += static.chance * weights
    return mean


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m", [1, 2, 4])
def test_weights_are_unbiased(monkeypatch, kind, m):
    assert expected_weights(monkeypatch, KINDS[kind](data(5)), m) == pytest.approx(WEIGHTS)


def test_wrong_weights_are_found_out(monkeypatch):
    wrong = expected_weights(monkeypatch, data(5), 2, honest=False)
    assert np.abs(wrong / WEIGHTS - 1).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_drawn_as_the_docstring_says(kind):
    X, s = data(50), np.random.default_rng(1).uniform(size=50)
    s[[3, 20]] = 0.0
    X[X < -1] = 0.0
    q, m = chances(X, s), 40
    counts = np.zeros(50)
    for seed in range(1000):
        indices, weights = coreset(KINDS[kind](X), m, s, seed=seed)
        counts[indices] += weights * m * q[indices] / s[indices]  # times drawn
    assert counts.sum() == pytest.approx(1000 * m)
    assert chi_square_excess(counts, q) < 1
    assert chi_square_excess(counts, s) > 1  # by weights alone
    assert chi_square_excess(counts, s * np.sqrt(q / np.maximum(s, 1e-9))) > 1


# --- costs ----------------------------------------------------------------------------------------


def cost(X, weights, centres):
    return float((weights * ((X[:, None] - centres) ** 2).sum(axis=2).min(axis=1)).sum())


def worst(change):
    """The largest error over random centres, in units of the bound that holds for all of them."""
    rng, m, tries = np.random.default_rng(7), 1500, 40
    X, s = data(8000), rng.uniform(0.5, 1.5, size=8000)
    # 2 exp(-m e^2 / (16 + 16 e / 3)) = ALPHA / tries, solved for e
    log = np.log(2 * tries / ALPHA)
    bound = (16 / 3 * log + np.sqrt((16 / 3 * log) ** 2 + 4 * m * 16 * log)) / (2 * m)
    errors = []
    for seed in range(tries):
        centres = X[rng.integers(0, 8000, 1 + seed % 6)] + rng.normal(size=3) * rng.choice([1, 50])
        indices, weights = coreset(X, m, s, seed=seed)
        true, spread = cost(X, s, centres), cost(X, s, np.average(X, axis=0, weights=s)[None])
        estimate = cost(X[indices], change(weights, s[indices], s.sum() / m), centres)
        errors.append(abs(estimate - true) / (true + spread) / bound)
    return max(errors)


def test_costs_are_within_the_bound():
    assert worst(lambda weights, own, share: weights) < 1
    assert worst(lambda weights, own, share: np.full_like(weights, share)) > 1
    assert worst(lambda weights, own, share: own * share) > 1


# --- the rest -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_many_draws_are_all_rows(kind):
    X, s = KINDS[kind](data(6)), np.array([1.0, 0.0, 2.0, 3.0, 0.0, 0.5])
    for m in (4, 100):
        indices, weights = coreset(X, m, s)
        assert indices.tolist() == [0, 2, 3, 5]
        assert weights.tolist() == [1.0, 2.0, 3.0, 0.5]
    assert len(coreset(X, 3, s).indices) <= 3


def test_equal_rows_are_drawn_by_weight():
    indices, weights = coreset(np.full((100, 2), 7.0), 60, np.arange(100.0))
    assert 0 not in indices
    assert weights.sum() == pytest.approx(4950)


def test_same_seed_same_coreset_in_any_layout(tmp_path):
    X = data().astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    first = coreset(X, 50, seed=3)
    for other in (X.tolist(), np.asfortranarray(X), np.load(tmp_path / "rows.npy", mmap_mode="r")):
        again = coreset(other, 50, seed=3)
        assert (again.indices == first.indices).all()
        assert again.weights == pytest.approx(first.weights, rel=1e-12)
    assert (coreset(X, 50, seed=4).indices[:20] != first.indices[:20]).any()


def test_blocks_are_seamless(monkeypatch):
    X = data()
    whole = coreset(X, 50)
    monkeypatch.setattr(MODULE, "BLOCK", 21)
    parts = coreset(X, 50)
    assert (parts.indices == whole.indices).all()
    assert parts.weights == pytest.approx(whole.weights, rel=1e-12)


def bad(value, row=1, column=2):
    X = data(5)
    X[row, column] = value
    return X


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((bad(np.nan), 2), ValueError, r"X\[1, 2\] is nan, not finite"),
        ((sparse.csr_array(bad(np.inf)), 2), ValueError, r"X\[1, 2\] is inf, not finite"),
        ((bad(1e300), 2), ValueError, "X holds a value of 1e.300: squared distances"),
        ((data(5), 0), ValueError, "m must be at least 1, got 0"),
        ((data(5), 2.0), TypeError, "m must be an integer"),
        ((np.ones(3), 2), ValueError, r"X must have rows and columns, .* got \(3,\)"),
        ((np.ones((0, 3)), 2), ValueError, "X must have rows and columns"),
        (([["a"]], 2), TypeError, "X must hold numbers"),
        ((data(5), 2, [1.0, 2.0]), ValueError, r"sample_weight must have shape \(5,\), got \(2,\)"),
        ((data(5), 2, [1, 1, -1, 1, 1]), ValueError, r"sample_weight\[2\] is -1.0"),
        ((data(5), 2, np.zeros(5)), ValueError, "all sample weights are 0"),
    ],
)
def test_bad_arguments_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        coreset(*arguments)
