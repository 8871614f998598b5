"""Sparse rows, whose columns are updated lazily, lead to the same solution as dense ones."""

import numpy as np
import pytest
import scipy.sparse as sp

from penalties import elastic
from players import Replay, some_draws
from tombola.problems import Logistic, Softmax
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad
from tombola.solvers.descent.lazy import TINY

pytestmark = pytest.mark.kernels

N, D, ROUNDS = 30, 40, 700
SOLVERS = {
    "SGD": lambda batch: SGD(0.3, batch_size=batch),
    "SGD, large": lambda batch: SGD(3.0, batch_size=batch),
    "SGD, root": lambda batch: SGD(1.0, schedule="root", batch_size=batch),
    "SGD, strongly convex": lambda batch: SGD(
        schedule="strongly convex", average=False, batch_size=batch
    ),
    "AdaGrad": lambda batch: AdaGrad(0.3, batch_size=batch),
    "AdaGrad, norm": lambda batch: AdaGrad(0.3, version="norm", batch_size=batch),
    "SAGA": lambda batch: SAGA(0.1, batch_size=batch),
    "SVRG": lambda batch: SVRG(0.1, snapshot_every=50, batch_size=batch),
    # columns are not lazy here, but rows are sparse
    "SGD, average": lambda batch: SGD(0.3, average=True, batch_size=batch),
    "AdaGrad, radius": lambda batch: AdaGrad(0.3, radius=1.0, batch_size=batch),
}


def rows():
    """Column 0 in one row only, column 1 in none, and rows 4 and 5 without entries."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.uniform(size=(N, D)) < 0.05)
    X[:, :2] = 0
    X[7, 0] = 1.5
    X[4:6] = 0
    return X, rng


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize(
    ("l1", "l2"), [(0.0, 0.0), (0.01, 0.0), (0.0, 0.5), (0.01, 0.5), (0.0, 1e-8)]
)
@pytest.mark.parametrize("name", SOLVERS)
def test_sparse_equals_dense(name, l1, l2, batch, outputs):
    solver = SOLVERS[name](batch)
    if name == "SGD, strongly convex" and not l2 >= 0.5:
        pytest.skip("needs strong convexity")
    X, rng = rows()
    y = np.arange(N) % outputs if outputs > 1 else np.arange(N) % 2
    options = dict(
        **elastic(l1=l1, l2=l2), fit_intercept=True, sample_weight=rng.uniform(0.5, 2.0, size=N)
    )
    kind = Softmax if outputs > 1 else Logistic
    dense, sparse = kind(X, y, **options), kind(sp.csr_array(X), y, **options)
    draws = some_draws(rng, N, batch, ROUNDS)
    start = rng.normal(size=dense.shape)  # so that column 1 moves
    for rounds in (3, 60, ROUNDS):
        found = [
            solver.minimize(problem, sampler=Replay(N, draws), rounds=rounds, start=start)
            for problem in (dense, sparse)
        ]
        # rounding errors of 700 rounds, against those of products and sums over all rounds
        np.testing.assert_allclose(found[1].solution, found[0].solution, rtol=1e-9, atol=1e-10)
    assert np.abs(found[0].solution - start).max() > 0.01
    parts = found[1].state["parts"]
    plain = "average" not in name and "radius" not in name
    scaled = plain and name.startswith("SGD") and l1 == 0
    drifting = name in ("SAGA", "SVRG") and l1 == 0
    assert ("scale" in parts) == scaled
    assert ("level" in parts) == drifting
    assert ("columns" in parts) == (plain and not scaled and not drifting)
    if name == "SGD, large" and l2 == 0.5:  # 2.5^-700: the product began anew on the way
        product = parts["scale"]["factor"] if scaled else parts["totals"]["shrinkage"]
        assert product >= TINY > 2.5**-ROUNDS


def test_a_column_left_behind_would_be_seen():
    """Without the lazy updates column 1, which no row has, would stay at its start."""
    X, rng = rows()
    problem = Logistic(sp.csr_array(X), np.arange(N) % 2, alpha=0.1)
    start = np.ones(D)
    solver = AdaGrad(0.1, version="norm")
    result = solver.minimize(
        problem, sampler=Replay(N, some_draws(rng, N, 1, 50)), rounds=50, start=start
    )
    assert result.state["parts"]["w"][0, 1] == 1.0
    assert result.solution[1] < 0.99
