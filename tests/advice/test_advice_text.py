"""Advice as text for people, and as JSON for machines."""

import json

import numpy as np
from samples import PLENTY, imbalanced

from tombola.advice import Advice, advise


def test_json_is_strict_where_a_method_never_arrives(even_clock):
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
