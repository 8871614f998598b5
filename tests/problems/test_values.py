"""Values, gradients and norms of all losses against plain numpy and finite differences."""

import numpy as np
import pytest
import scipy.sparse as sp

import naive
from penalties import elastic
from tombola.problems import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    LeastSquares,
    Logistic,
    Softmax,
    SquaredHinge,
)

pytestmark = pytest.mark.kernels

N, D = 12, 5
KINDS = {
    "Logistic": (Logistic, naive.logistic),
    "LeastSquares": (LeastSquares, naive.least_squares),
    "SquaredHinge": (SquaredHinge, naive.squared_hinge),
    "Softmax": (Softmax, naive.softmax),
    "Hinge": (Hinge, naive.hinge),
    "Huber": (Huber, naive.huber),
    "EpsilonInsensitive": (EpsilonInsensitive, naive.epsilon_insensitive),
}
REGRESSIONS = ("LeastSquares", "Huber", "EpsilonInsensitive")
SMOOTH = [kind for kind in KINDS if kind not in ("Hinge", "EpsilonInsensitive")]


def csr(X, kind, index=np.int32):
    X = sp.csr_array(X.astype(kind))
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    return X


FORMS = {
    "float64": lambda X: X.astype(np.float64),
    "float32": lambda X: X.astype(np.float32),
    "CSR": lambda X: csr(X, np.float64),
    "CSR, float32, int64": lambda X: csr(X, np.float32, np.int64),
}
# each form is compiled for: all of them with one loss, all losses with two of them
PAIRS = [(kind, form) for kind in KINDS for form in ("float64", "CSR")]
PAIRS += [("Logistic", form) for form in FORMS if form not in ("float64", "CSR")]


def data(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * (rng.uniform(size=(N, D)) < 0.5)
    X[3] = 0  # a row without entries
    y = rng.normal(size=N)
    if kind == "Softmax":
        y = np.arange(N) % 3
    elif kind not in REGRESSIONS:
        y = np.where(y > 0, 1, -1)
    return X, y, rng.uniform(0.0, 3.0, size=N) * (np.arange(N) != 5), rng


def pair(kind, form="float64", seed=0, **options):
    """The same problem twice, ours and plain, and a random solution."""
    X, y, weights, rng = data(kind, seed)
    X = FORMS[form](X)
    exact = X.toarray() if sp.issparse(X) else X
    outputs = 3 if kind == "Softmax" else 1
    if options.pop("weighted", False):
        options["weights"] = weights
    plain = naive.Model(KINDS[kind][1], exact.astype(float), y, outputs=outputs, **options)
    options["sample_weight"] = options.pop("weights", None)
    penalty = elastic(options.pop("l1", 0.0), options.pop("l2", 0.0))
    problem = KINDS[kind][0](X, y, **penalty, **options)
    return problem, plain, rng.normal(size=problem.shape)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "form"), PAIRS)
