"""The estimate of the gradient is unbiased, by enumeration: the mean over all that can be drawn.

Without a regulariser one step of a constant rate is w - rate g, so that g can be read off.
"""

import itertools

import numpy as np
import pytest

from players import Replay, some_draws
from tombola.problems import Logistic, Softmax
from tombola.solvers import SAGA, SGD, SVRG

pytestmark = pytest.mark.kernels

N, D, RATE = 5, 3, 0.5
SOLVERS = {"SGD": SGD, "SAGA": SAGA, "SVRG": SVRG}
CHANCES = {
    "uniform": np.full(N, 1 / N),
    "skewed": np.array([0.02, 0.08, 0.1, 0.3, 0.5]),
    "rare": np.array([1e-3, 0.249, 0.25, 0.25, 0.25]),
}


def estimates(name, problem, before, batch, chances, reported=None):
    """Yield the iterate after earlier draws, each possible estimate there, and its probability."""
    reported = chances if reported is None else reported
    options = {"snapshot_every": 4} if name == "SVRG" else {}
    solver = SOLVERS[name](RATE, batch_size=batch, **options)
    start = np.linspace(-1.0, 1.0, int(np.prod(problem.shape))).reshape(problem.shape)

    def end(draws):
        sampler = Replay(N, draws)
        return solver.minimize(problem, sampler=sampler, rounds=len(draws), start=start).solution

    here = end(before)
    for items in itertools.product(range(N), repeat=batch):
        there = end([*before, (items, reported[list(items)])])
        yield here, (here - there) / RATE, np.prod(chances[list(items)])


def bias(*args, **options):
    """The expectation of the estimate minus the gradient."""
    problem = args[1]
    found = list(estimates(*args, **options))
    return sum(p * g for _, g, p in found) - problem.gradient(found[0][0])


@pytest.mark.parametrize("distribution", CHANCES)
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("rounds", [0, 6])
@pytest.mark.parametrize("name", SOLVERS)
def test_estimates_are_unbiased(name, rounds, batch, outputs, distribution):
    rng = np.random.default_rng(3)
    X, weights = rng.normal(size=(N, D)), rng.uniform(0.0, 2.0, size=N)
    y = np.arange(N) % outputs if outputs > 1 else np.arange(N) % 2
    kind = Softmax if outputs > 1 else Logistic
    problem = kind(X, y, sample_weight=weights, fit_intercept=True)
    before = some_draws(rng, N, batch, rounds)
    # an estimate of a rare item is 1/(N p) = 200 times as large: so is its last bit
    assert np.abs(bias(name, problem, before, batch, CHANCES[distribution])).max() < 1e-12


@pytest.mark.parametrize("name", SOLVERS)
def test_importances_left_out_would_be_seen(name):
    rng = np.random.default_rng(3)
    problem = Logistic(rng.normal(size=(N, D)), np.arange(N) % 2)
    before = some_draws(rng, N, 1, 6)
    wrong = bias(name, problem, before, 1, CHANCES["skewed"], reported=CHANCES["uniform"])
    assert np.abs(wrong).max() > 1e-3
