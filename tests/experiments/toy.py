"""An experiment that takes a fraction of a second, for test_sweep.py."""

import sys
import time

import numpy as np

from experiments import sweep
from tombola.report.exhibit import Exhibit

TITLE = "Toy"
SETTINGS = {"marks": [1, 2, 3]}
PAUSE = 0.0


def stages(runs):
    return [[{"part": "choose"}], [{"part": "race", "run": run} for run in range(runs)]]


def play(setting, data, earlier):
    if setting["part"] == "choose":
        yield {"best": 7}
        return
    best = next(row["best"] for row in earlier if row["part"] == "choose")
    for mark in SETTINGS["marks"]:
        time.sleep(PAUSE)
        yield {"mark": mark, "value": float(np.random.default_rng([setting["run"], mark]).random()),
               "best": best}  # fmt: skip


def show(rows):
    return Exhibit(TITLE, f"{len(rows)} rows")


def run_in_child(*given, _run=sweep._run):
    """Do a run in a spawned process, where the toy is not registered yet."""
    sys.modules["experiments.toy"] = sys.modules[__name__]
    sweep.NAMES = (*sweep.NAMES, "toy")
    _run(*given)


def install(monkeypatch):
    """Register the toy as an experiment."""
    monkeypatch.setattr(sweep, "NAMES", (*sweep.NAMES, "toy"))
    monkeypatch.setitem(sys.modules, "experiments.toy", sys.modules[__name__])
