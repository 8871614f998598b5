"""Damaged states of everything that loads one, and a campaign that notices what it must.

The whole of it: ``python tests/fuzz_campaign.py --count 100000``.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fuzz_campaign
from fuzz_targets import FAULTS, all_targets

SEED = 138  # of three attempts on a faulty target, one is in the place that it minds
TARGETS = {
    target.name: target for target in all_targets() if target.kind in ("file", "model", "torch")
}


@pytest.fixture(scope="module", autouse=True)
def cleaned():
    yield
    for target in TARGETS.values():
        getattr(target, "clean", lambda: None)()


@pytest.mark.parametrize("name", TARGETS)
def test_a_sample_in_this_process(name):
    target, refused = TARGETS[name], 0
    honest = target.honest()
    assert fuzz_campaign.tried(target, honest) == ("harmless", "")
    for number in range(15):
        state, what = target.damage(honest, fuzz_campaign.rng_of(7, target, number))
        outcome, note = fuzz_campaign.tried(target, state)
        assert outcome not in FAULTS, (number, what, note)
        refused += outcome == "refused"
    assert refused > 5


@pytest.mark.parametrize("fault", FAULTS)
def test_the_campaign_notices(fault, monkeypatch):
    monkeypatch.setattr(fuzz_campaign, "SECONDS", 0.4)
    monkeypatch.setenv("FUZZ_SECONDS", "0.4")
    counts, faults = fuzz_campaign.attack(f"faulty: {fault}", SEED, 6)
    assert counts[fault] >= 1
    assert counts["harmless"] >= 1
    assert counts.total() == 6
    assert {found["outcome"] for found in faults} == {fault}
    assert all("here" in found["what"] for found in faults)


def test_the_table_adds_up():
    rows = {"a: x": fuzz_campaign.collections.Counter(refused=3, hung=1), "a: y": rows_of(2)}
    lines = list(fuzz_campaign.table(rows))
    assert [int(cell) for cell in lines[-1].split("|")[2:-1]] == [6, 5, 0, 0, 0, 0, 0, 1, 0]


def rows_of(refused):
    return fuzz_campaign.collections.Counter(refused=refused)


def campaign(*arguments, **environment):
    """Run the command; return its output."""
    command = [sys.executable, str(Path(fuzz_campaign.__file__)), *map(str, arguments)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_campaign():
    output = campaign("--count", 5000, "--seed", 11)
    print(output)
    assert "0 faults in" in output


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_campaign_with_bounds_checks(tmp_path):
    """An index out of bounds, which might go unnoticed, is an error then."""
    output = campaign(
        "--count", 2000, "--seed", 12, "--only", "sampler", "result: d", "Weighted",
        NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path),
    )  # fmt: skip
    assert "0 faults in" in output


def test_an_attempt_can_be_repeated():
    target = TARGETS["torch: WeightIndex on the CPU"]
    honest = target.honest()
    first, second = (target.damage(honest, fuzz_campaign.rng_of(1, target, 5)) for _ in range(2))
    assert first[1] == second[1]
    assert first[1] != target.damage(honest, fuzz_campaign.rng_of(1, target, 6))[1]
    assert isinstance(np.asarray(honest["weights"]), np.ndarray)
