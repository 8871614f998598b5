"""Newton's loop: fused like one by one, resumed, traced, stopped, and cut where P rises."""

import os
import signal

import numpy as np
import pytest

import tombola
from players import Outside, Replay
from states import assert_same
from tombola import Latest
from tombola.problems import Logistic
from tombola.solvers import SAGA, SDCA, Newton, Result
from tombola.solvers.gap import best_constant

N, D, M = 2000, 5, 300


def problem(alpha=1e-3, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * rng.exponential(size=(N, 1)) + 0.5
    y = X[:, 0] + rng.logistic(size=N) > 4.0
    return Logistic(X, y, alpha=alpha, fit_intercept=True, **options)


class OutsideAll(Outside):
    """One that is told about all items, too."""

    def update_all(self, losses):
        self.inner.update_all(losses)


SAMPLERS = {
    "Latest": (lambda seed: Latest(N, plan=M, seed=seed), OutsideAll),
    "VRB": (lambda seed: tombola.VRB(N, seed=seed), Outside),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_compiled_and_plain_loop_agree_to_the_last_bit(name):
    make, outside = SAMPLERS[name]
    inside, other = make(3), make(3)
    solver = Newton(sample_size=M)
    fused = solver.minimize(problem(), sampler=inside, rounds=5)
    plain = solver.minimize(problem(), sampler=outside(other), rounds=5)
    assert fused.state["parts"]["progress"]["passes"] >= 4
    assert_same(fused.state["parts"], plain.state["parts"])
    assert_same(inside.state_dict()["parts"], other.state_dict()["parts"])
    np.testing.assert_array_equal(fused.solution, plain.solution)
    np.testing.assert_array_equal(inside.draw(20).indices, other.draw(20).indices)


@pytest.mark.parametrize("start", [None, "far"])
def test_resuming_round_by_round(start, tmp_path):
    """Through files, which hold the sampler too."""
    solver = Newton(tol=1e-9, sample_size=M, seed=5)
    start = None if start is None else np.full(D + 1, 3.0)
    whole = solver.minimize(problem(), rounds=100, start=start)
    part, rounds = solver.minimize(problem(), rounds=0, start=start), 0
    while part.rounds == rounds:
        part.save(tmp_path / "run")
        part = Result.load(tmp_path / "run")
        assert type(part.sampler) is Latest
        rounds += 1
        part = solver.minimize(problem(), rounds=rounds, resume=part)
    assert part.rounds == whole.rounds > 2
    np.testing.assert_array_equal(part.solution, whole.solution)
    assert_same(part.state["parts"], whole.state["parts"])
    assert_same(part.state["sampler"], whole.state["sampler"])


def test_it_stops_where_it_was_asked_to():
    it = problem()
    passes = []
    for tol in (1e-1, 1e-4, 1e-8):
        solver = Newton(tol=tol)
        result = solver.minimize(it, rounds=100)
        passes.append(result.state["parts"]["progress"]["passes"])
        assert solver.gap(it, result) <= tol
        assert Newton().gap(it, result) == solver.gap(it, result)
        assert solver.minimize(it, rounds=100, resume=result).rounds == result.rounds
    assert passes == sorted(passes)
    assert passes[-1] < 15
    assert Newton(tol=1.0).minimize(it, rounds=50).rounds == 0  # the start is good enough


def test_ctrl_c_is_seen_after_the_first_round():
    """A round is a pass, which may take seconds."""
    seen = []

    def interrupt(done, rounds):
        seen.append(done)
        os.kill(os.getpid(), signal.SIGINT)

    part = Newton().minimize(problem(), rounds=50, progress=interrupt)
    assert part.interrupted
    assert seen == [1]
    whole = Newton().minimize(problem(), rounds=3)
    assert_same(Newton().minimize(problem(), rounds=3, resume=part).state, whole.state)


def test_the_trace_falls_and_changes_nothing():
    solver = Newton(sample_size=M)
    plain = solver.minimize(problem(), rounds=6)
    traced = solver.minimize(problem(), rounds=6, trace=6)
    assert_same(plain.state["parts"], traced.state["parts"])
    trace = traced.trace
    assert trace.rounds.tolist() == list(range(7))
    assert trace.objective[0] == pytest.approx(best_constant(problem())[1])
    assert (np.diff(trace.objective) <= 0).all()
    assert (np.diff(trace.item_gradients) > 0).all()
    assert trace.objective[-1] == problem().value(traced.solution)
    assert np.isnan(trace.variance_ratio).all()


def test_until_is_called_after_each_round():
    seen = []
    Newton().minimize(problem(), rounds=4, until=lambda done, w, loss: seen.append(done))
    assert seen == [1, 2, 3, 4]


# --- the certificate ------------------------------------------------------------------------------


def rare(positives, weighted, intercept):
    rng = np.random.default_rng(positives)
    X = rng.normal(size=(N, D)) * rng.lognormal(size=(N, 1)) + 1.0
    y = np.arange(N) < positives
    X[y] += 1.0
    weights = rng.exponential(size=N) * (rng.uniform(size=N) < 0.8) if weighted else None
    if weighted:
        weights[:3] = 1.0
    return Logistic(X, y, alpha=1e-4, fit_intercept=intercept, sample_weight=weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("positives", [3, 400])
def test_never_below_the_true_distance(positives, intercept, weighted):
    it = rare(positives, weighted, intercept)
    best = Newton(sample_size=N).minimize(it, rounds=20)  # on all rows
    zero, lowest = best_constant(it)[1], it.value(best.solution)
    assert best.state["parts"]["bounds"]["gap"] < 1e-9 * zero
    solver, part, shares = Newton(sample_size=M, seed=1), None, []
    for rounds in range(12):
        part = solver.minimize(it, rounds=rounds, resume=part)
        distance, gap = it.value(part.solution) - lowest, solver.gap(it, part) * zero
        assert distance <= gap + 1e-14 * zero
        bounds = part.state["parts"]["bounds"]
        assert bounds["dual"] <= lowest
        assert lowest <= bounds["primal"] * (1 + 1e-14)
        shares.append(distance / gap)
    assert max(shares) > 0.01  # not much larger either, somewhere on the way


def test_a_gap_with_another_sampler_after_loading(tmp_path):
    it, solver = problem(), Newton()
    result = solver.minimize(it, sampler=Outside(tombola.Uniform(N)), rounds=3)
    gap = solver.gap(it, result)
    result.save(tmp_path / "run")
    before = result.sampler.state_dict() if result.sampler else None
    assert solver.gap(it, Result.load(tmp_path / "run")) == gap
    assert Newton(tol=0.5).gap(it, result) == gap
    assert_same(result.sampler.state_dict(), before)


def test_a_gap_needs_a_result_of_its_own_solver_and_problem():
    it = problem()
    for wrong in (None, SAGA().minimize(it, rounds=10), SDCA().minimize(it, rounds=10)):
        with pytest.raises(TypeError, match="result must be one of Newton"):
            Newton().gap(it, wrong)
    with pytest.raises(ValueError, match="of another problem"):
        Newton().gap(problem(seed=1), Newton(tol=0.1).minimize(it, rounds=9))


# --- steps that are cut ---------------------------------------------------------------------------


def test_a_step_that_raises_the_objective_is_cut():
    """One row stands for all of them: the minimum over it is far from that of P."""
    it, m = problem(alpha=1e-5), 50
    row = int(np.argmax(it.model.targets))
    misleading = [(np.full(m, row), np.full(m, 1 / N))] * 12
    solver, part, values, cuts, steps = Newton(sample_size=m), None, [], [], []
    for rounds in range(1, 13):
        sampler = Replay(N, misleading[:rounds])
        part = solver.minimize(it, sampler=sampler, rounds=rounds)
        progress = part.state["parts"]["progress"]
        values.append(it.value(part.solution))
        cuts.append(progress["cut"])
        steps.append((part.item_gradients - N * progress["passes"]) // m)
    assert values[0] == best_constant(it)[1]  # the first minimum is worse, and not the solution
    assert (np.diff(values) <= np.finfo(float).eps * values[0]).all()  # of sums in another order
    assert cuts == [0, 1] + [2] * 10
    steps = np.diff([0, *steps])  # of each round
    assert (steps[:2] > 1).all()
    assert (steps[2:] == N // m).all()  # all rows, after two cuts in succession
    best = Newton(tol=1e-10).minimize(it, rounds=60)
    assert values[-1] == pytest.approx(it.value(best.solution), rel=1e-8)


def test_rows_beyond_a_cut_are_drawn_next():
    """Five rows are a million times as long: each step flips some that seemed to matter no more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 5))
    y = X @ np.arange(1, 6) - 1.5 + rng.logistic(size=20_000) > 0
    X[:5] *= 1e6
    it = Logistic(X, y, alpha=1e-4, fit_intercept=True)
    result = Newton(tol=1e-6, sample_size=2000).minimize(it, rounds=100)
    assert result.rounds < 50
    assert result.state["parts"]["progress"]["passes"] > result.rounds


def test_at_the_end_a_round_is_one_pass():
    """Values that differ by rounding are equal: nothing is cut."""
    result = Newton(sample_size=M).minimize(problem(), rounds=60)
    assert result.state["parts"]["progress"]["passes"] < 65
