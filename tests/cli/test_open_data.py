"""The data that commands train on, and predictions from saved arrays with numpy alone."""

import argparse

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from tombola.cli.arguments import add_data_arguments
from tombola.cli.data import open_data
from tombola.cli.run_page import snippet
from tombola.cli.train_fit import Trained
from tombola.datasets import DataError, public
from tombola.estimators.plan import ESTIMATORS, Plan


def opened(*arguments, hold_out=False, test=None, seed=0):
    parser = argparse.ArgumentParser()
    add_data_arguments(parser)
    options = parser.parse_args(list(map(str, arguments)))
    options.test, options.seed = test, seed
    return open_data(options, hold_out=hold_out)


@pytest.fixture
def voc(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / public.PUBLIC["voc-vgg19"].files[0],
        Xtrain=rng.normal(size=(6, 3)).astype(np.float16),
        Xtest=rng.normal(size=(4, 3)).astype(np.float16),
        Ytrain=np.array([[1, -1], [-1, 1], [0, 1], [1, -1], [-1, 0], [-1, -1]], np.int8),
        Ytest=np.array([[1, 0], [0, 0], [-1, 1], [-1, 1]], np.int8),
        classes=["cat", "dog"],
    )
    return tmp_path


def test_one_class_of_voc_without_difficult_images(voc):
    data = opened("voc-vgg19", "--target", "cat", "--data", voc, hold_out=True)
    assert data.y.tolist() == [1, -1, 1, -1, -1]
    assert data.y_test.tolist() == [1, -1, -1]
    assert data.X.shape == (5, 3)
    assert data.X.dtype == np.float32
    np.testing.assert_allclose(data.X.mean(axis=0), 0, atol=1e-6)
    assert data.notes[:2] == (
        "2 rows marked as difficult were left out.",
        "The 3 test rows of voc-vgg19 were held out.",
    )


def test_voc_needs_a_class(voc):
    with pytest.raises(DataError, match="choose the target with --target: cat and dog"):
        opened("voc-vgg19", "--data", voc)
    with pytest.raises(DataError, match=r"no target 'dgo': did you mean 'dog'\?"):
        opened("voc-vgg19", "--target", "dgo", "--data", voc)


def test_voc_has_no_numbers_to_predict(voc):
    with pytest.raises(DataError, match="has no target for regression"):
        opened("voc-vgg19", "--task", "regression", "--data", voc)


def test_voc_may_be_clustered_whole(voc):
    data = opened("voc-vgg19", "--task", "clustering", "--data", voc)
    assert data.X.shape == (6, 3)
    assert data.y is None


def test_a_share_takes_precedence_over_the_test_rows_of_the_set(voc):
    data = opened("voc-vgg19", "--target", "cat", "--data", voc, hold_out=True, test=0.4)
    assert data.X.shape[0] + data.X_test.shape[0] == 5
    data = opened("voc-vgg19", "--target", "cat", "--data", voc, hold_out=True, test=0.0)
    assert data.X_test is None


def test_nothing_is_held_out_unless_asked_for():
    data = opened("iris")
    assert data.X.shape == (150, 4)
    assert data.X_test is None
    assert data.columns[0] == "sepal length (cm)"


def test_labels_may_be_taken_for_numbers():
    data = opened("digits", "--task", "regression")
    assert data.task == "regression"
    assert data.y.dtype == np.float64


def test_columns_are_left_as_they_are_on_request():
    from sklearn.datasets import load_iris

    np.testing.assert_array_equal(opened("iris", "--no-scale").X, load_iris().data)
    clustered = opened("iris", "--task", "clustering")
    np.testing.assert_array_equal(clustered.X, load_iris().data)
    assert abs(opened("iris", "--task", "clustering", "--scale").X.mean()) < 1e-12


def test_sparse_data_are_left_as_they_are(tmp_path):
    path = tmp_path / "t.libsvm"
    path.write_text("1 1:5 3:2\n0 2:7\n1 1:1\n0 3:1\n")
    data = opened(path)
    assert sp.issparse(data.X)
    assert data.preparer.kept_ is None
    np.testing.assert_array_equal(data.X.toarray(), [[5, 0, 2], [0, 7, 0], [1, 0, 0], [0, 0, 1]])


# --- the lines that predict ---------------------------------------------------------------------

