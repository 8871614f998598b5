"""Collections of all kinds, and what is wrong with some; on Dask's threads."""

import functools

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from tombola import estimators
from tombola.checkpoint import CheckpointError
from tombola.dask import KMeans, LinearClassifier, LinearRegressor, coreset
from tombola.dask.refinement import Refinement

N, D = 1200, 4
CUTS = ((300, 0, 500, 400), (D,))


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) + 0.2
    return X, X @ rng.normal(size=D) + rng.normal(size=N)


POSITIVE = data()[1] > 0


def frame():
    X, y = data()
    return pd.DataFrame(X, columns=list("abcd")).assign(y=y, label=np.where(y > 0, "yes", "no"))


def model(**options):
    return LinearRegressor(random_state=0, tol=1e-6, **options)


def reference(**weights):
    return estimators.LinearRegressor(tol=1e-9, max_iter=1000).fit(*data(), **weights)


def close(found, right, within=1e-3):
    return np.abs(found.coef_ - right.coef_).max() < within


def sparse_blocks(X):
    return da.from_array(X, chunks=CUTS).map_blocks(sparse.csr_matrix)


@pytest.mark.parametrize("kind", ["array", "float32", "sparse", "frame", "unknown", "columns"])
def test_every_kind_of_collection(kind):
    X, y = data()
    target = da.from_array(y, chunks=CUTS[0])
    rows = da.from_array(X, chunks=CUTS)
    if kind == "float32":
        rows = rows.astype(np.float32)
    elif kind == "sparse":
        rows = sparse_blocks(X)
    elif kind in ("frame", "unknown"):
        table = dd.from_pandas(frame(), npartitions=3)
        rows, target = table[list("abcd")], table["y"]
        if kind == "unknown":
            rows, target = rows.to_dask_array(), target.to_dask_array()
            assert np.isnan(rows.shape[0])
    elif kind == "columns":
        rows = rows.rechunk((400, 2))
    if kind == "columns":
        with pytest.warns(UserWarning, match="2 blocks along its columns"):
            found = model().fit(rows, target)
    else:
        found = model().fit(rows, target)
    assert close(found, reference())
    assert hasattr(found, "feature_names_in_") == (kind == "frame")
    predicted = found.predict(rows.rechunk({1: -1}) if kind == "columns" else rows)
    assert isinstance(predicted, da.Array)
    assert np.allclose(predicted.compute(), X @ found.coef_ + found.intercept_, atol=1e-5)


