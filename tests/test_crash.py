"""Killed at random instants and resumed, a run ends in the same state as one left alone.

The run plays a `VRB` with feedback that comes two rounds late, and saves the sampler together
with the draws that are still out. As a script, this file keeps killing it:

    python tests/test_crash.py FOLDER KILLS SEED
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from states import leaves
from tombola import VRB, Draw, checkpoint

N, BATCH, LAG, SAVE_EVERY = 300, 20, 2, 3
LOSSES = 1.0 / np.arange(1, N + 1)


def make():
    return VRB(N, seed=11)


def state_of(sampler, waiting, done):
    return {
        "sampler": sampler.state_dict(),
        "waiting": [draw.to_arrays() for draw in waiting],
        "done": done,
    }


def play(rounds, path=None):
    """Play from the last save, if there is one, to the end; return the state in the end."""
    sampler, waiting, done = make(), [], 0
    if path is not None and path.exists():
        state = checkpoint.read(path)
        sampler.load_state_dict(state["sampler"])
        waiting = [Draw.from_arrays(arrays) for arrays in state["waiting"]]
        done = state["done"]
    while done < rounds:
        waiting.append(sampler.draw(BATCH))
        if len(waiting) > LAG:
            draw = waiting.pop(0)
            # the loss of an item falls while the run goes on
            sampler.update(draw, LOSSES[draw.indices] / (1 + draw.round / 100))
        done += 1
        if path is not None and (done % SAVE_EVERY == 0 or done == rounds):
            checkpoint.write(path, state_of(sampler, waiting, done))
    return state_of(sampler, waiting, done)


def digest(value):
    """A hash of a nested state."""
    if isinstance(value, dict):
        parts = [f"{name}:{digest(inner)}" for name, inner in sorted(value.items())]
    elif isinstance(value, (list, tuple)):
        parts = [digest(inner) for inner in value]
    elif isinstance(value, np.ndarray):
        parts = [str(value.dtype), str(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    else:
        parts = [repr(value)]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()


def rounds_for(kills):
    return 30 * kills + 100


def torment(folder, kills, seed):
    """Start, kill and start again; then let the last one finish. Returns the deaths.

    Children are forked off a process that has loaded everything, so that they start at once.
    """
    play(20)
    path, rng, deaths = Path(folder) / "run", random.Random(seed), 0
    for life in range(kills + 1):
        child = os.fork()
        if child == 0:
            play(rounds_for(kills), path)
            os._exit(0)
        if life < kills:
            time.sleep(rng.uniform(0.0, 0.05))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        deaths += os.WIFSIGNALED(status)
        if not os.WIFSIGNALED(status) and os.WEXITSTATUS(status):
            sys.exit("a child has failed")
    return deaths


def check(folder, kills, seed):
    command = [sys.executable, __file__, str(folder), str(kills), str(seed)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    deaths = int(output.stdout)
    undisturbed = play(rounds_for(kills))
    assert undisturbed["done"] == rounds_for(kills)
    assert undisturbed["sampler"]["tally"]["rounds"] == rounds_for(kills)
    assert digest(checkpoint.read(folder / "run")) == digest(undisturbed)
    assert deaths >= kills // 2, "most children were done before they were killed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_ten_times(tmp_path):
    check(tmp_path, 10, seed=1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_two_hundred_times(tmp_path):
    check(tmp_path, 200, seed=2)


def test_the_digest_sees_every_byte():
    """Else the comparison above would prove nothing."""
    state = play(40)
    before = digest(state)
    assert digest(play(40)) == before
    assert digest(play(41)) != before
    arrays = [leaf for leaf in leaves(state).values() if isinstance(leaf, np.ndarray)]
    assert len(arrays) > 5
    for array in arrays:
        if array.size:
            array.flags.writeable = True
            flipped = array.view(np.uint8).reshape(-1)
            flipped[-1] ^= 1
            assert digest(state) != before
            flipped[-1] ^= 1
    assert digest(state) == before


def test_forgotten_draws_change_the_end(tmp_path):
    """The wrong run saves the sampler alone: on resuming, the draws that were out are lost."""
    path = tmp_path / "run"
    play(31, path)
    state = checkpoint.read(path)
    assert len(state["waiting"]) == LAG
    checkpoint.write(path, {**state, "waiting": []})
    assert digest(play(60, path)) != digest(play(60))


if __name__ == "__main__":
    print(torment(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
