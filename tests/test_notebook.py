"""examples/tour.ipynb: a valid notebook, whose cells run and print what is committed."""

import ast
import copy
import json
import re
import sys
from importlib.util import find_spec

import pytest

from notebook import TOUR, code_cells, pictures, printed, run, source
from pages import LINK

NOTEBOOK = json.loads(TOUR.read_text())
VARIES, TORCH = "varies", "torch"  # tags: depends on the clock, needs PyTorch
CELL_KEYS = {
    "markdown": {"cell_type", "id", "metadata", "source"},
    "code": {"cell_type", "execution_count", "id", "metadata", "outputs", "source"},
}
OUTPUT_KEYS = {
    "stream": {"output_type", "name", "text"},
    "display_data": {"output_type", "data", "metadata"},
}


def tags(cell):
    return set(cell["metadata"].get("tags", []))


def faults(notebook):
    """What is not as nbformat 4.5 has it, or was not run from top to bottom."""
    found = []
    if set(notebook) != {"cells", "metadata", "nbformat", "nbformat_minor"}:
        found.append(f"the notebook has {sorted(notebook)}")
    if (notebook.get("nbformat"), notebook.get("nbformat_minor")) != (4, 5):
        found.append("it is not of format 4.5")
    for cell in notebook["cells"]:
        name = cell.get("id", "?")
        if set(cell) != CELL_KEYS.get(cell.get("cell_type")):
            found.append(f"{name}: keys {sorted(cell)}")
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
            found.append(f"{name}: not an id")
        if not all(isinstance(line, str) for line in cell["source"]):
            found.append(f"{name}: its source is not lines of text")
        if not tags(cell) <= {VARIES, TORCH}:
            found.append(f"{name}: tags {sorted(tags(cell))}")
        found += [
            f"{name}: an output has {sorted(output)}"
            for output in cell.get("outputs", [])
            if set(output) != OUTPUT_KEYS.get(output.get("output_type"))
        ]
    names = [cell.get("id") for cell in notebook["cells"]]
    if len(set(names)) < len(names):
        found.append("an id occurs twice")
    counts = [cell.get("execution_count") for cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        found.append(f"cells were run in the order {counts}")
    return found


def differences(cells):
    """Run cells; return how their outputs differ from those that are committed."""
    found = []
    for cell, outputs in zip(cells, run(cells), strict=True):
        name, old = cell["id"], cell["outputs"]
        if TORCH in tags(cell) and find_spec("torch") is None:
            continue
        if VARIES not in tags(cell) and printed(outputs) != printed(old):
            found.append(f"{name}: prints {printed(outputs)!r}, not {printed(old)!r}")
        if bool(printed(outputs)) != bool(printed(old)):
            found.append(f"{name}: prints something, or does not")
        if len(pictures(outputs)) != len(pictures(old)):
            found.append(f"{name}: {len(pictures(outputs))} pictures, not {len(pictures(old))}")
    return found


def changed(right, wrong, count):
    """The first code cells, with one piece of code replaced."""
    cells = copy.deepcopy(code_cells(NOTEBOOK)[:count])
    assert sum(source(cell).count(right) for cell in cells) == 1
    for cell in cells:
        cell["source"] = [source(cell).replace(right, wrong)]
    return cells


def test_cells_run_and_print_what_is_committed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert differences(code_cells(NOTEBOOK)) == [], "run `python tests/notebook.py`"
    assert list(tmp_path.iterdir()) == []  # a reader's folder stays as it was


def test_a_changed_cell_is_noticed():
    assert differences(code_cells(NOTEBOOK)[:2]) == []
    seed = differences(changed("VRB(len(losses), seed=0)", "VRB(len(losses), seed=1)", 2))
    assert [message.split(":")[0] for message in seed] == ["draw-update-gauge", "estimates"]
    hidden = differences(changed("plt.show()\n", "plt.close()\n", 2))
    assert hidden == ["estimates: 0 pictures, not 1"]
    with pytest.raises(AttributeError, match="VRC"):
        differences(changed("tombola.VRB(", "tombola.VRC(", 1))


def test_it_needs_the_extra_cli_only(monkeypatch):
    """Without PyTorch, the last cell says so."""
    known = {"matplotlib", "numpy", "sklearn", "threadpoolctl", "tombola", *sys.stdlib_module_names}
    for cell in code_cells(NOTEBOOK):
        nodes = list(ast.walk(ast.parse(source(cell))))
        modules = [
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        ]
        modules += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
        others = {module.split(".")[0] for module in modules} - known
        assert others == ({"torch"} if TORCH in tags(cell) else set()), cell["id"]

    monkeypatch.setitem(sys.modules, "torch", None)
    cells = [cell for cell in code_cells(NOTEBOOK) if TORCH in tags(cell)]
    assert [printed(outputs)[:24] for outputs in run(cells)] == ["PyTorch is not installed"]


def test_the_notebook_is_valid():
    assert faults(NOTEBOOK) == []
    assert {cell["cell_type"] for cell in NOTEBOOK["cells"]} == {"code", "markdown"}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda notebook: notebook.update(nbformat_minor=4), "format 4.5"),
        (lambda notebook: notebook.pop("metadata"), "the notebook has"),
        (lambda notebook: notebook["cells"][0].pop("id"), "keys"),
        (lambda notebook: notebook["cells"].append(notebook["cells"][0]), "twice"),
        (lambda notebook: code_cells(notebook)[0].update(execution_count=7), "the order"),
        (lambda notebook: code_cells(notebook)[0]["outputs"][0].pop("name"), "an output has"),
        (lambda notebook: code_cells(notebook)[0]["metadata"].update(tags=["slow"]), "tags"),
    ],
)
def test_faults_are_noticed(spoil, message):
    notebook = copy.deepcopy(NOTEBOOK)
    spoil(notebook)
    assert any(message in fault for fault in faults(notebook))


def test_it_can_be_read_on_a_forge():
    """It is small, has its outputs, and its links lead somewhere."""
    assert TOUR.stat().st_size < 400_000
    cells = code_cells(NOTEBOOK)
    assert all(cell["outputs"] for cell in cells)
    shown = [png for cell in cells for png in pictures(cell["outputs"])]
    assert len(shown) >= 4
    assert all(png.startswith(b"\x89PNG") for png in shown)
    words = "\n".join(source(cell) for cell in NOTEBOOK["cells"] if cell not in cells)
    links = [link for link in LINK.findall(words) if "://" not in link]
    assert len(links) >= 5
    assert [link for link in links if not (TOUR.parent / link).exists()] == []


def test_words_have_no_figures():
    """What cells print may change; a number in the words around them would stay."""
    for cell in NOTEBOOK["cells"]:
        if cell["cell_type"] == "markdown":
            assert not re.search(r"\d\d|\d[.,]\d|\d%", source(cell)), cell["id"]
