"""One row far longer than the others: solved, or a warning that names it."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from tombola.estimators import LinearClassifier, LinearRegressor
from tombola.estimators.long_rows import describe_long_rows
from tombola.problems import LeastSquares
from tombola.solvers import SDCA, dual_start
from tombola.solvers.gap import relative_gap

ALPHA, LONG = 1e-3, 7


def data(factor, n=300, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 1.0
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    X[LONG] *= factor
    return X, y


def ridge_score(X, y):
    """R squared of ridge on the other rows."""
    others = np.arange(len(y)) != LONG
    return Ridge(ALPHA * len(y), solver="svd").fit(X, y).score(X[others], y[others])


@pytest.mark.parametrize("factor", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("solver", ["auto", "newton", "sdca"])
def test_solvers_with_a_certificate_arrive(solver, factor):
    X, y = data(factor)
    others = np.arange(len(y)) != LONG
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearRegressor(alpha=ALPHA, solver=solver, random_state=0).fit(X, y)
    assert model.dual_gap_ <= 1e-4
    assert model.score(X[others], y[others]) == pytest.approx(ridge_score(X, y), abs=0.01)


@pytest.mark.parametrize("factor", [1e3, 1e6])
@pytest.mark.parametrize("solver", ["saga", "svrg", "sgd"])
def test_others_say_which_row_it_is(solver, factor):
    X, y = data(factor)
    with pytest.warns(ConvergenceWarning, match=r"maybe far from it: row 7 is .* times as long"):
        LinearRegressor(alpha=ALPHA, solver=solver, random_state=0).fit(X, y)


@pytest.mark.parametrize("solver", ["adagrad", "sgd"])
@pytest.mark.parametrize("factor", [1.0, 10.0, 1e2, 1e3, 1e6])
def test_no_descent_stops_far_away_in_silence(solver, factor):
    X, y = data(factor)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LinearRegressor(alpha=ALPHA, solver=solver, random_state=0).fit(X, y)
    problem = LeastSquares(X, y, alpha=ALPHA, fit_intercept=True)
    reached = relative_gap(problem, np.append(model.coef_, model.intercept_))
    assert caught or reached < 0.5


def test_without_a_penalty_there_is_a_warning_too():
    X, y = data(1e4)
    with pytest.warns(ConvergenceWarning, match="row 7"):
        LinearRegressor(alpha=0.0, solver="sgd", random_state=0).fit(X, y)


def test_classifiers():
    X, y = data(1e5)
    signs = (y > np.median(y)).astype(int)
    with pytest.warns(ConvergenceWarning, match="row 7"):
        LinearClassifier(alpha=ALPHA, solver="sgd", random_state=0).fit(X, signs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LinearClassifier("hinge", alpha=0.01, solver="sdca", random_state=0).fit(X, signs)


def test_rows_held_out_change_the_numbers():
    X, y = data(1e6)
    model = LinearRegressor(alpha=ALPHA, solver="sgd", early_stopping=True, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r": the longest row is .* times as long"):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], ""),
        ([3, 5], "rows 3, 5 are up to 1e+04 times as long as the median one"),
        ([3, 5, 8, 9], "rows 3, 5, 8 and 1 more are up to 1e+04 times as long as the median one"),
    ],
)
def test_the_clause(rows, expected):
    X = np.ones((40, 2))
    X[rows] *= 10_000.0
    assert describe_long_rows(LeastSquares(X, np.ones(40)), 10.0) == expected


def test_a_weight_counts_like_length():
    X, weights = np.ones((40, 2)), np.ones(40)
    weights[2] = 10_000.0
    clause = describe_long_rows(LeastSquares(X, np.ones(40), sample_weight=weights), 10.0)
    assert clause == "row 2 is 1e+02 times as long as the median one"


def test_without_the_rule_sdca_does_not_arrive(monkeypatch):
    """The centre and the strength of SDCA leave long rows out; with them it stands still."""
    X, y = data(1e4)
    problem = LeastSquares(X, y, alpha=ALPHA, fit_intercept=True)
    gaps = []
    for long in (dual_start.LONG, np.inf):
        monkeypatch.setattr(dual_start, "LONG", long)
        solver = SDCA(tol=1e-4)
        result = solver.minimize(problem, rounds=60 * solver.rounds_per_epoch(problem))
        gaps.append(solver.gap(problem, result))
    assert gaps[0] <= 1e-4
    assert gaps[1] > 0.5
