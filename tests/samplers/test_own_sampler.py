"""The sampler of the guide compiles into a solver's loop: none of it is called from Python."""

import importlib

import numpy as np
import pytest

from pages import ROOT
from players import Outside
from states import assert_same
from tombola.problems import Logistic
from tombola.solvers import SGD

N, ROUNDS = 40, 200


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    return importlib.import_module("own_sampler")


def test_it_compiles_into_the_loop_of_a_solver(example, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) * rng.exponential(size=(N, 1))
    problem, solver = Logistic(X, X[:, 0] > 0.3, alpha=0.1), SGD(0.1, batch_size=5)
    outside = example.LastLoss(N, seed=1)
    plain = solver.minimize(problem, sampler=Outside(outside), rounds=ROUNDS)
    calls = []
    for name in ("draw", "update", "_draw", "_update"):
        monkeypatch.setattr(example.LastLoss, name, lambda *_, name=name: calls.append(name))
    inside = example.LastLoss(N, seed=1)
    fused = solver.minimize(problem, sampler=inside, rounds=ROUNDS)
    assert calls == []
    assert inside.gauge.count == 5 * ROUNDS
    np.testing.assert_array_equal(fused.solution, plain.solution)
    assert_same(inside.state_dict()["parts"], outside.state_dict()["parts"])
    inside.draw()
    assert calls == ["draw"]  # this is how a call would have been seen
