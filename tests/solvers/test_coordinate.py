"""Coordinate descent: against scikit-learn, with every sampler, and step by step."""

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge

import tombola
from penalties import elastic
from players import Outside, ours
from states import assert_same
from tombola import VRB, Cyclic, Shuffle, Static, Uniform
from tombola.problems import LeastSquares, Logistic, Softmax, SquaredHinge
from tombola.solvers import CoordinateDescent, DivergenceError, Result
from tombola.solvers.coordinates.coordinate import EPOCHS
from tombola.solvers.gap import duality_gap

ITEMS, COLUMNS = 60, 12


def data(seed=0, n=ITEMS, d=COLUMNS):
    """Correlated columns of unequal scale, a sparse truth, and weights with a zero."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, d)) + rng.normal(size=(n, 1))) * np.exp(0.7 * rng.normal(size=d))
    y = x[:, 1] - 2 * x[:, 3] + 0.5 * rng.normal(size=n) + 1.0
    weights = rng.uniform(0.5, 2.0, n)
    weights[0] = 0.0
    return x, y, weights


def some_zeros(x):
    """The same with many entries zero, as CSR."""
    return sparse.csr_matrix(np.where(np.abs(x) > np.abs(x).mean(), x, 0.0))


def soft(v, threshold):
    return np.sign(v) * max(abs(v) - threshold, 0.0)


def naive_step(problem, w, block, smooth):
    """A step in a block of coordinates from nothing but the problem's full gradient of losses."""
    gradient = problem.gradient(w).copy()
    gradient[: problem.d] -= problem.l2 * w[: problem.d]
    new, twice = w.copy(), 0.0
    for j in block:
        l1, l2 = (problem.l1, problem.l2) if j < problem.d else (0.0, 0.0)
        if smooth + l2 > 0:
            new[j] = soft(smooth * w[j] - gradient[j], l1) / (smooth + l2)
        elif l1 > 0:
            new[j] = 0.0
        twice += (smooth + l2) * (new[j] - w[j]) ** 2
    return new, twice**0.25


# --- the optimum, from others ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("l1", "l2"), [(0.2, 0.0), (0.0, 0.05), (0.1, 0.1)])
def test_least_squares_agree_with_scikit_learn(kind, intercept, l1, l2):
    x, y, weights = data()
    x = some_zeros(x) if kind == "sparse" else x
    problem = LeastSquares(
        x, y, **elastic(l1=l1, l2=l2), sample_weight=weights, fit_intercept=intercept
    )
    if l1 == 0.0:
        total = weights.sum()  # theirs is a sum, with weights as they are
        peer = Ridge(alpha=total * l2, fit_intercept=intercept, solver="lsqr", tol=1e-14)
    else:
        share = {"alpha": l1 + l2, "l1_ratio": l1 / (l1 + l2)}
        peer = ElasticNet(**share, fit_intercept=intercept, tol=1e-14, max_iter=100_000)
        if l2 == 0.0:
            peer = Lasso(alpha=l1, fit_intercept=intercept, tol=1e-14, max_iter=100_000)
    peer.fit(x, y, sample_weight=weights)
    theirs = np.append(peer.coef_, [peer.intercept_] if intercept else [])
    result = CoordinateDescent().minimize(problem, rounds=20_000)
    assert result.solution.shape == problem.shape
    value = problem.value(result.solution)
    assert value == pytest.approx(problem.value(theirs), rel=1e-10)
    np.testing.assert_allclose(result.solution, theirs, rtol=1e-6, atol=1e-7)
    assert duality_gap(problem, result.solution) <= 1e-11 * problem.value(None)
    if l1 > 0:
        assert (result.solution == 0).any()  # exactly


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_logistic_agrees_with_scikit_learn(kind, intercept, penalty):
    x, y, weights = data(1)
    x = some_zeros(x) if kind == "sparse" else x
    labels = y > np.median(y)
    own = elastic(**{penalty: 0.03})
    problem = Logistic(x, labels, **own, sample_weight=weights, fit_intercept=intercept)
    strength = 1 / (0.03 * weights.sum())
    peer = LogisticRegression(
        C=strength, l1_ratio=float(penalty == "l1"), fit_intercept=intercept, tol=1e-10,
        solver="saga" if penalty == "l1" else "newton-cholesky", max_iter=50_000,
    )  # fmt: skip
    peer.fit(x.toarray() if kind == "sparse" else x, labels, sample_weight=weights)
    theirs = np.append(peer.coef_[0], peer.intercept_ if intercept else [])
    in_turn = Cyclic(COLUMNS + intercept)
    result = CoordinateDescent().minimize(problem, sampler=in_turn, rounds=60_000)
    assert problem.value(result.solution) == pytest.approx(problem.value(theirs), rel=1e-8)
    assert problem.value(result.solution) <= problem.value(theirs) * (1 + 1e-10)


