"""Ctrl-C, saving and resuming lead to the state of an uninterrupted run."""

import os
import signal
import threading

import numpy as np
import pytest

import tombola
from players import Outside
from states import assert_same, leaves
from tombola.checkpoint import CheckpointError
from tombola.problems import KMeans, LeastSquares, Logistic
from tombola.solvers import SAGA, SDCA, SGD, SVRG, AdaGrad, MiniBatchKMeans, Newton, Result

N, D, ROUNDS = 60, 4, 1000
SOLVERS = {
    "SGD": SGD(0.1, batch_size=2),
    "SGD, average": SGD(0.1, average=True),
    "AdaGrad": AdaGrad(0.3),
    "SAGA": SAGA(),
    "Newton": Newton(sample_size=20),
    "SDCA": SDCA(batch_size=2),
    "SVRG": SVRG(snapshot_every=64),  # so that a snapshot is due where the first interruption falls
}


def vrb(seed=0):
    """A sampler that all of these solvers take."""
    return tombola.VRB(N, shuffle=False, seed=seed)


def problem(alpha=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * rng.exponential(size=(N, 1))
    return Logistic(X, X[:, 0] > 0.3, alpha=alpha, fit_intercept=True)


def interrupt(done, rounds):
    os.kill(os.getpid(), signal.SIGINT)


def assert_same_result(first, second):
    np.testing.assert_array_equal(first.solution, second.solution)
    assert (first.rounds, first.item_gradients) == (second.rounds, second.item_gradients)
    assert_same(first.state["parts"], second.state["parts"])
    assert_same(first.sampler.state_dict(), second.sampler.state_dict())
    for column in ("rounds", "item_gradients", "objective", "variance_ratio"):
        np.testing.assert_array_equal(getattr(first.trace, column), getattr(second.trace, column))


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("name", SOLVERS)
def test_resuming_after_ctrl_c(name, saved, tmp_path):
    solver, rounds = SOLVERS[name], 40 if name == "Newton" else ROUNDS
    whole = solver.minimize(problem(), sampler=vrb(1), rounds=rounds, trace=4)
    assert not whole.interrupted
    part, stops = None, 0
    sampler = vrb(1)
    while part is None or part.interrupted:
        part = solver.minimize(
            problem(),
            sampler=sampler if part is None else None,
            rounds=rounds,
            trace=4,
            resume=part,
            progress=interrupt,
        )
        stops += 1
        if saved:
            part.save(tmp_path / "run")
            part = Result.load(tmp_path / "run")
            assert isinstance(part.sampler, tombola.VRB)
    assert stops > 5  # each call stops after its first chunk
    assert_same_result(part, whole)


def test_a_signal_into_the_compiled_loop():
    it, sampler = problem(), vrb(1)
    solver = SGD(0.01)
    solver.minimize(it, sampler=vrb(), rounds=1)  # compiled
    timer = threading.Timer(0.3, interrupt, (0, 0))
    timer.start()
    part = solver.minimize(it, sampler=sampler, rounds=10**12)
    timer.join()
    assert part.interrupted
    assert 0 < part.rounds < 10**12
    more = part.rounds + 500
    rest = solver.minimize(it, resume=part, rounds=more)
    assert_same_result(rest, solver.minimize(it, sampler=vrb(1), rounds=more))


def test_a_signal_with_a_sampler_in_python():
    it, solver = problem(), SGD(0.01)
    timer = threading.Timer(0.2, interrupt, (0, 0))
    timer.start()
    part = solver.minimize(it, sampler=Outside(vrb()), rounds=10**9)
    timer.join()
    assert part.interrupted
    assert part.sampler.inner.rounds == part.rounds  # no round is half done


def test_the_handler_is_put_back():
    def mine(number, frame):
        raise AssertionError("not called")

    before = signal.signal(signal.SIGINT, mine)
    try:
        SGD().minimize(problem(), rounds=200, progress=interrupt)
        assert signal.getsignal(signal.SIGINT) is mine
        with pytest.raises(ZeroDivisionError):
            SGD().minimize(problem(), rounds=200, progress=lambda done, rounds: 1 / 0)
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_foreign_handler_is_left_alone(monkeypatch):
    """Where SIGINT was set outside of Python, `signal` cannot restore it."""
    monkeypatch.setattr(signal, "getsignal", lambda number: None)
    called = []
    monkeypatch.setattr(signal, "signal", lambda *given: called.append(given))
    result = SGD().minimize(problem(), rounds=100)
    assert result.rounds == 100
    assert not called


def test_other_threads_work_and_touch_no_signals():
    before, found = signal.getsignal(signal.SIGINT), []

    def work():
        found.append(SGD().minimize(problem(), sampler=vrb(1), rounds=ROUNDS))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert_same_result(found[0], SGD().minimize(problem(), sampler=vrb(1), rounds=ROUNDS))


def test_a_result_can_be_used_twice():
    first = SGD().minimize(problem(), sampler=vrb(1), rounds=100)
    then = [SGD().minimize(problem(), resume=first, rounds=300) for _ in range(2)]
    np.testing.assert_array_equal(then[0].solution, then[1].solution)
    other = vrb(1)  # new; it is set to the state of the first one
    assert_same_result(SGD().minimize(problem(), resume=first, sampler=other, rounds=300), then[1])


def test_saved_results_are_the_same(tmp_path):
    result = SVRG().minimize(problem(), sampler=vrb(), rounds=100, trace=3)
    result.save(tmp_path / "run")
    loaded = Result.load(tmp_path / "run")
    assert_same_result(result, loaded)
    assert (loaded.interrupted, loaded.seconds) == (result.interrupted, result.seconds)
    assert loaded.state["solver"] == result.state["solver"]
    tombola.save(vrb(), tmp_path / "sampler")
    with pytest.raises(CheckpointError, match="the state is of 'VRB', format 3; this is a Result"):
        Result.load(tmp_path / "sampler")


def state(sampler):
    return leaves(sampler.state_dict()["parts"])


def test_resuming_with_something_else_is_refused():
    it = problem()
    result = SGD(0.1).minimize(it, sampler=vrb(1), rounds=100)
    X, y = it.model.rows.values, it.model.targets
    fresh = vrb(1)
    fresh.update(fresh.draw(5), np.ones(5))
    before = state(fresh)
    for solver, other, message in [
        (SGD(0.2), it, "the result is of SGD"),
        (SAGA(), it, "the result is of SGD"),
        (SGD(0.1), Logistic(X[:, :3], y, alpha=0.1, fit_intercept=True), "of another problem"),
        (SGD(0.1), Logistic(X, y, alpha=0.1), "of another problem"),
        (SGD(0.1), Logistic(X, y, alpha=0.2, fit_intercept=True), "of another problem"),
        (SGD(0.1), LeastSquares(X, y, alpha=0.1, fit_intercept=True), "of another problem"),
        (SGD(0.1), problem(seed=5), "of another problem"),
    ]:
        with pytest.raises(ValueError, match=message):
            solver.minimize(other, sampler=fresh, resume=result, rounds=200)
        for part, array in state(fresh).items():
            np.testing.assert_array_equal(array, before[part])
    with pytest.raises(ValueError, match="another seed"):
        SGD(0.1).minimize(it, resume=result, sampler=vrb(2), rounds=200)
    with pytest.raises(ValueError, match="the state is of 'VRB'"):
        SGD(0.1).minimize(it, resume=result, sampler=tombola.Uniform(N, seed=1), rounds=200)
    with pytest.raises(ValueError, match="at round 100 already"):
        SGD(0.1).minimize(it, resume=result, rounds=99)
    with pytest.raises(ValueError, match="resume, or start"):
        SGD(0.1).minimize(it, resume=result, rounds=200, start=np.zeros(D + 1))
    # equal data at another address is accepted
    SGD(0.1).minimize(problem(), resume=result, rounds=200)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rounds": -1}, ValueError, "rounds must not be negative"),
        ({"rounds": 1.5}, TypeError, "rounds must be an integer"),
        ({"rounds": True}, TypeError, "rounds must be an integer"),
        ({"rounds": 1, "trace": -1}, ValueError, "trace must not be negative"),
        ({"rounds": 1, "sampler": tombola.VRB(N + 1)}, ValueError, "sampler is over 61 items"),
        ({"rounds": 1, "start": np.zeros(D)}, ValueError, "a solution has shape"),
    ],
)
def test_bad_arguments_are_named(options, error, message):
    with pytest.raises(error, match=message):
        SGD().minimize(problem(), **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: SGD(0), ValueError, "rate must be positive"),
        (lambda: SGD(np.nan), ValueError, "rate must be positive"),
        (lambda: SGD("1"), TypeError, "rate must be a number"),
        (lambda: SGD(schedule="no"), ValueError, "schedule must be one of"),
        (lambda: SGD(radius=-1.0), ValueError, "radius must be positive"),
        (lambda: SGD(batch_size=0), ValueError, "batch_size must be at least 1"),
        (lambda: AdaGrad(version="no"), ValueError, "version must be"),
        (lambda: AdaGrad(radius=0), ValueError, "radius must be positive"),
        (lambda: SAGA(batch_size=1.0), TypeError, "batch_size must be an integer"),
        (lambda: SAGA(-1.0), ValueError, "rate must be positive"),
        (lambda: SVRG(snapshot_every=0), ValueError, "snapshot_every must be at least 1"),
        (lambda: SVRG(snapshot_every=2.0), TypeError, "snapshot_every must be an integer"),
    ],
)
def test_bad_solvers_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_needs_are_named():
    with pytest.raises(TypeError, match="SGD minimises linear models"):
        SGD().minimize("a problem", rounds=1)
    with pytest.raises(ValueError, match="needs a problem with alpha > 0"):
        SGD(schedule="strongly convex").minimize(problem(alpha=0.0), rounds=1)


def test_resuming_with_other_rows_is_refused_by_k_means_too():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 60, 3))
    result = MiniBatchKMeans(10).minimize(KMeans(A, 3), rounds=5)
    with pytest.raises(ValueError, match="of another problem"):
        MiniBatchKMeans(10).minimize(KMeans(B, 3), resume=result, rounds=10)


def test_an_item_that_is_not_there_is_refused():
    """A sampler in Python may draw anything; the kernels would read past the data."""

    class Past(tombola.samplers.Sampler):
        def _draw(self, size):
            return np.full(size, self.n), np.full(size, 1 / self.n)

        def _update(self, draw, losses):
            pass

        def probabilities(self):
            return np.full(self.n, 1 / self.n)

    with pytest.raises(IndexError, match="not from 0 to"):
        SGD(0.1).minimize(problem(), sampler=Past(N, 0), rounds=1)
