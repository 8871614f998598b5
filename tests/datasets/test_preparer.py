"""The transformer from tables to numbers, against pandas and scikit-learn."""

import gc
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tombola.datasets import DataError, Preparer, Table, read_table

RNG = np.random.default_rng(0)


def frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.normal(5, 3, size=n)
    size[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({
        "size": size,
        "kind": rng.choice(["cat", "dog", "owl"], size=n),
        "number": rng.integers(0, 9, size=n),
        "same": 7.0,
    })  # fmt: skip


def test_it_is_scikit_learns_imputer_encoder_and_scaler():
    train, test = frame(), frame(seed=1)
    test.loc[3, "kind"] = "yak"  # unknown in training
    oracle = make_pipeline(
        ColumnTransformer([
            ("size", SimpleImputer(strategy="median"), ["size"]),
            ("kind", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["kind"]),
            ("rest", "passthrough", ["number"]),
        ]),
        StandardScaler(),
    )  # fmt: skip
    prepare = Preparer(impute="median")
    np.testing.assert_allclose(
        prepare.fit_transform(train), oracle.fit_transform(train), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(
        prepare.transform(test), oracle.transform(test), rtol=1e-12, atol=1e-12
    )
    assert prepare.get_feature_names_out().tolist() == [
        "size", "kind=cat", "kind=dog", "kind=owl", "number"
    ]  # fmt: skip
    assert clone(prepare).get_params() == prepare.get_params()


def test_frames_and_files_give_the_same_numbers(tmp_path):
    data = frame()
    data["when"] = [f"{1 + k % 28}/{1 + k % 12}/2021" for k in range(len(data))]
    data["flag"] = np.arange(len(data)) % 3 == 0
    data.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", task="clustering", impute=True).X
    one, other = Preparer(impute="mean").fit(table), Preparer(impute="mean").fit(data)
    np.testing.assert_array_equal(one.transform(table), other.transform(data))
    assert one.notes_ == other.notes_
    # a single row shows neither the order of day and month nor all categories
    np.testing.assert_array_equal(other.transform(data[4:5]), one.transform(table[4:5]))
    shuffled = data[data.columns[::-1]].assign(more=1)  # by name; others are ignored
    np.testing.assert_array_equal(other.transform(shuffled), one.transform(table))


class OldFrame:
    """A frame of a library that has only the older protocol."""

    def __init__(self, frame):
        self.__dataframe__ = frame.__dataframe__


class ArrowFrame:
    """A frame of a library that has only Arrow's protocol."""

    def __init__(self, frame):
        self.__arrow_c_stream__ = pa.table(frame).__arrow_c_stream__


@pytest.mark.filterwarnings("ignore:The DataFrame interchange protocol")
@pytest.mark.parametrize("kind", [OldFrame, ArrowFrame, pa.table])
def test_frames_of_any_library(kind):
    data = frame().astype({"kind": "string"})
    prepare = Preparer(impute="mean").fit(data)
    other = Preparer(impute="mean").fit(kind(data))
    np.testing.assert_array_equal(prepare.transform(data), other.transform(kind(data)))
    assert prepare.notes_ == other.notes_


def test_objects_in_a_frame_are_text():
    mixed = pd.DataFrame({"a": np.array([1, "x", None, 2.5, "x"], dtype=object)})
    names = Preparer(impute="mean").fit(mixed).get_feature_names_out().tolist()
    assert names == ["a=1", "a=2.5", "a=x", "a=(missing)"]
    with pytest.raises(DataError, match="two columns named 'a'"):
        Preparer().fit(pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]))


def test_frequencies_are_those_of_the_training_rows():
    words = np.array([f"w{k}" for k in RNG.integers(0, 300, size=2000)], dtype=object)
    words[:7] = None
    prepare = Preparer(impute="mean", scale=False, encode="frequency")
    X = prepare.fit_transform(pd.DataFrame({"word": words}))
    shares = pd.Series(words).map(pd.Series(words).value_counts() / 2000).fillna(7 / 2000)
    np.testing.assert_allclose(X[:, 0], shares)
    new = prepare.transform(pd.DataFrame({"word": ["w1", "unseen", None]}))
    assert new[1:, 0].tolist() == [0.0, 7 / 2000]


