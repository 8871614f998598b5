"""docs/choose.md names every sampler and solver, and its figures have a source."""

import importlib.util
import re

import pytest

import tombola
from pages import ROOT, missing_links, spans, tables, unsupported
from tombola import samplers, solvers

PAGE = (ROOT / "docs" / "choose.md").read_text()
FOLDER = ROOT / "docs" / "choose"


def first_words(text, column):
    """The names that open the cells of a column: `VRB(n)` is VRB."""
    rows = [row for row in tables(text) if column in row]
    return {re.match(r"\w+", spans(row[column])[0])[0] for row in rows}


def public(module, *, drawing):
    """The public samplers of a module, or what else can be told to minimise."""
    found = set()
    for name in set(module.__all__) - {"Sampler", "Solver"}:
        thing = getattr(module, name)
        if issubclass(thing, tombola.Sampler) if drawing else hasattr(thing, "minimize"):
            found.add(name)
    return found


def test_every_sampler_has_a_row():
    ours = public(samplers, drawing=True)
    assert first_words(PAGE, "Sampler") == ours
    assert first_words(PAGE.replace("| `SRG(n)` |", "| `SGR(n)` |"), "Sampler") != ours


def test_every_solver_has_a_row():
    ours = public(solvers, drawing=False)
    assert {"SAGA", "WorkingSets"} <= ours
    assert first_words(PAGE, "Solver") == ours
    assert first_words(PAGE.replace("| `SVRG` |", "| `SGRV` |"), "Solver") != ours


def unsourced(text):
    """Figures with a decimal point that are in no file which their row or paragraph links to."""
    found = []
    for part in re.split(r"\n(?=[|\n-])", text):
        if "tree.py" not in part:
            found += [number for number in unsupported(part) if "." in number]
    return found


@pytest.mark.parametrize(
    ("right", "wrong"), [("1.33, 2.00", "1.337, 2.00"), ("`VRB` 64.53%", "`VRB` 64.35%")]
)
def test_figures_have_a_source(right, wrong):
    assert unsourced(PAGE) == []
    assert right in PAGE
    assert len(unsourced(PAGE.replace(right, wrong))) == 1


def test_no_cell_is_empty_and_no_link_is_broken():
    for row in tables(PAGE):
        assert all(cell.strip(" -?.") for cell in row.values()), row
    assert missing_links(PAGE) == []


def test_pictures_are_those_of_the_script():
    path = FOLDER / "tree.py"
    spec = importlib.util.spec_from_file_location("tree", path)
    tree = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tree)
    for name in tree.TREES:
        assert (FOLDER / f"{name}.svg").read_text() == tree.drawn(name), f"run {path}"
        assert f"(choose/{name}.svg)" in PAGE
    answers = {
        re.sub(r"\W.*", "", word.removeprefix("estimators."))
        for name in ("sampler", "solver")
        for _, yes in tree.TREES[name][1]
        for word in yes
    }
    named = first_words(PAGE, "Sampler") | first_words(PAGE, "Solver")
    assert {word for word in answers if word[:1].isupper()} <= named | {"KMeans"}
