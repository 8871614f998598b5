"""Advice: what was possible against brute force, the verdict on both sides of its thresholds."""

import itertools
import json

import numpy as np
import pytest
from scipy import sparse

import tombola
from tombola.advice import Advice, Method, advise, decide, race
from tombola.advice.advise import _code
from tombola.advice.data import open_contests
from tombola.advice.verdict import ALIKE, PAYS
from tombola.problems import KMeans, LeastSquares, Logistic
from tombola.solvers import AdaGrad

PLENTY = 1e9  # so that a plan is never cut short


@pytest.fixture
def even_clock(monkeypatch):
    """A clock that moves by one at each look at it: all steps take as long, on any machine.

    And a short race.
    """
    ticks = itertools.count()
    monkeypatch.setattr(race, "clock", lambda: float(next(ticks)))
    monkeypatch.setattr(race, "PLANS", ((3, 8),))
    monkeypatch.setattr(race, "STEPS", 4000)


def imbalanced(n=600, d=40, seed=0):
    """Wide rows of uneven lengths, a fortieth of them in the class that is to be found."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 40 == 0
    X = rng.normal(size=(n, d)) / np.sqrt(d) + 0.5 * y[:, None]
    return X * rng.lognormal(0, 0.5, size=(n, 1)), y


def alike(n=512):
    """Rows of equal length, all as far from the boundary."""
    X = np.array(list(itertools.product([-1.0, 1.0], repeat=3)) * (n // 8))
    return X, X[:, 0] > 0


def by_label(advice):
    return {method.label: method for method in advice.methods}


# --- what is possible ---------------------------------------------------------------------------


def test_equal_losses_leave_nothing_to_gain(even_clock):
    advice = advise(*alike(), task="classification", budget=PLENTY)
    (possible,) = advice.possible
    assert possible.ideals[-1] > 0.999
    assert possible.best_fixed >= possible.ideal > 0.9
    assert not advice.verdict.pays
    assert any("little to gain" in reason for reason in advice.verdict.reasons)
    np.testing.assert_allclose(advice.losses, np.linspace(0, 1, 101), atol=5e-3)


def test_the_possible_ratios_equal_those_of_brute_force(even_clock):
    X, y = imbalanced()
    n = len(X)
    advice = advise(X, y, task="classification", budget=PLENTY)
    (possible,) = advice.possible

    problem = Logistic(X, y, l2=1e-4, intercept=True)
    marks = [round(epoch * n) for epoch in possible.epochs]
    losses, weights = [], np.diff([0, *marks])
    for mark in marks:
        w = AdaGrad(0.3).minimize(problem, sampler=tombola.Shuffle(n), rounds=mark).solution
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


def regression(n=400):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 5))
    return X, 3e5 + 1e4 * X[:, 0] + 1e3 * rng.standard_t(2, n)


def clusters(n=1200):
    rng = np.random.default_rng(2)
    return rng.normal(size=(n, 3)) * rng.lognormal(0, 1, (n, 1)), None


@pytest.mark.parametrize(
    ("data", "task", "groups"),
    [
        (imbalanced(), "classification", None),
        (imbalanced(), "classification", np.arange(600) % 7),
        (regression(), "regression", None),
        (regression(), "regression", np.arange(400) % 3),
        (clusters(), "clustering", np.arange(1200) % 5),
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


# --- the race -----------------------------------------------------------------------------------


def test_the_goal_is_on_the_way_that_shuffling_makes_and_shuffling_arrives(even_clock):
    advice = advise(*imbalanced(), task="classification", budget=PLENTY)
    (raced,) = advice.races
    baseline = advice.methods[0]
    assert baseline.label == "shuffle"
    assert baseline.sooner == baseline.fewer_draws == [1.0] * advice.seeds
    for k, goal in enumerate(raced.goals):
        curve = np.array(raced.objective["shuffle"][k])
        assert goal == pytest.approx(curve.min() + 0.001 * (curve[0] - curve.min()))
        first = int(np.flatnonzero(curve <= goal)[0])
        assert raced.epochs[first - 1] <= baseline.draws[k] / 600 <= raced.epochs[first]
    for rows in (*raced.objective.values(), *raced.seconds.values()):
        assert np.shape(rows) == (advice.seeds, len(raced.epochs))


def test_the_same_seed_gives_the_same_race_and_another_one_another(even_clock):
    data = imbalanced()
    first, again, other = (
        advise(*data, task="classification", budget=PLENTY, seed=seed) for seed in (3, 3, 4)
    )
    assert first.races[0].objective == again.races[0].objective
    assert first.possible == again.possible
    assert first.races[0].objective != other.races[0].objective


def test_what_was_given_stays_as_it_is(even_clock):
    X, y = imbalanced()
    kept = X.copy(), y.copy()
    advise(100 * X, y, task="classification", budget=PLENTY)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])


def test_a_small_budget_races_over_fewer_rows_and_keeps_their_numbers(monkeypatch):
    monkeypatch.setattr(race, "PLANS", ((2, 5),))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30_000, 3)), np.arange(30_000) % 10_000 == 0
    X[~y] /= 1000
    advice = advise(X, y, task="classification", budget=0.2)
    assert 1000 < advice.raced < advice.rows == 30_000
    assert any("Raced over" in line for line in str(advice).split("\n"))
    for item in advice.items:
        assert item.label == str(y[item.row])
    assert advice.groups[0].group == "True"  # a class of three rows was not lost


@pytest.mark.parametrize(
    ("X", "y", "task"),
    [
        (np.array([[0.0], [1.0]]), [0, 1], "classification"),
        (np.zeros((30, 2)), np.arange(30) % 2, "classification"),
        (np.ones((30, 2)), np.arange(30) % 10 == 0, "classification"),
        (np.array([[1.0], [2.0], [4.0]]), [1.0, 2.0, 3.0], "regression"),
        (np.zeros((30, 2)), np.arange(30.0), "regression"),
        (np.arange(8.0)[:, None], None, "clustering"),
        (np.ones((150, 2)), None, "clustering"),
    ],
)
def test_odd_data_get_advice_too(X, y, task, even_clock):
    advice = advise(X, y, task=task, budget=PLENTY)
    json.dumps(advice.as_dict(), allow_nan=False)
    assert str(advice).startswith(advice.verdict.headline)
    for possible in advice.possible:
        assert 0 <= possible.ideal <= possible.best_fixed * (1 + 1e-12) <= 1 + 1e-12


def test_progress_counts_up_to_the_end(even_clock):
    calls = []
    advise(
        *alike(), task="classification", budget=PLENTY, progress=lambda *call: calls.append(call)
    )
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1))
    assert calls[-1][0] == calls[-1][1]


# --- what matters -------------------------------------------------------------------------------


def test_the_rows_and_groups_that_matter_come_first(even_clock):
    X, y = alike()
    y = y.copy()
    odd = [17, 200, 411]
    y[odd] = ~y[odd]  # on the wrong side: their losses stay large
    names = np.where(y, "yes", "no")
    advice = advise(X, names, task="classification", budget=PLENTY)
    assert sorted(item.row for item in advice.items[:3]) == odd
    assert [item.label for item in advice.items] == [names[item.row] for item in advice.items]
    total = sum(group.share_of_draws for group in advice.groups)
    assert total == pytest.approx(1.0)
    assert sum(group.rows for group in advice.groups) == len(X)
    for item in advice.items:
        assert item.times_uniform == pytest.approx(item.probability * len(X))


def test_with_several_classes_the_rarest_and_the_commonest_are_raced(even_clock):
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c", "d"], [100, 300, 20, 80])
    X = rng.normal(size=(500, 4)) + np.repeat(np.eye(4), [100, 300, 20, 80], axis=0)
    advice = advise(X, y, task="classification", budget=PLENTY)
    assert [each.name for each in advice.possible] == [
        "c against the rest (20 of 500 rows)",
        "b against the rest (300 of 500 rows)",
    ]
    assert {group.group for group in advice.groups} == {"a", "b", "c", "d"}
    assert "rarest and the commonest" in str(advice)
    draws = [
        race.arrival(race.Curve(np.array(each.epochs) * 500, *two, 1.0, 1.0), each.goals[0])[0]
        for each in advice.races
        for two in [(np.array(each.seconds["VRB"][0]), np.array(each.objective["VRB"][0]))]
    ]
    assert by_label(advice)["VRB"].draws[0] == pytest.approx(sum(draws))  # times are added up


# --- the verdict --------------------------------------------------------------------------------


def method(label, kind, sooner, fewer=None, ratio=0.3, overhead=1.5, solver="AdaGrad"):
    fewer = sooner if fewer is None else fewer
    seconds = [1.0 / times if times else np.inf for times in sooner]
    ones = [1.0] * len(sooner)
    known = ratio if kind in ("baseline", "adaptive") else None
    return Method(label, solver, kind, known, overhead, 1.0, seconds, seconds, ones, fewer, sooner)


def verdict(vrb=(1.0, 1.0, 1.0), default=(0.5, 0.5, 0.5), plain=None, ideal=0.1, **others):
    methods = [
        method("shuffle", "baseline", [1.0] * 3),
        method("VRB", "adaptive", list(vrb), **others),
        method("default", "default", list(default), solver="SAGA"),
    ]
    if plain is not None:
        methods.append(method("uniform", "plain", list(plain), solver="SAGA"))
    return decide(methods, ideal)


JUST = PAYS + 1e-9


@pytest.mark.parametrize(
    ("vrb", "default", "pays", "use"),
    [
        ((1.01, JUST, 9.0), (0.5, 0.5, 0.5), True, "adaptive"),
        ((1.01, PAYS - 1e-9, 9.0), (0.5, 0.5, 0.5), False, "shuffle"),  # the median is too low
        ((1.00, JUST, 9.0), (0.5, 0.5, 0.5), False, "try"),  # not in every seed
        ((0.00, JUST, 9.0), (0.5, 0.5, 0.5), False, "try"),
        ((0.9, 1.0, 1.2), (1.01, JUST, 2.0), False, "default"),
        ((0.9, 1.0, 1.2), (1.01, PAYS - 1e-9, 2.0), False, "shuffle"),
        ((0.9, 1.0, 1.2), (0.99, JUST, 2.0), False, "try"),
        ((1.1, 1.5, 2.0), (1.1, 1.4, 9.0), True, "adaptive"),  # sooner in the median
        ((1.1, 1.5, 2.0), (1.1, 1.6, 1.7), True, "default"),
        ((1.1, 1.5, 2.0), (0.9, 9.0, 9.0), True, "adaptive"),  # the default is not certain
        ((0.9, 9.0, 9.0), (1.1, 1.5, 2.0), False, "default"),
    ],
)
def test_it_pays_only_if_it_is_sooner_in_every_seed_and_enough_in_the_median(
    vrb, default, pays, use
):
    said = verdict(vrb, default)
    assert (said.pays, said.use) == (pays, use)
    label = {"adaptive": "VRB", "default": "default", "shuffle": "shuffle"}
    if use != "try":
        assert said.method == label[use]
    assert said.headline
    assert said.reasons


def test_fewer_draws_alone_do_not_pay():
    said = verdict((0.9, 0.9, 0.9), fewer=[5.0, 5.0, 5.0], overhead=5.6)
    assert said.use == "shuffle"
    assert "each takes 5.6 times as long" in said.reasons[0]


@pytest.mark.parametrize(
    ("ideal", "words"), [(ALIKE + 1e-9, "little to gain"), (ALIKE, "makes little of it")]
)
def test_the_reason_follows_what_was_possible(ideal, words):
    assert words in verdict(ideal=ideal).reasons[0]


def test_seeds_that_disagree_are_counted():
    assert "VRB was sooner in 2 of 3 seeds" in verdict((0.9, 2.0, 3.0)).headline


def test_what_the_default_owes_to_its_draws_is_said():
    sooner = (2.0, 2.0, 2.0)
    assert "its draws are uniform" in verdict(default=sooner).reasons[1]
    assert "takes 2.00 times as long" in verdict(default=sooner, plain=(1.0, 1.0, 1.0)).reasons[1]
    assert "does not get there" in verdict(default=sooner, plain=(1.0, 0.0, 1.0)).reasons[1]


@pytest.mark.parametrize(
    ("sooner", "words"),
    [
        ((0.0, 0.0, 0.0), "is reached by the default (SAGA) in 0 of 3 seeds."),
        ((0.0, 0.0, 0.5), "is reached by the default (SAGA) in 1 of 3 seeds."),
        ((0.0, 0.5, 0.6), "0.50 [never, 0.60] times as long as the default (SAGA), which gets "
         "there in 2 of 3 seeds, and"),
        ((0.4, 0.5, 0.6), "0.50 [0.40, 0.60] times as long as the default (SAGA), and"),
    ],
)  # fmt: skip
def test_who_does_not_arrive_is_counted(sooner, words):
    assert words in verdict(default=sooner).reasons[-1]


def test_where_training_fails_nothing_is_said():
    methods = [method("shuffle", "baseline", [0.0] * 3), method("VRB", "adaptive", [0.0] * 3)]
    said = decide(methods, 0.1)
    assert (said.pays, said.use) == (False, "shuffle")
    assert said.headline == "Nothing can be said."


# --- for people and machines --------------------------------------------------------------------


def test_json_is_strict_also_where_somebody_never_arrives(even_clock):
    advice = advise(*imbalanced(), task="classification", budget=PLENTY)
    advice.methods[1].seconds[0] = np.inf
    advice.methods[1].overhead = np.nan
    plain = json.loads(json.dumps(advice.as_dict(), allow_nan=False))
    assert plain["methods"][1]["seconds"][0] is None
    assert plain["methods"][1]["overhead"] is None
    assert plain["verdict"]["use"] in ("adaptive", "default", "try", "shuffle")
    assert set(plain) == set(Advice.__dataclass_fields__)


def test_the_text_begins_with_the_verdict_and_fits_a_terminal(even_clock):
    advice = advise(*imbalanced(), task="classification", budget=PLENTY)
    lines = str(advice).split("\n")
    assert lines[0] == advice.verdict.headline
    assert max(map(len, lines)) <= 132
    for found in advice.methods:
        assert any(line.startswith(f"  {found.label} ") for line in lines)


@pytest.mark.parametrize("task", ["classification", "regression", "clustering"])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_lines_of_code_run(task, grouped):
    X, y = {"classification": imbalanced, "regression": regression, "clustering": clusters}[task]()
    X = X * 1000  # so that one of the lines scales
    groups = np.arange(len(X)) % 3 if grouped else None
    data = open_contests(X, y, task, groups, 4, 0)
    for entrant in race.line_up(data):
        if entrant.kind == "plain":
            continue
        use = entrant.kind if entrant.kind != "baseline" else "shuffle"
        said = decide([method("shuffle", "baseline", [1.0] * 3),
                       method("VRB", "adaptive", [2.0] * 3)], 0.1)  # fmt: skip
        said.use, said.method = use, entrant.label
        names = {"X": X, "y": y, "groups": groups}
        code = _code(data, said)
        exec(code.replace("model.fit", "model.set_params(max_iter=50, tol=1.0).fit"), names)
        assert names["model"].n_iter_ >= 1
        assert names["model"].n_features_in_ == X.shape[1]


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"task": "ranking"}, ValueError, "task must be one of classification"),
        ({"y": None}, ValueError, "classification needs y"),
        ({"y": [0, 1]}, ValueError, r"y must have shape \(40,\)"),
        ({"y": np.zeros(40)}, ValueError, "y has one class only, 0.0"),
        ({"y": np.arange(40)}, ValueError, '40 classes in 40 rows.*task="regression"'),
        ({"y": np.where(np.arange(40) == 3, np.nan, 1.0)}, ValueError, r"y\[3\] is missing: nan"),
        ({"y": np.array(["a", None] * 20)}, ValueError, r"y\[1\] is missing: None"),
        ({"y": np.full(40, 2.0), "task": "regression"}, ValueError, "y is 2 in every row"),
        ({"y": np.array(["a", "b"] * 20), "task": "regression"}, TypeError, "y must hold numbers"),
        ({"X": np.full((40, 2), np.nan)}, ValueError, r"X\[0, 0\] is nan"),
        ({"X": np.ones(40)}, ValueError, "X must have 2 dimensions"),
        ({"X": np.full((40, 2), 1e200)}, ValueError, "their squares overflow"),
        ({"groups": np.ones(3)}, ValueError, r"groups must have shape \(40,\)"),
        ({"task": "clustering", "clusters": 41}, ValueError, "clusters must be from 1 to the 40"),
        ({"clusters": 0}, ValueError, "clusters must be at least 1"),
        ({"budget": 0.0}, ValueError, "budget must be positive, got 0.0"),
        ({"budget": "long"}, TypeError, "budget must be a number"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
    ],
)
def test_bad_input_is_named(change, error, words):
    rng = np.random.default_rng(0)
    given = {"X": rng.normal(size=(40, 2)), "y": np.arange(40) % 2, "task": "classification"}
    with pytest.raises(error, match=words):
        advise(**{**given, **change})


# --- the data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.coo_array])
def test_rows_are_brought_to_norm_one_where_they_are_far_from_it(kind):
    X, y = imbalanced()
    y = y.astype(int)
    for factor, scaled in ((1.0, False), (100.0, True), (0.01, True)):
        data = open_contests(kind(factor * X), y, "classification", None, 8, 0)
        norms = data.contests[0].problem.model.norms ** 2 - 1  # without the intercept
        mean = np.sqrt(np.maximum(norms, 0)).mean()
        assert data.scaled == scaled
        assert any("divided by" in note for note in data.notes) == scaled
        assert mean == pytest.approx(1.0 if scaled else np.linalg.norm(X, axis=1).mean())


def test_columns_of_very_different_scale_are_mentioned():
    X, y = imbalanced()
    X[:, 0] *= 1e4
    for kind in (np.asarray, sparse.csr_matrix):
        data = open_contests(kind(X), y, "classification", None, 8, 0)
        assert any("standardise the columns" in note for note in data.notes)


def test_tasks_make_their_problems():
    kinds = {
        "classification": (imbalanced, Logistic),
        "regression": (regression, LeastSquares),
        "clustering": (clusters, KMeans),
    }
    for task, (make, kind) in kinds.items():
        X, y = make()
        data = open_contests(X, y, task, None, 4, 0)
        assert [type(contest.problem) for contest in data.contests] == [kind]
    targets = open_contests(*regression(), "regression", None, 4, 0).contests[0].problem.model
    assert targets.targets.mean() == pytest.approx(0, abs=1e-9)
    assert targets.targets.std() == pytest.approx(1)
