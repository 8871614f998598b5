"""The race of draws on a table: gradients and second moments against brute force."""

import numpy as np
import pytest
from samples import clustered, imbalanced, regression
from scipy import sparse
from scipy.optimize import minimize
from test_advice_data import opened

from tombola.advice.draws import CONTENDERS, Game, GameRun, steps_for
from tombola.advice.models import Penalty

SHUFFLE, _, GROUPS = CONTENDERS


def three(n=300):
    rng = np.random.default_rng(5)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + np.eye(4)[y], y


CASES = {
    "log loss": (imbalanced, "classification"),
    "softmax": (three, "classification"),
    "least squares": (regression, "regression"),
}


RIDGE = Penalty(0.01, False)


def game(family, kind=np.asarray, penalty=RIDGE):
    make, task = CASES.get(family, (clustered, "clustering"))
    X, y = make()
    return Game(opened(kind(X), y, task, penalty=penalty), family)


def norms_of(run, w):
    """Return the gradient norms of all items at w, by differences of their losses."""
    game, n = run.game, run.game.n
    rows = np.column_stack([game.X, np.ones(n)])
    found = np.zeros((n, *w.shape))
    for place in np.ndindex(w.shape):
        ends = []
        for way in (1e-6, -1e-6):
            moved = w.copy()
            moved[place] += way
            margins = rows @ moved
            if game.family == "least squares":
                ends.append((margins[:, 0] - game.y) ** 2 / 2)
            elif game.outputs == 1:
                ends.append(np.logaddexp(0, -np.where(game.y == 1, 1, -1) * margins[:, 0]))
            else:
                each = margins - margins[np.arange(n), game.y][:, None]
                ends.append(np.log(np.exp(each).sum(axis=1)))
        found[(slice(None), *place)] = (ends[0] - ends[1]) / 2e-6
    return np.sqrt((found**2).reshape(n, -1).sum(axis=1))


@pytest.mark.parametrize("family", CASES)
def test_feedback_is_the_gradient_norm_and_second_moments_are_those_of_brute_force(family):
    run = GameRun(game(family), SHUFFLE, 1.0, 0)
    n, seen = run.game.n, []
    for steps in (0, 20, 60):
        if steps:
            run.advance(steps)
        seen.append(norms_of(run, run.w))
        np.testing.assert_allclose(run.norms, seen[-1], rtol=1e-3, atol=1e-4 * seen[-1].max())
    found, seen = run.possible(), np.array(seen)

    def cost(p):
        return (seen**2 / p).sum() / (n * (seen**2).sum())

    assert found.ideal == pytest.approx(cost(seen / seen.sum(axis=1, keepdims=True)), rel=1e-2)
    fixed = np.sqrt((seen**2).sum(axis=0))
    assert found.best_fixed == pytest.approx(cost(fixed / fixed.sum()), rel=1e-2)
    assert found.ideal <= found.best_fixed <= 1
    if family == "log loss":
        y, shares = run.game.y == 1, np.linspace(0, 1, 2001)[1:-1]
        best = min(cost(np.where(y, q / y.sum(), (1 - q) / (~y).sum())) for q in shares)
        assert found.best_group == pytest.approx(best, rel=1e-2)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("l1", [False, True])
def test_it_approaches_the_minimum_of_the_objective(kind, l1):
    run = GameRun(game("log loss", kind, Penalty(0.01, l1)), GROUPS, 1.0, 0)
    X = np.asarray(run.game.X.todense()) if kind is not np.asarray else run.game.X
    signs = np.where(run.game.y == 1, 1.0, -1.0)

    def value(w):
        norm = np.abs(w[:-1]).sum() if l1 else (w[:-1] ** 2).sum() / 2
        return np.logaddexp(0, -signs * (X @ w[:-1] + w[-1])).mean() + 0.01 * norm

    least = minimize(value, np.zeros(X.shape[1] + 1), method="Powell").fun
    run.advance(4000)
    assert run.looks[0].loss == pytest.approx(np.log(2.0))
    assert run.looks[-1].loss == pytest.approx(value(run.w[:, 0]))
    assert run.looks[-1].loss - least < 0.03 * (np.log(2.0) - least)


def test_clusters_improve_and_norms_are_twice_the_distances():
    run = GameRun(game("squared distance"), CONTENDERS[1], 1.0, 0)
    run.advance(500)
    apart = ((run.game.X[:, None] - run.w) ** 2).sum(axis=2).min(axis=1)
    assert run.looks[-1].loss == pytest.approx(apart.mean())
    np.testing.assert_allclose(run.norms, 2 * np.sqrt(apart), atol=1e-6)
    assert run.looks[-1].loss < run.looks[0].loss


def test_the_same_seed_repeats_and_larger_budgets_race_longer():
    first, again, other = (GameRun(game("log loss"), GROUPS, 1.0, seed) for seed in (1, 1, 2))
    for run in (first, again, other):
        run.advance(50)
    assert first.looks == again.looks != other.looks
    data = game("log loss").data
    short, long = steps_for(data, 1.0), steps_for(data, 10.0)
    assert long[0] == pytest.approx(10 * short[0], rel=0.1)
    assert short[1] <= long[1] <= data.X.shape[0]
