"""Data by columns: every product against numpy's."""

import numpy as np
import pytest
from scipy import sparse

from tombola.problems.rows import as_rows
from tombola.solvers.lasso.columns import as_design

N, D = 23, 11


def data(dtype=np.float64):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.5) + 0.0).astype(dtype)


KINDS = {
    "rows": lambda X: X,
    "columns": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "float32 columns": lambda X: np.asfortranarray(X.astype(np.float32)),
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "csc": sparse.csc_array,
    "csr": sparse.csr_array,
    "rows of a problem": lambda X: as_rows(sparse.csr_array(X)),
    "dense rows of a problem": as_rows,
}


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind):
    X = data(np.float32 if "32" in kind else np.float64)
    design = as_design(KINDS[kind](X))
    X = X.astype(np.float64)
    rng = np.random.default_rng(1)
    v, weights = rng.normal(size=N), rng.uniform(size=N)
    assert (design.n, design.d) == (N, D)
    for among in (np.arange(D), np.array([1, 4, 9]), np.arange(1, D), np.array([], dtype=int)):
        assert design.dot(v, among) == pytest.approx(v @ X[:, among], abs=1e-13)
    assert design.squares(weights) == pytest.approx(weights @ X**2, abs=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_grow(kind):
    X = data(np.float32 if "32" in kind else np.float64)
    design = as_design(KINDS[kind](X))
    X = X.astype(np.float64)
    rng = np.random.default_rng(2)
    means = X.mean(axis=0)
    block = design.block(means)
    dense = hasattr(design, "values")
    h, out, begin = rng.uniform(size=N), np.full((9, 9), np.nan), 0
    h[rng.permutation(N)[:15]] = 0.0  # rows that are not in a sample
    for chosen in ([7, 2], [0], [], [10, 3, 5]):
        block.add(np.array(chosen, dtype=np.int64))
        begin, members = len(block.places) - len(chosen), ([7, 2, 0, 10, 3, 5])[: len(block.places)]
        A = X[:, members] - means[members] * dense
        w, v = rng.normal(size=len(members)) * (rng.random(len(members)) < 0.7), rng.normal(size=N)
        assert block.combine(w) == pytest.approx(A @ w, abs=1e-12)
        assert block.dot(v) == pytest.approx(v @ A, abs=1e-12)
        assert block.squares(h) == pytest.approx(h @ A**2, abs=1e-12)
        assert block.entries == (A.size if dense else np.count_nonzero(A))
        if chosen:
            block.fill_products(h, begin, out)
            size = len(members)
            assert out[begin:size, :size] == pytest.approx(((A.T * h) @ A)[begin:], abs=1e-12)
            block.fill_products(np.ones(N), 0, out)
            assert out[:size, :size] == pytest.approx(A.T @ A, abs=1e-12)
