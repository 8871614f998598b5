"""A saved result with one damaged field is refused by name, before anything is changed."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp

import tombola
from states import assert_same
from tombola import Cyclic, Latest, checkpoint
from tombola.checkpoint import CheckpointError
from tombola.problems import Hinge, KMeans, LeastSquares, Logistic
from tombola.solvers import (
    SAGA,
    SDCA,
    SGD,
    SVRG,
    AdaGrad,
    CoordinateDescent,
    MiniBatchKMeans,
    Newton,
    Result,
)
from tombola.solvers.descent.lazy import TINY

N, ROUNDS = 40, 30


def dense():
    X = np.random.default_rng(0).normal(size=(N, 4))
    return Logistic(X, X[:, 0] > 0, alpha=0.1, fit_intercept=True)


def wide(l1_ratio=0.5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 80)) * (rng.uniform(size=(N, 80)) < 0.03)
    return Logistic(sp.csr_array(X), np.arange(N) % 2, alpha=0.02, l1_ratio=l1_ratio)


def clusters():
    return KMeans(np.random.default_rng(0).normal(size=(N, 3)), 3)


def columns():
    X = np.random.default_rng(0).normal(size=(N, 6))
    return LeastSquares(X, X[:, 0], alpha=0.1)


def kinks():
    X = np.random.default_rng(0).normal(size=(N, 4))
    return Hinge(X, X[:, 0] > 0, alpha=0.1, fit_intercept=True)


RUNS = {  # a solver, a problem, and a sampler
    "dense": (AdaGrad(0.3, average=True), dense, lambda: tombola.VRB(N)),
    "dense, stored slopes": (SVRG(snapshot_every=20), dense, lambda: tombola.VRB(N, shuffle=False)),
    "scaled": (SGD(0.1), dense, lambda: tombola.VRB(N)),
    "lazy": (SGD(0.1), wide, lambda: tombola.VRB(N)),
    "lazy, stored slopes": (SAGA(), wide, lambda: tombola.VRB(N, shuffle=False)),
    "drift": (SAGA(), lambda: wide(0.0), lambda: tombola.VRB(N, shuffle=False)),
    "coordinates": (CoordinateDescent(), columns, lambda: Cyclic(6)),
    "k-means": (MiniBatchKMeans(4), clusters, lambda: tombola.VRB(N)),
    "dual": (SDCA(), dense, lambda: Latest(N)),
    "dual, not smooth": (SDCA(), kinks, lambda: Latest(N)),
    "Newton": (Newton(sample_size=20), dense, lambda: Latest(N, plan=20)),
}
ALL = {"progress.rounds": -1, "progress.item_gradients": -1}
RATES = {"rates.rate": -1.0, "rates.earlier_rounds": -1}
SEARCH = {f"search.{name}": -1.0 for name in ("smoothness", "squares", "sums", "largest")}
LAZY = {
    **ALL,
    **RATES,
    "columns.last": ROUNDS + 1,
    "columns.shrinkage": 1.5,
    "columns.threshold": 1e9,
    "totals.shrinkage": TINY / 2,
    "totals.threshold": -1.0,
}
DUAL = {
    **ALL,
    "progress.draws": 10**9,
    "progress.since": 10**9,
    "progress.due": -1,
    "progress.passes": -1,
    "duals": 1.5,
    "w": 1e3,
    "level.total": 1e3,
    "level.scale": -1.0,
    "level.share": 1.5,
    "level.threshold": 1.0,
    "level.pull": -1.0,
    "bounds.dual": 1e9,
    "bounds.gap": 0.0,
}
OUT_OF_RANGE = {
    "dense": {**ALL, **RATES, "rates.square_sum": -1.0, "squares": -1.0},
    "dense, stored slopes": {**ALL, **RATES, **SEARCH},
    "scaled": {**ALL, **RATES, "scale.factor": 0.0},
    "lazy": LAZY,
    "lazy, stored slopes": {**LAZY, **SEARCH, "columns.last": -1},
    "drift": {**ALL, **RATES, **SEARCH, "level.factor": 0.0, "level.drift": -1.0},
    "coordinates": {**ALL, "progress.refreshed_at": ROUNDS + 1},
    "dual": DUAL,
    "dual, not smooth": DUAL,
    "Newton": {
        **ALL,
        "progress.passes": 10**9,
        "progress.ahead": 2,
        "progress.cut": ROUNDS + 1,
        "bounds.dual": 1e9,
        "bounds.gap": 0.0,
    },
    "k-means": {**ALL, "centres.counts": -1.0},
}


@pytest.fixture(scope="module")
def results():
    return {
        name: solver.minimize(make(), sampler=sampler(), rounds=ROUNDS)
        for name, (solver, make, sampler) in RUNS.items()
    }


def parent(parts, name):
    """The dict that holds a leaf, and the leaf's own name."""
    *path, key = name.split(".")
    for step in path:
        parts = parts[step]
    return parts, key


