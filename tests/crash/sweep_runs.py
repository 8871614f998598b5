"""Sweeps: an experiment of two stages and many short runs, in one process and in two."""

import sys
from types import SimpleNamespace

import numpy as np

import tombola
from crash.killing import Run
from experiments import sweep

SETTINGS = {"marks": [50, 100, 200]}
RUNS = 20


def stages(runs):
    return [[{"part": "choose"}], [{"part": "race", "run": run} for run in range(runs)]]


def play(setting, data, earlier):
    """Estimate a mean by the draws of a sampler; the second stage needs the first."""
    if setting["part"] == "choose":
        yield {"best": 200}
        return
    n = next(row["best"] for row in earlier if row["part"] == "choose")
    sampler, losses, estimate = tombola.VRB(n, seed=setting["run"]), 1.0 / np.arange(1, n + 1), 0.0
    for mark in SETTINGS["marks"]:
        while sampler.rounds < mark:
            draw = sampler.draw(4)
            sampler.update(draw, losses[draw.indices])
            estimate += (losses[draw.indices] * draw.importances).mean()
        yield {"mark": mark, "estimate": estimate / mark}


def install():
    """Make this module an experiment of its own; spawned processes do the same."""
    sweep.NAMES = (*sweep.NAMES, "losses")
    module = SimpleNamespace(
        __name__="experiments.losses", SETTINGS=SETTINGS, stages=stages, play=play
    )
    sys.modules["experiments.losses"] = module


def runs():
    def sweeping(jobs):
        return lambda folder: sweep.sweep("losses", folder, runs=RUNS, jobs=jobs) and None

    return [
        Run("sweep, one process", sweeping(1)),
        Run("sweep, two processes", sweeping(2), share=0.05, saves_itself=False),
    ]