def test_everything_equals_plain_numpy(kind, form, weighted, intercept):
    problem, plain, w = pair(kind, form, l1=0.3, l2=0.2, fit_intercept=intercept, weighted=weighted)
    matrix = w.reshape(plain.outputs, -1)
    items = [plain.item(i, matrix) for i in range(N)]
    close = dict(rtol=1e-12, atol=1e-13)  # float64 sums of five terms, whatever the rows hold
    np.testing.assert_allclose(problem.losses(w), [value for value, _ in items], **close)
    np.testing.assert_allclose(problem.value(w), plain.value(matrix), **close)
    for i, (_, gradient) in enumerate(items):
        ours = problem.item_gradient(i, w)
        assert ours.shape == problem.shape
        np.testing.assert_allclose(ours.reshape(gradient.shape), gradient, **close)
    norms = [np.linalg.norm(gradient) for _, gradient in items]
    np.testing.assert_allclose(problem.norms(w), norms, **close)
    full = plain.mean_gradient(matrix)
    plain.penalised(full)[...] += plain.l2 * plain.penalised(matrix)
    np.testing.assert_allclose(problem.gradient(w).reshape(full.shape), full, **close)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_losses(kind):
    """Central differences: with h = 1e-5 their error is h^2 of the third derivative, and eps/h."""
    problem, _, w = pair(kind, l2=0.2, fit_intercept=True, weighted=True)
    h = 1e-5
    for place in np.ndindex(w.shape):
        e = np.zeros(w.shape)
        e[place] = h
        slope = (problem.value(w + e) - problem.value(w - e)) / (2 * h)
        assert slope == pytest.approx(problem.gradient(w)[place], rel=1e-7, abs=1e-8)
        slopes = (problem.losses(w + e) - problem.losses(w - e)) / (2 * h)
        items = [problem.item_gradient(i, w)[place] for i in range(N)]
        np.testing.assert_allclose(slopes, items, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_no_place_is_the_origin(kind):
    problem, _, w = pair(kind, fit_intercept=True)
    assert problem.value(None) == problem.value(np.zeros_like(w))
    assert problem.penalty(None) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_multiplicities(kind):
    """Weight 0 is no row, weight 2 the row twice, whatever their unit."""
    X, y, _, rng = data(kind)
    kind = KINDS[kind][0]
    options = dict(**elastic(l1=0.2, l2=0.1), fit_intercept=True)
    if kind is Softmax:
        options["n_classes"] = 3
    times = np.array([0, 2, 1] * 4)
    rows = np.repeat(np.arange(N), times)
    repeated = kind(X[rows], y[rows], **options)
    w = rng.normal(size=repeated.shape)
    for unit in (1, 0.1, 1e-300, 8e307, 5e-324):
        weighted = kind(X, y, sample_weight=unit * times, **options)
        assert weighted.value(w) == pytest.approx(repeated.value(w), rel=1e-14)
        np.testing.assert_allclose(weighted.gradient(w), repeated.gradient(w), rtol=1e-12)
        coordinates = weighted.coordinate_lipschitz(), repeated.coordinate_lipschitz()
        np.testing.assert_allclose(*coordinates, rtol=1e-12)


@pytest.mark.parametrize("margin", [1e3, 1e100, 1e300])
@pytest.mark.parametrize("kind", ["Logistic", "Softmax"])
def test_extreme_margins_are_finite_and_right(kind, margin):
    X, y = np.array([[1.0], [1.0]]), np.array([0, 1])
    problem = KINDS[kind][0](X, y)
    w = [margin] if kind == "Logistic" else [[0.0], [margin]]
    np.testing.assert_array_equal(problem.losses(w), [margin, 0.0])
    np.testing.assert_allclose(problem.norms(w), [1.0 if kind == "Logistic" else np.sqrt(2), 0.0])


@pytest.mark.parametrize("kind", SMOOTH)
def test_lipschitz_constants_hold_and_are_tight(kind):
    problem, plain, _ = pair(kind, fit_intercept=True, weighted=True)
    rng = np.random.default_rng(1)
    bounds = problem.lipschitz()
    best = np.zeros(N)
    # pairs close to each other, near the origin, where logistic curves most; softmax does so
    # where two classes share all probability, so for many rows the third is put far below
    for scale in (1e-3, 1.0):
        for _ in range(100):
            v = scale * rng.normal(size=problem.shape)
            if kind == "Softmax":
                direction = np.array([[1.0], [-1.0], [0.0]])
                v = v - 50 * scale * np.array([[0.0], [0.0], [1.0]]) * plain.X.mean(axis=0)
            else:
                direction = np.array([1.0])
            step = 1e-3 * scale * rng.normal(size=problem.shape)
            if rng.uniform() < 0.5:  # along a row
                row = plain.X[rng.integers(N)]
                step = 1e-3 * scale * (direction * row).reshape(problem.shape)
            change = [
                np.linalg.norm(problem.item_gradient(i, v + step) - problem.item_gradient(i, v))
                for i in range(N)
            ]
            best = np.maximum(best, np.array(change) / np.linalg.norm(step))
    assert (best <= bounds * (1 + 1e-6)).all()
    there = bounds > 0
    # at the origin softmax has 1/3 along e_1 - e_2, two thirds of its constant 1/2
    least = 0.6 if kind == "Softmax" else 0.9
    assert (best[there] >= least * bounds[there]).all()


@pytest.mark.parametrize("form", ["float64", "CSR"])
@pytest.mark.parametrize("kind", SMOOTH)
def test_coordinate_lipschitz_constants_hold_and_are_tight(kind, form):
    problem, _, _ = pair(kind, form, l2=0.1, fit_intercept=True, weighted=True)
    bounds = problem.coordinate_lipschitz()
    assert bounds.shape == (D + 1,)
    rng = np.random.default_rng(2)
    best = np.zeros(D + 1)
    for _ in range(60):
        v = 1e-3 * rng.normal(size=problem.shape)
        for j in range(D + 1):
            step = np.zeros(problem.shape)
            step[..., j] = 1e-4 if problem.outputs == 1 else [1e-4, 0, 0]
            change = problem.gradient(v + step) - problem.gradient(v)
            best[j] = max(best[j], np.abs(change[..., j]).max() / 1e-4)
    assert (best <= bounds * (1 + 1e-6)).all()
    if kind in ("Logistic", "LeastSquares", "SquaredHinge"):  # all margins are near 0 here
        np.testing.assert_allclose(best, bounds, rtol=1e-3)


def test_a_wrong_gradient_would_be_seen():
    """The tests above can fail: half the logistic slope is off by far more than they allow."""
    _, plain, w = pair("Logistic")
    right = plain.mean_gradient(w.reshape(1, -1))
    plain.loss = lambda z, y: (naive.logistic(z, y)[0], naive.logistic(z, y)[1] / 2)
    assert np.abs(plain.mean_gradient(w.reshape(1, -1)) - right).max() > 1e-3


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1e-300, 0.3, 7e299])
def test_the_penalty_at_both_ends_of_the_ratio_is_exact(alpha):
    ridge, lasso = (LeastSquares([[1.0]], [1.0], alpha=alpha, l1_ratio=r) for r in (0.0, 1.0))
    assert (ridge.l1, ridge.l2) == (0.0, alpha)
    assert (lasso.l1, lasso.l2) == (alpha, 0.0)
    for name in ("l1", "l2"):
        with pytest.raises(AttributeError):
            setattr(ridge, name, 1.0)
