"""A run that pauses, and goes on, is one that did not; marks and estimates included."""

import numpy as np
import pytest

from states import assert_same
from tombola.checkpoint import CheckpointError
from tombola.problems import Logistic
from tombola.samplers import VRB
from tombola.solvers import SGD, Result

N, ROUNDS, EVERY = 50, 400, 100


def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return Logistic(X, X[:, 0] + rng.normal(size=N) > 0, alpha=0.01)


def run(pauses=(), path=None, **more):
    """Minimise, paused after some rounds; return the result and all estimates of the loss."""
    seen, left, result = [], list(pauses), None

    def note(rounds, solution, loss):
        seen.append((rounds, loss))
        return False

    def pause(done, total):
        if left and done >= left[0]:
            left.pop(0)
            return True
        return None

    while result is None or result.rounds < ROUNDS:
        result = SGD(0.1).minimize(
            problem(), sampler=VRB(N, seed=1), rounds=ROUNDS, resume=result, progress=pause,
            until=note, every=EVERY, **more,
        )  # fmt: skip
        if path is not None:
            result.save(path)
            result = Result.load(path)
    return result, seen


@pytest.mark.parametrize("pauses", [[10, 130, 250], [100, 200], [1, 390]])
def test_estimates_of_the_loss_go_on_over_a_pause(pauses, tmp_path):
    marks = [0, 7, 100, ROUNDS]
    whole, expected = run(trace=marks)
    paused, seen = run(pauses, tmp_path / "run.npz", trace=marks)
    assert seen == expected
    assert [rounds for rounds, _ in seen] == list(range(EVERY, ROUNDS + 1, EVERY))
    assert_same(paused.state, whole.state)
    assert whole.trace.rounds.tolist() == paused.trace.rounds.tolist() == marks
    assert whole.trace.objective.tolist() == paused.trace.objective.tolist()
    assert not paused.interrupted


def test_a_pause_ends_the_run_at_once():
    result = SGD(0.1).minimize(problem(), rounds=10**6, progress=lambda done, total: True)
    assert 0 < result.rounds < 1000
    assert not result.interrupted


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": 200, "loss_sum": 1.0},
        {"rounds": -1, "loss_sum": 1.0},
        {"rounds": 0, "loss_sum": np.inf},
        {"rounds": 0},
        [0, 1.0],
        "then",
    ],
)
def test_a_wrong_beginning_of_an_estimate_is_refused(wrong):
    result = SGD(0.1).minimize(problem(), rounds=100, until=lambda *given: False)
    result.state["asked"] = wrong
    with pytest.raises(CheckpointError, match="asked"):
        SGD(0.1).minimize(problem(), rounds=200, resume=result)


@pytest.mark.parametrize("wrong", [-1, 0.5, [0, -1], [[1]]])
def test_a_wrong_trace_is_refused(wrong):
    with pytest.raises((ValueError, TypeError), match="trace"):
        SGD(0.1).minimize(problem(), rounds=10, trace=wrong)
