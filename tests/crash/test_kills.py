"""Killed at random instants and resumed, a run ends in the same bytes as one left alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from crash import run as campaign
from crash import small_disk
from crash.killing import Run, aimed, torment
from crash.sampler_runs import LAG, ROUNDS, play
from states import leaves
from tombola import VRB, checkpoint
from tombola.archive import MARK

needs_fork = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
TESTS = str(Path(__file__).parents[1])


def make():
    return VRB(300, seed=11)


def last_saved(folder):
    """The bytes of the last save, without its checksum."""
    return {"run": (folder / "run").read_bytes().hex()}


def ends(rounds, folder, **options):
    play(make(), rounds, folder / "run", **options)
    return last_saved(folder)


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)


@needs_fork
def test_killed_ten_times(environment, capsys):
    assert campaign.main(["--kills", "10", "--seed", "1", "--only", "sampler", "--no-faults"]) == 0
    assert "10 of 10 resumed to the same bytes" in capsys.readouterr().out


@needs_fork
@pytest.mark.slow
def test_killed_two_hundred_times(environment, capsys):
    assert campaign.main(["--kills", "200", "--seed", "2"]) == 0
    assert "200 of 200 resumed to the same bytes" in capsys.readouterr().out


def alone(code):
    """Run a few lines in a process of their own, which has no threads; return what they print."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {TESTS!r})\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


AIMED = """
import json
from pathlib import Path
from crash import {family}_runs, sweep_runs
from crash.killing import aimed
sweep_runs.install()
run = next(run for run in {family}_runs.runs() if run.name == {name!r})
print(json.dumps(aimed(run, Path({folder!r}), {steps})))
"""


@needs_fork
@pytest.mark.parametrize(
    ("family", "name", "steps"),
    [
        ("sampler", "VRB", range(20)),
        ("sweep", "sweep, one process", range(20)),
        ("command", "train, regression", range(10)),
    ],
)
def test_killed_at_each_step_of_a_save(family, name, steps, tmp_path):
    code = AIMED.format(family=family, name=name, folder=str(tmp_path / "runs"), steps=steps)
    assert alone(code) == [[], len(steps)]


IN_PLACE = """
import json
from pathlib import Path
from crash.killing import Run, aimed
from crash.test_kills import ends, write_in_place
run = Run("in place", lambda folder: ends(40, folder, write=write_in_place) and None)
wrong, kills = aimed(run, Path({folder!r}), range(6))
print(json.dumps([len(wrong), kills]))
"""


def write_in_place(path, state):
    """The wrong way to save: the last save is gone before the new one is written."""
    path.write_bytes(b"")
    checkpoint.write(path, state)


@needs_fork
def test_a_save_in_place_is_found_out(tmp_path):
    wrong, kills = alone(IN_PLACE.format(folder=str(tmp_path / "runs")))
    assert kills == 6
    assert wrong >= 5
