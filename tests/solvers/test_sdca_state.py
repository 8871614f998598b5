"""SDCA's loop: fused like one by one, resumed, traced, stopped."""

import numpy as np
import pytest

import tombola
from players import Outside
from states import assert_same
from tombola import Latest
from tombola.checkpoint import CheckpointError
from tombola.problems import LeastSquares, Logistic
from tombola.solvers import SAGA, SDCA, Result
from tombola.solvers.dual.run import rebuild
from tombola.solvers.gap import best_constant
from tombola.solvers.loop import advance

N, D = 400, 5


def problem(alpha=0.01, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * rng.exponential(size=(N, 1)) + 0.5
    y = X[:, 0] + rng.logistic(size=N) > 2.0
    return Logistic(X, y, alpha=alpha, fit_intercept=True, **options)


def steep(alpha=1e-5):
    """Columns that are nearly multiples of each other: dual ascent alone would take long."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 1)) + 0.03 * rng.normal(size=(4000, 4))
    y = X.sum(axis=1) + 40 * (X[:, 0] - X[:, 1]) + rng.logistic(size=4000) > 0
    return Logistic(X, y, alpha=alpha, fit_intercept=True)


class OutsideAll(Outside):
    """One that is told about all items, too."""

    def update_all(self, losses):
        self.inner.update_all(losses)


SAMPLERS = {
    "Latest": (lambda seed: Latest(N, seed=seed), OutsideAll),
    "VRB": (lambda seed: tombola.VRB(N, seed=seed), Outside),
}


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("name", SAMPLERS)
def test_compiled_and_plain_loop_agree_to_the_last_bit(name, batch):
    make, outside = SAMPLERS[name]
    inside, other = make(3), make(3)
    rounds = 3000 // batch
    fused = SDCA(batch_size=batch).minimize(problem(), sampler=inside, rounds=rounds)
    plain = SDCA(batch_size=batch).minimize(problem(), sampler=outside(other), rounds=rounds)
    assert fused.state["parts"]["progress"]["passes"] > 2
    assert_same(fused.state["parts"], plain.state["parts"])
    assert_same(inside.state_dict()["parts"], other.state_dict()["parts"])
    np.testing.assert_array_equal(fused.solution, plain.solution)
    np.testing.assert_array_equal(inside.draw(20).indices, other.draw(20).indices)


@pytest.mark.parametrize(("make", "tol"), [(problem, 1e-9), (steep, 1e-3)])
def test_resuming_in_small_steps(make, tol, tmp_path):
    """Through files, which hold the sampler too."""
    solver = SDCA(tol=tol, seed=5)
    whole = solver.minimize(make(), rounds=5000)
    part, rounds = None, 0
    while part is None or part.rounds == rounds:
        rounds += 173
        part = solver.minimize(make(), rounds=rounds, resume=part)
        part.save(tmp_path / "run")
        part = Result.load(tmp_path / "run")
        assert type(part.sampler) is Latest
    assert part.rounds == whole.rounds
    np.testing.assert_array_equal(part.solution, whole.solution)
    assert_same(part.state["parts"], whole.state["parts"])
    assert_same(part.state["sampler"], whole.state["sampler"])
    assert (part.state["parts"]["centre"] != 0).any() == (make is steep)


def test_a_moving_centre_pays_on_a_steep_problem():
    """With lambda alone, the gap is several times larger after as many visits."""
    it, solver = steep(1e-6), SDCA()
    moving = solver.minimize(it, rounds=12_000)
    assert moving.state["parts"]["level"]["share"] < 0.5
    run = solver._begin(it, None, Latest(it.n))
    sampler = Latest(it.n)
    for _ in range(24):  # the passes of a run that does not move its centre
        advance(run, sampler.state, sampler.tally, it.n, 500)
        run.centre[:] = run.previous[:] = 0.0
        run.level[0].scale, run.level[0].share = it.l2 * it.n, 1.0
        run.level[0].total = rebuild(run, run.w[0])
    assert solver.gap(it, moving) < run.bounds[0].gap / best_constant(it)[1] / 3


def test_it_stops_where_it_was_asked_to():
    it = problem()
    rounds = []
    for tol in (1e-2, 1e-4, 1e-6, 1e-8):
        solver = SDCA(tol=tol)
        result = solver.minimize(it, rounds=10**6)
        rounds.append(result.rounds)
        assert solver.gap(it, result) <= tol
        assert SDCA().gap(it, result) == solver.gap(it, result)
        again = solver.minimize(it, rounds=10**6, resume=result)
        assert again.rounds == result.rounds
    assert rounds == sorted(rounds)
    assert SDCA(tol=1e9).minimize(it, rounds=50).rounds == 0  # the start is good enough


def test_the_trace_falls_and_changes_nothing():
    solver = SDCA(tol=1e-8)
    plain = solver.minimize(problem(), rounds=1500)
    traced = solver.minimize(problem(), rounds=1500, trace=10)
    assert_same(plain.state["parts"], traced.state["parts"])
    trace = traced.trace
    assert trace.objective[0] > trace.objective[-1]
    assert (np.diff(trace.item_gradients) >= 0).all()
    assert np.isnan(trace.variance_ratio).all()


def test_until_is_called_between_passes():
    seen = []
    SDCA().minimize(problem(), rounds=100, until=lambda done, w, loss: seen.append(done))
    assert seen == [25, 50, 75, 100]  # 25 rounds of 16 are an epoch


def test_other_duals_are_refused():
    it, solver = problem(), SDCA()
    result = solver.minimize(it, rounds=60)
    result.state["parts"]["duals"] *= 0.5  # allowed by the loss, but not those of w
    with pytest.raises(CheckpointError, match="w is not that of the duals"):
        solver.minimize(it, rounds=90, resume=result)


def test_rounding_errors_do_not_accumulate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3)) * 10.0 ** rng.uniform(-3, 3, size=(20, 1))
    it = LeastSquares(X, rng.normal(size=20), alpha=1e-3, fit_intercept=True)
    result = SDCA().minimize(it, rounds=40_000)
    parts = result.state["parts"]
    terms = parts["duals"][:, None] * X / parts["level"]["scale"]
    exact = terms.sum(axis=0) + (1 - parts["level"]["share"]) * parts["centre"][0]
    np.testing.assert_allclose(parts["w"][0], exact, rtol=0, atol=1e-13 * np.abs(terms).sum())


def test_a_gap_needs_a_result_of_its_own_solver():
    it = problem()
    other = SAGA().minimize(it, rounds=10)
    for wrong in (None, other):
        with pytest.raises(TypeError, match="result must be one of SDCA"):
            SDCA().gap(it, wrong)
