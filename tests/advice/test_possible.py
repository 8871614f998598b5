"""The second moments of other distributions, against brute force."""

import numpy as np
import pytest
from samples import PLENTY, alike, by_label, clustered, imbalanced, regression

import tombola
from tombola.advice import advise
from tombola.problems import Logistic
from tombola.solvers import AdaGrad


def test_equal_losses_leave_nothing_to_gain(even_clock):
    X, y = alike()
    advice = advise(X, y, task="classification", X_test=X, y_test=y, budget=PLENTY)
    (possible,) = advice.possible
    assert possible.ideals[-1] > 0.999
    assert possible.best_fixed >= possible.ideal > 0.9
    assert any("little to gain" in reason for reason in advice.verdict.reasons)
    np.testing.assert_allclose(advice.losses, np.linspace(0, 1, 101), atol=5e-3)


def test_the_possible_ratios_equal_those_of_brute_force(even_clock):
    X, y = imbalanced()
    advice = advise(X, y, task="classification", X_test=X[:80], y_test=y[:80], budget=PLENTY)
    n = len(X)
    (possible,) = advice.possible

    problem = Logistic(X, y, alpha=1.0 / n, fit_intercept=True)
    marks = [round(epoch * n) for epoch in possible.epochs]
    solver = AdaGrad(0.3, standardise=True)
    losses, weights = [], np.diff([0, *marks])
    for mark in marks:
        w = solver.minimize(problem, sampler=tombola.Shuffle(n), rounds=mark).solution
        losses.append([np.linalg.norm(problem.item_gradient(i, w)) for i in range(n)])
    losses = np.array(losses)

    def cost(distributions):
        return (weights[:, None] * losses**2 / distributions).sum()

    uniform = cost(np.full(n, 1 / n))
    ideal = losses / losses.sum(axis=1, keepdims=True)
    assert possible.ideal == pytest.approx(cost(ideal) / uniform)
    for each, p, loss in zip(possible.ideals, ideal, losses, strict=True):
        assert each == pytest.approx((loss**2 / p).sum() / (n * (loss**2).sum()))

    fixed = np.sqrt((weights[:, None] * losses**2).sum(axis=0))
    fixed /= fixed.sum()
    assert possible.best_fixed == pytest.approx(cost(fixed) / uniform)
    rng = np.random.default_rng(0)
    for _ in range(100):  # no other is better
        other = fixed * rng.lognormal(0, 0.1, n)
        assert cost(other / other.sum()) > cost(fixed)

    shares = np.linspace(0, 1, 20_001)[1:-1]
    squares = (weights[:, None] * losses**2).sum(axis=0)
    inside, outside = squares[y].sum() * y.sum(), squares[~y].sum() * (~y).sum()
    best = (inside / shares + outside / (1 - shares)).min()
    assert possible.best_group == pytest.approx(best / uniform, rel=1e-6)


def test_what_a_method_reaches_is_the_exact_second_moment_of_its_draws(even_clock):
    X, y = imbalanced()
    methods = by_label(advise(X, y, task="classification", budget=PLENTY))
    assert methods["shuffle"].ratio == pytest.approx(1.0)
    assert 0 < methods["GroupVRB"].ratio < 0.9
    assert methods["default"].ratio is None


@pytest.mark.parametrize(
    ("data", "task", "groups"),
    [
        (imbalanced(), "classification", None),
        (imbalanced(), "classification", np.arange(600) % 7),
        (regression(), "regression", None),
        (regression(), "regression", np.arange(400) % 3),
        (clustered(), "clustering", np.arange(1200) % 5),
    ],
)
def test_ideal_is_at_most_best_fixed_is_at_most_best_group_is_at_most_uniform(
    data, task, groups, even_clock
):
    advice = advise(*data, task=task, groups=groups, budget=PLENTY)
    for possible in advice.possible:
        assert 0 < possible.ideal <= possible.best_fixed * (1 + 1e-12)
        if groups is None and task != "classification":
            assert possible.best_group is None
            assert possible.best_fixed <= 1
        else:
            assert possible.best_fixed <= possible.best_group * (1 + 1e-12) <= 1 + 1e-12
        assert possible.ideal <= max(possible.ideals)
        assert min(possible.ideals) <= possible.ideal
