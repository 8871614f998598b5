"""Mini-batch k-means: the average cost, and when it ends, round by round."""

import numpy as np
import pytest

import naive
from players import Replay, some_draws
from tombola.problems import KMeans
from tombola.random import Stream
from tombola.solvers import MiniBatchKMeans
from tombola.solvers.clusters import mini_batch
from tombola.solvers.clusters.plus_plus import draw_by

pytestmark = pytest.mark.kernels


@pytest.fixture(params=["item by item", "products"], autouse=True)
def way(request, monkeypatch):
    """How items are assigned, whatever their number."""
    monkeypatch.setattr(mini_batch, "LARGE", 0 if request.param == "products" else 10**9)


N, BATCH, ROUNDS = 25, 6, 40


def costs_of(X, weights, start, draws):
    """The cost of each round, before its step."""
    centres, counts, costs = start.tolist(), [0.0] * len(start), []
    for items, chances in draws:
        importances = 1 / (N * np.asarray(chances))
        squared = np.array([naive.nearest_centre(X[i], centres)[1] for i in items])
        costs.append((importances * weights[items] * squared).mean())
        naive.kmeans_round(X, weights, centres, counts, items, importances)
    return costs


@pytest.mark.parametrize("patience", [None, 2, 5])
def test_the_average_cost(patience):
    rng = np.random.default_rng(1)
    X, weights = rng.normal(size=(N, 3)), rng.uniform(0.5, 1.5, N)
    weights /= weights.mean()
    draws, start = some_draws(rng, N, BATCH, ROUNDS), rng.normal(size=(3, 3))
    now = least = since = 0
    history = []
    for t, cost in enumerate(costs_of(X, weights, start, draws), start=1):
        if t <= 2:
            now = least = cost
        else:
            now += 2 * BATCH / (N + 1) * (cost - now)
            since = 0 if now < least else since + 1
            least = min(now, least)
        history.append((now, least, since))
        if patience and since >= patience and t * 2 * BATCH / (N + 1) >= 1:
            break
    assert patience is None or len(history) < ROUNDS
    solver = MiniBatchKMeans(BATCH, max_no_improvement=patience)
    for rounds in (1, 2, 3, 7, ROUNDS):
        result = solver.minimize(
            KMeans(X, 3, sample_weight=weights),
            sampler=Replay(N, draws),
            start=start,
            rounds=rounds,
        )
        assert result.rounds == min(rounds, len(history))
        average = result.state["parts"]["average"]
        found = [average[name] for name in ("now", "least", "since")]
        np.testing.assert_allclose(found, history[result.rounds - 1], rtol=1e-10)


def test_a_batch_of_more_than_all_rows_has_a_share_of_one():
    """The average is then the cost of the last round."""
    rng = np.random.default_rng(2)
    X, start = rng.normal(size=(N, 3)), rng.normal(size=(2, 3))
    draws = some_draws(rng, N, 2 * N, 4)
    costs = costs_of(X, np.ones(N), start, draws)
    result = MiniBatchKMeans(2 * N).minimize(
        KMeans(X, 2), sampler=Replay(N, draws), start=start, rounds=4
    )
    assert result.state["parts"]["average"]["now"] == pytest.approx(costs[-1], rel=1e-10)


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.0])
def test_centres_that_have_seen_little_move_to_items(ratio):
    rng = np.random.default_rng(4)
    X, k = rng.normal(size=(N, 3)), 6
    X[:5] += 30.0
    draws, start = some_draws(rng, N, BATCH, 25), rng.normal(size=(k, 3))
    start[4:] = 1e3  # no item is ever nearest to these
    centres, counts, moves = start.copy(), np.zeros(k), 0
    for rounds, (items, chances) in enumerate(draws, start=1):
        importances = 1 / (N * np.asarray(chances))
        squared = [naive.nearest_centre(X[i], centres.tolist())[1] for i in items]
        costs = importances * squared
        lists = centres.tolist(), counts.tolist()
        naive.kmeans_round(X, np.ones(N), *lists, items, importances)
        centres, counts = map(np.array, lists)
        if rounds % -(-10 * k // BATCH) == 0 or not counts.all():
            few = counts < min(ratio, 1.0) * counts.max()
            stream, least = Stream(7, (2, rounds)), counts[~few].min()
            for q in sorted(np.flatnonzero(few), key=lambda q: counts[q])[: BATCH // 2]:
                place = draw_by(costs, stream)
                centres[q], counts[q], costs[place] = X[items[place]], least, 0.0
                moves += 1
    solver = MiniBatchKMeans(BATCH, reassignment_ratio=ratio, seed=7)
    result = solver.minimize(KMeans(X, k), sampler=Replay(N, draws), start=start, rounds=25)
    assert moves >= 2
    np.testing.assert_allclose(result.solution, centres, rtol=1e-10)
    np.testing.assert_allclose(result.state["parts"]["centres"]["counts"], counts, rtol=1e-10)
