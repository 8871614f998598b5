"""The data that advice is about: what is refused, what is scaled, which problems are made."""

import numpy as np
import pytest
from samples import imbalanced
from scipy import sparse

from tombola.advice import advise
from tombola.advice.data import open_data, too_few
from tombola.advice.models import Penalty


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"task": "ranking"}, ValueError, "task must be one of classification"),
        ({"y": None}, ValueError, "classification needs y"),
        ({"y": [0, 1]}, ValueError, r"y must have shape \(40,\)"),
        ({"y": np.zeros(40)}, ValueError, "y has one class only, 0.0"),
        ({"y": np.arange(40)}, ValueError, '40 classes in 40 rows.*task="regression"'),
        ({"y": np.where(np.arange(40) == 3, np.nan, 1.0)}, ValueError, r"y\[3\] is missing: nan"),
        ({"y": np.array(["a", None] * 20)}, ValueError, r"y\[1\] is missing: None"),
        ({"y": np.full(40, 2.0), "task": "regression"}, ValueError, "y is 2 in every row"),
        ({"y": np.array(["a", "b"] * 20), "task": "regression"}, TypeError, "y must hold numbers"),
        ({"X": np.full((40, 2), np.nan)}, ValueError, r"X\[0, 0\] is nan"),
        ({"X": np.ones(40)}, ValueError, "X must have 2 dimensions"),
        ({"X": np.full((40, 2), 1e200)}, ValueError, "their squares overflow"),
        ({"groups": np.ones(3)}, ValueError, r"groups must have shape \(40,\)"),
        (
            {"task": "clustering", "n_clusters": 41},
            ValueError,
            "n_clusters must be from 1 to the 40",
        ),
        ({"n_clusters": 0}, ValueError, "n_clusters must be at least 1"),
        ({"budget": 0.0}, ValueError, "budget must be positive, got 0.0"),
        ({"alpha": 0.0}, ValueError, "alpha must be positive, got 0.0"),
        ({"X_test": np.ones((9, 3)), "y_test": np.ones(9)}, ValueError, "X_test has 3 columns"),
        ({"X_test": np.ones((9, 2)), "y_test": [1]}, ValueError, r"y_test must have shape \(9,\)"),
        ({"budget": "long"}, TypeError, "budget must be a number"),
        ({"seed": -1}, ValueError, "seed must not be negative"),
    ],
)
def test_bad_input_is_named(change, error, words):
    rng = np.random.default_rng(0)
    given = {"X": rng.normal(size=(40, 2)), "y": np.arange(40) % 2, "task": "classification"}
    with pytest.raises(error, match=words):
        advise(**{**given, **change})


def opened(X, y, task="classification", X_test=None, y_test=None, **options):
    given = {"groups": None, "n_clusters": 4, "penalty": Penalty(1e-4, False), "seed": 0,
             **options}  # fmt: skip
    return open_data(X, y, X_test, y_test, task=task, **given)


def test_columns_of_very_different_scale_are_mentioned():
    X, y = imbalanced()
    X[:, 0] *= 1e4
    for kind in (np.asarray, sparse.csr_matrix):
        data = opened(kind(X), y)
        assert any("standardise the columns" in note for note in data.notes)


def test_classes_too_small_to_judge_are_named_and_left_out():
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c", "d"], [60, 50, 12, 13])
    X = rng.normal(size=(len(y), 2))
    data = opened(X, y)  # a fifth of 12 and of 13 is held out: 10 are left of both
    assert not data.dropped
    y[y == "c"] = np.repeat(["c", "e"], 6)
    data = opened(X, y)
    assert data.dropped == ["c", "e"]
    assert set(data.labels) == set(data.y_test) == {"a", "b", "d"}
    (note,) = (note for note in data.notes if "too small" in note)
    assert "c (5), e (5)" in note
    for part in (data.X, data.given):
        assert len(part) == len(data.y)
    np.testing.assert_array_equal(data.X, X[data.given])
    held = ["a"] * 10 + ["new"] * 3
    data = opened(X[:110], y[:110], X_test=X[:13], y_test=held)
    assert data.dropped == ["b", "new"]  # none of b is held out
    assert "fewer than two are left" in too_few(data)


def test_rows_are_held_out_and_the_seed_says_which():
    X, y = imbalanced()
    first, again, other = (opened(X, y, seed=seed) for seed in (1, 1, 2))
    assert len(first.y) == 480
    assert len(first.y_test) == 120
    assert first.y_test.sum() == 3  # a fifth of each class
    np.testing.assert_array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.X_test, other.X_test)


def test_a_part_of_the_rows_has_enough_of_each_class():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30_000, 10)), np.arange(30_000) % 1000 == 0
    data = opened(X, y)
    assert data.n == data.X.shape[0] == 24_000
    data.keep(2000, 0)
    assert data.n == pytest.approx(2000, abs=20)
    assert data.rows()[1].sum() >= 10  # 24 of 24,000, and no fewer than it takes to judge
    assert len(data.rows()[0]) == data.n
