"""Every solver that resumes, on small problems; seconds are measured, and not compared."""

import hashlib

import numpy as np
import scipy.sparse as sp

import tombola
from crash.killing import Run
from states import leaves
from tombola import Cyclic, Latest, checkpoint
from tombola.problems import Hinge, KMeans, LeastSquares, Logistic
from tombola.solvers import (
    SAGA,
    SDCA,
    SGD,
    SVRG,
    AdaGrad,
    BlockCoordinateDescent,
    CoordinateDescent,
    MiniBatchKMeans,
    Newton,
    Result,
)

N, SAVES, TRACE = 200, 60, 7


def rows(d=6):
    return np.random.default_rng(0).normal(size=(N, d))


def dense(kind=Logistic):
    X = rows()
    return kind(X, X[:, 0] > 0.3 * X[:, 1], alpha=0.01, fit_intercept=True)


def wide(l1_ratio=0.5):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 80)) * (rng.uniform(size=(N, 80)) < 0.03)
    return Logistic(sp.csr_array(X), np.arange(N) % 2, alpha=0.02, l1_ratio=l1_ratio)


def columns():
    X = rows(20)
    return LeastSquares(X, X[:, 0] - X[:, 3], alpha=0.01, l1_ratio=1.0)


def clusters():
    return KMeans(rows(3), 3)


RUNS = {  # a solver, a problem, a sampler, and the rounds between two saves
    "SGD, dense": (SGD(0.1), dense, lambda: tombola.VRB(N), 37),
    "SGD, sparse, l1": (SGD(0.1), wide, lambda: tombola.VRB(N), 37),
    "AdaGrad": (AdaGrad(0.3, average=True), dense, lambda: tombola.GroupVRB(np.arange(N) % 2), 37),
    "SAGA, sparse, l1": (SAGA(), wide, lambda: tombola.VRB(N, memory=5 * N, shuffle=False), 37),
    "SAGA, sparse, l2": (SAGA(), lambda: wide(0.0), lambda: tombola.VRB(N, shuffle=False), 37),
    "SVRG": (SVRG(snapshot_every=100), dense, lambda: tombola.Uniform(N), 37),
    "SDCA": (SDCA(tol=0.0), dense, lambda: Latest(N), 37),
    "SDCA, hinge": (SDCA(tol=0.0), lambda: dense(Hinge), lambda: Latest(N), 37),
    "Newton": (Newton(sample_size=20, tol=0.0), dense, lambda: Latest(N, plan=20), 1),
    "CoordinateDescent": (CoordinateDescent(), columns, lambda: Cyclic(20), 7),
    "BlockCoordinateDescent": (BlockCoordinateDescent(5), columns, lambda: tombola.VRB(4), 7),
    "MiniBatchKMeans": (MiniBatchKMeans(4), clusters, lambda: tombola.VRB(N), 7),
}


def play(name, folder):
    """Minimise, with a save every few rounds."""
    solver, problem, sampler, every = RUNS[name]
    path, problem, rounds = folder / "result", problem(), every * SAVES
    result = Result.load(path) if path.exists() else None
    while result is None or result.rounds < rounds:
        result = solver.minimize(
            problem,
            sampler=sampler(),
            rounds=rounds,
            trace=TRACE,
            resume=result,
            every=every,
            until=lambda *_: True,
        )
        result.save(path)


def outcome(folder):
    """Return a hash of every entry of the result, except for measured seconds."""
    found = leaves(checkpoint.read(folder / "result"))
    return {
        name: hashlib.sha256(
            f"{leaf.dtype} {leaf.shape}".encode() + leaf.tobytes()
            if isinstance(leaf, np.ndarray)
            else f"{type(leaf)} {leaf!r}".encode()
        ).hexdigest()
        for name, leaf in found.items()
        if name not in ("seconds", "trace.seconds")
    }


def runs():
    def playing(name):
        return lambda folder: play(name, folder)

    return [Run(name, playing(name), outcome) for name in RUNS]
