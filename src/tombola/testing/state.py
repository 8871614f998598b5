"""Checks of saving, loading and resetting a sampler."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tombola import checkpoint, samplers
from tombola.testing.judging import check_refusal, promise, same
from tombola.testing.playing import Factory, fixed_losses, play, play_round, trace

__all__ = ["check_reset", "check_resume"]


def check_resume(factory: Factory, n: int = 6) -> None:
    """Check that a sampler saved to a file and loaded continues exactly as the original."""
    sampler = factory(n, 16)
    for rounds in (0, 1, 30):
        play(sampler, rounds=rounds)
        state = sampler.state_dict()
        kept = sampler.state_dict()
        promise(same(state, kept), "two calls of state_dict() differ")
        copies = [_used(factory, n), factory(n, 16)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.npz"
            checkpoint.write(path, state)
            copies[0].load_state_dict(checkpoint.read(path))
            copies[1].load_state_dict(state)
            if type(sampler) in [getattr(samplers, name) for name in samplers.__all__]:
                checkpoint.save(path, sampler)
                copies.append(checkpoint.load(path))
        for copy in copies:
            promise(same(copy.state_dict(), state), "a loaded state differs from the saved one")
        played = trace(sampler)
        promise(
            same(state, kept), "a state changes while its sampler plays: state_dict() must copy"
        )
        for copy in copies:
            promise(
                same(trace(copy), played) and same(copy.state_dict(), sampler.state_dict()),
                f"after {rounds} rounds, a saved and loaded sampler does not continue as the "
                "original: something that it depends on is not in state_dict()",
            )
    _overwrite(state)
    promise(
        same(trace(copies[0]), trace(sampler))
        and same(copies[0].state_dict(), sampler.state_dict()),
        "overwriting a loaded state changes the sampler: load_state_dict() must copy",
    )
    wrong = factory(n + 1, 16).state_dict()
    check_refusal(
        sampler, sampler.load_state_dict, (wrong,), ValueError, "a state over n + 1 items"
    )


def check_reset(factory: Factory, n: int = 6) -> None:
    """Check that reset() restores the initial state, and that draws repeat."""
    sampler = factory(n, 17)
    new = sampler.state_dict()
    played = trace(sampler)
    sampler.reset()
    promise(same(sampler.state_dict(), new), "reset() does not restore the initial state")
    promise(same(trace(sampler), played), "draws after reset() differ from the first ones")


def _used(factory: Factory, n: int) -> Any:
    """Return a sampler that has played, and whose state must be replaced completely."""
    sampler = factory(n, 16)
    for _ in range(23):
        play_round(sampler, 3, fixed_losses(n)[::-1])
    return sampler


def _overwrite(state: Any) -> None:
    """Set every array of a state to zero."""
    if isinstance(state, np.ndarray):
        state[...] = 0
    elif isinstance(state, Mapping):
        for inner in state.values():
            _overwrite(inner)