IN_MEMORY = {
    "array": np.asarray,
    "fortran": np.asfortranarray,
    "list": np.ndarray.tolist,
    "csr": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "frame": lambda X: pd.DataFrame(X, columns=list("abcd")),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_data_in_memory_is_one_partition(kind):
    X, y = data()
    rows, lazy = IN_MEMORY[kind](X), da.from_array(X, chunks=(N, D))
    found, right = model().fit(rows, y), model().fit(lazy, da.from_array(y, chunks=N))
    assert close(found, right, 1e-6)
    assert type(found.predict(rows)) is np.ndarray
    assert isinstance(found.predict(lazy), da.Array)
    assert np.isclose(found.score(rows, pd.Series(y)), right.score(lazy, y))
    assert hasattr(found, "feature_names_in_") == (kind == "frame")
    if kind == "frame":
        for call in (found.predict, lambda X: found.score(X, y)):
            with pytest.raises(ValueError, match=r"column 2 of X is 'd'|names must be in"):
                call(rows[list("abdc")])
    clusters = KMeans(2, random_state=0).fit(rows)
    assert type(clusters.labels_) is np.ndarray
    assert len(coreset(rows, 10)[1]) <= 10


def test_what_is_learnt_from_single_precision_is_of_it():
    X, y = data()
    rows, single = (da.from_array(X.astype(t), chunks=CUTS) for t in (np.float64, np.float32))
    table = dd.from_pandas(frame().astype({name: np.float32 for name in "abcd"}), npartitions=2)
    target = da.from_array(y, chunks=CUTS[0])
    for given, labels in ((single, target), (table[list("abcd")], table["y"])):
        for kind in (LinearRegressor(), LinearClassifier(), KMeans(2)):
            found = kind.fit(given, labels > 0)
            learnt = [getattr(found, n) for n in ("coef_", "intercept_", "cluster_centers_")
                      if hasattr(found, n)]  # fmt: skip
            assert {each.dtype for each in learnt} == {np.dtype(np.float32)}
            for method in {"predict", "transform", "predict_proba"}.intersection(dir(found)):
                lazily = getattr(found, method)(given)
                assert lazily.dtype == lazily.compute().dtype
    assert model().fit(rows, target).coef_.dtype == np.float64


def test_parquet_straight_from_disk(tmp_path):
    pytest.importorskip("pyarrow")
    for k, part in enumerate(np.array_split(np.arange(N), 3)):
        frame().iloc[part].to_parquet(tmp_path / f"{k}.parquet")
    table = dd.read_parquet(tmp_path)
    found = LinearClassifier(random_state=0).fit(table[list("abcd")], table["label"])
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.score(table[list("abcd")], table["label"]) > 0.8


def test_weights_as_on_one_machine():
    X, y = data()
    weights = np.random.default_rng(1).exponential(size=N) * (np.arange(N) > 400)
    rows, target = da.from_array(X, chunks=(300, D)), da.from_array(y, chunks=300)
    given = da.from_array(weights, chunks=500)  # cut as X is
    found = model().fit(rows, target, given)
    right = reference(sample_weight=weights)
    assert close(found, right)
    assert not close(found, reference())
    assert np.isclose(found.score(rows, target, given), right.score(X, y, weights), atol=1e-4)


@pytest.mark.parametrize("balance", [None, "balanced", {0: 1.0, 1: 3.0, 2: 1.0}])
def test_classes_and_their_weights(balance):
    X, y = data()
    label = np.digitize(y, [-1.0, 1.5])
    rows = da.from_array(X, chunks=(300, D))
    found = LinearClassifier(random_state=0, tol=1e-6, class_weight=balance)
    found.fit(rows, da.from_array(label, chunks=300))
    right = estimators.LinearClassifier(multi_class="ovr", tol=1e-8, class_weight=balance)
    right.fit(X, label)
    assert close(found, right, 0.02 * np.abs(right.coef_).max())
    assert (found.dual_gap_ <= 1e-6).all()
    assert np.allclose(found.predict_proba(rows).compute(), right.predict_proba(X), atol=0.01)


def test_an_indicator_matrix():
    X, y = data()
    labels = np.column_stack([y > 0, X[:, 0] > 0.5]).astype(int)
    rows = da.from_array(X, chunks=(300, D))
    found = LinearClassifier(random_state=0, alpha=1e-2).fit(
        rows, da.from_array(labels, chunks=(300, 2))
    )
    right = estimators.LinearClassifier(alpha=1e-2, tol=1e-6).fit(X, labels)
    assert close(found, right, 0.1)
    assert found.predict(rows).compute().shape == (N, 2)


def test_to_local_is_the_plain_estimator():
    X, y = data()
    rows, target = da.from_array(X, chunks=(300, D)), da.from_array(y, chunks=300)
    local = model().fit(rows, target).to_local()
    assert type(local) is estimators.LinearRegressor
    assert close(local, reference())
    assert local.dual_gap_ <= 1e-6
    assert np.isclose(local.score(X, y), model().fit(rows, target).score(rows, target))
    assert clone(model(alpha=0.5)).alpha == 0.5


def test_a_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tombola.dask.linear_estimator.Refinement", functools.partial(Refinement, rows=40)
    )
    X, y = data()
    rows, target = da.from_array(X, chunks=(300, D)), da.from_array(y > 0, chunks=300)

    def fitted(rounds, folder=None, loss="log_loss"):
        it = LinearClassifier(
            loss, alpha=1e-4, random_state=0, tol=1e-9, max_iter=rounds, checkpoint=folder,
            checkpoint_every=2,
        )  # fmt: skip
        with pytest.warns(ConvergenceWarning, match="relative duality gap"):
            return it.fit(rows, target)

    for loss, half, all_rounds in (("log_loss", 4, 6), ("hinge", 2, 4), ("hinge", 3, 4)):
        folder = tmp_path / f"{loss}-{half}"
        plain = fitted(all_rounds, loss=loss)
        assert fitted(half, folder, loss).n_iter_ == half
        resumed = fitted(all_rounds, folder, loss)
        assert np.array_equal(resumed.coef_, plain.coef_)
        assert resumed.n_iter_ == all_rounds
        assert not np.array_equal(fitted(half, loss=loss).coef_, plain.coef_)
    with pytest.raises(ValueError, match="other data, partitions or parameters"):
        LinearClassifier(random_state=1, checkpoint=folder).fit(rows, target)


def interrupted(folder, kind, rows, target, *weights, **options):
    """One round of a fit, with a checkpoint."""
    it = kind(random_state=0, tol=0.0, max_iter=1, checkpoint=folder, **options)
    return it.fit(rows, target, *weights)


