"""k-means against plain numpy: dense and sparse, weighted, in both precisions."""

import numpy as np
import pytest
from scipy import sparse

import naive
from tombola.problems import KMeans

pytestmark = pytest.mark.kernels

N, K = 30, 6


def data(d=7, seed=0):
    """Rows with many zeros, one row all zero, and centres; some of them rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d)) * (rng.random((N, d)) < 0.6)
    X[4] = 0.0
    centres = rng.normal(size=(K, d))
    centres[2] = X[3]
    return X, rng.uniform(0.0, 3.0, N), centres


KINDS = {
    "dense": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "sparse": sparse.csr_matrix,
    "sparse, float32": lambda X: sparse.csr_matrix(X.astype(np.float32)),
}


@pytest.mark.parametrize("d", [1, 3, 4, 7, 8])  # whole blocks of columns, and the rest
@pytest.mark.parametrize("kind", KINDS)
def test_all_figures_agree_with_the_definition(kind, d):
    X, weights, centres = data(d)
    if "float32" in kind:
        X = X.astype(np.float32).astype(np.float64)
    problem = KMeans(KINDS[kind](X), K, sample_weight=weights)
    found = [naive.nearest_centre(x, centres) for x in X]
    labels, squared = np.array([q for q, _ in found]), np.array([s for _, s in found])
    s = weights / weights.mean()
    # sparse rows: a part of |x|^2 + |q|^2, which are at most 40 here
    np.testing.assert_array_equal(problem.labels(centres), labels)
    np.testing.assert_allclose(problem.losses(centres), s * squared, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(problem.norms(centres), 2 * s * np.sqrt(squared), atol=1e-6)
    if kind == "dense":
        np.testing.assert_allclose(problem.norms(centres), 2 * s * np.sqrt(squared), rtol=1e-12)
    assert problem.value(centres) == pytest.approx((s * squared).mean(), rel=1e-12)
    assert (problem.n, problem.d, problem.n_clusters, problem.shape) == (N, d, K, (K, d))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_gradients_are_finite_differences(kind):
    X, weights, centres = data()
    problem = KMeans(KINDS[kind](X), K, sample_weight=weights)
    h = 1e-6
    gradients = np.empty((N, *centres.shape))
    for place in np.ndindex(*centres.shape):
        step = np.zeros_like(centres)
        step[place] = h
        up, down = problem.losses(centres + step), problem.losses(centres - step)
        gradients[(slice(None), *place)] = (up - down) / (2 * h)
    norms = np.sqrt((gradients**2).sum(axis=(1, 2)))
    np.testing.assert_allclose(problem.norms(centres), norms, atol=1e-6)
    np.testing.assert_allclose(problem.gradient(centres), gradients.mean(axis=0), atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_are_those_of_the_paper(kind):
    X, weights, centres = data()
    problem = KMeans(KINDS[kind](X), K, sample_weight=weights)
    s = weights / weights.mean()
    for point in (0, 4, N - 1):
        expected = 4 * s**2 * ((X - X[point]) ** 2).sum(axis=1)
        bounds = problem.bounds(point)
        np.testing.assert_allclose(bounds, expected, rtol=1e-5, atol=1e-5)
        centres[0] = X[point]
        assert (bounds + 1e-5 >= problem.norms(centres) ** 2).all()


def test_weights_stand_for_rows():
    X, _, centres = data()
    weights = np.arange(N) % 3  # none, one, two of each
    weighted = KMeans(X, K, sample_weight=weights)
    repeated = KMeans(np.repeat(X, weights, axis=0), K)
    assert weighted.value(centres) == pytest.approx(repeated.value(centres), rel=1e-13)
    np.testing.assert_allclose(weighted.gradient(centres), repeated.gradient(centres), atol=1e-14)


def test_dense_distances_survive_an_offset():
    """|x|^2 - 2 x.q + |q|^2 would lose all digits here."""
    X, _, centres = data()
    exact = KMeans(2.0**-10 * X, K).losses(2.0**-10 * centres)
    X, centres = 2.0**-10 * X + 2.0**20, 2.0**-10 * centres + 2.0**20
    squared = [naive.nearest_centre(x, centres)[1] for x in X]
    np.testing.assert_allclose(KMeans(X, K).losses(centres), squared, rtol=1e-12)
    np.testing.assert_allclose(KMeans(X, K).losses(centres), exact, rtol=1e-4, atol=1e-9)


def test_sparse_distances_are_never_negative():
    rng = np.random.default_rng(1)
    X = 1e8 * rng.normal(size=(N, 7))
    problem = KMeans(sparse.csr_matrix(X), N)
    assert (problem.losses(X) >= 0).all()  # 0 each, but for rounding of 1e16
    assert (problem.norms(X) <= 1e8 * 1e-6).all()


def test_the_first_of_equals_is_the_nearest():
    problem = KMeans([[0.0], [2.0]], 2)
    assert problem.labels([[1.0], [1.0]]).tolist() == [0, 0]
    assert problem.labels([[3.0], [1.0]]).tolist() == [1, 0]


def test_data_are_used_where_they_lie():
    X, _, _ = data()
    rows = sparse.csr_matrix(X)
    assert np.shares_memory(KMeans(X, 2).model.rows.values, X)
    assert np.shares_memory(KMeans(rows, 2).model.rows.values, rows.data)
    np.testing.assert_array_equal(KMeans(rows, 2).row(3), X[3])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([[1.0], [2.0]], 3), ValueError, "n_clusters must be from 1 to the 2 rows, got 3"),
        (([[1.0], [2.0]], 0), ValueError, "n_clusters must be from 1"),
        (([[1.0], [2.0]], 1.0), TypeError, "n_clusters must be an integer"),
        (([[1.0], [2.0]], True), TypeError, "n_clusters must be an integer"),
        (([[1.0], [np.nan]], 1), ValueError, r"X\[1, 0\] is nan"),
        (([[1.0], [-np.inf]], 1), ValueError, r"X\[1, 0\] is -inf"),
        (([[1.0], [1e200]], 1), ValueError, "row 1 of X is too long"),
        (([1.0, 2.0], 1), ValueError, "2 dimensions"),
    ],
)
def test_bad_data_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        KMeans(*arguments)


def test_bad_questions_are_named():
    problem = KMeans([[1.0, 2.0], [3.0, 4.0]], 2)
    with pytest.raises(ValueError, match=r"shape \(2, 2\), got \(2,\)"):
        problem.value([1.0, 2.0])
    with pytest.raises(ValueError, match="not finite"):
        problem.value([[1.0, 2.0], [np.nan, 0.0]])
    for point in (2, -1):
        with pytest.raises(ValueError, match="point must be from 0 to 1"):
            problem.bounds(point)
    with pytest.raises(TypeError, match="index of a row"):
        problem.bounds(0.5)
    with pytest.raises(ValueError, match="negative"):
        KMeans([[1.0], [2.0]], 1, sample_weight=[1.0, -1.0])


def test_repr_says_what_it_is():
    assert repr(KMeans([[1.0, 2.0]], 1)) == "KMeans(1 x 2, dense, n_clusters=1)"
    assert repr(KMeans(sparse.eye(3), 2)) == "KMeans(3 x 3, sparse, n_clusters=2)"
