"""The models that are fitted: one objective, checked by an optimiser, and scripts that repeat."""

import contextlib
import io

import numpy as np
import pytest
from samples import clustered, imbalanced, regression
from scipy import sparse
from scipy.optimize import minimize

from tombola.advice import fits
from tombola.advice.data import open_data
from tombola.advice.fits import Entry, score_of
from tombola.advice.models import Penalty, candidates, constant_objective, objective_of
from tombola.advice.script import opening, script


def three(n=300):
    rng = np.random.default_rng(5)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + np.eye(4)[y], y


CASES = [
    (imbalanced, "classification", False),
    (imbalanced, "classification", True),
    (three, "classification", False),
    (regression, "regression", False),
    (regression, "regression", True),
    (clustered, "clustering", False),
]


def line_up(make, task, l1, kind=np.asarray):
    X, y = make()
    alpha = 0.01 if task == "classification" else 0.1
    data = open_data(
        kind(X), y, None, None, task=task, groups=None, n_clusters=3, penalty=Penalty(alpha, l1),
        seed=1,
    )  # fmt: skip
    classes = len(data.labels) if task == "classification" else 1
    n, d = data.X.shape
    return data, X, y, candidates(task, data.penalty, n, d, classes, 3, 1000)


@pytest.mark.parametrize(("make", "task", "l1"), CASES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_script_of_each_model_prints_the_score_of_the_race(make, task, l1):
    data, X, y, found = line_up(make, task, l1)
    for candidate in found:
        entry = Entry(candidate, data, 1)
        positive = data.positive
        code = script(
            candidate.model(1), opening(X, y, task, 1), task, positive=positive,
            first=positive is not None and positive == data.labels[0],
        )  # fmt: skip
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, {"X": X, "y": y})
        printed = float(out.getvalue().rsplit(" ", 1)[1])
        assert printed == pytest.approx(score_of(entry.fitted, data), abs=1e-9)


@pytest.mark.parametrize(("make", "task", "l1"), CASES[:5])
def test_models_of_a_family_minimise_one_objective(make, task, l1):
    """The converging ones agree, and an optimiser of our own formula finds nothing lower."""
    data, *_, found = line_up(make, task, l1)
    lowest = {}
    for candidate in found:
        if "SGD" in candidate.name:
            continue
        entry = Entry(candidate, data, 1)
        start = constant_objective(candidate.family, data.y)
        lowest.setdefault(candidate.family, []).append(entry.objectives[0])
        assert entry.objectives[0] < start
    for family, objectives in lowest.items():
        way = constant_objective(family, data.y) - min(objectives)
        assert max(objectives) - min(objectives) < 2e-3 * way
    if task == "regression" and not l1:
        n = len(data.y)
        rows = np.column_stack([data.X, np.ones(n)])
        eye = np.diag([0.1] * data.X.shape[1] + [0.0])
        w = np.linalg.solve(rows.T @ rows / n + eye, rows.T @ data.y / n)
        value = ((rows @ w - data.y) ** 2).mean() / 2 + 0.05 * (w[:-1] ** 2).sum()
        assert min(lowest["least squares"]) == pytest.approx(value, rel=1e-6)
    if make is imbalanced and not l1:
        signs = np.where(data.y, 1.0, -1.0)

        def value(w):
            margins = data.X @ w[:-1] + w[-1]
            return np.logaddexp(0, -signs * margins).mean() + 0.005 * (w[:-1] ** 2).sum()

        best = minimize(value, np.zeros(data.X.shape[1] + 1)).fun
        assert min(lowest["log loss"]) == pytest.approx(best, rel=1e-4)


def test_a_constant_prediction_is_the_start():
    class Flat:
        coef_, intercept_ = np.zeros((3, 4)), np.zeros(3)

    data, *_ = line_up(three, "classification", False)
    for family in ("softmax", "one-vs-rest"):
        free = np.zeros(3) if family == "softmax" else np.full(3, np.log(0.5))
        Flat.intercept_ = free
        there = objective_of(Flat, family, data.X, data.y, data.penalty)
        assert there == pytest.approx(constant_objective(family, data.y), rel=1e-3)


