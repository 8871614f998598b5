"""Public data sets: small files of their layout, and real ones if TOMBOLA_DATA is set."""

import os
import re
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import scipy.sparse as sp

from tombola.datasets import DataError, catalogue, load, public
from tombola.datasets.base import checksum_of_file

FOLDER = os.environ.get("TOMBOLA_DATA")


def put(folder, name, **arrays):
    path = folder / public.PUBLIC[name].files[0]
    np.savez(path, **arrays)
    return path


# --- the files themselves -----------------------------------------------------------------------


@pytest.mark.skipif(not FOLDER, reason="TOMBOLA_DATA does not name a folder with public sets")
@pytest.mark.parametrize("name", public.PUBLIC)
def test_real_files_are_what_the_catalogue_says(name):
    if public.find(name) is None:
        pytest.skip(f"there is no {public.PUBLIC[name].files[0]} in TOMBOLA_DATA")
    data = load(name)
    n, more, d = re.match(
        r"([\d,]+)(?: \+ ([\d,]+))? x ([\d,]+)", public.PUBLIC[name].what
    ).groups()
    assert data.X.shape == (int(n.replace(",", "")), int(d.replace(",", "")))
    tested = 0 if data.X_test is None else data.X_test.shape[0]
    assert tested == int((more or "0").replace(",", ""))
    values = data.X.data if hasattr(data.X, "tocsr") else data.X
    assert np.isfinite(values).all()
    assert values.dtype in (np.float32, np.float64)
    assert (data.y is None) == (name == "kdd")
    assert data.checksum == checksum_of_file(public.find(name))
    if data.y is not None and data.y.ndim == 2:
        assert data.y.shape == (data.X.shape[0], len(data.targets))
        assert set(np.unique(data.y)) == {-1, 0, 1}
    share = re.search(r"([\d.]+)%", public.PUBLIC[name].what)
    if share:
        assert abs(100 * (data.y > 0).mean() - float(share[1])) < 0.5 * 10 ** -len(
            share[1].partition(".")[2]
        )


# --- layouts ------------------------------------------------------------------------------------


def test_a_set_with_a_rare_class(tmp_path):
    path = put(tmp_path, "cover", X=np.arange(6, dtype=np.int16).reshape(3, 2), y=[0, 1, 0])
    data = load("cover", tmp_path)
    np.testing.assert_array_equal(data.X, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    assert data.X.dtype == np.float64
    assert data.checksum == checksum_of_file(path)
    assert data.y.tolist() == [0, 1, 0]


def test_adbench_file_names_are_accepted(tmp_path):
    np.savez(tmp_path / "23_mammography.npz", X=np.eye(2), y=[0, 1])
    assert load("mammography", tmp_path).X.shape == (2, 2)


def test_sparse_sets_come_in_two_parts(tmp_path):
    put(
        tmp_path, "a9a", indices=np.array([0, 2, 1], dtype=np.int16), indptr=[0, 2, 2, 3],
        shape=[3, 4], y=np.array([1, -1, 1], dtype=np.int8), n_train=2,
    )  # fmt: skip
    data = load("a9a", tmp_path)
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0, 1, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(data.X_test.toarray(), [[0, 1, 0, 0]])
    assert data.X.indices.dtype == data.X.indptr.dtype == np.int32
    assert data.y.tolist() == [1, -1]
    assert data.y_test.tolist() == [1]


def test_voc_has_a_column_for_each_class(tmp_path):
    X = np.ones((3, 3), np.float16)
    put(
        tmp_path, "voc-vgg19", Xtrain=X[:2], Xtest=X[2:],
        Ytrain=np.array([[1, -1], [0, 1]]), Ytest=np.array([[1, 1]]), classes=["cat", "dog"],
    )  # fmt: skip
    data = load("voc-vgg19", tmp_path)
    assert data.targets == ("cat", "dog")
    assert data.X.dtype == np.float32
    assert data.y.tolist() == [[1, -1], [0, 1]]


def test_kdd_is_divided_by_its_scale(tmp_path):
    put(tmp_path, "kdd", Xint_T=np.array([[1, 2], [30, 40]], np.int32), scale=[1, 10])
    data = load("kdd", tmp_path)
    np.testing.assert_array_equal(data.X, [[1.0, 3.0], [2.0, 4.0]])
    assert data.y is None
    assert data.X.flags.c_contiguous


def test_hapt_has_labels(tmp_path):
    put(tmp_path, "hapt", X=np.ones((2, 3), np.float32), label=[4, 5], user=[1, 1])
    assert load("hapt", tmp_path).y.tolist() == [4, 5]


# --- what is missing ----------------------------------------------------------------------------


def test_a_missing_file_is_described(tmp_path):
    with pytest.raises(DataError) as error:
        load("mnist", tmp_path)
    for part in (str(tmp_path), "mnist_full_uint8.npz", "70000 x 784", "yann.lecun", "--download"):
        assert part in str(error.value)


def test_without_a_folder_the_error_tells_how_to_pass_one(monkeypatch):
    monkeypatch.delenv("TOMBOLA_DATA", raising=False)
    with pytest.raises(DataError, match="--data or TOMBOLA_DATA"):
        load("kdd")


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    put(tmp_path, "smtp", X=np.eye(2), y=[0, 1])
    monkeypatch.setenv("TOMBOLA_DATA", str(tmp_path))
    assert load("smtp").X.shape == (2, 2)
    found = {entry.name for entry in catalogue() if entry.path}
    assert found == {"smtp"}


def test_a_folder_that_is_not_there_is_named():
    with pytest.raises(DataError, match="no folder /nowhere"):
        load("kdd", "/nowhere")


def test_a_file_of_another_layout_is_described(tmp_path):
    put(tmp_path, "hapt", X=np.eye(2), y=[0, 1])
    with pytest.raises(DataError, match=r"no key 'label'.*got X and y"):
        load("hapt", tmp_path)


def test_a_damaged_file_is_refused(tmp_path):
    path = put(tmp_path, "skin", X=np.eye(2), y=[0, 1])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="not a readable npz archive"):
        load("skin", tmp_path)


