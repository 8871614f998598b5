"""The compiled loop does what draw, step and update do one after the other, bit for bit."""

import numpy as np
import pytest

from players import Outside, ours, rivals
from states import assert_same
from tombola.problems import Logistic
from tombola.solvers import SAGA, SGD, AdaGrad

N, D, ROUNDS = 60, 4, 400
SAMPLERS = ours(N, largest=3.0, horizon=7 * ROUNDS)
del SAMPLERS["FTRL"]  # learns from all losses: never in the compiled loop
SOLVERS = {"SGD": SGD, "SAGA": SAGA, "AdaGrad": AdaGrad}


@pytest.fixture(autouse=True)
def any_draws(monkeypatch):
    """Both loops agree for any draws, also for those that SAGA refuses."""
    monkeypatch.setattr(SAGA, "needs_independent", False)


def problem(width=D):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, width)) * rng.exponential(size=(N, 1))
    return Logistic(X, X[:, 0] > 0.3, alpha=0.1, fit_intercept=True)


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_compiled_and_plain_loop_agree_to_the_last_bit(name, solver, batch):
    agree_to_the_last_bit(SAMPLERS[name], SOLVERS[solver], batch)


def agree_to_the_last_bit(make, solver, batch):
    solver = solver(0.1, batch_size=batch)
    inside, outside = make(3), make(3)
    fused = solver.minimize(problem(), sampler=inside, rounds=ROUNDS)
    plain = solver.minimize(problem(), sampler=Outside(outside), rounds=ROUNDS)
    assert_same(fused.state["parts"], plain.state["parts"])
    np.testing.assert_array_equal(fused.solution, plain.solution)
    assert inside.gauge.count == ROUNDS * batch
    assert_same(inside.state_dict()["parts"], outside.state_dict()["parts"])
    assert inside.rounds == ROUNDS
    # and the next draws are the same, too
    np.testing.assert_array_equal(inside.draw(20).indices, outside.draw(20).indices)


def test_so_they_do_with_a_mixture():
    """With one solver: compiling takes longer than the test."""
    agree_to_the_last_bit(rivals(N)["VRM"], SGD, 7)


@pytest.mark.parametrize("width", [1, 2, 7, 37, 100])
@pytest.mark.parametrize("solver", SOLVERS)
def test_sums_are_added_up_in_the_same_order(solver, width):
    """Both loops are compiled separately and may reorder sums: they must do so alike."""
    found = [
        SOLVERS[solver](0.01).minimize(problem(width), sampler=sampler, rounds=ROUNDS).solution
        for sampler in (SAMPLERS["VRB"](3), Outside(SAMPLERS["VRB"](3)))
    ]
    np.testing.assert_array_equal(*found)


def test_other_draws_would_be_seen():
    first = SGD(0.1).minimize(problem(), sampler=SAMPLERS["VRB"](3), rounds=ROUNDS)
    other = SGD(0.1).minimize(problem(), sampler=SAMPLERS["VRB"](4), rounds=ROUNDS)
    assert (first.solution != other.solution).all()
