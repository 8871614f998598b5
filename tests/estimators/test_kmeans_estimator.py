"""k-means on coresets: against scikit-learn's, on all kinds of rows."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn import cluster
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

from tombola import Static
from tombola.coreset import draw_coreset
from tombola.estimators import KMeans, MiniBatchKMeans
from tombola.estimators.clusters import assign
from tombola.estimators.kmeans import sensitivities
from tombola.problems import KMeans as Problem

CENTRES = np.array([[0.0, 0.0], [9.0, 9.0], [0.0, 9.0]])


def data(n=3000):
    return make_blobs(n, centers=CENTRES, random_state=0)[0]


def uneven(n=12_000):
    """A hundred overlapping clusters of unlike size, and a few rows far out."""
    rng = np.random.default_rng(1)
    middles = rng.normal(size=(100, 5)) * 4
    label = rng.choice(100, size=n, p=np.arange(1, 101) / 5050)
    X = middles[label] + rng.normal(size=(n, 5))
    X[:20] *= 10
    return X


def in_order(centres):
    return centres[np.lexsort(centres.round().T)]


# --- the cost -------------------------------------------------------------------------------------


def mean_cost(n_clusters, X, **parameters):
    models = [KMeans(n_clusters, random_state=s, **parameters).fit(X) for s in range(3)]
    return np.mean([model.inertia_ for model in models])


def test_its_cost_is_that_of_all_rows_within_some_percent():
    X = uneven()
    reference = np.mean(
        [cluster.KMeans(20, n_init=1, random_state=s).fit(X).inertia_ for s in range(3)]
    )
    found = mean_cost(20, X, coreset_size=2000)
    assert found < 1.02 * reference
    assert mean_cost(20, X, coreset_size=2000, polish=0) > found
    assert mean_cost(20, X, coreset_size=40, polish=0) > 1.1 * reference  # too few draws


@pytest.mark.parametrize("size", [100, "auto"])
def test_attributes_are_those_of_scikit_learn(size):
    X = data()
    model = KMeans(3, coreset_size=size, random_state=0).fit(X)
    reference = cluster.KMeans(3, n_init=3, random_state=0).fit(X)
    assert model.coreset_size_ == (100 if size == 100 else 3000)
    assert model.inertia_ == pytest.approx(reference.inertia_, rel=1e-3)
    assert in_order(model.cluster_centers_) == pytest.approx(in_order(CENTRES), abs=0.3)
    assert (model.labels_ == model.predict(X)).all()
    assert (model.labels_ == model.fit_predict(X)).all()
    assert model.score(X) == pytest.approx(-model.inertia_)
    assert model.transform(X).argmin(axis=1).tolist() == model.labels_.tolist()
    assert model.get_feature_names_out().tolist() == ["kmeans0", "kmeans1", "kmeans2"]
    assert 1 <= model.n_iter_ <= model.max_iter
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.labels_).all()


def test_automatic_size_depends_on_clusters_and_rows():
    size = [KMeans(k)._size(n) for k, n in ((3, 7999), (3, 8000), (100, 39_999), (100, 10**6))]
    assert size == [7999, 2000, 39_999, 10_000]


def test_few_rows_are_scikit_learns():
    X = data()
    ours = KMeans(3, init=CENTRES + 1, random_state=0).fit(X)
    theirs = cluster.KMeans(3, init=CENTRES + 1, random_state=0).fit(X)
    assert ours.cluster_centers_ == pytest.approx(theirs.cluster_centers_, rel=1e-12)
    assert (ours.labels_ == theirs.labels_).all()
    assert ours.n_iter_ == theirs.n_iter_


# --- rows of all kinds ----------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix])
def test_sparse_is_dense(convert):
    X = data()
    X[X < 1] = 0.0
    settings = dict(init=CENTRES + 1, coreset_size=300, random_state=0)
    dense, model = KMeans(3, **settings).fit(X), KMeans(3, **settings).fit(convert(X))
    assert model.cluster_centers_ == pytest.approx(dense.cluster_centers_, rel=1e-6, abs=1e-9)
    assert model.inertia_ == pytest.approx(dense.inertia_)
    assert (model.predict(convert(X)) == dense.labels_).mean() > 0.99


def test_single_precision_and_memory_maps(tmp_path):
    X = data().astype(np.float32)
    np.save(tmp_path / "rows.npy", X)
    settings = dict(coreset_size=300, random_state=0)
    model = KMeans(3, **settings).fit(X)
    assert model.cluster_centers_.dtype == model.transform(X).dtype == np.float32
    double = KMeans(3, **settings).fit(X.astype(np.float64))
    assert model.inertia_ == pytest.approx(double.inertia_, rel=1e-5)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    again = KMeans(3, **settings).fit(mapped)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)
    np.testing.assert_array_equal(X, mapped)


@pytest.mark.parametrize("size", [200, "auto"])
def test_sample_weights(size):
    X = data()
    far = X[:, 0] > 5
    model = KMeans(2, coreset_size=size, random_state=0).fit(X, sample_weight=~far)
    assert in_order(model.cluster_centers_) == pytest.approx(CENTRES[[0, 2]], abs=0.3)
    weights = np.full(len(X), 2.0)
    model = KMeans(3, coreset_size=size, random_state=0).fit(X, sample_weight=weights)
    assert model.inertia_ == pytest.approx(-2 * model.score(X))
    assert model.score(X, sample_weight=weights) == pytest.approx(-model.inertia_)


def test_a_coreset_of_too_few_rows_is_all_rows():
    """One row has all the weight: it is drawn again and again."""
    X, weights = data(), np.full(3000, 1e-9)
    weights[7] = 1.0
    model = KMeans(5, coreset_size=5, random_state=0).fit(X, sample_weight=weights)
    assert np.isfinite(model.cluster_centers_).all()
    assert np.abs(model.cluster_centers_ - X[7]).sum(axis=1).min() < 1e-3


@pytest.mark.parametrize("init", ["random", lambda X, k, random_state: X[:k]])
def test_starts_of_scikit_learn(init):
    model = KMeans(3, init=init, n_init=4, coreset_size=300, random_state=0).fit(data())
    assert in_order(model.cluster_centers_) == pytest.approx(in_order(CENTRES), abs=0.3)


@pytest.mark.parametrize("limits", [{"max_iter": 2}, {"max_iter": 50, "polish": 3}])
def test_steps_are_no_more_than_allowed(limits):
    model = KMeans(20, coreset_size=300, random_state=0, **limits).fit(uneven(4000))
    assert model.n_iter_ == min(limits.values())
    settings = dict(max_iter=3, max_no_improvement=None, batch_size=70, random_state=0)
    batches = MiniBatchKMeans(20, **settings).fit(uneven(500))
    assert (batches.n_iter_, batches.n_steps_) == (3, 3 * 500 // 70)


def test_parameters_of_scikit_learn_that_change_nothing():
    X = data()
    X.flags.writeable = False
    models = [
        KMeans(3, random_state=0, **given).fit(X)
        for given in ({}, {"algorithm": "elkan"}, {"copy_x": False})
    ]
    for model in models[1:]:
        assert model.cluster_centers_ == pytest.approx(models[0].cluster_centers_, rel=1e-9)
        np.testing.assert_array_equal(model.labels_, models[0].labels_)


# --- bad data -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("scale", "dtype"), [(1e200, np.float64), (1e30, np.float32)])
def test_rows_too_long_are_named(kind, convert, scale, dtype):
    X = data(300)
    X[7] *= scale
    model = kind(3, random_state=0)
    named = r"row 7 of X is too long|X\[7, \d\] is .*so large that their squares overflow"
    with pytest.raises(ValueError, match=named):
        model.fit(convert(X.astype(dtype)))
    assert not hasattr(model, "cluster_centers_")


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_fewer_distinct_rows_than_clusters_are_warned_of(kind, convert):
    X = np.repeat([[1.0, 2.0], [3.0, 0.0]], 30, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\) found smaller"):
        model = kind(4, random_state=0).fit(convert(X))
    assert model.inertia_ == pytest.approx(0.0, abs=1e-20)
    assert set(model.labels_[:30]) != set(model.labels_[30:])
    assert np.isfinite(model.cluster_centers_).all()


FORK = """
import os, signal, sys
import numpy as np
from tombola.estimators import KMeans, MiniBatchKMeans
X = np.random.default_rng(0).normal(size=(40_000, 8))
def fit():
    for model in (KMeans(20, random_state=0), KMeans(3, coreset_size=40_000), MiniBatchKMeans(20)):
        model.fit(X).predict(X)