@pytest.mark.parametrize("changed", ["y", "weights", "columns", "rows", "labels", "indicators"])
def test_a_checkpoint_of_other_data_is_refused(tmp_path, changed):
    X, y = data()
    labels, indicators = np.where(y > 0, "yes", "no"), np.column_stack([y > 0, y > 1])
    kind = LinearClassifier if changed in ("labels", "indicators") else LinearRegressor
    target = {"labels": labels, "indicators": indicators}.get(changed, y)
    weights = np.ones(N)
    before = X, target, weights.copy()
    if changed == "weights":
        weights[:2] = 0.5, 1.5
    elif changed == "columns":
        X = X[:, ::-1]
    elif changed == "rows":
        X = np.concatenate([X[299::-1], X[300:]])
    else:
        target = np.concatenate([target[299::-1], target[300:]])

    def fit(X, target, weights):
        given = [da.from_array(it, chunks=(300, *it.shape[1:])) for it in (X, target, weights)]
        return interrupted(tmp_path, kind, *given, fit_intercept=False)

    fit(*before)
    fit(*before)
    with pytest.raises(CheckpointError, match="other data, partitions or parameters"):
        fit(X, target, weights)


def test_labels_that_are_objects_go_on_in_another_process(tmp_path):
    X, y = data()
    rows, models = da.from_array(X, chunks=(300, D)), []
    for _ in range(2):  # the same labels, elsewhere in memory
        labels = np.array([" ".join(["class", str(it)]) for it in y > 0], dtype=object)
        target = da.from_array(labels, chunks=300)
        models.append(interrupted(tmp_path, LinearClassifier, rows, target))
    first, again = (it.classes_ for it in models)
    assert first[0] is not again[0]
    assert first.tolist() == again.tolist() == ["class False", "class True"]


def test_a_class_of_weight_zero_alone_in_a_partition():
    X, y = data()
    labels = np.sort(np.digitize(y, [-1.0, 1.0]))
    options = {"class_weight": {0: 0.0, 1: 1.0, 2: 1.0}, "random_state": 0, "tol": 1e-5}
    rows, target = da.from_array(X, chunks=(100, D)), da.from_array(labels, chunks=100)
    assert (labels[:100] == 0).all()
    found = LinearClassifier("hinge", **options).fit(rows, target)
    assert np.max(found.dual_gap_) <= 1e-5


def test_what_is_wrong_is_one_sentence():
    X, y = data()
    rows, target = da.from_array(X, chunks=(300, D)), da.from_array(y, chunks=300)
    with pytest.raises(ValueError, match="X must have two dimensions, got 1: a row for each"):
        model().fit(rows[:, 0], target)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        model().fit(X[:, 0], y)
    with pytest.raises(ValueError, match="X has 1200 rows, y has 1199"):
        model().fit(X, y[1:])
    with pytest.raises(ValueError, match="X has 1200 rows, y has 1100"):
        model().fit(rows, target[:1100])
    with pytest.raises(ValueError, match="X has no rows"):
        model().fit(rows[:0], target[:0])
    with pytest.raises(ValueError, match="at least two classes, y has 1 class: 1"):
        LinearClassifier().fit(rows, da.ones(N, chunks=300, dtype=int))
    with pytest.raises(ValueError, match="all sample weights are zero"):
        model().fit(rows, target, da.zeros(N, chunks=300))
    with pytest.raises(ValueError, match=r"partition \d: sample_weight\[0\] is -1\.0, which"):
        model().fit(rows, target, -da.ones(N, chunks=300))
    with pytest.raises(ValueError, match=r"partition \d: sample_weight\[0\] is nan, not finite"):
        model().fit(rows, target, np.nan * da.ones(N, chunks=300))
    for fit in (model().fit, KMeans(2).fit):
        with pytest.raises(ValueError, match=r"sample_weight\[0\] is 1e\+308, one of the numbers"):
            fit(rows, target, da.full(N, 1e308, chunks=300))
        with pytest.raises(ValueError, match=r"sample_weight\[0\] is 1e\+308, one of the numbers"):
            fit(1e-9 * rows[::300], target[::300], da.full(4, 1e308, chunks=1))
    with pytest.raises(ValueError, match=r"partition \d: X\[\d+, \d\] is nan, not finite"):
        KMeans(2).fit(da.where(rows > 3, np.nan, rows))
    with pytest.raises(ValueError, match=r"partition \d: X\[\d+, \d\] is nan, not finite"):
        model().fit(da.where(rows > 3, np.nan, rows), target)
    table = dd.from_pandas(frame(), npartitions=3)
    with pytest.raises(ValueError, match="X has 3 partitions, y has 4"):
        model().fit(table[list("abcd")], target)
    with pytest.raises(ValueError, match="alpha"):
        model(alpha=0.0).fit(rows, target)


