"""Paths from products of columns: against the run on the data, and numpy."""

import numpy as np
import pytest

from tombola.problems import LeastSquares
from tombola.samplers import Shuffle
from tombola.solvers.gap import Penalty
from tombola.solvers.lasso import covariance
from tombola.solvers.lasso.columns import as_design
from tombola.solvers.lasso.covariance import CovarianceRun, Moments
from tombola.solvers.lasso.rounds import WorkingRun

ALPHAS = np.geomspace(1.0, 0.003, 12)


def new_run(shape, dtype, weighted, intercept, order="C"):
    rng = np.random.default_rng(0)
    n = shape[0]
    X = rng.normal(size=shape) + 0.7 * rng.normal(size=(n, 1)) + 0.4
    y = X[:, :4] @ [2.0, -1.0, 0.5, 1.0] + 0.3 * rng.normal(size=n)
    y -= y.mean() * intercept
    weights = rng.integers(0, 3, n).astype(float) if weighted else None
    problem = LeastSquares(X, y, sample_weight=weights, fit_intercept=intercept)
    design = as_design(np.asarray(X, dtype=dtype, order=order))
    run = WorkingRun(design, problem.model, curvature=1.0, fit_intercept=intercept, draws=Shuffle)
    return X, y, run


def quick_run(run):
    model = run.model
    moments = Moments(run.design.values, model.targets, model.weights, centred=run.fit_intercept)
    return CovarianceRun(moments, Shuffle)


@pytest.mark.parametrize("shape", [(60, 30), (25, 40)])
@pytest.mark.parametrize(("dtype", "order"), [("f8", "C"), ("f8", "F"), ("f4", "C")])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_path_as_on_the_data(shape, dtype, order, weighted, monkeypatch):
    monkeypatch.setattr(covariance, "ROWS", 17)
    *_, run = new_run(shape, dtype, weighted, True, order)
    quick = quick_run(run)
    for alpha in ALPHAS:
        for penalty in (Penalty(alpha, 0.0), Penalty(alpha, 0.1)):
            exact = run.minimise(penalty, goal=1e-10, rounds=1000)
            found = quick.minimise(penalty, goal=1e-10, rounds=1000)
            assert found.gap <= 1e-10
            assert found.w == pytest.approx(exact.w, abs=1e-3)
            assert found.intercept == pytest.approx(exact.intercept, abs=1e-3)


@pytest.mark.parametrize("positive", [False, True])
def test_the_gap_bounds_the_distance(positive):
    X, y, run = new_run((60, 30), "f8", False, False)
    for alpha in (0.5, 0.05):
        penalty = Penalty(alpha, 0.0, positive)

        def value(w, penalty=penalty):
            return 0.5 * ((X @ w - y) ** 2).mean() + penalty.value(w)

        least = value(quick_run(run).minimise(penalty, goal=1e-11, rounds=1000).w)
        gaps = []
        for rounds in range(4):
            found = quick_run(run).minimise(penalty, goal=0.0, rounds=rounds)
            gaps.append(found.gap)
            assert -1e-10 <= value(found.w) - least <= found.gap
            assert not positive or (found.w >= 0).all()
        assert gaps[-1] < 1e-3 * gaps[0]


def test_a_wrong_matrix_is_noticed(monkeypatch):
    """The products of other rows give another path."""
    *_, run = new_run((60, 30), "f8", False, False)
    right = quick_run(run).minimise(Penalty(0.05, 0.0), goal=1e-9, rounds=1000)
    run.design.values = run.design.values[::-1] * np.linspace(0.9, 1.1, 30)
    wrong = quick_run(run).minimise(Penalty(0.05, 0.0), goal=1e-9, rounds=1000)
    assert abs(right.w - wrong.w).max() > 1e-2


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("counts", [[1] * 50 + [0] * 10, [0] * 40 + [1] * 20, [2, 0, 1] * 20])
def test_moments_of_some_rows(centred, counts, monkeypatch):
    """As a difference, or of these rows: by numpy."""
    monkeypatch.setattr(covariance, "ROWS", 17)
    rng, counts = np.random.default_rng(0), np.array(counts)
    X, y, weights = rng.normal(size=(60, 5)) + 3.0, rng.normal(size=60) - 2.0, rng.uniform(size=60)
    some = Moments(X, y, weights, centred=centred).among(counts)
    found, s = CovarianceRun(some, Shuffle), counts * weights / (counts @ weights)
    middle, level = (s @ X, s @ y) if centred else (np.zeros(5), 0.0)
    A, r = X - middle, y - level
    assert found.centre == pytest.approx(middle)
    assert found.middle == pytest.approx(level)
    assert found.gram == pytest.approx(A.T @ (s[:, None] * A))
    assert found.pulls == pytest.approx(A.T @ (s * r))
    assert found.power == pytest.approx(s @ (r * r))
