"""Fits in rounds, over simulated partitions: the optimum, the certificate, losses of duals."""

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")

from scipy import sparse
from simulated import NUMERIC, finished, split, started
from sklearn.linear_model import Lasso

from tombola import problems
from tombola.dask import local
from tombola.dask.fit import Counts, Driver
from tombola.solvers import SDCA
from tombola.state import CheckpointError, cell

SMOOTH = ("Logistic", "SquaredHinge", "LeastSquares", "Huber")
KINKED = ("Hinge", "EpsilonInsensitive")
N, D = 1200, 6


def data(kind, n=N):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, D)) * np.exp(0.5 * rng.normal(size=D)) + 0.3
    z = X @ rng.normal(size=D)
    if kind in NUMERIC:
        return X, z + rng.normal(size=n) + 5.0 * (rng.uniform(size=n) < 0.05)
    return X, (z + 2.0 * rng.normal(size=n) > 0.5).astype(float)


def optimum(problem):
    return problem.value(SDCA(tol=1e-9).minimize(problem, rounds=200_000).solution)


def distance(fit, problem, lowest, output=0):
    """How far the objective is above its minimum, relative to that at w = 0."""
    found = fit.outputs[output]
    return (problem.value(found.best) - lowest) / found.bounds[0].unit


@pytest.fixture(scope="module")
def lowest():
    """The minimum of each problem, by SDCA on all rows."""
    found = {}

    def of(kind, **options):
        key = (kind, *sorted(options.items()))
        if key not in found:
            problem = getattr(problems, kind)(*data(kind), **options)
            found[key] = problem, optimum(problem)
        return found[key]

    return of


@pytest.mark.parametrize("count", [1, 2, 4, 16])
@pytest.mark.parametrize("kind", SMOOTH + KINKED)
def test_the_optimum_of_one_machine(kind, count, lowest):
    problem, best = lowest(kind, alpha=1e-3, fit_intercept=True)
    parts = split(*data(kind), count, uneven=count == 4)
    fit = finished(started(parts, getattr(problems, kind)), 60)
    assert fit.progress.gap <= 1e-6
    assert -1e-9 <= distance(fit, problem, best) <= 1e-6
    assert fit.progress.loads <= 30


@pytest.mark.parametrize("kind", ["Logistic", *KINKED])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_gap_is_never_below_the_true_one(kind, intercept, lowest):
    problem, best = lowest(kind, alpha=1e-3, fit_intercept=intercept)
    fit = started(
        split(*data(kind), 4, uneven=True), getattr(problems, kind), fit_intercept=intercept
    )
    fit.tol = 1e-9
    for number in range(12):
        if number in (4, 9):
            fit.runner.duals[0] = None
        fit.step()
        assert distance(fit, problem, best) <= fit.progress.gap + 1e-9
    assert fit.progress.gap < 0.5


def test_a_certificate_of_a_wrong_contribution_would_be_below_it(lowest):
    problem, best = lowest("Logistic", alpha=1e-3, fit_intercept=False)
    fit = started(split(*data("Logistic"), 4), problems.Logistic, fit_intercept=False)
    below = False
    for _ in range(6):
        fit.step()
        fit.driver.contributions[:] = 0.0  # as if they had been taken out, with the duals left in
        below = below or distance(fit, problem, best) > fit.progress.gap + 1e-9
    assert below


@pytest.mark.parametrize("kind", ["LeastSquares", "Logistic", *KINKED])
def test_elastic_net(kind, lowest):
    options = {"alpha": 2e-2, "l1_ratio": 0.5, "fit_intercept": True}
    problem, best = lowest(kind, **options)
    fit = finished(started(split(*data(kind), 4), getattr(problems, kind), **options), 60)
    assert fit.progress.gap <= 1e-6
    assert distance(fit, problem, best) <= 1e-6


@pytest.mark.parametrize("kind", SMOOTH + KINKED)
def test_no_point_is_below_the_bound_for_l1_alone(kind):
    alpha = 0.5 if kind in NUMERIC else 0.05
    options = {"alpha": alpha, "l1_ratio": 1.0, "fit_intercept": True}
    problem = getattr(problems, kind)(*data(kind), **options)
    fits = [finished(started(split(*data(kind), 4), type(problem), tol=1e-3, **options))]
    fits.append(finished(started(split(*data(kind), 1), type(problem), tol=1e-6, **options)))
    assert [fit.progress.gap <= fit.tol for fit in fits] == [True, True]
    (rough, fine) = (fit.outputs[0] for fit in fits)
    for bound in (rough.bounds[0].dual, fine.bounds[0].dual):
        assert bound <= problem.value(fine.best) <= problem.value(rough.best)
    assert 0 < (fine.best[:D] == 0.0).sum() < D
    if kind == "LeastSquares":
        right = Lasso(alpha, tol=1e-12).fit(*data(kind))
        assert np.allclose(fine.best, [*right.coef_, right.intercept_], atol=1e-3)


