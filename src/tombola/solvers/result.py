"""What a solver returns: the solution, the trace, and the state to resume from."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tombola import checkpoint
from tombola.samplers import Sampler
from tombola.state import (
    LARGEST_COUNT,
    MOST,
    CheckpointError,
    Document,
    Floats,
    Ints,
    Scope,
    Versioned,
    array,
    count,
    derived,
    flag,
    integer,
    mapping,
    nested,
    optional,
    real,
    text,
)

__all__ = ["Asked", "Result", "ResultState", "Trace"]


class Trace(Document):
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
        from the gradients of all items; NaN if a solver has no such estimate.
    """

    rounds: Ints = array("steps taken", 0, LARGEST_COUNT, dtype=np.int64)
    item_gradients: Ints = array(
        "item gradients", 0, LARGEST_COUNT, dtype=np.int64, shape=("rounds.size",)
    )
    seconds: Floats = array("time in the loop", 0.0, shape=("rounds.size",))
    objective: Floats = array("F", None, shape=("rounds.size",))
    variance_ratio: Floats = array(
        "the variance over that of uniform draws", None, shape=("rounds.size",)
    )

    def __init__(self, *columns: Any, **named: Any) -> None:
        fields: Any = self.declared
        empty = {name: np.empty(0, field.dtype) for name, field in fields.items()}
        super().__init__(**{**empty, **dict(zip(fields, columns, strict=False)), **named})

    def add(self, *row: float) -> None:
        """Append one row."""
        for name, value in zip(self.declared, row, strict=True):
            column = getattr(self, name)
            setattr(self, name, np.append(column, value).astype(column.dtype))

    def fault(self, scope: Scope) -> str:
        """Return which column falls that cannot."""
        for name in ("rounds", "item_gradients", "seconds"):
            column = getattr(self, name)
            if (column[1:] < column[:-1]).any():
                return f"trace.{name} does not rise"
        return ""

    def __len__(self) -> int:
        return len(self.rounds)


class Asked(Document):
    """Where the next estimate of the mean loss begins: when `until` was last called."""

    rounds: int = integer("the round", 0, "done")
    loss_sum: float = real("the sum of the estimates by then", -MOST)


class ResultState(Document):
    """What a result holds for `resume`."""

    solver: str = text("the solver, which must be the same")
    problem: str = text("the fingerprint of the problem, which must be the same")
    parts: Mapping[str, Any] = mapping("the state of the run, as its class declares it")
    sampler: Mapping[str, Any] = mapping("the `state_dict` of the sampler")
    carried: Mapping[str, Any] = mapping("what belongs to the solution and not to the items")
    asked: Asked | None = optional(nested("where the next estimate of the loss begins", Asked))

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the class of the sampler."""
        known = type(self.sampler.get("class")) is str
        return "" if known else "sampler.class is missing or not a text"


class Result(Versioned):
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
        solver, nested by name), "sampler" (its `state_dict`), "carried" (for `carry`: what
        belongs to the solution and not to the items) and "asked" (for `until`).
    """

    kind: ClassVar = "Result"
    form: ClassVar = 3

    solution: Floats = array("the solution", shape=None)
    rounds: int = count("rounds taken")
    item_gradients: int = count("item gradients computed")
    seconds: float = real("time spent in the loop")
    interrupted: bool = flag("whether the run was ended by Ctrl-C")
    trace: Trace = nested("the progress of the run", Trace)
    sampler: Sampler | None = derived("the sampler after the last round", default=None)
    state: Mapping[str, Any] = mapping("what `resume` needs: see `ResultState`")

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the state, or with its progress."""
        progress = ResultState.read(self.state, "state", done=self.rounds).parts.get("progress")
        for name in ("rounds", "item_gradients"):
            given = progress.get(name) if isinstance(progress, Mapping) else None
            if type(given) is not int or given != getattr(self, name):
                return f"state.parts.progress.{name} is not the {name} of the result"
        return ""

    @classmethod
    def from_state_dict(cls, state: Any, **known: Any) -> Self:
        """Return the result that `state_dict` described.

        A sampler of a class of your own is not restored: `resume` then needs one.
        """
        result = super().from_state_dict(state, **known)
        result.sampler = checkpoint.restored_sampler(result.state["sampler"])
        return result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save everything in one file; a crash leaves the old file or the new one."""
        checkpoint.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Result":
        """Load a saved result, or raise a CheckpointError that names what is wrong with it."""
        saved = checkpoint.read(path)
        try:
            return cls.from_state_dict(saved)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise CheckpointError(f"{os.fspath(path)} is not a sound result: {error}") from error
