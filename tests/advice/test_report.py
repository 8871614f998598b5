"""What is printed: short, recomputable from its rows, the same on the page."""

import json
import math
import re

import numpy as np
import pytest
from samples import clustered, imbalanced, regression
from test_page import Reader

from tombola.advice import Advice, advise, decide
from tombola.advice.render import MOST, digits, page
from tombola.advice.verdict import interval

KINDS = {
    "classification": imbalanced,
    "regression": regression,
    "clustering": clustered,
}


@pytest.fixture(scope="module", params=KINDS)
def advice(request):
    return advise(*KINDS[request.param](), task=request.param, budget=0.5)


def test_every_figure_of_a_verdict_follows_from_the_rows_beside_it(advice):
    pairs = {s.heading: s for s in advice.report().sections}["The runs that decide"]
    shown = [dict(zip(pairs.columns[:4], row, strict=False)) for row in pairs.rows]
    ratios = [float(row["times as long"]) for row in shown]
    for pair, row in zip(advice.pairs, shown, strict=True):
        assert float(row["times as long"]) == pytest.approx(
            pair.steps_ratio * pair.step_ms / pair.shuffle_ms, rel=1e-3
        )
    again = decide(ratios)
    losses = [(float(row[5]), float(row[6])) for row in pairs.rows]
    _, low, _ = interval([mine - other for mine, other in losses])
    if advice.draws.veto:  # it ends higher, to the digits that are printed
        assert advice.draws.pays is False
        assert low > -1e-3 * losses[0][0]
    else:
        assert again.pays is advice.draws.pays
    said = re.search(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", advice.reasons[0])
    assert [float(word) for word in said.groups()] == pytest.approx(
        [again.ratio, again.low, again.high], abs=0.006, rel=2e-3
    )
    seconds = {m.name: m.seconds for m in advice.models}
    for model in advice.models:
        if model.versus is not None:
            assert model.versus.ratio == model.seconds / seconds[advice.method]


def test_the_terminal_shows_the_verdict_the_script_and_no_more_than_25_lines(advice):
    lines = str(advice).split("\n")
    assert len(lines) <= MOST
    assert lines[0] == advice.headline
    for line in advice.code.split("\n"):
        assert not line or f"    {line}" in lines
    assert any(advice.method in line for line in lines)


def test_the_page_has_all_rows_and_comes_from_nowhere_else(advice):
    text = page(advice.report(), "a & b").html()
    reader = Reader(text)
    said = "".join(reader.texts)
    assert sum(tag == "svg" for tag, _ in reader.seen) == 3
    assert "://" not in text
    for part in (advice.headline, advice.code, *advice.reasons, *advice.notes):
        assert part in said
    for model in advice.models:
        assert digits(model.seconds) in said
    for curve in advice.curves:
        assert digits(curve.level) in said


def test_json_is_strict_where_a_number_is_not_finite(advice):
    advice.pairs[0].score = math.nan
    plain = json.loads(json.dumps(advice.as_dict(), allow_nan=False))
    assert plain["pairs"][0]["score"] is None
    assert set(plain) == set(Advice.__dataclass_fields__)


@pytest.mark.parametrize(
    ("X", "y", "task"),
    [
        (np.array([[0.0], [1.0]]), [0, 1], "classification"),
        (np.zeros((150, 2)), np.arange(150) % 2, "classification"),
        (np.ones((150, 2)), np.arange(150) % 10 == 0, "classification"),
        (np.array([[1.0], [2.0], [4.0]]), [1.0, 2.0, 3.0], "regression"),
        (np.zeros((150, 2)), np.arange(150.0), "regression"),
        (np.arange(8.0)[:, None], None, "clustering"),
        (np.ones((150, 2)), None, "clustering"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_odd_data_get_advice_too(X, y, task):
    found = advise(X, y, task=task, budget=0.2)
    json.dumps(found.as_dict(), allow_nan=False)
    assert str(found).replace("\n", " ").startswith(found.headline)
    assert bool(found.code) == (found.use != "undecided")


def test_what_was_given_stays_and_the_seed_repeats():
    X, y = imbalanced()
    kept = X.copy(), y.copy()
    first, again, other = (
        advise(X, y, task="classification", budget=0.5, seed=seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])
    for a, b in zip(first.curves, again.curves, strict=False):  # times decide on further seeds
        assert (a.name, a.rate, a.seed, a.looks) == (b.name, b.rate, b.seed, b.looks)
    assert first.possible == again.possible != other.possible
    for a, b in zip(first.pairs, again.pairs, strict=False):
        assert a.steps_ratio == b.steps_ratio
    for a, b in zip(first.models, again.models, strict=True):
        assert (a.name, a.objective, a.score, a.passes) == (b.name, b.objective, b.score, b.passes)


def test_the_rows_and_groups_that_matter_come_first():
    rng = np.random.default_rng(0)
    X = np.sign(rng.normal(size=(512, 3)))
    y = X[:, 0] > 0
    odd = [17, 200, 411]
    y[odd] = ~y[odd]  # on the wrong side: their losses stay large
    names = np.where(y, "yes", "no")
    found = advise(X, names, task="classification", X_test=X[:80], y_test=names[:80], budget=2.0)
    assert sorted(item.row for item in found.items[:3]) == odd
    assert [item.label for item in found.items] == [names[item.row] for item in found.items]
    assert sum(group.share_of_draws for group in found.groups) == pytest.approx(1.0)
    assert sum(group.rows for group in found.groups) == len(X)


def test_fewer_rows_keep_their_numbers():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30_000, 3)), np.arange(30_000) % 2000 == 0
    X[~y] /= 1000
    found = advise(X, y, task="classification", budget=0.01)
    assert 1000 <= found.raced < found.rows == 24_000
    for item in found.items:
        assert item.label == str(y[item.row])
