import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tombola
from tombola.estimators import MiniBatchKMeans
from tombola.samplers.registry import UNGROUPED

CENTRES = np.array([[0.0, 0.0], [9.0, 9.0], [0.0, 9.0]])


def data(n=300):
    return make_blobs(n, centers=CENTRES, random_state=0)[0]


def in_order(centres):
    return centres[np.lexsort(centres.round().T)]


@pytest.mark.parametrize("sampler", UNGROUPED)
def test_near_lloyd(sampler):
    X = data()
    model = MiniBatchKMeans(3, sampler=sampler, batch_size=100, random_state=0).fit(X)
    reference = KMeans(3, n_init=3, random_state=0).fit(X)
    assert model.inertia_ < reference.inertia_ * 1.03
    assert in_order(model.cluster_centers_) == pytest.approx(in_order(CENTRES), abs=0.5)
    assert (model.labels_ == model.predict(X)).all()
    assert model.score(X) == pytest.approx(-model.inertia_)
    assert model.transform(X).argmin(axis=1).tolist() == model.labels_.tolist()
    assert model.gauge_.count == model.n_steps_ * 100
    assert model.get_feature_names_out().tolist() == [f"minibatchkmeans{k}" for k in range(3)]


def test_sparse_is_dense_and_start_is_given():
    X = data()
    X[X < 1] = 0.0
    settings = dict(init=CENTRES + 1, random_state=0, sampler="uniform", max_iter=3, tol=None)
    dense = MiniBatchKMeans(3, **settings).fit(X)
    model = MiniBatchKMeans(3, **settings).fit(sparse.csr_array(X))
    assert model.cluster_centers_ == pytest.approx(dense.cluster_centers_, rel=1e-6, abs=1e-9)
    assert dense.n_iter_ == 3
    with pytest.raises(ValueError, match=r"shape \(3, 2\), not \(4, 2\)"):
        MiniBatchKMeans(4, init=CENTRES).fit(X)


def test_sample_weights():
    X = data()
    far = X[:, 0] > 5
    model = MiniBatchKMeans(2, random_state=0).fit(X, sample_weight=~far)
    assert in_order(model.cluster_centers_) == pytest.approx(CENTRES[[0, 2]], abs=0.5)
    model = MiniBatchKMeans(3, random_state=0).fit(X, sample_weight=np.full(300, 2.0))
    assert model.inertia_ == pytest.approx(-2 * model.score(X))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_partial_fit_averages_over_all_calls(convert):
    """With one cluster the centre is the mean of all draws, of all calls."""
    X = data(200)
    model = MiniBatchKMeans(1, init=[[9.0, 9.0]], sampler="shuffle", batch_size=10, random_state=0)
    for part in np.array_split(X, 4):
        model.partial_fit(convert(part))
    assert model.cluster_centers_[0] == pytest.approx(X.mean(axis=0), rel=1e-9)
    assert model.n_steps_ == 20
    model.partial_fit(convert(X[:1]))
    three = MiniBatchKMeans(3, random_state=0).partial_fit(convert(X))
    three.partial_fit(convert(X[:2]))  # fewer rows than clusters, later on
    assert three.predict(convert(X[:1])).shape == (1,)
    with pytest.raises(ValueError, match="n_samples=2 should be >= n_clusters=3"):
        MiniBatchKMeans(3).partial_fit(convert(X[:2]))


