"""A misspelt field of a state is an error of mypy, before anything runs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

MISSPELT = {  # module: what one of its rules says, the same misspelt, what mypy says of it
    "samplers/algorithm_1": (
        "normalised(loss, self.rule[0].unit)",
        "normalised(loss, self.rule[0].unti)",
        '"PrintedRule" has no attribute "unti"',
    ),
    "samplers/default_rule": (
        "had_loss = self.visits[item] > 0.0",
        "had_loss = self.visit[item] > 0.0",
        '"ParameterFree" has no attribute "visit"',
    ),
    "samplers/group_rule": (
        "root = state.members.sums[c].total",
        "root = state.members.sums[c].totl",
        '"Sums" has no attribute "totl"',
    ),
    "samplers/rivals/avare": (
        "rule.due = fed +",
        "rule.deu = fed +",
        '"AvareRule" has no attribute "deu"',
    ),
    "samplers/rivals/mirror_descent": (
        "rule.summed += 1",
        "rule.sumed += 1",
        '"MirrorRule" has no attribute "sumed"',
    ),
    "solvers/descent/dense": (
        "run.rates[0].square_sum += squared_length(g, run.paces)",
        "run.rates[0].squares_sum += squared_length(g, run.paces)",
        '"Rates" has no attribute "squares_sum"',
    ),
    "solvers/dual/run": (
        "+ run.level[0].scale * options.roundness",
        "+ run.level[0].scal * options.roundness",
        '"Level" has no attribute "scal"',
    ),
}


def complaints(*more):
    """What mypy says of these modules."""
    run = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-pretty"),
            *("--cache-dir", os.devnull, *more),
            *(f"src/tombola/{module}.py" for module in MISSPELT),
        ],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": "src"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode in (0, 1), run.stderr
    modules = tuple(f"src/tombola/{module}.py:" for module in MISSPELT)
    return [line for line in run.stdout.splitlines() if line.startswith(modules)]


def test_a_misspelt_field_is_an_error_of_mypy(tmp_path):
    """One error at each planted line; none without them."""
    assert complaints() == []
    shadows, expected = [], []
    for k, (module, (right, wrong, message)) in enumerate(MISSPELT.items()):
        path, planted = f"src/tombola/{module}.py", tmp_path / f"{k}.py"
        text = (ROOT / path).read_text()
        assert text.count(right) == 1, module
        planted.write_text(text.replace(right, wrong))
        shadows += ["--shadow-file", path, str(planted)]
        expected.append(f"{path}:{text[: text.index(right)].count(chr(10)) + 1}: error: {message}")
    for line, error in zip(sorted(complaints(*shadows)), sorted(expected), strict=True):
        assert line.startswith(error)
