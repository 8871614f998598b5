"""Killed again and again, and started again with --resume, a run ends as one left alone.

As a script, this file keeps killing it:

    python tests/cli/test_train_crash.py FOLDER KILLS SEED
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tombola.checkpoint import read
from tombola.cli import train_fit
from tombola.cli.main import main

ARGUMENTS = ["train", "breast_cancer", "--test", "0", "--alpha", "0.01", "--tol", "0", "--epochs"]
KILLS = 8


def epochs_for(kills):
    """Return more epochs than a run reaches between so many kills."""
    return max(6000, 15 * kills)


def rounds_saved(folder):
    path = folder / "state" / "0.npz"
    return read(path)["result"]["rounds"] if path.exists() else 0


def torment(folder, kills, seed):
    """Start, kill and start again; then let the last one finish.

    Returns at how many different rounds a run was picked up that was begun and not done.
    """
    main([*ARGUMENTS, "2", "--out", str(folder / "warm")])  # all is loaded
    epochs = epochs_for(kills)
    rng, seen = random.Random(seed), set()
    for life in range(kills + 1):
        child = os.fork()
        if child == 0:
            train_fit.SAVE_EVERY = 0.0
            os._exit(main([*ARGUMENTS, str(epochs), "--out", str(folder / "run"), "--resume"]))
        if life < kills:
            before, deadline = rounds_saved(folder / "run"), time.monotonic() + 60
            while life % 2 and rounds_saved(folder / "run") == before < epochs * 569:
                time.sleep(0.01)  # however slow the machine is, every other life gets somewhere
                assert time.monotonic() < deadline
            time.sleep(rng.uniform(0.05, 0.25))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
            sys.exit("a child has failed")
        if life < kills and 0 < (saved := rounds_saved(folder / "run")) < epochs * 569:
            seen.add(saved)
    return len(seen)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_and_resumed(tmp_path):
    from states import assert_same  # the script does without

    command = [sys.executable, __file__, str(tmp_path), str(KILLS), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) >= 2, "no run was killed half-way"
    assert main([*ARGUMENTS, str(epochs_for(KILLS)), "--out", str(tmp_path / "whole")]) == 0
    ends = [
        read(tmp_path / name / "state" / "0.npz")["result"]["state"] for name in ("run", "whole")
    ]
    assert_same(*ends)
    with np.load(tmp_path / "run/model.npz") as run, np.load(tmp_path / "whole/model.npz") as whole:
        for name in whole.files:
            np.testing.assert_array_equal(run[name], whole[name], err_msg=name)
    leftovers = [path for path in (tmp_path / "run").rglob("*") if path.name.endswith(".part")]
    assert len(leftovers) <= KILLS  # of writes that were killed; none was taken for a file


if __name__ == "__main__":
    print(torment(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
