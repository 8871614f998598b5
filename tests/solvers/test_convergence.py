"""Every solver with every sampler reaches the optimum that others find.

The references are scipy's L-BFGS and scikit-learn's Lasso, ElasticNet and LogisticRegression.
All runs have fixed seeds. Tolerances are on F - F*, in units of F(0) - F*: SAGA and SVRG
converge linearly, so theirs is 1e-6. SGD and AdaGrad have the noise of their last rates: theirs
is above what was seen with any sampler (0.02), and a solver that ignores importances is far
beyond it. One of SAGA or SVRG that does so is slower or unstable, but ends at the same place,
since what importances multiply goes to zero: tests/solvers/test_unbiased.py sees those.
"""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

import tombola
from penalties import elastic
from players import Outside, ours
from tombola.problems import LeastSquares, Logistic, Softmax, SquaredHinge
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad

N, D, ROUNDS = 60, 4, 12_000
SAMPLERS = ours(N, largest=3.0, horizon=ROUNDS)
SOLVERS = {
    "SGD": (SGD(0.015), 0.04),
    "SGD, average": (SGD(0.03, average=True), 0.04),
    "SGD, root": (SGD(0.5, schedule="root"), 0.04),
    "SGD, strongly convex": (SGD(schedule="strongly convex"), 0.04),
    "AdaGrad": (AdaGrad(0.2), 0.04),
    "AdaGrad, norm": (AdaGrad(0.7, version="norm"), 0.04),
    "SAGA": (SAGA(), 1e-6),
    "SVRG": (SVRG(), 1e-6),
}


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * np.where(np.arange(N) % 7 == 0, 2.0, 0.6)[:, None]
    noise = rng.logistic(size=N)
    return X, X @ [1.0, -1.0, 0.5, 0.0] + 0.5 + 0.7 * noise, rng


def logistic():
    X, signal, _ = data()
    return Logistic(X, signal > 0, alpha=0.1, fit_intercept=True)


def least_by_scipy(problem):
    """The minimum of a smooth problem; its gradient says how good it is."""
    found = minimize(
        lambda w: problem.value(w.reshape(problem.shape)),
        np.zeros(int(np.prod(problem.shape))),
        jac=lambda w: problem.gradient(w.reshape(problem.shape)).ravel(),
        method="L-BFGS-B",
        options={"gtol": 1e-10, "ftol": 1e-16, "maxiter": 10_000},
    )
    # F - F* <= |grad|^2 / (2 mu), with mu = l2 = 0.1 (the intercept's is larger here)
    assert np.linalg.norm(problem.gradient(found.x.reshape(problem.shape))) < 1e-6
    return found.fun


def excess(problem, solution, least):
    return (problem.value(solution) - least) / (problem.value(None) - least)


@pytest.fixture(scope="module")
def reference():
    problem = logistic()
    return problem, least_by_scipy(problem)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_all_solvers_with_all_samplers(reference, solver, sampler):
    problem, least = reference
    rounds = ROUNDS if sampler != "FTRL" else ROUNDS // 3  # it is not compiled
    (solver, tolerance), sampler = SOLVERS[solver], SAMPLERS[sampler](1)
    if solver.needs_independent and not sampler.independent:
        with pytest.raises(ValueError, match=r"needs independent draws, and those of .* are not"):
            solver.minimize(problem, sampler=sampler, rounds=rounds)
        return
    result = solver.minimize(problem, sampler=sampler, rounds=rounds)
    assert -1e-12 <= excess(problem, result.solution, least) < tolerance


def test_who_says_that_its_draws_are_independent():
    """Solvers go by it: independent draws are all that SAGA and SVRG take."""
    found = {name for name, make in SAMPLERS.items() if not make(1).independent}
    assert found == {"Shuffle", "VRB", "VRB, memory", "GroupVRB"}
    for make in (tombola.VRB, lambda n, **given: tombola.GroupVRB(np.arange(n) % 2, **given)):
        assert make(N, shuffle=False).independent
    assert {name for name, (solver, _) in SOLVERS.items() if solver.needs_independent} == {
        "SAGA",
        "SVRG",
    }


