"""The search for a rate: what it measures, and that it never diverges."""

import numpy as np
import pytest
import scipy.sparse as sp

import tombola
from penalties import elastic
from players import Outside, Replay, ours, some_draws
from states import assert_same
from tombola.problems import LeastSquares, Logistic, Softmax, SquaredHinge
from tombola.solvers import SAGA, SVRG
from tombola.solvers.descent.rates import DIVISOR, FORGET, LEAST, SAFE, SPARING
from tombola.solvers.descent.variance_reduced import safe_rate, smoothness_of_draws
from tombola.solvers.gap import relative_gap

N, D = 60, 4


def problem(kind=Logistic, **options):
    """One row is 4 times as long as the others: with uniform draws the safe rate is its."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * np.where(np.arange(N) == 5, 4.0, 1.0)[:, None]
    signal = X[:, 0] - X[:, 1] + 0.3 + 0.5 * rng.normal(size=N)
    y = signal if kind is LeastSquares else signal > 0
    if kind is Softmax:
        y = np.digitize(signal, [-0.5, 1.0])
    options = {"alpha": 0.01, "fit_intercept": True, **options}
    return kind(X, y, **options)


def rate_of(result):
    return result.state["parts"]["rates"]["rate"]


# --- what it does, step by step -------------------------------------------------------------------


def plain_search(it, draws, start, every=0):
    """SAGA (SVRG) with the rule of the module, in numpy; the rate that each round used."""
    X, y, s = it.model.rows.values, it.model.targets, it.model.weights
    X = np.hstack([X, np.ones((it.n, 1))])
    worst = smoothness_of_draws(it, tombola.Uniform(it.n))
    squares = sums = it.n / SPARING
    largest, rate, rates = 0.0, 1 / (SAFE * (worst + it.l2)), []
    period = -(-it.n // 2 // len(draws[0][0]))

    def slope(i, z):
        return -s[i] * y[i] / (1 + np.exp(y[i] * z))

    w = start.copy()
    table = np.array([slope(i, X[i] @ w) for i in range(it.n)])
    for t, (items, chances) in enumerate(draws):
        if t and t % period == 0:
            mean = max(squares / sums, LEAST)
            smooth = min(DIVISOR * (mean * worst + it.l2), SAFE * (worst + it.l2))
            rate = 1 / max(smooth, largest * worst + it.l2)
            largest *= FORGET
        if every and t % every == 0:
            table = np.array([slope(i, X[i] @ w) for i in range(it.n)])
        g, fresh = table @ X / it.n, {}
        for i, p in zip(items, chances, strict=True):
            u, z = 1 / (it.n * p), X[i] @ w
            fresh[i] = slope(i, z)
            change = fresh[i] - table[i]
            g = g + u * change * X[i] / len(items)
            reach = u * (X[i] @ X[i])
            counts = (t + 1) % SPARING == 0
            if abs(change) <= 1e-7 * abs(fresh[i]):
                continue
            if not counts and rate * reach * s[i] / 4 <= 1:
                continue
            while True:
                share = abs((slope(i, z - rate * reach * change) - fresh[i]) / change)
                if share <= 1 + 1e-9:
                    break
                rate /= min(share, 2.0)
            q = share / rate / worst
            largest = max(largest, q)
            if counts:
                keep = 1 - SPARING / (SPARING + it.n)
                squares, sums = keep * squares + q * q, keep * sums + q
        if not every:
            for i, value in fresh.items():
                table[i] = value
        rates.append(rate)
        w = w - rate * g
        w[:-1] /= 1 + rate * it.l2
    return w, rates


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", [SAGA, SVRG])
def test_a_run_equals_the_plain_loop(kind, batch):
    rng = np.random.default_rng(1)
    it = problem(sample_weight=rng.uniform(0.2, 2.0, size=N))
    draws = some_draws(rng, N, batch, 300)
    start = rng.normal(size=D + 1)
    options = {"snapshot_every": 37} if kind is SVRG else {}
    solver = kind(batch_size=batch, **options)
    w, rates = plain_search(it, draws, start, **({"every": 37} if kind is SVRG else {}))
    result = solver.minimize(it, sampler=Replay(N, draws), rounds=300, start=start)
    np.testing.assert_allclose(result.solution, w, rtol=1e-7, atol=1e-8)
    assert rate_of(result) == pytest.approx(rates[-1], rel=1e-8)
    assert max(rates) > 1.1 * rates[0]


@pytest.mark.parametrize("l1", [0.0, 0.01])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("batch", [1, 5])
def test_sparse_equals_dense(outputs, batch, l1):
    """Columns that wait catch up at the rate that held meanwhile."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 100)) * (rng.uniform(size=(30, 100)) < 0.04)
    X[np.linalg.norm(X, axis=1).argmax()] *= 3.0
    y = np.arange(30) % max(outputs, 2)
    kind = Softmax if outputs > 1 else Logistic
    options = {**elastic(l1=l1, l2=0.02), "fit_intercept": True}
    dense, sparse = kind(X, y, **options), kind(sp.csr_array(X), y, **options)
    draws = some_draws(rng, 30, batch, 700)
    start = rng.normal(size=dense.shape)
    for solver in (SAGA(batch_size=batch), SVRG(snapshot_every=50, batch_size=batch)):
        for rounds in (3, 61, 700):
            found = [
                solver.minimize(each, sampler=Replay(30, draws), rounds=rounds, start=start)
                for each in (dense, sparse)
            ]
            np.testing.assert_allclose(found[1].solution, found[0].solution, rtol=1e-7, atol=1e-8)
        assert ("columns" if l1 else "level") in found[1].state["parts"]
        assert rate_of(found[0]) != pytest.approx(safe_rate(dense, tombola.Uniform(30)), rel=0.01)


