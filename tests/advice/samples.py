"""Small data sets for the tests of advice."""

import itertools

import numpy as np


def imbalanced(n=600, d=40, seed=0):
    """Wide rows of uneven lengths, a fortieth of them in the class that is to be found."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 40 == 0
    X = rng.normal(size=(n, d)) / np.sqrt(d) + 0.5 * y[:, None]
    return X * rng.lognormal(0, 0.5, size=(n, 1)), y


def alike(n=512):
    """Rows of equal length, all as far from the boundary."""
    X = np.array(list(itertools.product([-1.0, 1.0], repeat=3)) * (n // 8))
    return X, X[:, 0] > 0


def regression(n=400):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 5))
    return X, 3e5 + 1e4 * X[:, 0] + 1e3 * rng.standard_t(2, n)


def clustered(n=1200):
    rng = np.random.default_rng(2)
    return rng.normal(size=(n, 3)) * rng.lognormal(0, 1, (n, 1)), None
