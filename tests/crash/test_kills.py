"""Killed at random instants and resumed, a run ends in the same bytes as one left alone."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from crash import run as campaign
from crash import small_disk, solver_runs
from crash.killing import files_in
from crash.sampler_runs import LAG, play
from states import leaves
from tombola import VRB, checkpoint

needs_fork = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")


def alone(code):
    """Run some lines in a process of their own, without threads; return what they print."""
    lines = f"import json, sys\nsys.path[:0] = {campaign.PATHS!r}\n{code}"
    environment = {**os.environ, **campaign.ONE_THREAD}
    done = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


RUN = """
from pathlib import Path
from crash import {family}_runs, sweep_runs
from crash.killing import aimed, torment
sweep_runs.install()
run = next(run for run in {family}_runs.runs() if run.name == {name!r})
print(json.dumps({what}))
"""


@needs_fork
def test_a_sampler_killed_ten_times(tmp_path):
    what = f"vars(torment(run, 10, 1, Path({str(tmp_path)!r})))"
    tally = alone(RUN.format(family="sampler", name="VRB", what=what))
    assert tally["wrong"] == []
    assert tally["same"] == tally["kills"] == 10


@needs_fork
def test_a_short_campaign(capsys):
    arguments = ["--kills", "10", "--seed", "1", "--only", "sweep", "--disks", "none"]
    assert campaign.main(arguments) == 0
    assert "10 of 10 resumed to the same bytes" in capsys.readouterr().out


@needs_fork
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_two_hundred_times(capsys):
    assert campaign.main(["--kills", "200", "--seed", "2"]) == 0
    assert "200 of 200 resumed to the same bytes" in capsys.readouterr().out


@needs_fork
@pytest.mark.parametrize(
    ("family", "name", "steps"),
    [
        ("sampler", "VRB", 20),
        pytest.param("sweep", "sweep, one process", 20, marks=pytest.mark.slow),
        pytest.param("command", "train, regression", 10, marks=pytest.mark.slow),
    ],
)
def test_killed_at_each_step_of_a_save(family, name, steps, tmp_path):
    what = f"aimed(run, Path({str(tmp_path)!r}), range({steps}))"
    assert alone(RUN.format(family=family, name=name, what=what)) == [[], steps]


IN_PLACE = """
from pathlib import Path
from crash.killing import Run, aimed
from crash.test_kills import play_in_place
print(json.dumps(aimed(Run("in place", play_in_place), Path({folder!r}), range(14))))
"""


def play_in_place(folder):
    """The wrong way to save: the last save is gone before the new one is complete."""

    def write(path, state):
        path.write_bytes(b"")
        checkpoint.write(path, state)

    play(VRB(300, seed=11), 10, folder / "run", write)


@needs_fork
def test_a_save_in_place_is_found_out(tmp_path):
    wrong, kills = alone(IN_PLACE.format(folder=str(tmp_path)))
    assert kills == 14
    assert "is not a complete checkpoint" in wrong[0]
    assert len(wrong) >= 8


def test_forgotten_draws_change_the_end(tmp_path):
    """The wrong run saves the sampler alone: on resuming, the draws that were out are lost."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder, rounds in ((whole, 60), (cut, 31)):
        folder.mkdir()
        play(VRB(300, seed=11), rounds, folder / "run")
    state = checkpoint.read(cut / "run")
    assert len(state["waiting"]) == LAG
    kept = (cut / "run").read_bytes()
    play(VRB(300, seed=11), 60, cut / "run")
    assert files_in(cut) == files_in(whole)
    (cut / "run").write_bytes(kept)
    checkpoint.write(cut / "run", {**state, "waiting": []})
    play(VRB(300, seed=11), 60, cut / "run")
    assert files_in(cut) != files_in(whole)


def test_the_outcome_of_a_solver_sees_every_byte_but_seconds(tmp_path):
    solver_runs.play("SGD, dense", tmp_path)
    path = tmp_path / "result"
    state, known = checkpoint.read(path), solver_runs.outcome(tmp_path)
    arrays = {name: leaf for name, leaf in leaves(state).items() if isinstance(leaf, np.ndarray)}
    assert len(arrays) > 10
    for name, array in arrays.items():
        if array.size:
            flipped = array.reshape(-1).view(np.uint8)
            flipped[-1] ^= 1
            checkpoint.write(path, state)
            found = solver_runs.outcome(tmp_path)
            flipped[-1] ^= 1
            assert (found == known) == (name == "trace.seconds"), name


@pytest.mark.skipif(not small_disk.possible(), reason="no file system can be mounted here")
def test_on_a_disk_that_is_full_and_read_only():
    tested = campaign.disks(["sampler", "sweep"])
    assert [line["wrong"] for line in tested] == [[], []]
    assert all(line["full"] >= 3 and line["read-only"] >= 3 for line in tested)