def test_the_same_optimum_as_scikit_learn(reference):
    problem, least = reference
    X, signal, _ = data()
    peer = LogisticRegression(C=1 / (N * 0.1), tol=1e-10, max_iter=10_000).fit(X, signal > 0)
    found = np.append(peer.coef_[0], peer.intercept_)
    assert abs(excess(problem, found, least)) < 1e-9


# called from Python: the compiled loop takes 10 s to compile for each loss and sampler, and does
# the same (test_fused.py)
OTHERS = {
    "VRB": lambda: tombola.VRB(N, memory=5 * N, seed=2),
    "Uniform": lambda: tombola.Uniform(N, seed=2),
}


@pytest.mark.parametrize("sampler", OTHERS)
@pytest.mark.parametrize("solver", [SAGA(), SVRG()])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_lasso_and_elastic_net(l2, solver, sampler):
    X, signal, _ = data()
    problem = LeastSquares(X, signal, **elastic(l1=0.3, l2=l2), fit_intercept=True)
    if l2:
        peer = ElasticNet(alpha=0.3 + l2, l1_ratio=0.3 / (0.3 + l2), tol=1e-14, max_iter=100_000)
    else:
        peer = Lasso(alpha=0.3, tol=1e-14, max_iter=100_000)
    peer.fit(X, signal)
    least = problem.value(np.append(peer.coef_, peer.intercept_))
    result = solver.minimize(problem, sampler=Outside(OTHERS[sampler]()), rounds=ROUNDS)
    assert -1e-9 <= excess(problem, result.solution, least) < 1e-6
    np.testing.assert_array_equal(result.solution[:-1] == 0, peer.coef_ == 0)
    assert (peer.coef_ == 0).any()


@pytest.mark.parametrize("sampler", OTHERS)
@pytest.mark.parametrize("kind", [pytest.param(SquaredHinge, marks=pytest.mark.slow), Softmax])
def test_other_losses(kind, sampler):
    X, signal, _ = data()
    y = np.digitize(signal, [-0.5, 1.0]) if kind is Softmax else signal > 0
    problem = kind(X, y, alpha=0.1, fit_intercept=True)
    least = least_by_scipy(problem)
    if kind is Softmax:
        peer = LogisticRegression(C=1 / (N * 0.1), tol=1e-10, max_iter=10_000).fit(X, y)
        found = np.column_stack([peer.coef_, peer.intercept_])
        assert abs(excess(problem, found, least)) < 1e-8
    result = SAGA().minimize(problem, sampler=Outside(OTHERS[sampler]()), rounds=ROUNDS)
    assert -1e-9 <= excess(problem, result.solution, least) < 1e-6


class Forgetful(Outside):
    """Draws as another sampler does, but reports uniform probabilities."""

    def _draw(self, size):
        items, chances = self.inner._draw(size)
        return items, np.full_like(chances, 1 / self.n)


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name not in ("SAGA", "SVRG")])
def test_importances_ignored_would_be_seen(reference, solver):
    problem, least = reference
    solver, tolerance = SOLVERS[solver]
    skewed = tombola.Static(1.0 + 9.0 * (problem.model.targets > 0), seed=1)
    wrong = solver.minimize(problem, sampler=Forgetful(skewed), rounds=5000)
    assert excess(problem, wrong.solution, least) > 3 * tolerance
    skewed.reset()
    right = solver.minimize(problem, sampler=Outside(skewed), rounds=5000)
    assert excess(problem, right.solution, least) < excess(problem, wrong.solution, least) / 3


def test_noise_left_in_would_be_seen(reference):
    """SAGA and SVRG without their stored slopes, at the same rate."""
    problem, least = reference
    rate = 1 / (3 * (problem.lipschitz().max() + problem.l2))
    for batch in (1, 10):
        solver = SGD(rate, batch_size=batch)
        result = solver.minimize(problem, sampler=tombola.Uniform(N), rounds=ROUNDS)
        assert excess(problem, result.solution, least) > 100 * 1e-6
