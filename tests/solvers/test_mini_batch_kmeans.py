"""Mini-batch k-means: against an oracle, against Lloyd, with every sampler."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans as Lloyd

import naive
import tombola
from players import Outside
from tombola import VRB, Sampler, Shuffle, Static, Uniform
from tombola.problems import KMeans, LeastSquares
from tombola.random import Stream
from tombola.solvers import SGD, DivergenceError, MiniBatchKMeans, Result
from tombola.solvers.clusters import mini_batch
from tombola.solvers.clusters.plus_plus import draw_by, greedy_plus_plus, plus_plus, sample

KINDS = {"dense": np.ascontiguousarray, "sparse": sparse.csr_matrix}


def blobs(n=300, seed=0):
    """Four clusters of unlike size and width, and a start with one centre in each."""
    rng = np.random.default_rng(seed)
    middles = np.array([[0.0, 0.0, 0.0], [8.0, 0.0, 1.0], [0.0, 8.0, 0.0], [9.0, 9.0, 9.0]])
    group = rng.choice(4, size=n, p=[0.5, 0.3, 0.15, 0.05])
    X = middles[group] + rng.normal(size=(n, 3)) * np.array([0.3, 1.0, 0.5, 2.0])[group, None]
    return X, middles + rng.normal(size=(4, 3))


class Dictated(Sampler):
    """Draws given items with given probabilities, and keeps its feedback."""

    def __init__(self, n, draws):
        super().__init__(n, 0)
        self.draws, self.fed = list(draws), []

    def _draw(self, size):
        items, chances = self.draws[len(self.fed)]
        return items.copy(), chances.copy()

    def _update(self, draw, losses):
        self.fed.append(losses)

    def probabilities(self):
        return np.full(self.n, 1 / self.n)


# --- the step -------------------------------------------------------------------------------------


@pytest.mark.kernels
@pytest.mark.parametrize("large", [0, 256])
@pytest.mark.parametrize("kind", KINDS)
def test_rounds_are_those_of_the_oracle(kind, large, monkeypatch):
    monkeypatch.setattr(mini_batch, "LARGE", large)
    rng = np.random.default_rng(3)
    n, d, k, batch, rounds = 20, 5, 4, 8, 12
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    weights = rng.uniform(size=n)
    weights[:4] = 0.0
    weights /= weights.mean()
    start = rng.normal(size=(k, d))
    start[3] = 50.0  # no item is ever nearest to it
    draws = [(rng.integers(0, n, batch), rng.uniform(0.01, 0.2, batch)) for _ in range(rounds)]
    sampler = Dictated(n, draws)
    problem = KMeans(KINDS[kind](X), k, sample_weight=weights)
    result = MiniBatchKMeans(batch).minimize(problem, sampler=sampler, start=start, rounds=rounds)
    centres, counts = start.tolist(), [0.0] * k
    for (items, chances), fed in zip(draws, sampler.fed, strict=True):
        expected = naive.kmeans_round(X, weights, centres, counts, items, 1 / (n * chances))
        np.testing.assert_allclose(fed, expected, rtol=1e-11, atol=1e-6)
    np.testing.assert_allclose(result.solution, centres, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(result.state["parts"]["centres"]["counts"], counts, rtol=1e-12)
    assert (result.solution[3] == 50.0).all()
    assert (result.rounds, result.item_gradients) == (rounds, rounds * batch)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
def test_each_item_once_moves_centres_to_the_means_of_their_clusters(kind):
    X, start = blobs(60)
    problem = KMeans(KINDS[kind](X), 4)
    result = MiniBatchKMeans(60).minimize(
        problem, sampler=Outside(Shuffle(60)), start=start, rounds=1
    )
    labels = problem.labels(start)
    means = [X[labels == q].mean(axis=0) for q in range(4)]
    np.testing.assert_allclose(result.solution, means, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        result.state["parts"]["centres"]["counts"], np.bincount(labels), rtol=1e-12
    )


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_no_weight_is_no_row(kind):
    X, start = blobs(40)
    weights = np.ones(41)
    weights[7] = 0.0
    more = np.insert(X, 7, 1e3, axis=0)
    start[3] = 900.0  # nearest to the row of weight 0 only
    without = MiniBatchKMeans(40).minimize(
        KMeans(KINDS[kind](X), 4), sampler=Outside(Shuffle(40)), start=start, rounds=3
    )
    with_it = MiniBatchKMeans(41).minimize(
        KMeans(KINDS[kind](more), 4, sample_weight=weights),
        sampler=Outside(Shuffle(41)), start=start, rounds=3,
    )  # fmt: skip
    np.testing.assert_allclose(with_it.solution, without.solution, rtol=1e-12, atol=1e-13)
    assert (with_it.solution[3] == 900.0).all()


def test_dense_and_sparse_agree():
    X, start = blobs()
    dense, sparse = (
        MiniBatchKMeans(10).minimize(
            KMeans(make(X), 4), sampler=Outside(Uniform(300)), start=start, rounds=300
        )
        for make in KINDS.values()
    )
    np.testing.assert_allclose(dense.solution, sparse.solution, rtol=1e-10)


def test_single_precision_is_as_good():
    X, start = blobs()
    X = X.astype(np.float32)
    single, double = (
        MiniBatchKMeans(10).minimize(
            KMeans(rows, 4), sampler=Outside(Uniform(300)), start=start, rounds=100
        )
        for rows in (X, X.astype(np.float64))
    )
    np.testing.assert_allclose(single.solution, double.solution, rtol=1e-12)


# --- where it ends --------------------------------------------------------------------------------


def rounds_to_the_end(costs, share, patience):
    """scikit-learn's rule: the first cost is left out, the others are smoothed."""
    average = least = costs[1]
    since = 0
    for rounds, cost in enumerate(costs[2:], start=3):
        average = (1 - share) * average + share * cost
        since = 0 if average < least else since + 1
        least = min(least, average)
        if since >= patience and rounds * share >= 1.0:
            return rounds
    return len(costs)


