"""docs/paper.md: all of the paper is on it, and all that it names exists."""

import csv
import functools
import re

import numpy as np
import pytest

from pages import (
    ROOT,
    missing_links,
    numbers,
    spans,
    tables,
    unsupported,
    wrong_command,
    wrong_name,
    wrong_test,
)
from tombola import theory

PAGE = (ROOT / "docs" / "paper.md").read_text()
COLUMNS = ["Paper", "What it says", "Seen", "Code", "Test", "Command"]
ROWS = ROOT / "docs" / "results" / "voc" / "rows.csv"

# what the paper has; theorems and lemmas share one counter
PARTS = {
    "Theorem": {3, 7, 8, 9, 10},
    "Lemma": set(range(1, 19)) - {3, 7, 8, 9, 10},
    "Equation": set(range(1, 39)),
    "Figure": set(range(1, 6)),
    "Algorithm": {1},
}


@functools.cache
def voc_figures():
    """Final precisions, and draws to uniform's last one, from the rows of the paper's rate."""
    curves = {}
    with ROWS.open() as file:
        for row in csv.DictReader(file):
            if (row["part"], row["rate"]) == ("race", "paper"):
                key = row["features"], row["method"], int(row["draws"])
                curves.setdefault(key, []).append(float(row["eleven"]))
    means = {key: float(np.mean(values)) for key, values in curves.items()}
    last = max(draws for _, _, draws in means)
    found = {}
    for features, method in {key[:2] for key in means}:
        goal = means[features, "uniform", last]
        reached = [
            draws
            for (which, who, draws), precision in means.items()
            if (which, who) == (features, method) and precision >= goal
        ]
        found[features, method] = means[features, method, last], min(reached, default=None)
    return found, last


def complaints(text):
    """All that is wrong with the tables of a page."""
    found = []
    for row in tables(text):
        where = row.get("Paper", "?")
        if list(row) != COLUMNS:
            found.append(f"{where}: columns {list(row)}")
            continue
        for column, cell in row.items():
            if cell.strip(" -?.") == "":
                found.append(f"{where}: {column} is empty")
        if not (spans(row["Code"]) or row["Code"].startswith("None: ")):
            found.append(f"{where}: no code, and no word about that")
        nameless = [column for column in ("Test", "Command") if not spans(row[column])]
        found += [f"{where}: no name in {column}" for column in nameless]
        checks = {"Code": wrong_name, "Test": wrong_test, "Command": wrong_command}
        for column, check in checks.items():
            wrong = filter(None, map(check, spans(row[column])))
            found += [f"{where}: {message}" for message in wrong]
        rows = _numbers_of_rows() if str(ROWS.relative_to(ROOT)) in row["Seen"] else ()
        others = row["Test"].replace("tests/test_paper.py", "")  # which has wrong figures, too
        missing = unsupported(row["Seen"] + others, rows)
        found += [f"{where}: {number} is in no source" for number in missing]
    return found


def _numbers_of_rows():
    found, last = voc_figures()
    shown = [f"{precision:.4f} {draws}" for precision, draws in found.values()]
    return numbers(" ".join(shown)) | {str(last)}


def test_all_that_the_page_names_exists():
    assert complaints(PAGE) == []
    assert missing_links(PAGE) == []
    assert missing_links(PAGE.replace("(numbers.md)", "(letters.md)")) == ["letters.md"]


def listed(text):
    """The parts of the paper in first columns: {"Lemma": {1, 2, ..}, ..}."""
    found = {kind: set() for kind in PARTS}
    for row in tables(text):
        for kind, places in re.findall(r"(\w+?)s? (\d+(?:(?:, | to )\d+)*)", row["Paper"]):
            for place in places.split(", "):
                first, _, last = place.partition(" to ")
                found.get(kind.capitalize(), set()).update(
                    range(int(first), int(last or first) + 1)
                )
    return found


def test_all_of_the_paper_is_on_the_page():
    assert listed(PAGE) == PARTS


def test_every_bound_is_on_the_page():
    named = {span.removeprefix("tombola.theory.") for span in spans(PAGE)}
    constants = {name for name in theory.__all__ if name.endswith("_CONSTANT")}
    assert set(theory.__all__) - constants <= named


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("`tombola.samplers.VRB`,", "`tombola.samplers.VRC`,", "no name tombola.samplers.VRC"),
        ("`tombola.ledger.Ledger.regret`", "`tombola.ledger.Ledger.sorrow`", "no name"),
        ("`experiments.hyper`", "`experiments.hyped`", "no name"),
        ("`src/tombola/torch/loader/loader.py`", "`src/tombola/torch/leader.py`", "no file"),
        ("::test_lemma_17`", "::test_lemma_71`", "no test tests/test_lemmas.py::test_lemma_71"),
        ("`tests/test_ledger.py::", "`tests/test_edger.py::", "no test tests/test_edger.py"),
        ("`tombola reproduce hyper", "`tombola reproduce hyped", "invalid choice"),
        ("`tombola reproduce hyper", "`tombola repeat hyper", "no such command"),
        ("`tombola reproduce hyper --data", "`tombola reproduce hyper --date", "no such arguments"),
        ("`python benchmarks/index.py`", "`python benchmarks/outdex.py`", "no such script"),
        ("`python benchmarks/index.py`", "`python benchmarks/index.py --fast`", "no such option"),
        ("`python benchmarks/index.py`", "`make bench-press`", "no such target"),
        ("`python benchmarks/index.py`", "`ruby benchmarks/index.py`", "no such program"),
        ("`python -m experiments.suite`", "`python -m tombola.sweet`", "no such script"),
        ("`pytest tests/test_theory.py`", "`pytest tests/test_practice.py`", "no such test file"),
        ("None: used in proofs only", "Used in proofs only", "no code"),
        ("| The default of `MiniBatchKMeans` |", "| |", "Seen is empty"),
        ("| The default of `MiniBatchKMeans` |", "| - |", "Seen is empty"),
        ("| Code | Test |", "| Test | Code |", "columns"),
        ("0.0097 times the bound", "0.0079 times the bound", "0.0079 is in no source"),
        ("0.8366 and 0.6900", "0.8366 and 0.6990", "0.6990 is in no source"),
    ],
)
def test_a_wrong_page_is_noticed(right, wrong, message):
    assert right in PAGE
    found = complaints(PAGE.replace(right, wrong))
    assert any(message in complaint for complaint in found), found


def test_a_part_left_out_is_noticed():
    assert listed(PAGE.replace("| Lemma 17 |", "| Lemma 71 |"))["Lemma"] != PARTS["Lemma"]
    assert listed(PAGE.replace("| Equations 31 to 33 |", "| Equation 31 |")) != PARTS


def test_figures_of_voc_are_those_of_the_rows():
    """Figure 3, where the findings of the report do not say it."""
    found, last = voc_figures()
    assert last == 15_000
    assert found["efficientnet", "AW"][1] == 6000
    assert found["vgg19", "AW"][1] == 5000
    printed = ("uniform", "VRB as printed", "AW", "MABS", "MirrorDescent")
    for features, precisions in {
        "efficientnet": (0.8287, 0.8315, 0.8366, 0.8310, 0.8289),
        "vgg19": (0.6541, 0.6626, 0.6900, 0.6578, 0.6545),
        "vgg19-raw": (0.6516, 0.6579, 0.6462, 0.6447, 0.6526),
    }.items():
        rows = [found[features, method][0] for method in printed]
        assert rows == pytest.approx(precisions, abs=5e-5)