def test_as_many_labels_as_rows(tmp_path):
    put(tmp_path, "skin", X=np.eye(2), y=[0, 1, 1])
    with pytest.raises(DataError, match="2 rows and 3 labels"):
        load("skin", tmp_path)


# --- OpenML -------------------------------------------------------------------------------------


@pytest.fixture
def nothing_here(monkeypatch):
    monkeypatch.delenv("TOMBOLA_DATA", raising=False)


def answer(monkeypatch, outcome):
    def fetch(name, **options):
        assert options["version"] == 1
        if isinstance(outcome, Exception):
            raise outcome
        return SimpleNamespace(data=outcome[0], target=outcome[1])

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


def test_openml_is_asked_only_on_request(nothing_here, monkeypatch):
    X, target = np.ones((11_183, 6)), np.array(["'-1'", "'1'"] * 5_591 + ["'-1'"], dtype=object)
    answer(monkeypatch, (X, target))
    with pytest.raises(DataError, match="was not found"):
        load("mammography")
    data = load("mammography", download=True)
    assert data.y.tolist() == [0, 1] * 5_591 + [0]
    assert "OpenML" in data.source
    assert len(data.checksum) == 64


def test_sparse_sets_of_openml_are_split_alike(nothing_here, monkeypatch):
    X = sp.random(48_842, 123, density=0.01, format="csc", random_state=0)
    answer(monkeypatch, (X, np.array(["-1", "1"] * 24_421)))
    data = load("a9a", download=True)
    assert data.X.shape == (32_561, 123)
    assert data.X_test.shape == (16_281, 123)
    np.testing.assert_array_equal(data.X.toarray(), X.tocsr()[:32_561].toarray())
    assert set(data.y) == {-1, 1}


def test_a_missing_network_is_reported(nothing_here, monkeypatch):
    answer(monkeypatch, URLError("no route"))
    with pytest.raises(
        DataError,
        match=r"could not be downloaded.*no route.*a file adbench_33_skin.npz",
    ):
        load("skin", download=True)


def test_another_set_under_the_same_name_is_refused(nothing_here, monkeypatch):
    answer(monkeypatch, (np.ones((5, 6)), np.array(["1"] * 5)))
    with pytest.raises(DataError, match="is 5 x 6, not 11183 x 6"):
        load("mammography", download=True)


def test_what_openml_does_not_have_is_not_asked_for(nothing_here, monkeypatch):
    answer(monkeypatch, AssertionError("asked"))
    with pytest.raises(DataError, match="put the file"):
        load("kdd", download=True)
