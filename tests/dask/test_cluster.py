"""Fits on a cluster of two processes: the same model as here, and workers that die."""

import functools
import logging
import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("dask")
pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client, LocalCluster
from distributed.comm import CommClosedError

from tombola.dask import KMeans, LinearClassifier, coreset
from tombola.dask.refinement import Refinement
from tombola.dask.rounds import Ascent

N, D, COUNT = 4000, 5, 4


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) + 0.2
    return X, (X @ rng.normal(size=D) + rng.normal(size=N) > 0).astype(int)


def collections(count=COUNT):
    X, y = data()
    size = N // count
    return da.from_array(X, chunks=(size, D)), da.from_array(y, chunks=size)


def on_threads(model, *collections):
    """Fit without the cluster."""
    runner = "tombola.dask.linear_estimator.make_runner"
    from tombola.dask.runners import LocalRunner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, lambda parts, client: LocalRunner(parts))
        return model.fit(*collections)


def kill_one(client):
    """Kill -9 the worker that has most data; return when the scheduler knows and has a new one."""
    before, held = client.run(os.getpid), client.has_what()
    victim = max(before, key=lambda worker: len(held.get(worker, ())))
    os.kill(before[victim], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        workers = set(client.ncores())
        if len(workers) == 2 and workers != set(before):
            return
        time.sleep(0.05)
    raise AssertionError("the worker has not come back")


def after_each_round(monkeypatch, act):
    """Make fits call a function after each round; models of losses with kinks have few rows."""
    for kind in (Ascent, Refinement):

        def step_and_act(self, step=kind.step, **options):
            done = step(self, **options)
            act(int(self.counts[0].rounds))
            return done

        monkeypatch.setattr(kind, "step", step_and_act)
    monkeypatch.setattr(
        "tombola.dask.linear_estimator.Refinement", functools.partial(Refinement, rows=100)
    )


def killed_at(monkeypatch, client, rounds):
    """Make fits lose a worker after some of their rounds."""
    after_each_round(monkeypatch, lambda number: number in rounds and kill_one(client))


def tasks_known(client):
    return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_the_model_does_not_depend_on_where_it_is_fitted(client, loss):
    X, y = collections()
    there = LinearClassifier(loss, random_state=0, tol=1e-6).fit(X, y)
    here = on_threads(LinearClassifier(loss, random_state=0, tol=1e-6), X, y)
    assert np.array_equal(there.coef_, here.coef_)
    assert there.progress_ == here.progress_
    assert there.dual_gap_ <= 1e-6
    assert there.score(X, y) == here.to_local().score(*data())
    assert isinstance(there.predict(X), da.Array)


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_the_graph_does_not_grow_and_nothing_is_left(client, monkeypatch, loss):
    known = []

    def count(_):
        time.sleep(0.1)
        known.append(tasks_known(client))

    after_each_round(monkeypatch, count)
    X, y = collections()
    LinearClassifier(loss, random_state=0, tol=1e-9).fit(X.persist(), y.persist())
    assert len(known) > 4
    assert max(known[1:]) <= known[1] + 2
    time.sleep(0.2)
    assert tasks_known(client) < known[-1]


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
def test_a_worker_that_dies_costs_rounds_and_not_the_optimum(client, monkeypatch, loss):
    X, y = collections()
    killed_at(monkeypatch, client, {})
    plain = LinearClassifier(loss, random_state=0, tol=1e-6).fit(X, y)
    killed_at(monkeypatch, client, {2})
    hurt = LinearClassifier(loss, random_state=0, tol=1e-6).fit(X, y)
    if loss == "hinge":  # nothing is kept between rounds, so nothing is lost
        assert np.array_equal(hurt.coef_, plain.coef_)
        assert hurt.progress_ == plain.progress_
    else:
        assert hurt.progress_.restarts >= 1
    assert hurt.dual_gap_ <= 1e-6
    assert plain.n_iter_ > 2
    assert hurt.n_iter_ <= 2 * plain.n_iter_ + 5
    values = [objective(model) for model in (plain, hurt)]
    assert abs(values[0] - values[1]) <= 2e-6


def test_a_worker_that_dies_while_it_is_sent_something(client, monkeypatch):
    X, y = collections()
    plain = LinearClassifier("hinge", random_state=0, tol=1e-6).fit(X, y)
    calls, scatter = [], client.scatter

    def closed(*args, **options):
        calls.append(args)
        if len(calls) in (1, 3, 4):
            raise CommClosedError("stream is closed")
        return scatter(*args, **options)

    monkeypatch.setattr(client, "scatter", closed)
    found = LinearClassifier("hinge", random_state=0, tol=1e-6, client=client).fit(X, y)
    assert len(calls) > 4
    assert np.array_equal(found.coef_, plain.coef_)
    monkeypatch.setattr("tombola.dask.runners.PAUSE", 0.0)
    monkeypatch.setattr(client, "scatter", broken)
    with pytest.raises(RuntimeError, match="died in all of 20 attempts") as raised:
        LinearClassifier("hinge", client=client).fit(X, y)
    assert isinstance(raised.value.__cause__, CommClosedError)


def test_a_fit_waits_for_workers(monkeypatch):
    monkeypatch.setattr("tombola.dask.runners.TRIES", 2)
    monkeypatch.setattr("tombola.dask.runners.PAUSE", 0.0)
    X, y = collections()
    options = {"n_workers": 0, "processes": False, "dashboard_address": ":0"}
    with (
        LocalCluster(**options, threads_per_worker=1, silence_logs=logging.CRITICAL) as empty,
        Client(empty, timeout=0.3) as client,
    ):
        later = threading.Timer(2.0, empty.scale, [1])
        later.start()
        found = LinearClassifier(random_state=0, max_iter=2, tol=0.0, client=client).fit(X, y)
        later.join()
    assert found.n_iter_ == 2


def broken(*args, **options):
    raise CommClosedError("stream is closed")


def objective(model):
    from tombola.problems import Hinge, Logistic

    kind = Hinge if model.loss == "hinge" else Logistic
    X, y = data()
    problem = kind(X, y, alpha=1.0 / len(y), fit_intercept=True)
    return problem.value(np.append(model.coef_, model.intercept_))


def test_rows_that_lived_with_a_dead_worker_only(client, monkeypatch):
    X, y = data()
    blocks = [
        da.from_delayed(
            dask.delayed(client.scatter([X[k::2]], hash=False)[0]), (N // 2, D), X.dtype
        )
        for k in range(2)
    ]
    whole = da.concatenate(blocks)
    target = da.from_array(np.concatenate([y[0::2], y[1::2]]), chunks=N // 2)
    killed_at(monkeypatch, client, {1})
    with pytest.raises(RuntimeError, match=r"rows of partition \d were lost with a worker"):
        LinearClassifier(random_state=0, tol=1e-9).fit(whole, target)


def test_clusters_and_coresets(client):
    X, _ = collections()
    model = KMeans(3, random_state=0, coreset_size=500).fit(X)
    assert model.loads_ <= 5
    assert np.isclose(model.inertia_, -model.to_local().score(data()[0]))
    rows, weights = coreset(X, 300, seed=1)
    assert rows.shape[1] == D
    assert len(weights) <= 300