def unread(*args):
    raise AssertionError("a row was read")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": 3}, "checkpoint must be the path of a folder, got 3"),
        ({"checkpoint": __file__}, r"checkpoint must be a folder, .*\.py is a file"),
        ({"checkpoint": f"{__file__}/a/b"}, r"checkpoint='.*/a/b' cannot be made: .*Not a dir"),
        ({"client": "tcp://x"}, r"client must be a distributed\.Client, got 'tcp://x'"),
    ],
)
def test_parameters_that_are_wrong_before_a_row_is_read(options, message):
    rows = da.from_array(data()[0], chunks=(300, D)).map_blocks(unread, dtype=float)
    with pytest.raises((TypeError, ValueError), match=message):
        LinearClassifier(**options).fit(rows, da.from_array(POSITIVE, chunks=300))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({False: -1.0}, r"class_weight\[False\] is -1\.0, not a number from 0 on"),
        ({False: np.nan}, r"class_weight\[False\] is nan"),
        ({False: "heavy"}, r"class_weight\[False\] is 'heavy'"),
        ({False: 0, True: 0}, "leaves no row of positive weight"),
        ({"no": 1.0, 7: 1.0}, "class_weight names 'no', which is not in y"),
    ],
)
def test_class_weights_that_are_wrong(weights, message):
    rows, labels = da.from_array(data()[0], chunks=(300, D)), da.from_array(POSITIVE, chunks=300)
    with pytest.raises(ValueError, match=message):
        LinearClassifier(class_weight=weights).fit(rows, labels)


def test_a_refit_that_fails_leaves_the_model(monkeypatch):
    table = dd.from_pandas(frame(), npartitions=3)
    X, y = table[list("abcd")], table["label"]
    models = [LinearClassifier(max_iter=1, tol=0.0).fit(X, y), KMeans(2).fit(X)]
    before = [{k: v for k, v in vars(model).items() if k.endswith("_")} for model in models]
    monkeypatch.setattr("tombola.dask.linear_estimator.begin", unread)
    monkeypatch.setattr("tombola.dask.kmeans.step_of", unread)
    rows = da.from_array(data()[0] + 1, chunks=(300, D))
    indicators = da.from_array(np.column_stack([POSITIVE, ~POSITIVE]), chunks=(300, 2))
    for model in models:
        with pytest.raises(AssertionError, match="a row was read"):
            model.fit(rows, indicators)
    for model, right in zip(models, before, strict=True):
        assert {k: v for k, v in vars(model).items() if k.endswith("_")} == right
    monkeypatch.undo()
    for model in models:
        model.fit(rows, da.from_array(POSITIVE, chunks=300))
        assert not hasattr(model, "feature_names_in_")


def spoilt(values, at, value, dtype=None):
    """Values with one of them changed, in blocks of 300 rows."""
    values = np.array(values, dtype=dtype)
    values[at] = value
    return da.from_array(values, chunks=(300, *values.shape[1:]))


def as_simplest(block):
    return np.array(block.tolist())


TARGETS = {
    "nan label": (spoilt(POSITIVE, 307, np.nan, float), r"partition 1: y\[7\] is nan"),
    "infinite label": (spoilt(POSITIVE, 307, np.inf, float), r"partition 1: y\[7\] is inf"),
    "number": (spoilt(POSITIVE, 307, 0.5, float), r"y\[7\] is 0.5: labels .* are whole"),
    "none": (spoilt(POSITIVE, 307, None, object), r"partition 1: y\[7\] is None"),
    "missing": (spoilt(POSITIVE, 307, pd.NA, object), r"partition 1: y\[7\] is <NA>"),
    "mixed": (spoilt(POSITIVE, 307, "x", object), "partition 1 of y has labels of several types"),
    "mixed partitions": (
        spoilt(POSITIVE, slice(300, None), "x", object).map_blocks(as_simplest, dtype=object),
        "y has labels of several types",
    ),
    "indicators": (spoilt(np.eye(2)[POSITIVE * 1], (307, 1), np.nan), r"y\[7, 1\] is nan: an ind"),
    "twos": (spoilt(np.eye(2)[POSITIVE * 1], (307, 1), 2), r"y\[7, 1\] is 2.0: an indicator"),
    "deep": (da.zeros((N, 2, 2), chunks=(300, 2, 2)), r"one column, got shape \(300, 2, 2\)"),
}
NUMBERS = {
    "nan": (spoilt(data()[1], 307, np.nan), r"partition 1: y\[7\] is nan, not finite"),
    "infinite": (spoilt(data()[1], 307, np.inf), r"partition 1: y\[7\] is inf, not finite"),
    "columns": (da.zeros((N, 2), chunks=(300, 2)), r"must be one column, got shape \(300, 2\)"),
    "text": (da.full(N, "a", chunks=300), "partition [0-3]: y must hold numbers, got dtype <U1"),
}


