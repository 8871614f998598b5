"""Saved results that somebody crafted, in any one field: refused, or harmless to resume."""

import numpy as np
import pytest
from test_damaged import ROUNDS, RUNS

from fuzz import damaged
from tombola import checkpoint
from tombola.solvers import DivergenceError, Result


def attack(name, path, count, seed):
    """Damage a saved result `count` times; return how often it was refused, and harmless."""
    solver, problem, sampler = RUNS[name]
    problem, rng = problem(), np.random.default_rng(seed)
    solver.minimize(problem, sampler=sampler(), rounds=ROUNDS, trace=3).save(path)
    honest = checkpoint.read(path)
    refused = harmless = 0
    for _ in range(count):
        state, _ = damaged(honest, rng, inside=("state", "parts") if rng.integers(2) else ())
        try:
            checkpoint.write(path, state)
        except TypeError:  # an odd thing that no file can hold
            continue
        try:
            with np.errstate(all="ignore"):
                result = Result.load(path)
                again = solver.minimize(
                    problem,
                    sampler=sampler() if result.sampler is None else None,
                    rounds=result.rounds + 20 if result.rounds < 10**6 else result.rounds,
                    resume=result,
                )
        except (ValueError, DivergenceError):  # a CheckpointError, or of another problem
            refused += 1
        else:
            harmless += 1
            assert np.isfinite(again.solution).all()
    return refused, harmless


@pytest.mark.parametrize("name", RUNS)
def test_one_field_wrong(name, tmp_path):
    refused, harmless = attack(name, tmp_path / "result", 40, seed=1)
    assert refused > harmless / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_one_field_wrong_at_length(name, tmp_path):
    refused, harmless = attack(name, tmp_path / "result", 2000, seed=2)
    print(f"{name}: {refused} refused, {harmless} harmless")
    assert refused > harmless / 2
