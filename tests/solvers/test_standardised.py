"""Descent in standardised columns: the same problem, for columns in any units."""

import copy
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp

import tombola
from tombola.problems import Hinge, LeastSquares, Logistic
from tombola.problems.metric import standardised
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad, Newton

UNITS = np.array([1e8, 1.0, 1e-8, 300.0, 0.02])
CENTRES = np.array([2e8, -3.0, 1e-8, 3000.0, 0.0])


def data(n=400):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 5))
    y = Z @ [1.0, -1.0, 1.0, 0.5, 0.0] + rng.logistic(size=n) > 0.3
    return Z, y


def gap_of(problem, solver, epochs, **more):
    result = solver.minimize(problem, rounds=epochs * problem.n, **more)
    least = Newton(tol=1e-13).minimize(problem, rounds=1000)
    start = problem.value(np.append(np.zeros(problem.d), 0.0)[: problem.shape[0]])
    return (problem.value(result.solution) - problem.value(least.solution)) / start


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", [SAGA, SVRG])
def test_columns_of_1e8_and_of_1e_8_converge(make, solver):
    Z, y = data()
    X = Z * UNITS + (CENTRES if make is np.asarray else 0.0)
    problem = Logistic(make(X), y, alpha=1 / 400, fit_intercept=True)
    assert gap_of(problem, solver(standardise=True), 60) < 1e-6
    assert gap_of(problem, solver(), 60) > 1e-2  # as printed, it is lost


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_sgd_and_adagrad_come_near(make):
    Z, y = data()
    problem = Logistic(make(Z * UNITS), y, alpha=1 / 400, fit_intercept=True)
    for solver in (SGD(0.3, schedule="root", standardise=True), AdaGrad(0.3, standardise=True)):
        assert gap_of(problem, solver, 40) < 0.01
        with np.errstate(over="ignore"):
            plain = type(solver)(solver.rate)
            with suppress(ArithmeticError):
                assert gap_of(problem, plain, 40) > 0.05


def test_steps_are_those_on_standardised_rows():
    """With the units and centres applied to the rows, and the penalty carried along."""
    Z, y = data(60)
    problem = LeastSquares(Z * UNITS + CENTRES, y * 1.0, fit_intercept=True)
    metric = standardised(problem).metric
    rows = (problem.model.rows.values - metric.centres) / metric.units
    plain = LeastSquares(rows, y * 1.0, fit_intercept=True)
    for solver in (SGD, AdaGrad):
        ours = solver(0.01, standardise=True).minimize(
            problem, sampler=tombola.Uniform(60), rounds=300
        )
        theirs = solver(0.01).minimize(plain, sampler=tombola.Uniform(60), rounds=300)
        v = theirs.solution
        w = np.append(v[:5] / metric.units, v[5] - (v[:5] / metric.units) @ metric.centres)
        assert ours.solution == pytest.approx(w, rel=1e-6)
        assert standardised(problem).model.norms == pytest.approx(plain.model.norms)


@pytest.mark.parametrize("solver", [AdaGrad(0.3, standardise=True), SAGA(standardise=True)])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_few_entries_of_many_columns_give_the_same_as_dense_rows(solver, l1_ratio):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 200)) * (rng.random((50, 200)) < 0.02)
    X *= 10.0 ** rng.integers(-4, 5, 200)
    y = rng.random(50) > 0.5
    found = []
    for rows in (X, sp.csr_matrix(X)):
        problem = Logistic(rows, y, alpha=0.01, l1_ratio=l1_ratio)
        sparse = standardised(Logistic(sp.csr_matrix(X), y, alpha=0.01, l1_ratio=l1_ratio))
        own = sparse_metric(problem, sparse)  # of dense rows, zeros count
        problem.once("standardised", lambda _, own=own: own)
        found.append(solver.minimize(problem, sampler=tombola.Uniform(50), rounds=500).solution)
    assert found[0] == pytest.approx(found[1], rel=1e-6, abs=1e-12)


def sparse_metric(problem, other):
    """A problem with the metric and the norms of another one."""
    made = copy.copy(problem)
    made.metric, made.model = other.metric, problem.model._replace(norms=other.model.norms)
    return made


def test_standardised_columns_are_left_as_they_are():
    Z, y = data()
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    problem = Logistic(Z, y, alpha=0.01, fit_intercept=True)
    assert standardised(problem) is problem
    words = sp.random(100, 300, density=0.02, random_state=0, format="csr")
    words.data = 1.0 + words.data
    assert standardised(Hinge(words, np.arange(100) % 2)).metric is None


def test_columns_that_overflow_are_named():
    Z, y = data()
    problem = Logistic(Z * [1.0, 1e160, 1.0, 1.0, 1.0], y, alpha=0.01)
    with pytest.raises(ValueError, match=r"overflow in columns of X \(1\): scale them"):
        SAGA(standardise=True).minimize(problem, rounds=10)


def test_a_radius_is_not_one_in_the_metric():
    Z, y = data()
    for X in (Z * UNITS, Z):  # with a metric, and without one
        with pytest.raises(ValueError, match="radius"):
            SGD(radius=1.0, standardise=True).minimize(Logistic(X, y, alpha=0.01), rounds=10)