def test_sparse_rows_are_raced_as_they_are():
    data, _, _, found = line_up(imbalanced, "classification", False, sparse.csr_matrix)
    dense, _, _, same = line_up(imbalanced, "classification", False)
    for a, b in zip(found, same, strict=True):
        if "(lbfgs)" in a.name:
            assert Entry(a, data, 1).objectives[0] == pytest.approx(
                Entry(b, dense, 1).objectives[0], rel=1e-6
            )


def test_the_line_up_fits_the_task():
    def names(task, l1=False, width=10, classes=2):
        found = candidates(task, Penalty(0.1, l1), 100, width, classes, 3, 1000)
        return [candidate.name for candidate in found]

    logistic = "scikit-learn's LogisticRegression"
    assert names("classification") == [
        f"{logistic} (lbfgs)", f"{logistic} (newton-cholesky)", f"{logistic} (saga)",
        "scikit-learn's SGDClassifier", "tombola's LinearClassifier",
    ]  # fmt: skip
    assert f"{logistic} (newton-cholesky)" not in names("classification", width=5000)
    assert f"{logistic} (lbfgs), one-vs-rest" in names("classification", classes=3)
    assert names("classification", True) == [
        f"{logistic} (saga)", "scikit-learn's SGDClassifier", "tombola's LinearClassifier",
    ]  # fmt: skip
    assert names("regression") == [
        "scikit-learn's Ridge", "scikit-learn's SGDRegressor", "tombola's LinearRegressor",
    ]  # fmt: skip
    assert names("regression", True) == [
        "scikit-learn's Lasso", "scikit-learn's SGDRegressor", "tombola's Lasso",
    ]  # fmt: skip
    assert names("clustering") == [
        f"{library}'s {kind}" for library in ("scikit-learn", "tombola")
        for kind in ("KMeans", "MiniBatchKMeans")
    ]  # fmt: skip


def test_models_are_fitted_to_growing_parts_of_the_rows(monkeypatch):
    """All rows if there is time; else the part that there was time for; the first one always."""
    monkeypatch.setattr(fits, "SMALLEST", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    y = X[:, 0] + rng.normal(size=3000) > 0
    seen = []
    for budget in (1e9, 1e-9):
        data = open_data(X, y, None, None, task="classification", groups=None, n_clusters=3,
                         penalty=Penalty(None, False), seed=0)  # fmt: skip
        calls = []
        models = fits.fit_all(data, 0, budget, lambda *call, calls=calls: calls.append(call))
        assert {m.rows for m in models} == {data.n}
        assert models[0].name == "scikit-learn's LogisticRegression (lbfgs)"  # is never left out
        assert all(a <= b for a, b in calls)
        seen.append(data.n)
    assert seen[0] == 2400
    assert seen[1] < 1000  # at most as many seconds as 30 of the fastest fits


def test_those_that_are_far_behind_fall_out(monkeypatch):
    monkeypatch.setattr(fits, "SMALLEST", 100)
    monkeypatch.setattr(fits, "LEAST", 0.0)
    ticks = {"SGDClassifier": 100.0}

    def fit_once(candidate, X, y, seed, real=fits.fit_once):
        model, _, ended = real(candidate, X, y, seed)
        return model, ticks.get(type(model).__name__, 1.0) * len(y), ended

    monkeypatch.setattr(fits, "fit_once", fit_once)
    X, y = imbalanced(2000)
    data = open_data(X, y, None, None, task="classification", groups=None, n_clusters=3,
                     penalty=Penalty(None, False), seed=0)  # fmt: skip
    names = [m.name for m in fits.fit_all(data, 0, 1e9, None)]
    assert "scikit-learn's SGDClassifier" not in names
    assert {"scikit-learn's LogisticRegression (lbfgs)", "tombola's LinearClassifier"} < {*names}