fit()
if os.fork() == 0:
    signal.alarm(60)  # the end of a child that hangs
    fit()
    os._exit(0)
sys.exit(os.wait()[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fits_in_a_forked_child_end():
    """Those of scikit-learn hang there, if OpenMP had threads in the parent."""
    subprocess.run([sys.executable, "-c", FORK], check=True)


def test_seeds_and_progress(capsys):
    X = uneven(4000)
    settings = dict(coreset_size=300, polish=3)
    models = [KMeans(10, random_state=s, **settings).fit(X) for s in (1, 1, 2)]
    np.testing.assert_array_equal(models[0].cluster_centers_, models[1].cluster_centers_)
    assert (models[0].cluster_centers_ != models[2].cluster_centers_).any()
    KMeans(10, random_state=1, verbose=1, **settings).fit(X)
    assert "step 1 over all rows: the cost is" in capsys.readouterr().out


# --- the second draw ------------------------------------------------------------------------------


def test_sensitivities_are_those_of_the_docstring():
    X = uneven(200)
    weights = np.random.default_rng(0).uniform(size=200)
    weights[:3] = 0.0
    centres = np.vstack([X[10:14], np.full((1, 5), 1e4)])  # the last has no rows
    found = assign(Problem(X, 1, sample_weight=weights, normalise=False), centres)
    values = sensitivities(found, weights, 5)
    cost = found.losses.sum()
    for i in range(200):
        mine = found.labels == found.labels[i]
        expected = found.losses[i] / cost + weights[i] / (4 * weights[mine].sum())
        assert values[i] == pytest.approx(expected)
    assert values.sum() == pytest.approx(2)
    assert (sensitivities(found._replace(losses=0 * weights), weights, 5) >= 0).all()


def test_weights_of_the_second_draw_are_unbiased():
    values, weights = np.array([1.0, 2.0, 5.0]), np.array([2.0, 1.0, 3.0])
    chances, mean = Static(values).probabilities(), np.zeros(3)
    for item in range(3):  # of one draw
        seed = next(s for s in range(99) if draw_coreset(values, weights, 1, s).indices == [item])
        mean[item] = chances[item] * draw_coreset(values, weights, 1, seed).weights[0]
    assert mean == pytest.approx(weights)


def test_bad_arguments_are_named():
    X = data(100)
    with pytest.raises(ValueError, match="coreset_size must be at least n_clusters=8, got 7"):
        KMeans(coreset_size=7).fit(X)
    with pytest.raises(ValueError, match="n_samples=100 should be >= n_clusters=101"):
        KMeans(101).fit(X)
    with pytest.raises(ValueError, match="The 'polish' parameter"):
        KMeans(polish=-1).fit(X)
    with pytest.raises(ValueError, match="initial centers"):
        KMeans(3, init=CENTRES[:2]).fit(X)
    with pytest.raises(ValueError, match="at least one non-zero"):
        KMeans(3).fit(X, sample_weight=np.zeros(100))