def test_a_given_rate_is_kept():
    result = SAGA(0.01).minimize(problem(), rounds=500)
    assert rate_of(result) == 0.01


def test_squares_have_the_rate_of_their_rows():
    """phi'' = 1 and rows of one length: L_Q is what is measured, and the safe rate stays."""
    rng = np.random.default_rng(0)
    X = np.sign(rng.normal(size=(N, D)))
    it = LeastSquares(X, rng.normal(size=N), alpha=1e-4)
    result = SAGA().minimize(it, sampler=tombola.Uniform(N), rounds=20 * N)
    assert rate_of(result) == pytest.approx(safe_rate(it, tombola.Uniform(N)))


def test_items_on_flat_parts_allow_larger_rates():
    """A rare class: where most rows are, curvature is a small part of the largest possible."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 3)), rng.uniform(size=1000) < 0.02
    X[y] += 0.5
    it = Logistic(X / np.linalg.norm(X, axis=1, keepdims=True), y, alpha=1e-3, fit_intercept=True)
    safe = safe_rate(it, tombola.Uniform(1000))
    result = SAGA().minimize(it, sampler=tombola.Uniform(1000), rounds=40_000)
    assert rate_of(result) > 1.5 * safe
    assert relative_gap(it, result.solution) < 1e-9


def test_one_long_row_does_not_slow_all_others_down():
    it = problem(SquaredHinge)
    found = [
        solver.minimize(it, sampler=Outside(tombola.Uniform(N)), rounds=40 * N).solution
        for solver in (SAGA(), SAGA(safe_rate(it, tombola.Uniform(N))))
    ]
    assert relative_gap(it, found[0]) < relative_gap(it, found[1]) / 3


# --- safety ---------------------------------------------------------------------------------------

HOSTILE = {
    "one long row": lambda X: X * np.where(np.arange(N) == 5, 1e3, 1.0)[:, None],
    "rows of all lengths": lambda X: X * np.logspace(-4, 4, N)[:, None],
    "columns of all lengths": lambda X: X * np.logspace(-3, 3, D),
    "tiny": lambda X: X * 1e-150,
    "huge": lambda X: X * 1e70,
    "equal rows": lambda X: np.ones_like(X),
}


@pytest.mark.parametrize("name", ["Uniform", "VRB"])
@pytest.mark.parametrize("data", HOSTILE)
@pytest.mark.parametrize("kind", [Logistic, LeastSquares, SquaredHinge])
def test_never_worse_than_it_began_and_never_diverges(kind, data, name):
    it = problem(kind)
    X, y = HOSTILE[data](it.model.rows.values), it.model.targets
    it = kind(X, y, alpha=1e-3, fit_intercept=True)
    for solver in (SAGA(), SVRG()):
        sampler = Outside(ours(N)[name](1))
        result = solver.minimize(it, sampler=sampler, rounds=60 * N)
        assert np.isfinite(result.solution).all()
        assert it.value(result.solution) <= 1.0001 * it.value(None)


def test_a_rate_that_is_far_too_large_is_caught():
    """A saved rate of a million times the safe one: the guard lowers it before the first step."""
    it = problem(LeastSquares)
    first = SAGA().minimize(it, sampler=tombola.Uniform(N), rounds=N)
    safe = rate_of(first)
    first.state["parts"]["rates"]["rate"] = 1e6 * safe
    result = SAGA().minimize(it, rounds=40 * N, resume=first)
    assert rate_of(result) < 5 * safe
    assert relative_gap(it, result.solution) < 1e-2


def test_without_the_guard_that_would_be_seen():
    it = problem(LeastSquares)
    with pytest.raises(ArithmeticError, match="diverged"):
        SAGA(1e6 * safe_rate(it, tombola.Uniform(N))).minimize(it, rounds=40 * N)


@pytest.mark.parametrize("kind", [Logistic, LeastSquares, SquaredHinge, Softmax])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_every_loss_converges(kind, l1_ratio):
    it = problem(kind, l1_ratio=l1_ratio)
    for solver in (SAGA(), SVRG(), SAGA(batch_size=4)):
        result = solver.minimize(it, sampler=Outside(tombola.Uniform(N)), rounds=150 * N)
        assert relative_gap(it, result.solution) < 1e-3


@pytest.mark.parametrize("name", ours(N))
def test_every_sampler_converges(name):
    it = problem()
    sampler = ours(N, largest=3.0)[name](1)
    sampler = sampler if name == "FTRL" else Outside(sampler)
    result = SAGA().minimize(it, sampler=sampler, rounds=200 * N)
    assert relative_gap(it, result.solution) < 1e-3


def test_rows_of_zeros():
    it = Logistic(np.zeros((4, 2)), [0, 1, 0, 1])
    assert rate_of(SAGA().minimize(it, rounds=50)) == 1.0


# --- saved and compiled ---------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [SAGA(), SVRG(snapshot_every=25)], ids=str)
def test_a_resumed_run_is_the_whole_run(solver):
    whole = solver.minimize(problem(), sampler=tombola.VRB(N, shuffle=False), rounds=500)
    first = solver.minimize(problem(), sampler=tombola.VRB(N, shuffle=False), rounds=203)
    assert_same(
        solver.minimize(problem(), rounds=500, resume=first).state["parts"], whole.state["parts"]
    )


def test_compiled_and_plain_loop_agree_to_the_last_bit():
    fused = SAGA().minimize(problem(), sampler=tombola.VRB(N, shuffle=False), rounds=500)
    plain = SAGA().minimize(problem(), sampler=Outside(tombola.VRB(N, shuffle=False)), rounds=500)
    assert_same(fused.state["parts"], plain.state["parts"])
