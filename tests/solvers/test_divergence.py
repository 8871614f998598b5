"""A rate that is too large ends in an error that says so, and leaves the sampler sound."""

import numpy as np
import pytest

import tombola
from players import Outside, ours
from states import leaves
from tombola.problems import LeastSquares, Logistic
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad, DivergenceError

N = 40
SAMPLERS = ours(N)


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return LeastSquares(X, X @ [3.0, 2.0, 1.0] + 0.1 * rng.normal(size=N))


def assert_sound(sampler):
    """Its state is finite, and it still draws with the probabilities that it reports."""
    for part, array in leaves(sampler.state_dict()["parts"]).items():
        assert np.isfinite(array).all(), part
    chances = sampler.probabilities()
    assert chances.sum() == pytest.approx(1.0)
    draw = sampler.draw(10)
    assert np.isfinite(draw.importances).all()
    if sampler.feedback != "all":
        sampler.update(draw, np.ones(10))


@pytest.mark.parametrize("rate", [1e3, 1e200])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", ["Uniform", "VRB", "FTRL"])
def test_a_huge_rate_is_told(name, plain, rate):
    sampler = SAMPLERS[name](0)
    if plain and name == "FTRL":
        pytest.skip("is never compiled")
    player = Outside(sampler) if plain else sampler
    with pytest.raises(DivergenceError, match=r"SGD diverged in round \d+: the rate is too large"):
        SGD(rate).minimize(problem(), sampler=player, rounds=10_000)
    assert_sound(sampler)


@pytest.mark.parametrize("solver", [SAGA(1e3), SVRG(1e3, snapshot_every=5), SGD(1e3, average=True)])
def test_other_solvers(solver):
    sampler = tombola.VRB(N, shuffle=False)
    with pytest.raises(DivergenceError, match="diverged in round"):
        solver.minimize(problem(), sampler=sampler, rounds=10_000)
    assert_sound(sampler)


@pytest.mark.parametrize("name", SAMPLERS)
def test_no_sampler_is_poisoned(name):
    """Losses up to the largest float, then the end; fed from Python, which is the same (fused)."""
    sampler = SAMPLERS[name](0)
    player = sampler if name == "FTRL" else Outside(sampler)
    with pytest.raises(DivergenceError):
        SGD(50.0).minimize(problem(), sampler=player, rounds=10_000)
    assert_sound(sampler)


class Suspicious(Outside):
    """Keeps its feedback."""

    largest = 0.0

    def update(self, draw, losses):
        assert np.isfinite(losses).all()
        self.largest = max(self.largest, float(np.max(losses)))
        super().update(draw, losses)


def test_what_is_not_finite_is_never_fed():
    sampler = Suspicious(tombola.Uniform(N))
    with pytest.raises(DivergenceError) as error:
        SGD(1e3).minimize(problem(), sampler=sampler, rounds=10_000)
    assert sampler.largest > 1e100
    # the round named is the one whose losses were not finite: all before it were fed
    assert f"in round {sampler.rounds}:" in str(error.value)


def test_a_loss_that_hides_it():
    """Logistic gradients are bounded: the solution is infinite while all losses are finite."""
    X = np.array([[1e308], [-1e308]])
    with np.errstate(over="ignore"), pytest.raises(DivergenceError, match="in round"):
        SGD(1e10).minimize(Logistic(X / 1e150, [1, 1]), sampler=tombola.Uniform(2), rounds=10**7)


def test_the_advice_helps():
    with pytest.raises(DivergenceError, match=r"1 / max L = ") as error:
        SGD(1e3).minimize(problem(), sampler=tombola.Uniform(N), rounds=10_000)
    rate = float(str(error.value).split("1 / max L = ")[1].split()[0])
    assert rate == pytest.approx(1 / problem().lipschitz().max(), rel=0.01)
    result = SGD(rate).minimize(problem(), sampler=tombola.Uniform(N), rounds=10_000)
    assert problem().value(result.solution) < problem().value(None)


def test_adagrad_does_not_diverge():
    """Its steps are at most as large as the rate, in each coordinate."""
    result = AdaGrad(1e3).minimize(problem(), sampler=tombola.Uniform(N), rounds=2000)
    assert np.isfinite(result.solution).all()
