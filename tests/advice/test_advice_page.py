"""The page of advice: self-contained, with its figures."""

import itertools
import re

import numpy as np
import pytest
from test_page import Reader

from tombola.advice import advise, fits, race
from tombola.advice.page import page_of
from tombola.advice.text import legend_of_draws, legend_of_models, model_table, race_table


@pytest.fixture(params=[2, 3])
def advice(request, monkeypatch):
    """Advice about two or three classes; a short race, all steps alike."""
    ticks = itertools.count()
    for module in (fits, race):
        monkeypatch.setattr(module, "clock", lambda: float(next(ticks)))
    monkeypatch.setattr(race, "SCHEDULES", ((2, 5),))
    monkeypatch.setattr(race, "STEPS", 1000)
    rng = np.random.default_rng(0)
    y = np.arange(300) % 10 // (10 // request.param)
    X = rng.normal(size=(300, 4)) + np.eye(4)[y]
    return advise(X, np.array([f"<{label}>" for label in y]), task="classification", budget=1e9)


def test_the_page_has_its_figures_and_comes_from_nowhere_else(advice):
    text = page_of(advice, "a & b").html()
    reader = Reader(text)
    pictures = [attributes for tag, attributes in reader.seen if tag == "svg"]
    assert len(pictures) == len(advice.races) + 2
    assert all(picture["aria-label"] for picture in pictures)
    assert "://" not in text
    for target in re.findall(r"""(?:href|src)\s*=\s*["']([^"']*)""", text):
        assert target.startswith("#")
    for target in re.findall(r"url\(([^)]*)\)", text):
        assert target.startswith("#")
    ids = re.findall(r'\sid="([^"]*)"', text)
    assert len(ids) == len(set(ids))


def test_the_page_says_what_the_text_says(advice):
    text = "".join(Reader(page_of(advice, "a & b").html()).texts)
    assert "Which model for a & b, and do adaptive draws pay?" in text
    assert advice.verdict.headline in text
    assert advice.code in text
    for part in (*advice.verdict.reasons, *advice.notes):
        assert part in text
    for group in advice.groups:
        assert group.group in text
    said = " ".join(text.split())
    for table in (model_table(advice.models, advice.verdict.method), race_table(advice.methods)):
        for cell in (cell for row in table[1] for cell in row):
            assert cell in text
    for (legend,) in (legend_of_models(advice), legend_of_draws(advice)):
        assert legend in said
    assert f"{advice.score:.6g}" in text
