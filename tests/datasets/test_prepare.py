"""Columns of numbers: filled in, scaled, left out if constant; and rows held out."""

import numpy as np
import pytest

from tombola.datasets import DataError, Preparer, split


def test_columns_get_mean_0_and_deviation_1():
    X = np.random.default_rng(0).normal(5, 3, size=(200, 4)) * [1, 1e-200, 1e200, 1e3]
    Z = Preparer().fit_transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=0), 1)
    assert Z.flags.c_contiguous


def test_other_rows_are_prepared_like_the_training_rows():
    train, test = np.array([[0.0], [2.0]]), np.array([[4.0], [np.nan]])
    ready = Preparer(impute="mean").fit(train)
    np.testing.assert_array_equal(ready.transform(test), [[3.0], [0.0]])


@pytest.mark.parametrize(("impute", "value"), [("median", 2.0), ("mean", 4.0)])
def test_missing_values_are_imputed(impute, value):
    X = np.array([[1.0], [2.0], [9.0], [np.nan]])
    ready = Preparer(impute=impute, scale=False).fit(X)
    assert ready.transform(X)[3, 0] == value
    assert ready.notes_ == (f"1 missing value became the {impute} of its column.",)


def test_constant_columns_and_empty_ones_are_left_out():
    X = np.array([[1.0, 5.0, np.nan, 3.0], [2.0, 5.0, np.nan, np.nan]])
    ready = Preparer(impute="mean", scale=False).fit(X, names=["a", "b", "c", "d"])
    assert ready.get_feature_names_out().tolist() == ["a"]
    np.testing.assert_array_equal(ready.transform(X), [[1.0], [2.0]])
    assert ready.notes_ == ("The columns 'b', 'c' and 'd' are constant and were left out.",)


def test_nothing_but_constant_columns_is_refused():
    with pytest.raises(DataError, match="'0' and '1': constant, so there is nothing to learn from"):
        Preparer().fit(np.ones((3, 2)))


def test_float32_stays_float32():
    X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    assert Preparer().fit_transform(X).dtype == np.float32


def test_the_given_array_is_left_alone():
    X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 6.0]])
    before = X.copy()
    Preparer(impute="mean").fit_transform(X)
    np.testing.assert_array_equal(X, before)


def test_the_split_is_stratified_and_complete():
    labels = np.array(["a"] * 90 + ["b"] * 10)
    train, test = split(100, 0.2, 0, labels)
    assert sorted([*train, *test]) == list(range(100))
    assert (labels[test] == "a").sum() == 18
    assert (labels[test] == "b").sum() == 2
    again = split(100, 0.2, 0, labels)[1]
    np.testing.assert_array_equal(test, again)
    assert not np.array_equal(test, split(100, 0.2, 1, labels)[1])


def test_each_class_keeps_a_row_for_training():
    train, test = split(4, 0.9, 0, np.array([0, 1, 1, 1]))
    assert 0 in train
    assert len(test) == 2


def test_without_labels_the_share_is_of_all_rows():
    train, test = split(10, 0.3, 0)
    assert (len(train), len(test)) == (7, 3)
    assert len(split(2, 0.99, 0)[0]) == 1
