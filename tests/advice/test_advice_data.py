"""The data that advice is about: what is refused, what is scaled, which problems are made."""

import numpy as np
import pytest
from samples import clustered, imbalanced, regression
from scipy import sparse

from tombola.advice import advise
from tombola.advice.data import open_contests
from tombola.problems import KMeans, LeastSquares, Logistic


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
        ({"budget": "long"}, TypeError, "budget must be a number"),
        ({"seed": -1}, ValueError, "seed must not be negative"),
    ],
)
def test_bad_input_is_named(change, error, words):
    rng = np.random.default_rng(0)
    given = {"X": rng.normal(size=(40, 2)), "y": np.arange(40) % 2, "task": "classification"}
    with pytest.raises(error, match=words):
        advise(**{**given, **change})


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.coo_array])
def test_rows_are_brought_to_norm_one_where_they_are_far_from_it(kind):
    X, y = imbalanced()
    y = y.astype(int)
    for factor, scaled in ((1.0, False), (100.0, True), (0.01, True)):
        data = open_contests(kind(factor * X), y, "classification", None, 8, 0, ())
        norms = data.contests[0].problem.model.norms ** 2 - 1  # without the intercept
        mean = np.sqrt(np.maximum(norms, 0)).mean()
        assert bool(data.scaling) == scaled
        assert any("divided by" in note for note in data.notes) == scaled
        assert mean == pytest.approx(1.0 if scaled else np.linalg.norm(X, axis=1).mean())


def test_columns_of_very_different_scale_are_mentioned():
    X, y = imbalanced()
    X[:, 0] *= 1e4
    for kind in (np.asarray, sparse.csr_matrix):
        data = open_contests(kind(X), y, "classification", None, 8, 0, ())
        assert any("standardise the columns" in note for note in data.notes)


def test_tasks_make_their_problems():
    kinds = {
        "classification": (imbalanced, Logistic),
        "regression": (regression, LeastSquares),
        "clustering": (clustered, KMeans),
    }
    for task, (make, kind) in kinds.items():
        X, y = make()
        data = open_contests(X, y, task, None, 4, 0, ())
        assert [type(contest.problem) for contest in data.contests] == [kind]
    targets = open_contests(*regression(), "regression", None, 4, 0, ()).contests[0].problem.model
    assert targets.targets.mean() == pytest.approx(0, abs=1e-9)
    assert targets.targets.std() == pytest.approx(1)
