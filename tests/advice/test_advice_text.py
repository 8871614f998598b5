"""Advice as text for people, and as JSON for machines."""

import json

import numpy as np
from samples import PLENTY, imbalanced

from tombola.advice import Advice, advise
from tombola.advice.text import model_table, race_table


def test_json_is_strict_where_a_method_never_arrives(even_clock):
    advice = advise(*imbalanced(), task="classification", budget=PLENTY)
    advice.methods[1].time_ratio[0] = np.inf
    advice.methods[1].cost = np.nan
    plain = json.loads(json.dumps(advice.as_dict(), allow_nan=False))
    assert plain["methods"][1]["time_ratio"][0] is None
    assert plain["methods"][1]["cost"] is None
    assert plain["verdict"]["use"] in ("scikit-learn", "tombola", "undecided")
    assert set(plain) == set(Advice.__dataclass_fields__)


def test_the_text_begins_with_the_verdict_and_fits_a_terminal(even_clock):
    advice = advise(*imbalanced(), task="classification", budget=PLENTY)
    lines = str(advice).split("\n")
    assert lines[0] == advice.verdict.headline
    assert max(map(len, lines)) <= 150
    for found in advice.methods:
        assert any(line.startswith(f"  {found.label} ") for line in lines)
    for model in advice.models:
        assert any(line.startswith(f"  {model.name} ") for line in lines)


def test_words_are_not_mixed_and_columns_are_explained(even_clock):
    advice = advise(*imbalanced(), task="classification", budget=PLENTY)
    text = " ".join(str(advice).split())
    for word in ("sooner", "times faster", "speed-up"):
        assert word not in text
    for table in (model_table(advice.models, None), race_table(advice.methods)):
        for column in table[0]:
            if column not in ("model", "objective", "remark", "draws by", "solver"):
                assert f"{column}: " in text, column