RNG = np.random.default_rng(1)
RAW = RNG.normal(3, 2, size=(30, 4))
LABELS = {"two": np.arange(30) % 2, "three": np.array(list("abc") * 10), "none": None}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", ["two", "three", "regression", "clustering"])
def test_the_snippet_predicts_with_the_saved_arrays(kind, sparse, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y = LABELS.get(kind, RAW[:, 0] if kind == "regression" else None)
    parts = {} if y is None else {"y": y}
    if sparse:
        X = sp.csr_matrix(np.where(RAW > 3, RAW, 0))
        parts |= {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    else:
        X = RAW.copy()
        X[0, 1] = np.nan
        parts["X"] = X
    np.savez("t.npz", **parts)
    extra = ["--task", "clustering"] if kind == "clustering" else []
    data = opened("t.npz", "--impute", "mean", *extra)
    own = {"n_clusters": 5} if kind == "clustering" else {"alpha": 0.1}
    plan = Plan(ESTIMATORS[data.task](**own))
    model, Z = clone(plan.estimator), data.X.toarray() if sparse else data.X
    outputs = 3 if kind == "three" else 1
    model.coef_, model.intercept_ = RNG.normal(size=(outputs, 4)), RNG.normal(size=outputs)
    model.cluster_centers_, model.classes_ = RNG.normal(size=(5, 4)), np.unique(y)
    np.savez("model.npz", **Trained(data, plan, model, []).arrays())
    names = {"X": X}
    exec(snippet(data, model), names)

    if kind == "clustering":
        expected = np.linalg.norm(Z[:, None] - model.cluster_centers_[None], axis=2).argmin(axis=1)
        np.testing.assert_array_equal(names["predicted"], expected)
        return
    scores = Z @ model.coef_.T + model.intercept_
    if kind == "regression":
        np.testing.assert_allclose(names["predicted"], scores[:, 0])
    elif kind == "two":
        np.testing.assert_array_equal(names["predicted"], (scores[:, 0] > 0).astype(int))
    else:
        np.testing.assert_array_equal(names["predicted"], np.array(list("abc"))[scores.argmax(1)])


# --- the lines that read and prepare ------------------------------------------------------------

PETS = "kind,kilos,born,happy,weight\n" + "".join(
    f"{['cat', 'dog', 'owl'][k % 3]},{k * 1.5 if k % 5 else ''},{2000 + k % 9},"
    f"{['no', 'yes'][k % 2]},{k / 7}\n"
    for k in range(40)
)


def ran(code):
    """Run lines of Python; return what they define."""
    names = {}
    exec(compile(code, "code", "exec"), names)
    return names


@pytest.mark.parametrize(
    "arguments",
    [
        ["pets.csv", "--target", "happy", "--impute", "median"],
        ["pets.csv", "--target", "weight", "--impute", "mean", "--no-scale"],
        ["pets.csv", "--task", "clustering", "--impute", "mean"],
        ["rows.libsvm"],
        ["rows.npz"],
        [
            "dirt.csv",
            "--target",
            "y",
            "--missing",
            "?",
            "--impute",
            "mean",
            "--drop",
            "b",
            "--decimal",
            ",",
            "--keep",
            "id,user",
            "--skip-bad-rows",
        ],
        ["digits", "--task", "regression"],
        ["diabetes"],
    ],
)
@pytest.mark.parametrize("hold_out", [False, True])
def test_the_code_gives_the_same_rows(arguments, hold_out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets.csv").write_text(PETS)
    dirt = [f"{k};u{k};{k % 7},5;9;{k % 28 + 1}/{k % 12 + 1}/2020;{k % 2}" for k in range(40)]
    dirt[5], dirt[6] = "5;u5;?;9;3/4/2020;1", "6;u6;1,5"
    (tmp_path / "dirt.csv").write_text("\n".join(["id;user;a;b;when;y", *dirt, ""]))
    (tmp_path / "rows.libsvm").write_text("1 1:5 3:2\n0 2:7\n1 1:1\n0 3:1\n" * 5)
    np.savez("rows.npz", X=RAW, y=LABELS["three"])
    data = opened(*arguments, hold_out=hold_out, test=0.25, seed=3)
    names = ran(data.code())
    made = names["prepare"].fit_transform(names["X"])
    pairs = [(made, data.X)]
    if hold_out:
        pairs.append((names["prepare"].transform(names["X_test"]), data.X_test))
        np.testing.assert_array_equal(names["y_test"], data.y_test)
    else:
        assert names["X_test"] is names["y_test"] is data.X_test is None
    np.testing.assert_array_equal(names["y"], data.y)
    for one, other in pairs:
        assert sp.issparse(one) == sp.issparse(other)
        one, other = (it.toarray() if sp.issparse(it) else it for it in (one, other))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_the_code_of_one_class_of_voc(voc):
    data = opened("voc-vgg19", "--target", "cat", "--data", voc, hold_out=True)
    names = ran(data.code())
    np.testing.assert_array_equal(names["prepare"].fit_transform(names["X"]), data.X)
    np.testing.assert_array_equal(names["prepare"].transform(names["X_test"]), data.X_test)
    np.testing.assert_array_equal(names["y_test"], data.y_test)


def test_the_code_fits_a_pipeline(tmp_path, monkeypatch):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets.csv").write_text(PETS)
    data = opened("pets.csv", "--target", "happy", "--impute", "median", hold_out=True)
    names = ran(data.code())
    model = make_pipeline(names["prepare"], LogisticRegression())
    model.fit(names["X"], names["y"])
    expected = LogisticRegression().fit(data.X, data.y)
    np.testing.assert_allclose(
        model.predict_proba(names["X_test"]), expected.predict_proba(data.X_test), rtol=1e-12
    )
    assert model.score(names["X_test"], names["y_test"]) == expected.score(data.X_test, data.y_test)
    assert len(cross_val_score(model, names["X"], names["y"], cv=3)) == 3


def test_categories_of_the_test_rows_are_not_known_in_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{'ab'[k % 2]},{k},{k / 3}" for k in range(30)]
    lines[7] = "rare,7,1.5"
    (tmp_path / "t.csv").write_text("kind,size,y\n" + "\n".join(lines) + "\n")
    seen = set()
    for seed in range(8):
        data = opened("t.csv", "--target", "y", "--no-scale", hold_out=True, seed=seed)
        known = "kind=rare" in data.columns
        seen.add(known)
        if not known:
            assert (data.X_test[:, :2].sum(axis=1) == 0).sum() == 1  # no column of 0 and 1 fits it
    assert seen == {False, True}
