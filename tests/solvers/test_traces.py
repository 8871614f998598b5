"""The trace: its rounds and counts, and that it changes nothing."""

import numpy as np
import pytest

import tombola
from players import Outside, Replay
from states import leaves
from tombola.problems import Logistic
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad

N, D = 60, 4
SOLVERS = {
    "SGD": SGD(0.1, batch_size=3),
    "AdaGrad, average": AdaGrad(0.3, average=True, batch_size=3),
    "SAGA": SAGA(0.1, batch_size=3),
    "SVRG": SVRG(0.1, snapshot_every=40, batch_size=3),
}


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * rng.exponential(size=(N, 1))
    weights = rng.uniform(0.5, 2.0, size=N)
    return Logistic(X, X[:, 0] > 0.3, alpha=0.1, fit_intercept=True, sample_weight=weights)


@pytest.mark.parametrize("name", SOLVERS)
def test_rows_and_counts(name):
    sampler = tombola.VRB(N, shuffle=False)
    result = SOLVERS[name].minimize(problem(), sampler=sampler, rounds=100, trace=5)
    rounds = np.arange(0, 101, 20)
    extra = {"SAGA": N, "SVRG": N * -(-rounds // 40)}.get(name, 0)  # snapshots at 0, 40, 80
    np.testing.assert_array_equal(result.trace.rounds, rounds)
    np.testing.assert_array_equal(result.trace.item_gradients, 3 * rounds + extra)
    assert len(result.trace) == 6
    assert result.rounds == 100
    assert result.item_gradients == result.trace.item_gradients[-1]
    assert result.trace.objective[0] == problem().value(None)
    assert result.trace.objective[-1] == problem().value(result.solution)
    assert (np.diff(result.trace.seconds) >= 0).all()
    assert result.seconds == result.trace.seconds[-1]


@pytest.mark.parametrize(
    ("rounds", "trace", "marks"),
    [
        (0, 0, []),
        (0, 3, [0]),
        (3, 10, [0, 1, 2, 3]),
        (5, 1, [0, 5]),
        (1000, 3, [0, 333, 667, 1000]),
    ],
)
def test_marks(rounds, trace, marks):
    result = SGD(0.1).minimize(problem(), sampler=tombola.VRB(N), rounds=rounds, trace=trace)
    assert result.trace.rounds.tolist() == marks
    assert result.rounds == rounds


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_trace_changes_nothing(name, plain):
    results = []
    for trace in (0, 7):
        sampler = tombola.VRB(N, shuffle=False, seed=4)
        player = Outside(sampler) if plain else sampler
        result = SOLVERS[name].minimize(problem(), sampler=player, rounds=200, trace=trace)
        results.append(
            ({**leaves(result.state["parts"]), **leaves(sampler.state_dict()["parts"])}, result)
        )
    for part, array in results[0][0].items():
        np.testing.assert_array_equal(array, results[1][0][part], err_msg=part)
    np.testing.assert_array_equal(results[0][1].solution, results[1][1].solution)


@pytest.mark.parametrize("name", ["SGD", "SAGA", "SVRG"])
def test_the_variance_ratio_is_exact(name):
    """The trace of the covariance of the estimate, from all gradients, one by one."""
    it, chances = problem(), (1.0 + np.arange(N) % 5) / (1.0 + np.arange(N) % 5).sum()
    sampler = tombola.Static(chances)
    result = SOLVERS[name].minimize(it, sampler=sampler, rounds=50, trace=1)
    w = result.solution
    gradients = np.array([it.item_gradient(i, w) for i in range(N)])
    if name != "SGD":  # the stored slopes, as gradients
        slopes = result.state["parts"]["stored"]["table"]
        gradients -= slopes * np.column_stack([it.model.rows.values, np.ones(N)])
    mean = gradients.mean(axis=0)

    def variance(p):
        estimates = gradients / (N * p[:, None])
        return (p * ((estimates - mean) ** 2).sum(axis=1)).sum()

    exact = variance(chances) / variance(np.full(N, 1 / N))
    assert result.trace.variance_ratio[-1] == pytest.approx(exact, rel=1e-9)
    assert abs(exact - 1) > 0.05


@pytest.mark.parametrize("name", SOLVERS)
def test_uniform_draws_have_the_variance_of_uniform_draws(name):
    for sampler in (tombola.Uniform(N), tombola.VRB(N, bound=1.0, mixing=1.0)):
        result = SOLVERS[name].minimize(problem(), sampler=sampler, rounds=50, trace=2)
        np.testing.assert_allclose(result.trace.variance_ratio[1:], 1.0, rtol=1e-12)


def test_good_draws_have_less():
    result = SGD(0.01).minimize(problem(), sampler=tombola.VRB(N), rounds=20_000, trace=2)
    assert result.trace.variance_ratio[0] == pytest.approx(1.0)
    assert result.trace.variance_ratio[-1] < 0.8


class Careful(Outside):
    """Full information: remembers what it drew and what it was fed."""

    feedback = "all"

    def __init__(self, n):
        super().__init__(tombola.Uniform(n))
        self.seen, self.draws = [], []

    def _draw(self, size):
        self.draws.append(super()._draw(size))
        return self.draws[-1]

    def update_all(self, losses):
        self.seen.append(losses)


@pytest.mark.parametrize("name", SOLVERS)
def test_full_information_is_about_the_estimate_of_the_round(name):
    """All losses include those of the items drawn: with SVRG 0 right after a snapshot."""
    for rounds in (1, 2, 40, 41, 42, 81):
        careful = Careful(N)
        SOLVERS[name].minimize(problem(), sampler=careful, rounds=rounds)
        drawn = Replay(N, careful.draws)  # the same draws, and feedback for them alone
        SOLVERS[name].minimize(problem(), sampler=drawn, rounds=rounds)
        items = careful.draws[-1][0]
        np.testing.assert_allclose(careful.seen[-1][items], drawn.fed[-1], rtol=1e-9, atol=1e-14)