@pytest.mark.kernels
@pytest.mark.parametrize("patience", [1, 3, 1000])
def test_it_ends_where_the_average_cost_stops_falling(patience):
    rng = np.random.default_rng(5)
    X, start = blobs(60)
    weights = rng.uniform(0.5, 1.5, size=60)
    weights /= weights.mean()
    draws = [(rng.integers(0, 60, 6), rng.uniform(0.01, 0.03, 6)) for _ in range(80)]
    centres, counts, costs = start.tolist(), [0.0] * 4, []
    for items, chances in draws:
        squared = ((X[items][:, None] - np.array(centres)) ** 2).sum(axis=2).min(axis=1)
        costs.append(float((weights[items] * squared / (60 * chances)).mean()))
        naive.kmeans_round(X, weights, centres, counts, items, 1 / (60 * chances))
    result = MiniBatchKMeans(6, max_no_improvement=patience).minimize(
        KMeans(X, 4, sample_weight=weights), sampler=Dictated(60, draws), start=start, rounds=80
    )
    assert result.rounds == rounds_to_the_end(costs, 12 / 61, patience)
    assert result.rounds < 80 or patience == 1000


def test_compiled_and_resumed_runs_end_in_the_same_round():
    X, start = blobs()
    problem, solver = KMeans(X, 4), MiniBatchKMeans(20, max_no_improvement=5)
    fused = solver.minimize(problem, sampler=Uniform(300), start=start, rounds=1000)
    plain = solver.minimize(problem, sampler=Outside(Uniform(300)), start=start, rounds=1000)
    half = solver.minimize(problem, sampler=Uniform(300), start=start, rounds=fused.rounds // 2)
    resumed = solver.minimize(problem, resume=half, rounds=1000)
    assert 5 < fused.rounds == plain.rounds == resumed.rounds < 1000
    np.testing.assert_array_equal(fused.solution, plain.solution)
    np.testing.assert_array_equal(fused.solution, resumed.solution)


# --- all samplers ---------------------------------------------------------------------------------

X, START = blobs()
GROUPS = np.arange(300) % 3
BOUND = float(KMeans(X, 4).bounds(0).max())
SAMPLERS = {
    "the default": lambda: None,
    "Uniform": lambda: Uniform(300),
    "Shuffle": lambda: Shuffle(300),
    "Static": lambda: Static(1.0 + np.arange(300)),
    "VRB": lambda: VRB(300),
    "VRB, bounds": lambda: VRB(300, bound=KMeans(X, 4).bounds(5), mixing=0.2),
    "GroupVRB": lambda: tombola.GroupVRB(GROUPS),
    "MABS": lambda: tombola.MABS(300, horizon=6000, bound=BOUND),
    "MirrorDescent": lambda: tombola.MirrorDescent(300, bound=BOUND),
    "AdaptiveWeighted": lambda: tombola.AdaptiveWeighted(GROUPS),
    "Avare": lambda: tombola.Avare(300),
    "SRG": lambda: tombola.SRG(300),
    "Safe": lambda: tombola.Safe(300, smoothness=np.full(300, 2.0)),
    "FTRL": lambda: tombola.FTRL(300, bound=BOUND),
}


def excess(sampler):
    """The excess over the solution of Lloyd's algorithm from the same start."""
    lloyd = Lloyd(4, init=START, n_init=1, tol=0.0).fit(X)
    problem = KMeans(X, 4)
    assert problem.value(lloyd.cluster_centers_) == pytest.approx(lloyd.inertia_ / 300)
    result = MiniBatchKMeans(20).minimize(problem, sampler=sampler, start=START, rounds=300)
    return problem.value(result.solution) / problem.value(lloyd.cluster_centers_) - 1


# Where each of 4 centres is the mean of m independent rows, the excess is 1/m: 6000 draws in all
# give 4/6000 on average, several times that with unlike importances.
TOLERANCE = 0.01


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_reaches_what_lloyd_reaches(name):
    assert -1e-9 < excess(SAMPLERS[name]()) < TOLERANCE


class Liar(Outside):
    """Draws some items more often, but reports uniform probabilities."""

    def _draw(self, size):
        items, chances = self.inner._draw(size)
        return items, np.full_like(chances, 1 / self.n)


def test_wrong_importances_are_found_out():
    far = np.abs(X - START[KMeans(X, 4).labels(START)]).sum(axis=1)
    assert excess(Outside(Static(far**4, mixing=0.1))) < TOLERANCE
    assert excess(Liar(Static(far**4, mixing=0.1))) > 2 * TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_loop_is_the_plain_one(kind):
    problem, solver = KMeans(KINDS[kind](X), 4), MiniBatchKMeans(20)
    fused = solver.minimize(problem, start=START, rounds=120)
    hidden = Outside(solver._default_sampler(problem))
    plain = solver.minimize(problem, sampler=hidden, start=START, rounds=120)
    np.testing.assert_array_equal(fused.solution, plain.solution)
    np.testing.assert_array_equal(fused.sampler.probabilities(), hidden.probabilities())
    assert fused.sampler.gauge.second_moment_ratio == plain.sampler.gauge.second_moment_ratio


@pytest.mark.parametrize("kind", KINDS)
def test_resumed_is_uninterrupted(kind, tmp_path):
    problem, solver = KMeans(KINDS[kind](X), 4), MiniBatchKMeans(20, seed=3)
    whole = solver.minimize(problem, rounds=60, trace=6)
    solver.minimize(problem, rounds=20, trace=2).save(tmp_path / "half")
    resumed = solver.minimize(problem, rounds=60, trace=6, resume=Result.load(tmp_path / "half"))
    np.testing.assert_array_equal(whole.solution, resumed.solution)
    np.testing.assert_array_equal(whole.trace.objective, resumed.trace.objective)
    np.testing.assert_array_equal(whole.sampler.probabilities(), resumed.sampler.probabilities())
    with pytest.raises(ValueError, match="this is MiniBatchKMeans"):
        MiniBatchKMeans(20, seed=4).minimize(problem, rounds=60, resume=resumed)


# --- what is said about it ------------------------------------------------------------------------


def test_the_variance_ratio_is_exact():
    weights = np.random.default_rng(0).uniform(size=300)
    problem = KMeans(X, 4, sample_weight=weights)
    sampler = Static(1.0 + np.arange(300))
    result = MiniBatchKMeans(20).minimize(problem, sampler=sampler, start=START, rounds=0, trace=1)
    labels, s = problem.labels(START), weights / weights.mean()
    gradients = np.zeros((300, 4, 3))
    for i in range(300):
        gradients[i, labels[i]] = 2 * s[i] * (START[labels[i]] - X[i])

    def variance(chances):
        estimates = gradients / (300 * chances[:, None, None])
        away = estimates - gradients.mean(axis=0)
        return (chances * (away**2).sum(axis=(1, 2))).sum()

    expected = variance(sampler.probabilities()) / variance(np.full(300, 1 / 300))
    assert result.trace.variance_ratio[0] == pytest.approx(expected, rel=1e-10)
    assert result.trace.objective[0] == pytest.approx(problem.value(START))


def test_the_default_sampler_is_the_papers():
    sampler = MiniBatchKMeans()._default_sampler(KMeans(X, 4))
    assert sampler.parameters["mixing"] == 0.5
    bounds = [KMeans(X, 4).bounds(i) for i in range(300)]
    (point,) = [i for i in range(300) if np.array_equal(sampler.parameters["bound"], bounds[i])]
    assert bounds[point][point] == 0
    others = [MiniBatchKMeans(seed=s)._default_sampler(KMeans(X, 4)) for s in range(1, 4)]
    assert any((other.parameters["bound"] != sampler.parameters["bound"]).any() for other in others)


def test_equal_rows_are_no_trouble():
    problem = KMeans(np.full((10, 2), 3.0), 4)
    result = MiniBatchKMeans(5).minimize(problem, rounds=20, trace=1)
    assert problem.value(result.solution) == 0.0
    assert (result.solution == 3.0).all()


def test_losses_are_called_gradient_norms():
    sampler = Uniform(300)
    MiniBatchKMeans(20).minimize(KMeans(X, 4), sampler=sampler, rounds=1)
    assert sampler.gauge.quantity == "gradient norm"


# --- where it starts ------------------------------------------------------------------------------


class Script:
    """A stream of given words."""

    def __init__(self, numbers):
        self.numbers = list(numbers)

    def words(self, size):
        return np.array([self.numbers.pop(0) for _ in range(size)], dtype=np.uint64)

    def integers(self, bound, size):
        out = self.words(size).astype(np.int64)
        assert (out < bound).all()
        return out


def test_draws_are_in_proportion():
    """Every sixteenth of the words, one after the other."""
    drawn = [draw_by(np.array([0.0, 3.0, 0.0, 5.0]), Script([w << 60])) for w in range(16)]
    assert drawn == [1] * 6 + [3] * 10
    last = draw_by(np.array([0.1, 0.7, 0.0]), Script([2**64 - 1]))
    assert last == 1
    assert [draw_by(np.zeros(4), Script([w << 62])) for w in range(4)] == [0, 1, 2, 3]


def test_samples_are_all_alike_and_without_replacement():
    seen = [
        tuple(sample(np.array([5, 6, 7, 8]), 2, Script([a, b])).tolist())
        for a in range(4)
        for b in range(3)
    ]
    assert sorted(seen) == [(a, b) for a in range(5, 9) for b in range(5, 9) if a != b]
    assert sorted(sample(np.arange(3), 9, Stream(1))) == [0, 1, 2]


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_starts_are_the_best_of_several_draws(kind):
    rows, weights = X[:40], np.random.default_rng(2).uniform(0.5, 1.5, size=40)
    problem = KMeans(KINDS[kind](rows), 4, sample_weight=weights)
    found = greedy_plus_plus(problem, 40, Stream(3))
    stream = Stream(3)
    order = sample(np.arange(40), 40, stream)
    s = problem.model.weights[order]
    centres = [rows[order][draw_by(s, stream)]]
    for _ in range(3):
        squared = ((rows[order][:, None] - np.array(centres)) ** 2).sum(axis=2).min(axis=1)
        drawn = [rows[order][draw_by(s * squared, stream)] for _ in range(2 + int(np.log(4)))]
        centres.append(min(drawn, key=lambda one: problem_cost(rows[order], s, [*centres, one])))
    np.testing.assert_array_equal(found, centres)


def problem_cost(rows, weights, centres):
    return float(weights @ ((rows[:, None] - np.array(centres)) ** 2).sum(axis=2).min(axis=1))


def test_greedy_starts_cost_less():
    problem = KMeans(X, 4)
    costs = {
        start: np.mean([problem.value(start(problem, 300, Stream(s))) for s in range(30)])
        for start in (plus_plus, greedy_plus_plus)
    }
    assert costs[greedy_plus_plus] < 0.95 * costs[plus_plus]


@pytest.mark.kernels
@pytest.mark.parametrize("kind", KINDS)
def test_starts_are_rows_far_from_each_other(kind):
    far = X + 1e6 * KMeans(X, 4).labels(START)[:, None]  # a wrong one has a chance below 1e-9
    for seed in range(5):
        centres = plus_plus(KMeans(KINDS[kind](far), 4), 1000, Stream(seed))
        rows = [np.flatnonzero((far == centre).all(axis=1))[0] for centre in centres]
        assert sorted(KMeans(X, 4).labels(START)[rows]) == [0, 1, 2, 3]


def test_starts_follow_seed_subsample_and_weights():
    def rows(subsample, seed, sample_weight=None):
        problem = KMeans(X, 4, sample_weight=sample_weight)
        start = MiniBatchKMeans(subsample=subsample, seed=seed).minimize(
            problem, sampler=Uniform(300), rounds=0
        )
        return [int(np.flatnonzero((c == X).all(axis=1))[0]) for c in start.solution]

    assert rows(1000, 7) == rows(300, 7)
    assert rows(1000, 7) != rows(1000, 8)
    few = sample(np.arange(300), 5, Stream(7, (0,)))
    assert set(rows(5, 7)) < set(few.tolist())
    assert len(set(rows(1, 7))) == 4  # never fewer than clusters
    weights = (np.arange(300) % 50 == 0).astype(float)
    assert all(i % 50 == 0 for seed in range(5) for i in rows(1000, seed, weights))


def test_starts_count_weights():
    light = np.arange(300) % 2 == 0  # one of them has a chance below 1e-9
    problem = KMeans(X, 4, sample_weight=np.where(light, 1e-12, 1.0))
    for seed in range(5):
        for centre in plus_plus(problem, 1000, Stream(seed)):
            assert not light[(centre == X).all(axis=1)].any()


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"batch_size": 2.0}, TypeError, "batch_size must be an integer"),
        ({"subsample": 0}, ValueError, "subsample must be at least 1"),
        ({"subsample": "all"}, TypeError, "subsample must be an integer"),
        ({"max_no_improvement": 0}, ValueError, "max_no_improvement must be at least 1"),
        ({"seed": -1}, ValueError, "seed must be from 0"),
        ({"seed": 0.5}, TypeError, "seed must be an integer"),
    ],
)
def test_bad_parameters_are_named(arguments, error, words):
    with pytest.raises(error, match=words):
        MiniBatchKMeans(**arguments)