def assert_refused(name, result, message):
    solver, make, sampler = RUNS[name]
    fresh = sampler()
    before = fresh.state_dict()
    with pytest.raises(CheckpointError, match=message):
        solver.minimize(make(), sampler=fresh, resume=result, rounds=2 * ROUNDS)
    assert_same(fresh.state_dict(), before)


@pytest.mark.parametrize(
    ("name", "leaf"), [(name, leaf) for name, limits in OUT_OF_RANGE.items() for leaf in limits]
)
def test_values_out_of_range_are_refused(name, leaf, results):
    result = copy.deepcopy(results[name])
    place, key = parent(result.state["parts"], leaf)
    if np.ndim(place[key]):
        place[key].flat[-1] = OUT_OF_RANGE[name][leaf]
    else:
        place[key] = OUT_OF_RANGE[name][leaf]
    assert_refused(name, result, leaf)


@pytest.mark.parametrize("name", RUNS)
def test_an_undamaged_result_goes_on(name, results):
    solver, make, sampler = RUNS[name]
    whole = solver.minimize(make(), sampler=sampler(), rounds=2 * ROUNDS)
    copied = copy.deepcopy(results[name])
    resumed = solver.minimize(make(), sampler=sampler(), resume=copied, rounds=2 * ROUNDS)
    assert_same(resumed.state["parts"], whole.state["parts"])


@pytest.mark.parametrize("turn", [-1, 6, 1.5, None])
def test_a_turn_that_is_not_there_is_refused(turn, results):
    result = copy.deepcopy(results["coordinates"])
    result.state["sampler"]["parts"]["cycle"]["turn"] = turn
    assert_refused("coordinates", result, "turn")


DAMAGED_FILES = {
    "solution": (np.array([np.nan] * 5), "solution"),
    "rounds": (-1, "rounds"),
    "item_gradients": ("many", "item_gradients"),
    "seconds": (-1.0, "seconds"),
    "interrupted": (3, "interrupted"),
    "trace": ({}, "trace"),
    "trace.rounds": (np.array([5, 3, 1, 0]), "trace.rounds"),
    "trace.item_gradients": (np.array([0, 2**63 - 1, -(2**63), 0]), "trace.item_gradients"),
    "trace.objective": (np.zeros(2), "trace.objective"),
    "trace.seconds": (np.zeros(4, dtype=np.float32), "trace.seconds"),
    "state.solver": (1, "state.solver"),
    "state.problem": (None, "state.problem"),
    "state.parts": ([], "state.parts"),
    "state.sampler": ("VRB", "state.sampler"),
    "state.sampler.parts": ({}, "not a sound result"),
    "state.sampler.class": (None, "sampler.class"),
    "class": (np.array(["a", "b"]), "this is a Result, format 3"),
    "format": (np.array([2, 2]), "this is a Result, format 3"),
    "state.carried": (0.5, "state.carried"),
    "state.parts.progress.rounds": (ROUNDS - 1, "progress.rounds"),
    "state.parts.progress.item_gradients": (0, "progress.item_gradients"),
}


@pytest.mark.parametrize("field", DAMAGED_FILES)
def test_a_damaged_file_is_refused(field, tmp_path):
    result = SGD(0.1).minimize(dense(), sampler=tombola.VRB(N), rounds=ROUNDS, trace=3)
    result.save(tmp_path / "run")
    Result.load(tmp_path / "run")
    saved = checkpoint.read(tmp_path / "run")
    place, key = parent(saved, field)
    place[key], message = DAMAGED_FILES[field]
    checkpoint.write(tmp_path / "run", saved)
    with pytest.raises(CheckpointError, match=message):
        Result.load(tmp_path / "run")


@pytest.mark.parametrize("share", [float("inf"), 1e308])
def test_a_parameter_of_the_sampler_without_end_is_refused(share, tmp_path):
    problem = dense()
    result = SGD(0.1).minimize(problem, sampler=tombola.EpochVRB(N), rounds=1)
    result.state["sampler"]["parameters"]["share"] = share
    result.save(tmp_path / "result")
    with pytest.raises(CheckpointError, match="is not a sound result"):
        Result.load(tmp_path / "result")


@pytest.mark.parametrize("name", ["progress.item_gradients", "rates.earlier_rounds"])
def test_counters_that_could_not_grow_are_refused(name):
    problem, (part, field) = dense(), name.split(".")
    result = SGD(0.1).minimize(problem, sampler=tombola.VRB(N), rounds=1)
    result.state["parts"][part][field] = 2**60 + 1
    with pytest.raises(CheckpointError, match=f"{name} must be an integer from 0 to 2.60"):
        SGD(0.1).minimize(problem, rounds=2, resume=result)
