"""Every sampler of the library, fed two rounds late, saved with the draws that are still out."""

import numpy as np

import tombola
from crash.killing import Run
from players import by_epochs, ours
from tombola import Draw, checkpoint

N, BATCH, LAG, ROUNDS, SAVE_EVERY = 300, 20, 2, 120, 2
LOSSES = 1.0 / np.arange(1, N + 1)


def state_of(sampler, waiting, done):
    return {
        "sampler": sampler.state_dict(),
        "waiting": [draw.to_dict() for draw in waiting],
        "done": done,
    }


def play(sampler, rounds, path=None, write=checkpoint.write):
    """Play from the last save, if there is one, to the end; return the state in the end."""
    waiting, done = [], 0
    if path is not None and path.exists():
        state = checkpoint.read(path)
        sampler.load_state_dict(state["sampler"])
        waiting = [Draw.read(saved) for saved in state["waiting"]]
        done = state["done"]
    while done < rounds:
        waiting.append(sampler.draw(BATCH))
        if len(waiting) > LAG:
            feed(sampler, waiting.pop(0))
        done += 1
        if path is not None and (done % SAVE_EVERY == 0 or done == rounds):
            write(path, state_of(sampler, waiting, done))
    return state_of(sampler, waiting, done)


def feed(sampler, draw):
    """Feed losses that fall while the run goes on."""
    if sampler.feedback == "all":
        sampler.update_all(LOSSES / (1 + draw.round / 100))
    else:
        sampler.update(draw, LOSSES[draw.indices] / (1 + draw.round / 100))


def play_alone(make, folder):
    """Play with `tombola.save` and `tombola.load`: the file holds the sampler alone."""
    path = folder / "sampler.npz"
    sampler = tombola.load(path) if path.exists() else make(11)
    while sampler.rounds < ROUNDS:
        feed(sampler, sampler.draw(BATCH))
        if sampler.rounds % SAVE_EVERY == 0:
            tombola.save(sampler, path)


def runs():
    made = {**ours(N), **by_epochs(N)}

    def late(make):
        return lambda folder: play(make(11), ROUNDS, folder / "run") and None

    def alone(make):
        return lambda folder: play_alone(make, folder)

    late_runs = [Run(name, late(make)) for name, make in made.items()]
    kept = ("VRB", "GroupVRB", "Static", "EpochVRB, share")
    return late_runs + [Run(f"{name}, tombola.save", alone(made[name])) for name in kept]