def test_going_on_and_stopping(capsys):
    X = data()
    settings = dict(batch_size=100, tol=1e-4, max_no_improvement=None, random_state=0)
    model = MiniBatchKMeans(3, warm_start=True, verbose=1, **settings).fit(X)
    assert capsys.readouterr().out.count("centres moved by") == model.n_iter_ - 1
    assert 1 < model.n_iter_ < 100
    before = model.cluster_centers_
    assert np.abs(model.fit(X).cluster_centers_ - before).max() < 0.5
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.predict(X) == model.labels_).all()
    pipeline = make_pipeline(StandardScaler(), MiniBatchKMeans(3, random_state=0)).fit(X)
    assert set(pipeline.predict(X)) == {0, 1, 2}
    with pytest.raises(ValueError, match="over 5 items, X has 300 rows"):
        MiniBatchKMeans(3, sampler=tombola.VRB(5)).fit(X)
    repeat = [MiniBatchKMeans(3, random_state=7).fit(X).cluster_centers_ for _ in range(2)]
    assert (repeat[0] == repeat[1]).all()


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "init", ["k-means++", "random", CENTRES + 1, lambda X, k, random_state: CENTRES[:k] + 1]
)
def test_all_starts(init, convert):
    X = data(3000).astype(np.float32)
    model = MiniBatchKMeans(3, init=init, init_size=50, random_state=0).fit(convert(X))
    assert in_order(model.cluster_centers_) == pytest.approx(in_order(CENTRES), abs=0.5)
    assert model.cluster_centers_.dtype == np.float32


def test_the_best_of_several_starts_is_kept():
    X = make_blobs(4000, centers=30, n_features=2, cluster_std=0.3, random_state=1)[0]
    costs = {
        n_init: np.mean([
            MiniBatchKMeans(30, init="random", n_init=n_init, random_state=s).fit(X).inertia_
            for s in range(5)
        ])
        for n_init in (1, 10)
    }  # fmt: skip
    assert costs[10] < 0.95 * costs[1]


def test_warnings_about_starts():
    X = data()
    with pytest.warns(RuntimeWarning, match="n_init=5 is not used"):
        MiniBatchKMeans(3, init=CENTRES, n_init=5).fit(X)
    with pytest.warns(RuntimeWarning, match="init_size=2 should be larger than n_clusters=3"):
        MiniBatchKMeans(3, init_size=2).fit(X)


def test_without_labels():
    X = data(5000)
    with_labels = MiniBatchKMeans(3, random_state=0).fit(X)
    model = MiniBatchKMeans(3, compute_labels=False, random_state=0).fit(X)
    assert not hasattr(model, "labels_")
    assert model.inertia_ == pytest.approx(with_labels.inertia_, rel=0.2)
    np.testing.assert_array_equal(model.cluster_centers_, with_labels.cluster_centers_)


def test_starved_centres_are_reassigned():
    X = data(3000)
    far = np.vstack([CENTRES[:1], CENTRES[:1] + 500, CENTRES[:1] - 500])  # no row is near to two
    settings = dict(init=far, batch_size=100, random_state=0)
    stuck = MiniBatchKMeans(3, reassignment_ratio=0.0, **settings).fit(X)
    model = MiniBatchKMeans(3, **settings).fit(X)
    assert np.abs(stuck.cluster_centers_).max() > 400
    assert np.abs(model.cluster_centers_).max() < 15
    assert model.inertia_ < 0.5 * stuck.inertia_


def test_it_stops_without_improvement():
    X = data(3000)
    fits = {
        rounds: MiniBatchKMeans(3, batch_size=50, max_no_improvement=rounds, max_iter=4,
                                random_state=0).fit(X)
        for rounds in (2, 40, None)
    }  # fmt: skip
    steps = [model.n_steps_ for model in fits.values()]
    assert 30 <= steps[0] < 42 <= steps[1] <= steps[2] == 4 * 60
    assert [model.n_iter_ for model in fits.values()] == [-(-count // 60) for count in steps]
    assert fits[40].inertia_ < 1.02 * fits[None].inertia_
    endless = MiniBatchKMeans(3, batch_size=50, max_iter=4, tol=None, random_state=0).fit(X)
    assert endless.n_steps_ == 4 * 60
    partial = MiniBatchKMeans(3, batch_size=50, max_no_improvement=1, random_state=0)
    assert partial.partial_fit(X).n_steps_ == 60  # a whole epoch