def test_squared_hinge_agrees_with_scipy():
    x, y, weights = data(2)
    problem = SquaredHinge(x, y > 0, alpha=0.1, sample_weight=weights, fit_intercept=True)
    peer = optimize.minimize(
        problem.value, np.zeros(COLUMNS + 1), jac=problem.gradient, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )  # fmt: skip
    in_turn = Cyclic(COLUMNS + 1)
    result = CoordinateDescent().minimize(problem, sampler=in_turn, rounds=60_000)
    assert problem.value(result.solution) == pytest.approx(peer.fun, rel=1e-10)


def test_float32_data_and_rows_that_weigh_nothing():
    x, y, weights = data()
    narrow = x.astype(np.float32)
    problem = LeastSquares(narrow, y, alpha=0.1, l1_ratio=1.0, sample_weight=weights)
    same = LeastSquares(
        narrow[1:].astype(np.float64), y[1:], alpha=0.1, l1_ratio=1.0, sample_weight=weights[1:]
    )
    # without the row of weight 0 the mean is over one row less, and so are the weights' means
    one, other = (
        CoordinateDescent().minimize(p, sampler=Cyclic(COLUMNS), rounds=10_000).solution
        for p in (problem, same)
    )
    np.testing.assert_allclose(one, other, atol=1e-9)


# --- every sampler --------------------------------------------------------------------------------

n = COLUMNS
SAMPLERS = {
    "Uniform": lambda: Uniform(n),
    "Shuffle": lambda: Shuffle(n),
    "Cyclic": lambda: Cyclic(n),
    "Static": lambda: Static(np.arange(1.0, n + 1)),
    "VRB": lambda: VRB(n),
    "VRB, memory": lambda: VRB(n, memory=3 * n),
    "VRB, printed": lambda: VRB(n, bound=4.0, mixing=0.2),
    "GroupVRB": lambda: tombola.GroupVRB(np.arange(n) % 3),
    "MABS": lambda: tombola.MABS(n, horizon=6000, bound=4.0),
    "MirrorDescent": lambda: tombola.MirrorDescent(n, bound=2.0, horizon=6000),
    "AdaptiveWeighted": lambda: tombola.AdaptiveWeighted(np.arange(n) % 3),
    "Avare": lambda: tombola.Avare(n),
    "SRG": lambda: tombola.SRG(n),
    "Safe": lambda: tombola.Safe(n, smoothness=1.0),
    "FTRL": lambda: tombola.FTRL(n, bound=4.0),
}


def test_every_sampler_is_there():
    kinds = {type(make()).__name__ for make in SAMPLERS.values()}
    assert kinds == {type(make(0)).__name__ for make in ours(4).values()} | {"Cyclic"}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_reaches_the_optimum_and_never_rises(name):
    """6000 visits, 500 per item: the duality gap falls to 1e-11, and the objective never rises."""
    x, y, _ = data()
    problem = LeastSquares(x, y, alpha=0.2, l1_ratio=1.0)
    sampler = SAMPLERS[name]()
    result = CoordinateDescent().minimize(problem, sampler=sampler, rounds=6000, trace=1500)
    assert duality_gap(problem, result.solution) <= 1e-11 * problem.value(None)
    rise = np.diff(result.trace.objective).max()
    assert rise <= 1e-14 * result.trace.objective[0]  # rounding
    assert result.trace.objective[0] == problem.value(None)
    assert result.item_gradients == result.rounds == 6000
    assert sampler.quantity == "fourth root of the decrease"


