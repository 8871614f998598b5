import json
import subprocess
import sys


def printed(script):
    """Run a script in a process of its own; return what it printed."""
    return subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout


def test_import_needs_numpy_and_numba_only():
    """`import tombola` loads nothing but these two, what they load, and the standard library."""
    script = (
        "import json, sys, numba, numpy; before = set(sys.modules); import tombola; "
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    output = printed(script)
    loaded = set(json.loads(output)) - set(sys.stdlib_module_names)
    assert loaded <= {"tombola", "numba", "numpy", "llvmlite"}, loaded


def test_parts_are_imported_when_they_are_asked_for():
    script = (
        "import sys, tombola; assert 'tombola.solvers' not in sys.modules; "
        "print(tombola.solvers.__name__, tombola.problems.__name__, hasattr(tombola, 'nothing'))"
    )
    output = printed(script)
    assert output.split() == ["tombola.solvers", "tombola.problems", "False"]