@pytest.mark.parametrize("kind", ["Logistic", "Hinge"])
def test_weights_and_sparse_rows(kind):
    X, y = data("Logistic")
    X[np.abs(X) < 0.5] = 0.0
    weights = np.random.default_rng(0).exponential(size=N) * (np.arange(N) % 7 > 0)
    weights[:300] = 0.0  # a partition without weight
    problem = getattr(problems, kind)(X, y, alpha=1e-3, fit_intercept=True, sample_weight=weights)
    rows = sparse.csr_matrix(X)
    fit = finished(started(split(rows, y, 4, weights), getattr(problems, kind)), 60)
    assert fit.progress.gap <= 1e-6
    assert distance(fit, problem, optimum(problem)) <= 1e-6


@pytest.mark.parametrize(("kind", "near"), [("Logistic", 1e-3), ("Hinge", 1e-6)])
def test_one_class_in_a_partition(kind, near):
    X, y = data(kind)
    order = np.argsort(y, kind="stable")
    problem = getattr(problems, kind)(X, y, alpha=1e-3, fit_intercept=True)
    parts = split(X[order], y[order], 3)
    fit = finished(started(parts, getattr(problems, kind), tol=min(near, 1e-4)), 100)
    assert distance(fit, problem, optimum(problem)) <= fit.progress.gap + 1e-9
    assert fit.progress.gap <= near


@pytest.mark.parametrize("kind", ["Logistic", "Hinge"])
def test_several_classes_share_a_load(kind):
    X, _ = data(kind)
    y = np.digitize(X[:, 0] + X[:, 1], [-1.0, 0.5])
    fit = finished(started(split(X, y, 4), getattr(problems, kind), tol=1e-5), 60)
    assert len(fit.outputs) == 3
    assert fit.progress.loads <= 30
    for k, output in enumerate(fit.outputs):
        problem = getattr(problems, kind)(X, y == k, alpha=1e-3, fit_intercept=True)
        assert distance(fit, problem, optimum(problem), k) <= 1e-5
        assert output.relative_gap <= 1e-5


@pytest.mark.parametrize("kind", ["Logistic", "Hinge"])
def test_draws_depend_on_seed_partition_and_round_alone(kind):
    parts, kind = split(*data(kind), 4), getattr(problems, kind)
    first = finished(started(parts, kind, seed=5), 3)
    again = finished(started(parts, kind, seed=5), 3)
    other = finished(started(parts, kind, seed=6), 3)
    assert np.array_equal(first.outputs[0].best, again.outputs[0].best)
    assert not np.array_equal(first.outputs[0].best, other.outputs[0].best)
    keys = {
        local.draw_key(s, k, t, c) for s in (0, 9) for k in (0, 3) for t in (0, 2) for c in (0, 1)
    }
    assert len(keys) == 16


def test_lost_duals_cost_rounds_and_not_the_optimum(lowest):
    problem, best = lowest("Logistic", alpha=1e-3, fit_intercept=True)
    parts = split(*data("Logistic"), 4)
    plain = finished(started(parts, problems.Logistic), 200)
    lost = finished(started(parts, problems.Logistic), 200, lose=[(1, 0), (3, 2), (4, 3), (4, 1)])
    assert lost.progress.restarts in (3, 4)  # a fit may have ended before the last
    assert lost.progress.gap <= 1e-6
    assert distance(lost, problem, best) <= 1e-6
    assert lost.progress.rounds <= 3 * plain.progress.rounds + 10


def test_adding_changes_without_the_factor_diverges(monkeypatch, lowest):
    """Without K in q' the changes of eight equal partitions add up to eight times too much."""
    X, y = data("Logistic", 200)
    parts = split(np.tile(X, (8, 1)), np.tile(y, 8), 8)
    right = finished(started(parts, problems.Logistic, tol=0.0), 1)
    runs = local.runs

    def without(partition, duals, setting, plan):
        for run in runs(partition, duals, setting, plan):
            run.level[0].scale *= 8
            yield run

    monkeypatch.setattr(local, "runs", without)
    wrong = finished(started(parts, problems.Logistic, tol=0.0), 1)
    assert right.progress.gap < 0.5 * wrong.progress.gap


@pytest.mark.parametrize("count", [-1, 2**60 + 1])
def test_counts_of_a_checkpoint_that_cannot_be_are_refused(count):
    driver = Driver(counts=cell(Counts()))
    saved = driver.saved()["counts"]
    with pytest.raises(CheckpointError, match=rf"counts.rounds must be .*, got {count} of"):
        driver.check({"counts": {**saved, "rounds": count}})
    driver.check({"counts": {**saved, "rounds": 2**60}})