@pytest.mark.parametrize("make", [Logistic, SquaredHinge])
def test_the_objective_falls_in_every_round(make):
    x, y, weights = data(3)
    problem = make(x, y > 0, **elastic(l1=0.01, l2=0.01), sample_weight=weights, fit_intercept=True)
    start = np.random.default_rng(5).normal(size=COLUMNS + 1)
    sampler = Cyclic(COLUMNS + 1)  # quick to compile
    result = CoordinateDescent().minimize(
        problem, sampler=sampler, rounds=400, trace=400, start=start
    )
    assert np.diff(result.trace.objective).max() <= 1e-14 * result.trace.objective[0]
    assert result.trace.objective[-1] < 0.5 * result.trace.objective[0]


# --- the step -------------------------------------------------------------------------------------


class Remembering(Outside):
    """Remembers the feedback of the last round."""

    def _update(self, draw, losses):
        self.fed = losses


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("make", [LeastSquares, Logistic])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_step_is_that_of_the_oracle(kind, make, batch_size):
    x, y, weights = data(4)
    x = some_zeros(x) if kind == "sparse" else x
    targets = y if make is LeastSquares else y > 0
    problem = make(
        x, targets, **elastic(l1=0.02, l2=0.01), sample_weight=weights, fit_intercept=True
    )
    smooth = problem.coordinate_lipschitz() - np.append(np.full(problem.d, problem.l2), 0.0)
    solver = CoordinateDescent(batch_size=batch_size)
    start = np.random.default_rng(6).normal(size=COLUMNS + 1)
    for rounds in (1, 2, 6, 40):
        in_turn = Cyclic(COLUMNS + 1)
        result = solver.minimize(problem, sampler=in_turn, rounds=rounds, start=start)
        w, losses = start, []
        for j in Cyclic(COLUMNS + 1).draw(rounds * batch_size).indices:
            w, loss = naive_step(problem, w, [j], smooth[j])
            losses.append(loss)
        np.testing.assert_allclose(result.solution, w, rtol=1e-10, atol=1e-12)
        remembering = Remembering(Cyclic(COLUMNS + 1))
        solver.minimize(problem, sampler=remembering, rounds=rounds, start=start)
        np.testing.assert_allclose(remembering.fed, losses[-batch_size:], rtol=1e-6)
        assert result.item_gradients == rounds * batch_size


@pytest.mark.kernels
def test_least_squares_are_minimised_exactly_in_the_coordinate():
    x, y, _ = data()
    problem = LeastSquares(x, y, **elastic(l1=0.3, l2=0.2))
    w = np.random.default_rng(0).normal(size=COLUMNS)
    for j in range(COLUMNS):
        only_j = Static(np.eye(COLUMNS)[j])
        after = CoordinateDescent().minimize(problem, sampler=only_j, rounds=1, start=w).solution
        assert (np.delete(after, j) == np.delete(w, j)).all()

        def along(v, j=j):
            return problem.value(np.where(np.arange(COLUMNS) == j, v, w))

        best = optimize.minimize_scalar(along, bracket=(-3, 3), options={"xtol": 1e-10})
        assert problem.value(after) <= best.fun * (1 + 1e-14)
        again = CoordinateDescent().minimize(problem, sampler=only_j, rounds=2, start=w).solution
        assert again[j] == pytest.approx(after[j], rel=1e-12, abs=1e-14)  # nothing left to do


@pytest.mark.kernels
def test_all_losses_are_those_of_single_draws():
    x, y, _ = data()
    problem, solver = (
        LeastSquares(x, y, alpha=0.1, l1_ratio=1.0, fit_intercept=True),
        CoordinateDescent(),
    )
    w = np.random.default_rng(2).normal(size=COLUMNS + 1)
    run = solver._begin(problem, w, None)
    smooth = problem.coordinate_lipschitz()
    expected = [naive_step(problem, w, [j], smooth[j])[1] for j in range(COLUMNS + 1)]
    np.testing.assert_allclose(solver._all_losses(problem, run), expected, rtol=1e-10)
    assert (run.w[0] == w).all()


def test_rounding_errors_do_not_add_up():
    """z is recomputed regularly: an error in it is gone after EPOCHS epochs."""
    x, y, _ = data()
    problem, solver = LeastSquares(x, y, alpha=0.1, l1_ratio=1.0), CoordinateDescent()
    result = solver.minimize(problem, sampler=Cyclic(COLUMNS), rounds=COLUMNS)
    result.state["parts"]["z"] += 1.0  # an error
    result.state["parts"]["slopes"] += 1.0
    epochs = {}
    for more in (EPOCHS - 1, EPOCHS, 8 * EPOCHS):
        sampler = Cyclic(COLUMNS)
        later = solver.minimize(problem, sampler=sampler, rounds=COLUMNS * more, resume=result)
        z = later.state["parts"]["z"]
        epochs[more] = np.abs(z - x @ later.solution).max()
        last = duality_gap(problem, later.solution)
    assert epochs[EPOCHS - 1] > 0.5
    assert epochs[EPOCHS] < 1e-12
    assert last < 1e-11 * problem.value(None)


