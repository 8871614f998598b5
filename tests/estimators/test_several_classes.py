"""One-vs-rest, indicator matrices, and threads over classes."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy import sparse
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from tombola.estimators import LinearClassifier
from tombola.solvers import SDCA, DivergenceError

N, ALPHA = 200, 1e-2
EXACT = dict(alpha=ALPHA, tol=1e-10, max_iter=5000, random_state=0)


def classes(n=N):
    X, y = make_classification(n, 6, n_informative=4, n_classes=4, flip_y=0.1, random_state=0)
    return StandardScaler().fit_transform(X), y


def labels(n=N):
    X, Y = make_multilabel_classification(n, 6, n_classes=3, random_state=0)
    return StandardScaler().fit_transform(X), Y


def theirs(X, Y):
    reference = LogisticRegression(C=1 / (ALPHA * len(X)), tol=1e-10, max_iter=10_000)
    return OneVsRestClassifier(reference).fit(X, Y)


def test_one_vs_rest_is_that_of_scikit_learn():
    X, y = classes()
    model, reference = LinearClassifier(multi_class="ovr", **EXACT).fit(X, y), theirs(X, y)
    assert model.decision_function(X) == pytest.approx(reference.decision_function(X), abs=1e-4)
    assert model.predict_proba(X) == pytest.approx(reference.predict_proba(X), abs=1e-5)
    assert (model.predict(X) == reference.predict(X)).all()
    assert model.dual_gap_.shape == (4,)
    assert (model.dual_gap_ <= 1e-10).all()
    assert not model.multilabel_


@pytest.mark.parametrize(
    "convert", [np.asarray, sparse.csr_matrix, sparse.coo_array, np.ndarray.tolist]
)
def test_an_indicator_matrix_is_a_problem_for_each_column(convert):
    X, Y = labels()
    model, reference = LinearClassifier(**EXACT).fit(X, convert(Y)), theirs(X, Y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.multilabel_
    assert model.coef_.shape == (3, 6)
    assert model.decision_function(X) == pytest.approx(reference.decision_function(X), abs=1e-4)
    assert model.predict_proba(X) == pytest.approx(reference.predict_proba(X), abs=1e-5)
    assert np.exp(model.predict_log_proba(X)) == pytest.approx(model.predict_proba(X))
    assert (model.predict(X) == reference.predict(X)).all()
    assert model.score(X, Y) == reference.score(X, Y)
    single = LinearClassifier(**EXACT).fit(X, Y[:, 1])
    assert model.coef_[1] == pytest.approx(single.coef_[0], abs=1e-5)


def test_what_an_indicator_matrix_cannot_be():
    X, Y = labels()
    for constant in (0, 1):
        wrong = Y.copy()
        wrong[:, 2] = constant
        with pytest.raises(ValueError, match=f"column 2 of y is {constant} in every row"):
            LinearClassifier().fit(X, wrong)
    with pytest.raises(ValueError, match=r"class_weight='balanced' needs one label for each row"):
        LinearClassifier(class_weight="balanced").fit(X, Y)
    with pytest.raises(ValueError, match='use multi_class="ovr"'):
        LinearClassifier(multi_class="softmax").fit(X, Y)
    with pytest.raises(ValueError, match=r"y\[\d, \d\] is -1: an indicator matrix holds 0 and 1"):
        LinearClassifier().fit(X, 2 * Y - 1)
    with pytest.raises(ValueError, match="1d array"):
        LinearClassifier().fit(X, Y + np.arange(3))


def test_partial_fit_of_an_indicator_matrix():
    X, Y = labels()
    model = LinearClassifier(alpha=1e-4, solver="adagrad", random_state=0)
    for _ in range(5):
        for part in np.array_split(np.arange(N), 4):
            model.partial_fit(X[part], Y[part])
    assert model.score(X, Y) > theirs(X, Y).score(X, Y) - 0.05
    with pytest.raises(ValueError, match="not that of the first call"):
        model.partial_fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="not that of the first call"):
        model.partial_fit(X, Y[:, 0])


# --- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["sdca", "adagrad"])
def test_threads_do_not_change_the_model(solver):
    X, y = classes()
    fits = [
        LinearClassifier(
            multi_class="ovr", solver=solver, max_iter=5, tol=None, random_state=0, n_jobs=jobs
        ).fit(X, y)
        for jobs in (None, 2, 3, -1)
    ]
    for fit in fits[1:]:
        assert (fit.coef_ == fits[0].coef_).all()
        assert fit.t_ == fits[0].t_
        assert list(map(str, fit.gauge_)) == list(map(str, fits[0].gauge_))


def test_classes_are_fitted_in_threads_that_run_at_the_same_time(monkeypatch):
    X, y = classes()
    real, meeting = SDCA.minimize, threading.Barrier(2, timeout=60)

    def minimize(self, *given, **settings):
        meeting.wait()  # breaks unless another thread comes, too
        return real(self, *given, **settings)

    monkeypatch.setattr(SDCA, "minimize", minimize)
    LinearClassifier(multi_class="ovr", solver="sdca", n_jobs=2).fit(X, y)


def test_the_compiled_loop_leaves_the_interpreter_to_others():
    """While one thread is in the loop, another one counts."""
    from tombola.problems import Logistic
    from tombola.solvers.loop import advance

    X, y = classes()
    problem, solver = Logistic(X, y == 0, alpha=ALPHA, fit_intercept=True), SDCA()
    sampler = solver._default_sampler(problem)
    run = solver._begin(problem, None, sampler)
    advance(run, sampler.state, sampler.tally, N, 0)
    ticks, done = [], threading.Event()

    def count():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    began = time.monotonic()
    advance(run, sampler.state, sampler.tally, N, 300_000)
    ended = time.monotonic()
    done.set()
    counter.join()
    assert sum(began < tick < ended for tick in ticks) > 3


def test_one_failure_ends_all_threads(monkeypatch):
    X, y = classes()
    real, calls = SDCA.minimize, []

    def minimize(self, problem, **settings):
        calls.append(problem)
        if len(calls) == 2:
            raise DivergenceError("SDCA diverged in round 7")
        return real(self, problem, **settings)

    monkeypatch.setattr(SDCA, "minimize", minimize)
    began = time.monotonic()
    with pytest.raises(DivergenceError, match="round 7"):
        LinearClassifier(multi_class="ovr", solver="sdca", tol=0, max_iter=10**9, n_jobs=2).fit(
            X, y
        )
    assert time.monotonic() - began < 30
    assert_no_thread_works()


def assert_no_thread_works():
    """The processor time of this process stands still."""
    for _ in range(100):
        before, began = time.process_time(), time.monotonic()
        time.sleep(0.2)
        if time.process_time() - before < 0.1 * (time.monotonic() - began):
            return
    raise AssertionError("a thread still works")


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from tombola.estimators import LinearClassifier

X = np.random.default_rng(0).normal(size=(500, 5))
y = np.arange(500) % 4
settings = {"multi_class": "ovr", "solver": "sdca", "tol": None, "n_jobs": {jobs}}
LinearClassifier(max_iter=1, **settings).fit(X, y)  # compiled
pressed = []

def press():
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

threading.Timer(1.0, press).start()
try:
    LinearClassifier(max_iter=10**9, **settings).fit(X, y)
except KeyboardInterrupt:
    took = time.monotonic() - pressed[0]
    time.sleep(0.5)  # for threads to end
    before = time.process_time()
    time.sleep(0.5)
    print(took, time.process_time() - before)
"""


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_ends_all_threads(jobs):
    code = INTERRUPTED.replace("{jobs}", str(jobs))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    took, busy = map(float, done.stdout.split())
    assert took < 2.0
    assert busy < 0.25  # no thread works on
    assert "Traceback" not in done.stderr
