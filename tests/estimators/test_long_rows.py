"""One row far longer than the others: solved, or a warning that names it."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from tombola.estimators import LinearClassifier, LinearRegressor
from tombola.estimators.long_rows import describe_long_rows, is_far
from tombola.problems import LeastSquares
from tombola.solvers import SDCA
from tombola.solvers.dual import start
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


@pytest.mark.parametrize("factor", [1e3, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_a_target_as_far_away_as_the_row_is_long(factor, seed):
    """The long row is nearly all of the objective at 0: a small share of it is all other rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    X[LONG] *= factor
    y = X @ [1.0, -2.0, 0.5, 0.0] + 0.1 * rng.normal(size=300)
    with pytest.warns(ConvergenceWarning, match="row 7"):
        LinearRegressor(solver="sgd", random_state=0).fit(X, y)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lengths", ["one row", "lognormal"])
def test_noise_alone_is_no_reason_to_warn(lengths, seed):
    """A duality gap is large then, however close the solver is."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    if lengths == "one row":
        X[LONG] *= 30.0
    else:
        X *= np.exp(0.5 * rng.normal(size=300))[:, None]
    y = X @ [1.0, -1.0, 0.5, 0.0] + 2.0 * rng.normal(size=300)
    problem = LeastSquares(X, y, alpha=1e-4, fit_intercept=True)
    best = Ridge(1e-4 * 300, solver="svd").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearRegressor(solver="adagrad", random_state=0).fit(X, y)
    values = [problem.value(np.append(m.coef_, m.intercept_)) for m in (model, best)]
    assert values[0] < 1.05 * values[1]
    assert relative_gap(problem, np.append(model.coef_, model.intercept_)) > 0.3


@pytest.mark.parametrize("long", [[7], [7, 8, 90]])
def test_a_classifier_that_has_learnt_nothing_of_noisy_labels(long):
    """Little could be learnt, and all of it is missing."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 20))
    X[long] *= 1e4
    labels = X @ rng.normal(size=20) + 5.0 * rng.logistic(size=2000) > 0
    with pytest.warns(ConvergenceWarning, match="row"):
        LinearClassifier(solver="sgd", random_state=0).fit(X, labels)


def test_long_rows_whose_losses_vanish_take_several_rounds():
    rng = np.random.default_rng([20, 300, 4])
    X, w = rng.normal(size=(300, 4)), rng.normal(size=4)
    X[[7, 8, 90]] *= 1e5
    labels = X @ w + 0.1 * rng.logistic(size=300) > 0
    with pytest.warns(ConvergenceWarning, match="rows"):
        LinearClassifier(solver="sgd", random_state=0).fit(X, labels)


def test_no_point_is_far_from_itself():
    X, y = data(1e4)
    problem = LeastSquares(X, y, alpha=ALPHA, fit_intercept=True)
    best = Ridge(ALPHA * len(y), solver="svd").fit(X, y)
    optimum = np.append(best.coef_, best.intercept_)
    assert not is_far(problem, optimum, 3.0)
    assert is_far(problem, np.zeros(9), 3.0)


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
    for long in (start.LONG, np.inf):
        monkeypatch.setattr(start, "LONG", long)
        solver = SDCA(tol=1e-4)
        result = solver.minimize(problem, rounds=60 * solver.rounds_per_epoch(problem))
        gaps.append(solver.gap(problem, result))
    assert gaps[0] <= 1e-4
    assert gaps[1] > 0.5
