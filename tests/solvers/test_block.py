"""Block coordinate descent: the bounds on curvature, the step, the optimum, the errors."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso
from test_coordinate import COLUMNS, data, naive_step, some_zeros

import tombola
from penalties import elastic
from players import Outside, ours
from tombola import VRB, Cyclic, GroupVRB, Shuffle, Uniform
from tombola.problems import LeastSquares, Logistic
from tombola.solvers import BlockCoordinateDescent, CoordinateDescent
from tombola.solvers.coordinates.block import PART
from tombola.solvers.gap import duality_gap

UNEVEN = [[3, 0, 7], [1], [11, 10, 9, 8], [2, 4, 5, 6]]


def block_curvature(problem, block):
    """The largest eigenvalue of curvature X_B' S X_B / n, from the definition."""
    x = problem.model.rows.values
    if problem.fit_intercept:
        x = np.column_stack([x, np.ones(problem.n)])
    x = x[:, block].astype(np.float64) * np.sqrt(problem.model.weights)[:, np.newaxis]
    return problem.curvature * np.linalg.norm(x, 2) ** 2 / problem.n


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_curvature_of_blocks(kind):
    """Up to PART coordinates exact to 1e-9 and never too small; beyond, at most parts times."""
    x, y, weights = data(0, n=50, d=3 * PART + 5)
    x = some_zeros(x).toarray() if kind == "sparse" else x
    dense = Logistic(x, y > 0, sample_weight=weights, fit_intercept=True)
    given = sparse.csr_matrix(x) if kind == "sparse" else x
    problem = Logistic(given, y > 0, sample_weight=weights, fit_intercept=True)
    width = 3 * PART + 6
    order = np.random.default_rng(3).permutation(width)
    cuts = [order[:1], order[1:4], order[4 : 4 + PART], order[4 + PART :]]
    run = BlockCoordinateDescent(cuts)._begin(problem, None, None)
    for block, smooth in zip(cuts, run.blocks.smooth, strict=True):
        exact = block_curvature(dense, block)
        parts = -(-block.size // PART)
        assert exact * (1 - 1e-12) <= smooth <= parts * exact * (1 + 2e-9)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("make", [LeastSquares, Logistic])
def test_step_is_that_of_the_oracle(kind, make):
    x, y, weights = data(4)
    x = some_zeros(x) if kind == "sparse" else x
    targets = y if make is LeastSquares else y > 0
    problem = make(
        x, targets, **elastic(l1=0.02, l2=0.01), sample_weight=weights, fit_intercept=True
    )
    blocks = [*UNEVEN[:3], [*UNEVEN[3], COLUMNS]]  # the intercept shares a block
    solver = BlockCoordinateDescent(blocks, batch_size=2)
    w = np.random.default_rng(6).normal(size=COLUMNS + 1)
    result = solver.minimize(problem, sampler=Cyclic(4), rounds=30, start=w)
    smooth = solver._begin(problem, None, None).blocks.smooth
    for visit in range(60):
        w, _ = naive_step(problem, w, blocks[visit % 4], smooth[visit % 4])
    np.testing.assert_allclose(result.solution, w, rtol=1e-10, atol=1e-12)
    assert result.item_gradients == 15 * (COLUMNS + 1)


def test_blocks_of_one_are_coordinates():
    x, y, _ = data()
    problem = LeastSquares(x, y, alpha=0.1, l1_ratio=1.0, fit_intercept=True)
    one = CoordinateDescent().minimize(problem, sampler=Shuffle(COLUMNS + 1), rounds=300)
    other = BlockCoordinateDescent(1).minimize(problem, sampler=Shuffle(COLUMNS + 1), rounds=300)
    np.testing.assert_allclose(one.solution, other.solution, rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("blocks", [5, UNEVEN, 100])
def test_lasso_agrees_with_scikit_learn(kind, blocks):
    x, y, weights = data()
    x = some_zeros(x) if kind == "sparse" else x
    problem = LeastSquares(x, y, alpha=0.2, l1_ratio=1.0, sample_weight=weights)
    peer = Lasso(alpha=0.2, fit_intercept=False, tol=1e-14, max_iter=100_000)
    theirs = peer.fit(x, y, sample_weight=weights).coef_
    solver = BlockCoordinateDescent(blocks)
    result = solver.minimize(problem, rounds=60_000)
    assert problem.value(result.solution) == pytest.approx(problem.value(theirs), rel=1e-9)
    assert duality_gap(problem, result.solution) <= 1e-9 * problem.value(None)


SAMPLERS = {
    "Uniform": lambda: Uniform(4),
    "Shuffle": lambda: Shuffle(4),
    "Static": lambda: tombola.Static([1.0, 2.0, 3.0, 4.0]),
    "VRB": lambda: VRB(4),
    "VRB, printed": lambda: VRB(4, bound=4.0, mixing=0.2),
    "GroupVRB": lambda: GroupVRB([0, 0, 1, 1]),
    "MABS": lambda: tombola.MABS(4, horizon=12_000, bound=4.0),
    "MirrorDescent": lambda: tombola.MirrorDescent(4, bound=2.0, horizon=12_000),
    "AdaptiveWeighted": lambda: tombola.AdaptiveWeighted([0, 0, 1, 1]),
    "Avare": lambda: tombola.Avare(4),
    "SRG": lambda: tombola.SRG(4),
    "Safe": lambda: tombola.Safe(4, smoothness=1.0),
    "FTRL": lambda: tombola.FTRL(4, bound=4.0),
    "Cyclic": lambda: Cyclic(4),
}


def test_every_sampler_is_there():
    kinds = {type(make()).__name__ for make in SAMPLERS.values()}
    assert kinds == {type(make(0)).__name__ for make in ours(4).values()} | {"Cyclic"}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_reach_the_optimum_and_never_rise(name):
    x, y, _ = data()
    problem = LeastSquares(x, y, alpha=0.2, l1_ratio=1.0)
    result = BlockCoordinateDescent(UNEVEN).minimize(
        problem, sampler=SAMPLERS[name](), rounds=12_000, trace=3000
    )
    assert duality_gap(problem, result.solution) <= 1e-9 * problem.value(None)
    rise = np.diff(result.trace.objective).max()
    assert rise <= 1e-14 * result.trace.objective[0]


def test_the_step_would_rise_were_it_longer():
    """The test above can fail: with a third of the curvature the objective rises."""
    x, y, _ = data()
    problem, solver = LeastSquares(x, y), BlockCoordinateDescent(COLUMNS)
    w = np.random.default_rng(0).normal(size=COLUMNS)
    run = solver._begin(problem, w, None)
    for factor, rises in ((1.0, False), (1 / 3, True)):
        at, values = w, []
        for _ in range(30):
            at, _ = naive_step(problem, at, range(COLUMNS), factor * run.blocks.smooth[0])
            values.append(problem.value(at))
        assert (np.diff(values).max() > 0) == rises


def test_compiled_loop_is_the_loop_in_python_and_resumes():
    x, y, _ = data()
    problem, solver = LeastSquares(x, y, alpha=0.1, l1_ratio=1.0), BlockCoordinateDescent(UNEVEN)
    one = solver.minimize(problem, sampler=VRB(4, seed=7), rounds=900)
    other = solver.minimize(problem, sampler=Outside(VRB(4, seed=7)), rounds=900)
    assert one.solution.tobytes() == other.solution.tobytes()
    half = solver.minimize(problem, sampler=VRB(4, seed=7), rounds=333)
    rest = solver.minimize(problem, rounds=900, resume=half)
    assert one.solution.tobytes() == rest.solution.tobytes()
    assert one.item_gradients == rest.item_gradients
    with pytest.raises(ValueError, match="the result is of"):
        BlockCoordinateDescent(UNEVEN[::-1]).minimize(problem, rounds=900, resume=half)


@pytest.mark.parametrize(
    ("blocks", "kind", "message"),
    [
        (0, ValueError, "at least 1 coordinate each, got 0"),
        (True, TypeError, "a size or the coordinates of each, got True"),
        (2.5, TypeError, "got 2.5"),
        ("all", TypeError, "got 'all'"),
        ([], ValueError, "blocks is empty"),
        ([[0], []], ValueError, r"blocks\[1\] must be integers"),
        ([[0], [0.5]], ValueError, r"blocks\[1\] must be integers"),
        ([[0], [1, 2], [4]], ValueError, "coordinate 3 is in no block"),
        ([[0, 3], [1, 2], [4, 3]], ValueError, "coordinate 3 is in the blocks twice"),
        ([[0, 1, 2, 3], [4, 5]], ValueError, "hold coordinate 5, .* from 0 to 4"),
        ([[0, 1, 2, 3, -1]], ValueError, "hold coordinate -1"),
        ([[0, 1, 2], [3]], ValueError, r"coordinate 4 \(the intercept\) is in no block"),
    ],
)
def test_errors(blocks, kind, message):
    problem = LeastSquares(np.eye(4), np.ones(4), fit_intercept=True)
    with pytest.raises(kind, match=message):
        BlockCoordinateDescent(blocks).minimize(problem, rounds=1)


def test_a_size_leaves_the_intercept_by_itself():
    problem = LeastSquares(np.eye(4), np.ones(4), fit_intercept=True)
    run = BlockCoordinateDescent(3)._begin(problem, None, None)
    assert run.blocks.starts.tolist() == [0, 3, 4, 5]
    with pytest.raises(ValueError, match="over 5 items, the problem has 3"):
        BlockCoordinateDescent(3).minimize(problem, sampler=VRB(5), rounds=1)
