"""The pass over all rows, against its definition."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from threadpoolctl import threadpool_limits

from tombola.estimators.clusters import assign
from tombola.problems import KMeans, kmeans

KINDS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "sparse": sparse.csr_array,
}
PRECISION = {"float64": 1e-12, "float32": 1e-6, "sparse": 1e-12}


def oracle(X, weights, centres):
    """Labels, losses and means, row by row."""
    squared = ((X[:, None] - centres) ** 2).sum(axis=2)
    labels, losses = squared.argmin(axis=1), weights * squared.min(axis=1)
    means = centres.copy()
    for q in set(labels):
        mine = labels == q
        if weights[mine].any():
            means[q] = (weights[mine, None] * X[mine]).sum(axis=0) / weights[mine].sum()
    return labels, losses, means


def example(n=300, d=7, k=9, away=0.0):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) + away
    weights = rng.uniform(size=n) * (rng.random(n) < 0.9)
    centres = X[:k] + 0.1 * rng.normal(size=(k, d))
    centres[3] = 40.0 + away  # no row is nearest to it
    return X, weights, centres


def assigned(X, weights, centres):
    return assign(KMeans(X, 1, sample_weight=weights, normalise=False), centres)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [1, 50, 2**17])
def test_a_pass_is_its_definition(monkeypatch, kind, block):
    monkeypatch.setattr(kmeans, "BLOCK", block)
    X, weights, centres = example()
    found = assigned(KINDS[kind](X), weights, centres)
    labels, losses, means = oracle(X, weights, centres)
    assert (found.labels == labels).all()
    assert found.losses == pytest.approx(losses, rel=PRECISION[kind], abs=PRECISION[kind])
    assert found.means == pytest.approx(means, rel=PRECISION[kind], abs=PRECISION[kind])
    assert (found.means[3] == 40.0).all()


def test_rows_far_from_zero_keep_their_precision():
    """A product of float32 matrices would have no digit of the distances left."""
    X, weights, centres = example(away=1e5)
    X = X.astype(np.float32).astype(np.float64)
    found = assigned(X.astype(np.float32), weights, centres)
    labels, losses, _ = oracle(X, weights, centres)
    assert (found.labels == labels).mean() > 0.99
    assert found.losses.sum() == pytest.approx(losses.sum(), rel=1e-2)
    rows, middles = X.astype(np.float32), centres.astype(np.float32)
    naive = (rows @ middles.T - 0.5 * (middles * middles).sum(axis=1)).argmax(axis=1)
    assert (naive == labels).mean() < 0.9


def test_threads_change_nothing():
    X, weights, centres = example(5000)
    results = []
    for threads in (1, 3):
        with threadpool_limits(threads):
            results.append(assigned(X, weights, centres))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_fewer_rows_than_parts_and_centres():
    X, _, centres = example()
    found = assigned(X[:2], np.ones(2), centres)
    labels, losses, means = oracle(X[:2], np.ones(2), centres)
    assert (found.labels == labels).all()
    assert found.losses == pytest.approx(losses)
    assert found.means == pytest.approx(means)
