"""The README: short, and every figure with its source and its command."""

import re

import pytest

from pages import ROOT, links, spans, tables, wrong_command

TEXT = (ROOT / "README.md").read_text()
MOST = 700  # words, code and table included
SOURCES = [  # where the figures of each row come from
    "benchmarks/results/clock.md",
    "benchmarks/results/lasso.md",
    "docs/evidence.md",
    "docs/recipes.md",
    "benchmarks/results/clock.md",
    "docs/epochs.md",
]


def worth():
    return [row for row in tables(TEXT) if "rival" in row]


def test_it_is_short():
    assert len(TEXT.split()) <= MOST


def test_no_link_is_broken():
    found = links(TEXT)
    assert len(found) > 10
    assert [link for link in found if not (ROOT / link).exists()] == []


def test_every_row_names_a_rival_and_a_command():
    rows = worth()
    assert len(rows) == len(SOURCES) == 6
    for row in rows:
        assert row["rival"]
        (command,) = spans(row["command"])
        assert wrong_command(command) is None
    assert sum("**" in row["times as fast"] for row in rows) == 2  # what it loses is marked
    assert wrong_command("python benchmarks/clock.py --fast") is not None


@pytest.mark.parametrize("k", range(len(SOURCES)))
def test_figures_are_those_of_the_source(k):
    figure, known = worth()[k]["times as fast"], (ROOT / SOURCES[k]).read_text()
    shown = re.findall(r"\d+(?:\.\d+)?", figure)
    assert shown
    assert [number for number in shown if not stands_in(number, known)] == []
    assert not stands_in("9.87", "9.8 and 19.871")


def stands_in(number, text):
    """Whether a text has a number, rounded as it is here."""
    places = len(number.partition(".")[2])
    there = re.findall(r"(?<![\d.])\d+(?:\.\d+)?", text)
    return any(f"{float(it):.{places}f}" == number for it in there)