@pytest.mark.parametrize("wrong", [*TARGETS, *NUMBERS])
def test_targets_that_are_wrong(wrong):
    rows = da.from_array(data()[0], chunks=(300, D))
    kind = LinearClassifier if wrong in TARGETS else LinearRegressor
    target, message = {**TARGETS, **NUMBERS}[wrong]
    found = kind(random_state=0, max_iter=1, tol=0.0)
    with pytest.raises((TypeError, ValueError), match=message):
        found.fit(rows, target)
    if wrong in ("mixed", "mixed partitions", "indicators", "twos"):
        return
    found.fit(rows, da.from_array(POSITIVE, chunks=300))
    with pytest.raises((TypeError, ValueError), match=message):
        found.score(rows, target)


def test_scores_need_targets_like_those_of_the_fit():
    rows, labels = da.from_array(data()[0], chunks=(300, D)), da.from_array(POSITIVE, chunks=300)
    found = LinearClassifier(random_state=0, max_iter=1, tol=0.0).fit(rows, labels)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        found.score(rows, None)
    indicators = da.stack([labels, ~labels], axis=1)
    with pytest.raises(ValueError, match=r"y has shape \(300, 2\), predictions have \(300,\)"):
        found.score(rows, indicators)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        LinearRegressor(max_iter=1, tol=0.0).fit(rows, labels).score(rows, None)


@pytest.mark.parametrize("kind", [LinearRegressor, LinearClassifier, KMeans])
def test_columns_are_those_of_the_fit(kind):
    table = dd.from_pandas(frame(), npartitions=3)
    X, y = table[list("abcd")], table["y"] > 0
    found = (KMeans(2) if kind is KMeans else kind(max_iter=1, tol=0.0)).fit(X, y)
    swapped = table[list("abdc")]
    wide = da.zeros((6, D + 1), chunks=(3, D + 1))
    methods = [found.predict, lambda X: found.score(X, y)]
    for call in methods:
        with pytest.raises(ValueError, match="column 2 of X is 'd', that of the fit was 'c'"):
            call(swapped)
        with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4"):
            call(table[list("abc")])
        with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 4"):
            call(wide)
        call(X)
    assert found.predict(X.to_dask_array()).compute().shape == (N,)


def test_clusters_as_on_one_machine():
    rng = np.random.default_rng(1)
    middles = rng.normal(size=(30, 3)) * 5
    X = middles[rng.integers(30, size=20_000)] + rng.normal(size=(20_000, 3))
    rows = da.from_array(X, chunks=(4500, 3))
    found = KMeans(10, random_state=0, n_init=5).fit(rows)
    right = estimators.KMeans(10, random_state=0, n_init=5).fit(X)
    assert found.inertia_ < 1.05 * right.inertia_
    assert found.labels_.compute().shape == (20_000,)
    assert found.transform(rows).shape == (20_000, 10)
    assert np.isclose(found.inertia_, -found.score(rows))
    rough = KMeans(10, random_state=0, coreset_size=12, polish=0).fit(rows)
    assert rough.inertia_ > 1.05 * right.inertia_  # too few draws


def test_a_coreset_is_unbiased():
    X, _ = data()
    X[:10] *= 20
    weights = np.random.default_rng(2).exponential(size=N)
    rows = da.from_array(X, chunks=CUTS)
    given = da.from_array(weights, chunks=CUTS[0])
    estimates = []
    for seed in range(60):
        drawn, shares = coreset(rows, 100, given, seed=seed)
        estimates.append([shares.sum(), *(shares @ drawn**2)])
    truth = np.array([weights.sum(), *(weights @ X**2)])
    error = np.std(estimates, axis=0) / np.sqrt(60)
    assert (np.abs(np.mean(estimates, axis=0) - truth) < 4.5 * error).all()  # false alarms: 1e-5
    assert len(coreset(rows, N + 1)[0]) == N
