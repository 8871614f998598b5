"""Commands: `tombola train --resume` and `tombola reproduce`, compared file by file.

The clock is stopped: measured seconds are 0, so that every byte of every file can be compared,
and a run saves whenever it may.
"""

from types import SimpleNamespace

from crash.killing import Run
from tombola.cli.main import main

STOPPED = SimpleNamespace(monotonic=lambda: 0.0, perf_counter=lambda: 0.0)
TRAIN = {
    "train, two classes": ["breast_cancer", "--solver", "saga", "--epochs", "10"],
    "train, three classes": ["wine", "--solver", "adagrad", "--epochs", "10"],
    "train, regression": ["diabetes", "--solver", "sdca", "--epochs", "10", "--alpha", "0.01"],
    "train, clusters": ["iris", "--task", "clustering", "--n-clusters", "3", "--epochs", "10"],
}
HORIZONS = {"a": [10, 100], "b": [100, 1000], "c": [100, 1000], "d": [1000, 3000]}


def stop_the_clock():
    from tombola.cli import train_fit
    from tombola.solvers import base

    base.time = train_fit.time = STOPPED
    train_fit.SAVE_EVERY = 0.0


def train(arguments, folder):
    stop_the_clock()
    return main(["train", *arguments, "--out", str(folder / "run"), "--resume"])


def reproduce(folder):
    from experiments import regret

    regret.HORIZONS.update(HORIZONS)
    regret.LONGEST = 2000
    return main(["reproduce", "regret", "--runs", "2", "--jobs", "1", "--out", str(folder / "run")])


def runs():
    def training(arguments):
        return lambda folder: train(arguments, folder)

    trained = [Run(name, training(arguments)) for name, arguments in TRAIN.items()]
    return [*trained, Run("reproduce regret", reproduce, share=2.0)]
