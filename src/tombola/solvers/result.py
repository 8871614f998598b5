"""What a solver returns: the solution, the trace, and the state to resume from."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola import checkpoint
from tombola.archive import CheckpointError, is_of
from tombola.samplers import Sampler
from tombola.validation import brief

__all__ = ["Result", "Trace"]

FORMAT = 2  # of saved results


@dataclass
class Trace:
    """The progress of a run: one row for the start and one for each mark.

    Attributes
    ----------
    rounds, item_gradients : ndarray of int64
        Steps taken, and gradients of single items computed (snapshots included).
    seconds : ndarray of float64
        Time spent in the loop, with drawing and feedback, without the evaluations for the trace.
    objective : ndarray of float64
    variance_ratio : ndarray of float64
        Variance of the gradient estimate over that of uniform draws at the same iterate, exact,
        from the gradients of all items; NaN where a solver has no such estimate.
    """

    rounds: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    item_gradients: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seconds: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    objective: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    variance_ratio: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def add(self, *row: float) -> None:
        """Append one row."""
        for name, value in zip(vars(self), row, strict=True):
            column = getattr(self, name)
            setattr(self, name, np.append(column, value).astype(column.dtype))

    def __len__(self) -> int:
        return len(self.rounds)


@dataclass
class Result:
    """What a solver reached, and all that it needs to continue.

    Attributes
    ----------
    solution : ndarray
    rounds, item_gradients : int
    seconds : float
        Time spent in the loop.
    interrupted : bool
        Whether the run was ended by Ctrl-C, before the last round.
    trace : Trace
    sampler : Sampler or None
        As it is after the last round; None in a loaded result whose sampler is of a class of
        your own.
    state : dict
        For `resume`: "solver" and "problem" (what they must equal), "parts" (the state of the
        solver, nested by name), "sampler" (its `state_dict`) and "carried" (for `carry`: what
        belongs to the solution and not to the items).
    """

    solution: NDArray[np.float64]
    rounds: int
    item_gradients: int
    seconds: float
    interrupted: bool
    trace: Trace
    sampler: Sampler | None
    state: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save everything in one file; a crash leaves the old file or the new one."""
        fields = {name: getattr(self, name) for name in _KINDS}
        parts = {"trace": vars(self.trace), "state": self.state}
        checkpoint.write(path, {"class": "Result", "format": FORMAT, **fields, **parts})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Result":
        """Load a saved result, or raise a CheckpointError that names what is wrong with it.

        A sampler of a class of your own is not restored: `resume` then needs one.
        """
        saved = checkpoint.read(path)
        if str(saved.get("class")) != "Result":
            raise CheckpointError(f"{os.fspath(path)} does not hold a solver's result")
        if not is_of(saved, "Result", FORMAT):
            raise CheckpointError(
                f"{os.fspath(path)} holds a result of format {brief(saved.get('format'))}; "
                f"this version reads format {FORMAT}"
            )
        try:
            _check(saved)
            sampler = checkpoint.restored(saved["state"]["sampler"])
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"{os.fspath(path)} is not a sound result: {error}") from error
        return cls(
            **{name: saved[name] for name in _KINDS},
            trace=Trace(**saved["trace"]),
            sampler=sampler,
            state=saved["state"],
        )


_KINDS: dict[str, type] = {
    "solution": np.ndarray,
    "rounds": int,
    "item_gradients": int,
    "seconds": float,
    "interrupted": bool,
}
_STATE: dict[str, type] = {
    "solver": str,
    "problem": str,
    "parts": Mapping,
    "sampler": Mapping,
    "carried": Mapping,
}


def _check(saved: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the first field of a saved result that is not sound."""
    for kinds, place, name in ((_KINDS, saved, ""), (_STATE, saved.get("state"), "state.")):
        for key, kind in kinds.items():
            if not isinstance(place, Mapping) or not isinstance(place.get(key), kind):
                raise ValueError(f"{name}{key} is missing or not a {kind.__name__}")
    for name in ("rounds", "item_gradients", "seconds"):
        if not 0 <= saved[name] < np.inf or isinstance(saved[name], bool):
            raise ValueError(f"{name} is {saved[name]}")
    if type(saved["state"]["sampler"].get("class")) is not str:
        raise ValueError("state.sampler.class is missing or not a str")
    solution = saved["solution"]
    if solution.dtype != np.float64 or not np.isfinite(solution).all():
        raise ValueError("solution holds a value that is not a finite number")
    _check_trace(saved.get("trace"))
    progress = saved["state"]["parts"].get("progress")
    for name in ("rounds", "item_gradients"):
        if not isinstance(progress, Mapping) or progress.get(name) != saved[name]:
            raise ValueError(f"state.parts.progress.{name} is not the {name} of the result")


def _check_trace(trace: Any) -> None:
    """Raise a ValueError where a trace is not five columns of one length, in order."""
    fresh = vars(Trace())
    if not isinstance(trace, Mapping) or set(trace) != set(fresh):
        raise ValueError("trace is missing or has other columns")
    for name, column in fresh.items():
        found = trace[name]
        if not isinstance(found, np.ndarray) or found.dtype != column.dtype or found.ndim != 1:
            raise ValueError(f"trace.{name} is not an array of {column.dtype}")
        if found.size != np.size(trace["rounds"]):
            raise ValueError(f"trace.{name} is not as long as trace.rounds")
        counts = name not in ("objective", "variance_ratio")
        if counts and found.size and not (found[0] >= 0 and (found[1:] >= found[:-1]).all()):
            raise ValueError(f"trace.{name} does not rise from 0")
