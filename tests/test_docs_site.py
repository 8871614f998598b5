"""The documentation site: its snippets run, its navigation and reference are complete."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

import tombola
from pages import ROOT, missing_links, unsupported

DOCS = ROOT / "docs"
PUBLIC = [
    "tombola",
    "tombola.advice",
    "tombola.checkpoint",
    "tombola.dask",
    "tombola.datasets",
    "tombola.estimators",
    "tombola.ledger",
    "tombola.models",
    "tombola.problems",
    "tombola.samplers",
    "tombola.simulate",
    "tombola.solvers",
    "tombola.testing",
    "tombola.theory",
    "tombola.torch",
    "tombola.torch.loggers",
    "tombola.torch.replay",
]


def script(path):
    """Import a script of docs/."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fences(text, kind):
    """What stands in the fenced blocks of a kind."""
    return re.findall(rf"^```{re.escape(kind)}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


# --- snippets --------------------------------------------------------------------------------


ELSEWHERE = {"docs/dask.md", "docs/pytorch.md", "docs/write_your_own_sampler.md"}
PAGES = [
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    if "```python" in path.read_text()
]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ELSEWHERE])
def test_snippets_run_as_printed(page, tmp_path, monkeypatch):
    """One after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text()
    snippets = fences(text, "python")
    assert len(snippets) == text.count("```python") > 0
    names = {"__name__": "__main__"}
    for snippet in snippets:
        exec(snippet, names)
    if page == "docs/write_your_own_problem.md":
        check_the_solver_of_the_page(names)


def check_the_solver_of_the_page(names):
    """It minimises, and resumes to the same bytes: what the page says of it."""
    from scipy.optimize import minimize

    problem, solver, result = names["problem"], names["solver"], names["result"]
    best = minimize(problem.value, problem.as_matrix(None)[0], jac=problem.gradient).fun
    assert best < problem.value(result.solution) < best + 0.005 * (problem.value(None) - best)
    half = solver.minimize(problem, sampler=tombola.VRB(problem.n), rounds=1500)
    resumed = solver.minimize(problem, resume=half, rounds=4000)
    assert (resumed.solution == result.solution).all()


def test_snippets_of_the_dask_page(tmp_path):
    """In a process of its own: a cluster leaves sockets, and warns of ports that others use."""
    pytest.importorskip("distributed")
    (snippet,) = fences((DOCS / "dask.md").read_text(), "python")
    path = tmp_path / "snippet.py"
    path.write_text(f"{snippet}\nassert local.score(rows.iloc[:, :3], rows['clicked']) > 0.99\n")
    subprocess.run([sys.executable, str(path)], cwd=tmp_path, check=True)


# --- navigation ------------------------------------------------------------------------------


def entries(text):
    """The pages that the toctrees of a page name."""
    lines = "\n".join(fences(text, "{toctree}")).splitlines()
    lines = [line.strip() for line in lines if line.strip() and not line.startswith(":")]
    return [re.sub(r".*<(.*)>", r"\1", line) for line in lines]


def reached(start="index"):
    """All pages that the navigation leads to."""
    found, waiting = set(), [start]
    while waiting:
        page = waiting.pop()
        found.add(page)
        path = DOCS / f"{page}.md"
        if path.exists():
            waiting += [entry for entry in entries(path.read_text()) if entry not in found]
    return found


def test_every_page_is_in_the_navigation():
    pages = {
        str(path.relative_to(DOCS).with_suffix(""))
        for path in [*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")]
    }
    assert len(pages) > 30
    assert reached() - {"examples/index"} == pages  # which the gallery writes
    assert entries("```{toctree}\n:hidden:\n\nOne <one>\ntwo/three\n```\n") == ["one", "two/three"]


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_no_local_link_is_broken(page):
    missing = missing_links((DOCS / page).read_text())
    assert [link for link in missing if not link.startswith(("examples/", "mailto:"))] == []


# --- reference -------------------------------------------------------------------------------


def listed(text):
    """The names that the reference lists, and what they are."""
    found = {}
    for block in fences(text, "{eval-rst}"):
        for name in re.findall(r"^   (tombola\.\S+)$", block, flags=re.MULTILINE):
            module, _, last = name.rpartition(".")
            found[name] = getattr(import_module(module), last)
    return found


def missing(text):
    """The public names that the reference does not list, under any module."""
    found = listed(text)
    things = {id(thing) for thing in found.values()}
    return [
        f"{module}.{name}"
        for module in PUBLIC
        for name in import_module(module).__all__
        if f"{module}.{name}" not in found
        and id(getattr(import_module(module), name)) not in things
        and f"{module}.{name}" not in PUBLIC
    ]


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "reference.md").read_text()
    assert missing(text) == []
    assert missing(text.replace("   tombola.SRG\n", "")) == ["tombola.SRG", "tombola.samplers.SRG"]
    assert missing(text.replace("   tombola.testing.ALPHA\n", "")) == ["tombola.testing.ALPHA"]


# --- evidence, and how it works --------------------------------------------------------------


def unsourced(text):
    """Figures with a decimal point that are in no file which their row or paragraph links to."""
    parts = re.split(r"\n(?=[|\n-])", text)
    return [number for part in parts for number in unsupported(part) if "." in number]


def test_figures_of_the_evidence_have_a_source():
    text = (DOCS / "evidence.md").read_text()
    assert unsourced(text) == []
    assert "1.50 [1.43, 1.67]" in text
    assert unsourced(text.replace("1.50 [1.43, 1.67]", "1.56 [1.43, 1.67]")) == ["1.56"]


def test_the_evidence_tells_of_losses():
    rows = [line for line in (DOCS / "evidence.md").read_text().splitlines() if line[:1] == "|"]
    assert sum("**loses**" in row for row in rows) >= 5


def test_the_board_is_that_of_the_index():
    """The pictures show the columns where the index has them, before and after a change."""
    folder = DOCS / "how_it_works"
    board = script(folder / "board.py")
    for name in ("draw", "set"):
        assert (folder / f"{name}.svg").read_text() == board.drawn(name), "run board.py"
        assert f"(how_it_works/{name}.svg)" in (DOCS / "how_it_works.md").read_text()
    before, after = board.orders()
    index = tombola.WeightIndex(board.WEIGHTS)
    assert index._index.order.tolist() == before
    index.set([board.CHANGED], [board.NEW])
    assert index._index.order.tolist() == after


# --- benchmarks and gallery ------------------------------------------------------------------


def test_the_benchmarks_page_is_that_of_the_committed_rows(monkeypatch):
    page = script(ROOT / "benchmarks" / "page.py")
    text, pictures = page.written()
    assert (DOCS / "benchmarks.md").read_text() == text, "run `make bench-page`"
    assert set(pictures) == set(page.SECTIONS) - {"clock", "dask"}  # which have their own
    assert all((page.PICTURES / f"{name}.png").exists() for name in pictures)
    assert "tianshou's `SegmentTree` 2.0.1" in text

    kept = page.rows_of
    monkeypatch.setattr(page, "rows_of", lambda name, *key: kept(name, *key)[1:])
    assert page.written()[0] != text


GALLERY = sorted((DOCS / "gallery").glob("*.py"))


def test_the_gallery_has_eight_examples():
    assert len(GALLERY) == 8
    assert all(path.name.startswith("plot_") for path in GALLERY)  # the others are not run


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_has_what_it_imports(path, monkeypatch):
    """A page of its own, a picture at least, and names that are there."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    tree = ast.parse(path.read_text())
    title, rule = ast.get_docstring(tree).splitlines()[:2]
    assert rule == len(title) * "="
    assert "plt.show()" in path.read_text()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = import_module(node.module)
            assert all(hasattr(module, name.name) for name in node.names)


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_runs(path):
    ended = subprocess.run(
        [sys.executable, path], check=False, capture_output=True, text=True, timeout=600, cwd=ROOT,
        env={**os.environ, "MPLBACKEND": "Agg",
             "PYTHONPATH": os.pathsep.join(str(ROOT / it) for it in (".", "examples", "src"))},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
