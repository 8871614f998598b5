"""A new solver, written as CONTRIBUTING.md and docs/write_your_own_problem.md describe."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tombola
from pages import ROOT, spans, tables
from players import Outside
from states import assert_same
from tombola.problems import LeastSquares
from tombola.solvers import Solver
from tombola.solvers.run import Run
from tombola.testing import check_state

sys.path.append(str(Path(__file__).parent.parent / "state"))  # for `test_conformance.Run`
PAGE = (ROOT / "docs" / "write_your_own_problem.md").read_text()
N = 60


@pytest.fixture(scope="module")
def heavy_ball(tmp_path_factory):
    """The module that holds the solver of the page, and nothing else of the page."""
    folder = tmp_path_factory.mktemp("solvers")
    section = PAGE[PAGE.index("## A solver") :]
    code = re.search(r"^```python\n(.*?)^```", section, flags=re.DOTALL | re.MULTILINE)[1]
    code = code[: code.index("\n\nproblem = ")]
    (folder / "heavy_ball.py").write_text(f"import math\n\nimport numpy as np\n\n{code}")
    assert code.count("\n") < 80  # a few dozen lines
    sys.path.insert(0, str(folder))
    yield importlib.import_module("heavy_ball")
    sys.path.remove(str(folder))


def problem(**options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) * rng.exponential(size=(N, 1))
    return LeastSquares(X, X @ [1.0, 2.0, -1.0, 0.5] + rng.normal(size=N), alpha=0.1, **options)


SAMPLERS = {
    "VRB": lambda: tombola.VRB(N),
    "Shuffle": lambda: tombola.Shuffle(N),
}


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("name", SAMPLERS)
def test_compiled_and_plain_samplers_agree(heavy_ball, name, batch):
    solver = heavy_ball.HeavyBall(0.001, batch_size=batch)
    fused = solver.minimize(problem(), sampler=SAMPLERS[name](), rounds=300)
    plain = solver.minimize(problem(), sampler=Outside(SAMPLERS[name]()), rounds=300)
    assert_same(fused.state["parts"], plain.state["parts"])
    assert fused.item_gradients == 300 * batch


def test_it_reaches_the_optimum(heavy_ball):
    it = problem()
    X, y = it.model.rows.values, it.model.targets
    best = np.linalg.solve(X.T @ X / N + 0.1 * np.eye(4), X.T @ y / N)
    found = heavy_ball.HeavyBall(2e-4).minimize(it, sampler=tombola.VRB(N), rounds=40_000).solution
    assert it.value(found) - it.value(best) < 0.01 * (it.value(None) - it.value(best))


def test_it_resumes_to_the_same_bytes(heavy_ball, tmp_path):
    solver = heavy_ball.HeavyBall(0.001, batch_size=5)
    whole = solver.minimize(problem(), sampler=tombola.VRB(N), rounds=300)
    solver.minimize(problem(), sampler=tombola.VRB(N), rounds=120).save(tmp_path / "half")
    half = tombola.solvers.Result.load(tmp_path / "half")
    assert_same(solver.minimize(problem(), resume=half, rounds=300).state, whole.state)


def test_its_state(heavy_ball):
    """It is saved, loaded and refused as any other state is."""
    from test_conformance import Run

    solver = heavy_ball.HeavyBall(0.001, batch_size=5)
    check_state(lambda: Run(solver, problem, SAMPLERS["VRB"]), Run.play)


def test_it_says_what_it_needs_and_when_it_diverges(heavy_ball):
    with pytest.raises(TypeError, match="no l1 and no intercept"):
        heavy_ball.HeavyBall(0.001).minimize(problem(fit_intercept=True), rounds=1)
    with pytest.raises(tombola.solvers.DivergenceError, match="HeavyBall diverged in round"):
        heavy_ball.HeavyBall(1e3).minimize(problem(), rounds=3000)
    with pytest.raises(TypeError, match="HeavyBall cannot feed a sampler that needs all losses"):
        heavy_ball.HeavyBall(0.001).minimize(
            problem(), sampler=tombola.FTRL(N, bound=1.0), rounds=1
        )


# --- the rooms --------------------------------------------------------------------------------


ROWS = [row for row in tables((ROOT / "CONTRIBUTING.md").read_text()) if "Base of its run" in row]


def named(cell):
    """The classes that a cell names."""
    parts = [name.rpartition(".") for name in spans(cell)]
    return [getattr(importlib.import_module(module), name) for module, _, name in parts]


def test_every_room_is_listed_with_its_bases():
    rooms = {path.parent.name for path in (ROOT / "src/tombola/solvers").glob("*/__init__.py")}
    assert {spans(row["Room"])[0].split("/")[-2] for row in ROWS} == rooms
    for row in ROWS:
        assert all(issubclass(base, Solver) for base in named(row["Base of the solver"]))
        assert all(issubclass(base, Run) for base in named(row["Base of its run"]))


SOLVERS = [
    kind
    for kind in (getattr(tombola.solvers, name) for name in tombola.solvers.__all__)
    if issubclass(kind, Solver) and kind is not Solver
]


@pytest.mark.parametrize("kind", SOLVERS)
def test_every_solver_has_the_bases_of_its_room(kind):
    room = kind.__module__.split(".")[-2]
    (row,) = [row for row in ROWS if spans(row["Room"])[0].endswith(f"/{room}/")]
    assert any(issubclass(kind, base) for base in named(row["Base of the solver"]))
