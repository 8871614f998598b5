"""A million rows: trained, killed, resumed and predicted; memory does not grow with new rows."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from tombola.models import load_model

N = 1_000_000
TRAIN = ["train", "train.csv", "--target", "y", "--solver", "saga", "--epochs", "10"]
PEAK = (
    "import resource, sys; from tombola.cli.main import main; code = main(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024); sys.exit(code)"
)


def write(path, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)).round(5)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    frame["city"] = np.char.add("c", rng.integers(0, 1000, size=n).astype(str))
    frame["when"] = (np.datetime64("2015-01-01") + rng.integers(0, 3000, size=n)).astype(str)
    frame["y"] = (X[:, 0] + X[:, 1] + rng.logistic(size=n) > 1).astype(int)
    frame.to_csv(path)


def peak_of(*arguments):
    """Run a command; return its peak memory in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=True
    )
    return int(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux alone")
def test_a_million_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("train.csv", N, 0)
    write("new.csv", N, 1)
    write("few.csv", N // 20, 2)
    peak_of(*TRAIN, "--out", "whole")
    command = [sys.executable, "-m", "tombola.cli.main", *TRAIN, "--out", "killed"]
    child, deadline = subprocess.Popen(command), time.monotonic() + 600
    while not os.path.exists("killed/state/0.npz") and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    trained = peak_of(*TRAIN, "--out", "killed", "--resume")
    with np.load("whole/model.npz") as whole, np.load("killed/model.npz") as killed:
        for name in whole.files:
            np.testing.assert_array_equal(whole[name], killed[name])
    few = peak_of("predict", "killed", "few.csv", "--out", "few-predicted.csv")
    many = peak_of("predict", "killed", "new.csv", "--out", "predicted.csv")
    assert many < few + 30
    assert trained < 1000
    model, found = load_model("killed"), pd.read_csv("predicted.csv")
    new = pd.read_csv("new.csv")
    assert (found["predicted"] == model.predict(new)).all()
    np.testing.assert_allclose(found[found.columns[1:]], model.predict_proba(new), rtol=1e-12)
