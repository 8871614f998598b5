"""Whole runs of SGD, AdaGrad, SAGA and SVRG on given draws, against a plain loop in numpy."""

import numpy as np
import pytest

import naive
from penalties import elastic
from players import Replay, some_draws
from tombola.problems import LeastSquares, Logistic, Softmax
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad

pytestmark = pytest.mark.kernels

N, D, ROUNDS = 11, 4, 60
# a solver, and what the plain loop has to know about it
RUNS = {
    "SGD": (SGD, {"rate": 0.3}, {}),
    "SGD, root": (SGD, {"rate": 0.7, "schedule": "root"}, {"schedule": "root"}),
    "SGD, strongly convex": (
        SGD,
        {"schedule": "strongly convex"},
        {"schedule": "strongly convex", "average": 2},
    ),
    "SGD, average": (SGD, {"rate": 0.3, "average": True}, {"average": 1}),
    "SGD, radius": (SGD, {"rate": 0.7, "radius": 0.5}, {"radius": 0.5}),
    "AdaGrad": (AdaGrad, {"rate": 0.4}, {"schedule": "diagonal"}),
    "AdaGrad, radius": (
        AdaGrad,
        {"rate": 0.4, "radius": 0.5, "average": True},
        {"schedule": "diagonal", "radius": 0.5, "average": 1},
    ),
    "AdaGrad, norm": (AdaGrad, {"rate": 0.4, "version": "norm"}, {"schedule": "norm"}),
    "AdaGrad, norm, average": (
        AdaGrad,
        {"rate": 0.4, "version": "norm", "average": True},
        {"schedule": "norm", "average": 1},
    ),
    "SAGA": (SAGA, {"rate": 0.2}, {"method": "SAGA"}),
    "SVRG": (SVRG, {"rate": 0.2, "snapshot_every": 7}, {"method": "SVRG", "every": 7}),
}


def problems(outputs, seed, l1, l2):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(N, D)), rng.uniform(0.2, 2.0, size=N)
    y = np.arange(N) % 3 if outputs == 3 else np.where(X[:, 0] + 0.5 > 0, 1, -1)
    kind = Softmax if outputs == 3 else Logistic
    ours = kind(X, y, sample_weight=weights, **elastic(l1, l2), fit_intercept=True)
    loss = naive.softmax if outputs == 3 else naive.logistic
    options = {"l1": ours.l1, "l2": ours.l2, "fit_intercept": True}
    plain = naive.Model(loss, X, y, weights=weights, outputs=outputs, **options)
    return ours, plain, rng


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(("outputs", "l1"), [(1, 0.0), (1, 0.02), (3, 0.02)])
@pytest.mark.parametrize("name", RUNS)
def test_a_run_equals_the_plain_loop(name, outputs, l1, batch):
    kind, options, plainly = RUNS[name]
    problem, plain, rng = problems(outputs, 0, l1, 0.1)
    draws = some_draws(rng, N, batch, ROUNDS)
    start = rng.normal(size=problem.shape)
    plainly = {"method": "SGD", "rate": options.get("rate", 0.0), **plainly}
    expected = list(naive.descend(plain, draws=draws, start=start.reshape(outputs, -1), **plainly))
    solver = kind(**options, batch_size=batch)
    for rounds in (1, 2, 8, ROUNDS):
        sampler = Replay(N, draws)
        result = solver.minimize(problem, sampler=sampler, rounds=rounds, start=start)
        w, mean = expected[rounds - 1]
        parts = result.state["parts"]
        factor = parts["scale"]["factor"] if "scale" in parts else 1.0
        scales = np.append(np.full(D, factor), 1.0)  # the intercept is not scaled
        np.testing.assert_allclose(parts["w"] * scales, w, rtol=1e-10, atol=1e-12)
        solution = result.solution.reshape(outputs, -1)
        np.testing.assert_allclose(solution, w if mean is None else mean, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["SGD", "SAGA", "SVRG"])
