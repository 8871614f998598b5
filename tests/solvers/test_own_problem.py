"""A loss of your own is a few lines, and works with every solver."""

import math
import subprocess
import sys
import types

import numpy as np
import pytest
from scipy.optimize import minimize

import tombola
from players import Outside
from tombola.problems import LinearProblem
from tombola.problems.linear import Linear
from tombola.solvers import SAGA, SGD, SVRG, AdaGrad


class HuberModel(Linear):
    """Quadratic up to 1, linear beyond."""

    def slopes(self, item, z, out):
        residual = z[0] - self.targets[item]
        out[0] = max(-1.0, min(1.0, residual))
        size = abs(residual)
        return size - 0.5 if size > 1.0 else 0.5 * residual * residual


class Huber(LinearProblem):
    model_class = HuberModel
    curvature = 1.0


def huber():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    return Huber(
        X, X @ [1.0, 2.0, -1.0] + rng.standard_t(1.5, size=50), alpha=0.05, fit_intercept=True
    )


@pytest.mark.parametrize(
    ("solver", "tolerance"),
    [
        (SGD(0.5, schedule="root"), 0.02),  # as in test_convergence.py
        (SGD(0.03, average=True), 0.02),
        (AdaGrad(0.5), 0.02),
        (SAGA(), 1e-6),
        (SVRG(), 1e-6),
    ],
)
def test_all_solvers_minimise_it(solver, tolerance):
    problem = huber()
    found = minimize(problem.value, np.zeros(4), jac=problem.gradient, options={"gtol": 1e-9})
    result = solver.minimize(problem, sampler=Outside(tombola.VRB(50)), rounds=10_000)
    excess = (problem.value(result.solution) - found.fun) / (problem.value(None) - found.fun)
    assert -1e-9 < excess < tolerance


SOURCE = """
class Mine(Linear):
    def slopes(self, item, z, out):
        out[0] = {slope}
        return {loss}
"""


def typed_in(slope="z[0]", loss="0.5 * z[0] * z[0]", before=""):
    """A class as typed into a notebook: it has no source file."""
    sys.modules.setdefault("typed_in", types.ModuleType("typed_in"))
    names = {"Linear": Linear, "math": math, "__name__": "typed_in"}
    exec(before + SOURCE.format(slope=slope, loss=loss), names)
    return names["Mine"]


@pytest.mark.parametrize(
    "other",
    [
        {"slope": "2.0 * z[0]"},  # a constant
        {"slope": "z[0] + z[0]"},  # an operation
        {"slope": "math.sin(z[0])"},
        {"before": "SCALE = 3.0\n", "slope": "SCALE * z[0]"},
    ],
)
def test_machine_code_is_filed_by_source(other):
    assert typed_in().__name__ != typed_in(**other).__name__


def test_the_same_source_has_the_same_name():
    """Otherwise cached code would never be found again."""
    options = {"before": "SCALE = 3.0\n", "slope": "SCALE * math.sin(z[0])"}
    assert typed_in(**options).__name__ == typed_in(**options).__name__


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # the same bytes and constants: only the name that is looked up differs
        ({"slope": "math.sin(z[0])"}, {"slope": "math.cos(z[0])"}),
        # the same function: only what it finds differs
        (
            {"before": "SCALE = 3.0\n", "slope": "SCALE * z[0]"},
            {"before": "SCALE = 4.0\n", "slope": "SCALE * z[0]"},
        ),
        (
            {"before": "def help(x):\n    return x + 1.0\n", "slope": "help(z[0])"},
            {"before": "def help(x):\n    return x + 2.0\n", "slope": "help(z[0])"},
        ),
    ],
)
def test_what_a_function_looks_up_counts(one, other):
    assert typed_in(**one).__name__ != typed_in(**other).__name__


def test_a_solver_of_your_own_is_compiled_anew_when_its_step_changes(tmp_path, monkeypatch):
    """Machine code is filed by the name of the run's class, which must follow the source."""
    source = """
from typing import Any
import numpy as np
from tombola.solvers import Solver
from tombola.solvers.run import Progress, Run, new_batch
from tombola.state import array, cell


class Counting(Run):
    w: Any = array("how far it is")

    def step(self):
        self.progress[0].rounds += 1
        self.w[0] += {amount}
        self.batch.losses[0] = 1.0
        return -1


class Counter(Solver):
    def _check(self, problem):
        pass

    def _begin(self, problem, start, sampler):
        return Counting(new_batch(1), cell(Progress()), np.zeros(1))

    def _solution(self, problem, run):
        return run.w.copy()
"""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    script = """
import subprocess
import sys
sys.path.insert(0, sys.argv[1])
import tombola
from own_solver import Counter


class Problem:
    n = 3

    def value(self, solution):
        return 0.0


print(Counter().minimize(Problem(), sampler=tombola.Uniform(3), rounds=5).solution[0])
"""
    for amount in (1.0, 2.0):
        (tmp_path / "own_solver.py").write_text(source.format(amount=amount))
        command = [sys.executable, "-c", script, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout.strip() == str(5 * amount), done.stderr