@pytest.mark.parametrize("holes", [0, 50])
def test_common_values_are_those_of_scikit_learn(holes):
    """With a column for all others, also for values that training has not seen."""
    words = np.array([f"w{k}" for k in (RNG.pareto(1.0, 5000) * 5).astype(int)], dtype=object)
    words[:holes] = None
    prepare = Preparer(impute="mean", scale=False)
    found = prepare.fit_transform(pd.DataFrame({"word": words}))
    oracle = OneHotEncoder(
        min_frequency=10, max_categories=201 + bool(holes), sparse_output=False,
        handle_unknown="infrequent_if_exist",
    )  # fmt: skip
    filled = pd.DataFrame({"word": words}).fillna("~")  # sorted last, as missing text is
    np.testing.assert_array_equal(found, oracle.fit_transform(filled))
    new = pd.DataFrame({"word": ["w0", "unseen"]})
    np.testing.assert_array_equal(prepare.transform(new), oracle.transform(new))
    assert "most common, one for all others." in prepare.notes_[0]


def test_other_columns_than_in_training_are_refused():
    prepare = Preparer(impute="median").fit(frame())
    with pytest.raises(DataError, match=r"no column 'size': did you mean 'sise'"):
        prepare.transform(frame().rename(columns={"size": "sise"}))
    with pytest.raises(DataError, match=r"no columns 'size', 'kind'"):
        prepare.transform(frame().drop(columns=["size", "kind"]))
    with pytest.raises(DataError, match=r"'kind' holds numbers, but held text in training"):
        prepare.transform(frame().assign(kind=1.0))
    with pytest.raises(DataError, match=r"'size' holds text, but held numbers in training"):
        prepare.transform(frame().assign(size="big"))
    with pytest.raises(DataError, match="fitted to a table"):
        prepare.transform(np.ones((3, 4)))
    with pytest.raises(DataError, match=r"1 value is missing, in 'a' \(1, first in row 2\)"):
        Preparer().fit(Table({"a": np.arange(3.0)})).transform(Table({"a": np.array([1, np.nan])}))
    with pytest.raises(DataError, match="there are 3 columns, but there were 2"):
        Preparer().fit(RNG.normal(size=(5, 2))).transform(np.ones((2, 3)))
    with pytest.raises(DataError, match="impute must be one of median, mean or None"):
        Preparer(impute="mode").fit(frame())


def test_dates_are_read_as_in_training():
    prepare = Preparer(scale=False).fit(pd.DataFrame({"d": ["13/2/2020", "1/3/2020", "2/4/2021"]}))
    new = prepare.transform(pd.DataFrame({"d": ["2/3/2020"]}))
    named = dict(zip(prepare.get_feature_names_out(), new[0], strict=True))
    assert named == {"d.year": 2020, "d.month": 3, "d.weekday": 0, "d.days": 18}
    with pytest.raises(DataError, match=r"row 1, column 'd': '2/13/2020' is not a date written as"):
        prepare.transform(pd.DataFrame({"d": ["2/13/2020"]}))


def test_sparse_rows_are_left_as_they_are():
    X = sp.random(10, 4, density=0.5, format="csr", random_state=0)
    prepare = Preparer().fit(X)
    assert prepare.transform(X) is X
    with pytest.raises(DataError, match="there are 3 columns"):
        prepare.transform(X[:, :3])


def test_rows_of_a_table_are_chosen_like_those_of_an_array():
    table = Table({"a": np.arange(5.0), "b": list("xyxyz")})
    assert table.shape == (5, 2)
    some = table[np.array([4, 0])]
    assert some.columns["a"].to_pylist() == [4.0, 0.0]
    assert some.columns["b"].to_pylist() == ["z", "x"]
    assert len(table[table.columns["a"].to_numpy() > 2, ...]) == 2
    with pytest.raises(ValueError, match="columns must have one length"):
        Table({"a": np.arange(5.0), "b": np.arange(4.0)})


def test_chosen_rows_keep_their_places_but_not_their_table():
    table = Table({"a": np.arange(9.0)}, place=lambda row: f"line {row + 2}")
    chosen, gone = table[4:][1:], weakref.ref(table)
    assert chosen.place(0) == "line 7"
    del table
    gc.collect()
    assert gone() is None


def test_a_way_to_encode_is_checked_for_arrays_too():
    with pytest.raises(DataError, match=r"encode must be one of auto.* got 'x'"):
        Preparer(encode="x").fit(np.eye(3))