def test_fed_back_are_the_norms_of_what_importances_multiply(name):
    kind, options, plainly = RUNS[name]
    problem, plain, rng = problems(1, 1, 0.0, 0.1)
    draws = some_draws(rng, N, 3, 20)
    sampler = Replay(N, draws)
    kind(**options, batch_size=3).minimize(problem, sampler=sampler, rounds=20)
    places = [np.zeros((1, D + 1))]
    plainly = {"method": "SGD", "rate": options["rate"], **plainly}
    places += [w for w, _ in naive.descend(plain, draws=draws, start=places[0], **plainly)]
    stored = [np.zeros((1, D + 1))] * N
    if name == "SAGA":
        stored = [plain.item(i, places[0])[1] for i in range(N)]
    for t, (items, _) in enumerate(draws):
        if name == "SVRG" and t % 7 == 0:
            stored = [plain.item(i, places[t])[1] for i in range(N)]
        fresh = [plain.item(i, places[t])[1] for i in items]
        norms = [np.linalg.norm(g - stored[i]) for g, i in zip(fresh, items, strict=True)]
        np.testing.assert_allclose(sampler.fed[t], norms, rtol=1e-9, atol=1e-12)
        if name == "SAGA":
            for g, i in zip(fresh, items, strict=True):
                stored[i] = g


@pytest.mark.parametrize("version", ["diagonal", "norm"])
def test_nothing_moves_before_the_first_gradient(version):
    """There is nothing to divide by; a column without gradients never moves."""
    problem = LeastSquares(np.array([[1.0, 0.0], [2.0, 0.0]]), [0.0, 4.0])
    draws = [([0], [0.5])] * 3 + [([1], [0.5])]
    for rounds, moves in ((3, False), (4, True)):
        result = AdaGrad(0.1, version=version).minimize(
            problem, sampler=Replay(2, draws), rounds=rounds, start=[0.0, 7.0]
        )
        assert (result.solution[0] > 0) == moves
        assert result.solution[1] == 7.0


@pytest.mark.parametrize("batch", [1, 2, 3, 30])
def test_snapshots_are_two_epochs_apart_by_default(batch):
    """2 n / B rounds, rounded up."""
    problem, _, rng = problems(1, 0, 0.0, 0.1)
    every = -(-2 * N // batch)
    draws = some_draws(rng, N, batch, every + 1)
    for rounds, snapshots in ((every, 1), (every + 1, 2)):
        result = SVRG(0.01, batch_size=batch).minimize(
            problem, sampler=Replay(N, draws), rounds=rounds
        )
        assert result.item_gradients == rounds * batch + snapshots * N


def test_a_wrong_loop_would_be_seen():
    """Snapshots a round late, the other average, a rate of the round before: all beyond 1e-3."""
    _, plain, rng = problems(1, 0, 0.0, 0.1)
    draws = some_draws(rng, N, 1, ROUNDS)
    start = rng.normal(size=(1, D + 1))

    def last(**options):
        w, mean = list(naive.descend(plain, draws=draws, start=start, **options))[-1]
        return w if mean is None else mean

    right = last(method="SVRG", rate=0.2, every=7)
    assert np.abs(last(method="SVRG", rate=0.2, every=8) - right).max() > 1e-3
    right = last(method="SGD", rate=0.3, schedule="root", average=1)
    assert np.abs(last(method="SGD", rate=0.3, schedule="root", average=2) - right).max() > 1e-3
    assert np.abs(last(method="SGD", rate=0.3, average=1) - right).max() > 1e-3


@pytest.mark.parametrize("start", [1e-6, 0.3, 1.0])
def test_the_bound_of_appendix_a_holds_in_every_round(start):
    """AdaGrad's: F(average) - F* <= (2 D / T) sqrt(sum |g_t|^2), here with exact gradients.

    The average is that of w_1 to w_T, where the gradients were taken: next to the optimum the
    first step, of length D / sqrt(2) whatever the gradient, leads away from it.
    """
    problem = LeastSquares(np.ones((1, 1)), [0.0])  # F = w^2 / 2, in [-1, 1]: D = 2
    solver = AdaGrad(2**0.5, version="norm", radius=1.0, average=True)
    w, squares = start, 0.0
    for rounds in range(1, 40):
        squares += w**2
        result = solver.minimize(
            problem, sampler=Replay(1, [([0], [1.0])] * rounds), rounds=rounds, start=[start]
        )
        assert problem.value(result.solution) <= 2 * 2 / rounds * squares**0.5
        w = float(result.state["parts"]["w"][0, 0])
