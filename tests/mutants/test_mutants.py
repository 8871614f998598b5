"""The runner sees what it should, its lists fit the source, and a sample of mutants is killed."""

import subprocess
import sys

import pytest
import run
import worker
from equivalent import EQUIVALENT
from places import places_of
from planted import PLANTED

PROGRAM = '''
def mean(values, least=0.0):
    """Not changed: 1 + 1."""
    total = 0.0
    for value in values:
        total += max(value, least)
    if len(values) == 0:
        raise ValueError(f"{1 + 1}")
    return total / len(values)
'''


def test_each_place_is_changed_once(tmp_path):
    (tmp_path / "mean.py").write_text(PROGRAM)
    changed = [place.applied(PROGRAM) for place in places_of(tmp_path, "mean.py")]
    changes = [
        ("total = 0.0", "total = 1.0"),
        ("total += max(value, least)", "pass"),
        ("max(value, least)", "min(value, least)"),
        ("len(values) == 0", "(len(values) != 0)"),
        ("== 0", "== 1"),
        ("total / len(values)", "(total * len(values))"),
    ]
    assert sorted(changed) == sorted(PROGRAM.replace(old, new) for old, new in changes)


def test_lists_fit_the_source():
    """Each planted mutant has its place, and each equivalent one still exists."""
    assert len(run.by_hand(run.MODULES)) == len(PLANTED)
    files = {name.split(",")[0] for name in EQUIVALENT}
    names = {place.name for file in files for place in places_of(run.ROOT, file)}
    assert sorted(set(EQUIVALENT) - names) == []


def run_command(tmp_path, *options):
    """Run the command in a folder of its own."""
    command = [sys.executable, run.__file__, "--jobs", "2", "--out", str(tmp_path), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_sample_of_mutants_is_killed(tmp_path):
    """All that were planted by hand, and three of each module at random."""
    by_hand = run_command(tmp_path, "--planted")
    assert by_hand.returncode == 0, by_hand.stdout + by_hand.stderr
    for module in run.MODULES:
        sample = run_command(tmp_path, "--modules", module, "--count", "3")
        assert sample.returncode == 0, sample.stdout + sample.stderr


def test_a_time_limit_waits_for_coverage(monkeypatch):
    """An error raised while coverage holds its lock would leave it locked: the run would hang."""
    again = []
    monkeypatch.setattr(worker.signal, "setitimer", lambda kind, seconds: again.append(seconds))
    plugin = worker.Selected({})
    with pytest.raises(worker.TooLong):
        plugin.interrupt(0, sys._getframe())
    assert not again
    inside = {"plugin": plugin, "sys": sys}
    code = "def lock(): deeper()\ndef deeper(): plugin.interrupt(0, sys._getframe())"
    exec(compile(code, worker.COVERAGE + "collector.py", "exec"), inside)
    inside["lock"]()
    assert len(again) == 1
    assert 0 < again[0] < 1