# --- compiled, in Python, and again ---------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4])
def test_compiled_loop_is_the_loop_in_python(batch_size):
    x, y, weights = data()
    problem = LeastSquares(x, y, alpha=0.1, l1_ratio=1.0, sample_weight=weights)
    rounds = 250 // batch_size  # while there is something to learn
    solver = CoordinateDescent(batch_size=batch_size)
    one = solver.minimize(problem, sampler=VRB(COLUMNS, seed=7), rounds=rounds)
    other = solver.minimize(problem, sampler=Outside(VRB(COLUMNS, seed=7)), rounds=rounds)
    assert one.solution.tobytes() == other.solution.tobytes()
    assert (one.sampler.probabilities() == other.sampler.probabilities()).all()
    assert one.sampler.probabilities().max() > 1.5 / COLUMNS  # it has learnt


@pytest.mark.parametrize("make", [lambda: VRB(COLUMNS, seed=2), lambda: Cyclic(COLUMNS)])
@pytest.mark.parametrize("rounds", [501, EPOCHS * COLUMNS - 1])
def test_resumed_is_uninterrupted(make, rounds, tmp_path):
    x, y, _ = data()
    problem, solver = LeastSquares(x, y, alpha=0.1, l1_ratio=1.0), CoordinateDescent()
    whole = solver.minimize(problem, sampler=make(), rounds=1500)
    half = solver.minimize(problem, sampler=make(), rounds=rounds)
    half.save(tmp_path / "half.npz")
    loaded = Result.load(tmp_path / "half.npz")
    assert type(loaded.sampler) is type(make())
    rest = solver.minimize(problem, sampler=make(), rounds=1500, resume=loaded)
    assert_same(whole.state["parts"], rest.state["parts"])
    assert whole.solution.tobytes() == rest.solution.tobytes()
    assert rest.item_gradients == 1500


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_columns_of_zeros_do_no_harm(kind):
    x, y, _ = data()
    x[:, [2, 5]] = 0.0
    x = sparse.csr_matrix(x) if kind == "sparse" else x
    start = np.ones(COLUMNS)
    for l1, kept in ((0.1, 0.0), (0.0, 1.0)):  # l1 alone says what such a coordinate should be
        problem = LeastSquares(x, y, alpha=l1, l1_ratio=1.0)
        result = CoordinateDescent().minimize(problem, rounds=6000, start=start)
        assert result.solution[[2, 5]].tolist() == [kept, kept]
        gradient = problem.gradient(result.solution)
        assert np.abs(gradient).max() <= l1 + 1e-9
    empty = LeastSquares(np.zeros((3, 2)), [1.0, 2.0, 3.0], alpha=1.0, l1_ratio=1.0)
    assert CoordinateDescent().minimize(empty, rounds=50).solution.tolist() == [0.0, 0.0]


def test_errors():
    x, y, _ = data()
    problem = LeastSquares(x, y)
    with pytest.raises(TypeError, match=r"one output .* got Softmax"):
        CoordinateDescent().minimize(Softmax(x, np.arange(ITEMS) % 3), rounds=1)
    rough = LeastSquares(x, y)
    rough.curvature = np.inf
    with pytest.raises(TypeError, match="bounded second derivative"):
        CoordinateDescent().minimize(rough, rounds=1)
    with pytest.raises(TypeError, match="got str"):
        CoordinateDescent().minimize("problem", rounds=1)
    with pytest.raises(ValueError, match="over 60 items, the problem has 12"):
        CoordinateDescent().minimize(problem, sampler=VRB(ITEMS), rounds=1)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        CoordinateDescent(batch_size=0)
    with pytest.raises(DivergenceError, match="scale the data"):
        CoordinateDescent().minimize(problem, rounds=9, start=np.full(COLUMNS, 1e200))
    with pytest.raises(ValueError, match="n must be at least 1"):
        Cyclic(0)