def test_solvers_say_what_they_minimise():
    with pytest.raises(TypeError, match="minimises KMeans, got LeastSquares"):
        MiniBatchKMeans().minimize(LeastSquares(np.eye(2), [1.0, 2.0]), rounds=1)
    with pytest.raises(TypeError, match="linear models"):
        SGD().minimize(KMeans(X, 4), rounds=1)


def test_bad_starts_are_named():
    problem, sampler = KMeans(X, 4), Uniform(300)
    with pytest.raises(ValueError, match=r"shape \(4, 3\), got \(3, 3\)"):
        MiniBatchKMeans().minimize(problem, sampler=sampler, start=START[:3], rounds=1)
    with pytest.raises(ValueError, match="not finite"):
        MiniBatchKMeans().minimize(problem, sampler=sampler, start=START * np.nan, rounds=1)
    with pytest.raises(ValueError, match="too large"):
        MiniBatchKMeans().minimize(problem, sampler=sampler, start=START + 1e200, rounds=1)
    with pytest.raises(ValueError, match="over 7 items"):
        MiniBatchKMeans().minimize(problem, sampler=Uniform(7), rounds=1)


def test_data_that_go_bad_are_noticed():
    rows = X.copy()
    problem = KMeans(rows, 4)
    rows[:] = np.nan
    with pytest.raises(DivergenceError, match="the data have been changed: they hold"):
        MiniBatchKMeans().minimize(problem, sampler=Uniform(300), start=START, rounds=1)
