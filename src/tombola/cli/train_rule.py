"""When a part of the fit of `tombola train` ends, and what is noted on the way."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.state import (
    CheckpointError,
    Document,
    Floats,
    Scope,
    array,
    count,
    flag,
    integer,
    listed,
    mapping,
    nested,
    optional,
    real,
)
from tombola.state.archive import File

__all__ = ["Book", "Held", "RuleState", "marks_of"]

QUARTERS = 4  # evaluations in the first epoch
EACH = 10  # epochs that are each followed by an evaluation; later ones are rarer
GROWTH = 1.15  # of the epochs from one evaluation to the next


def marks_of(epochs: int, rounds_per_epoch: int) -> list[int]:
    """Return the rounds at which to evaluate: often at first, and always at the last one.

    A run may end at any epoch, so that evaluations at equal distances would miss a short one.

    Examples
    --------
    >>> marks_of(3, 100)
    [0, 25, 50, 75, 100, 200, 300]
    >>> marks_of(30, 1)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 23, 27, 30]
    """
    marks = [round(rounds_per_epoch * k / QUARTERS) for k in range(QUARTERS)]
    epoch = 1
    while epoch < epochs:
        marks.append(epoch * rounds_per_epoch)
        epoch = epoch + 1 if epoch < EACH else math.ceil(GROWTH * epoch)
    return sorted({*marks, epochs * rounds_per_epoch})


class Held(NamedTuple):
    """A part of the rows held out."""

    problem: Any

    def loss(self, solution: Any) -> float:
        """Return the mean loss of a solution on them, without the penalty."""
        penalty = getattr(self.problem, "penalty", None)
        value = float(self.problem.value(solution))
        return value if penalty is None else value - float(penalty(solution))


class WatchState(Document):
    """What a stopping rule knows: see `tombola.estimators.stopping.Watch`."""

    epoch: int = integer("epochs so far", 0, "rounds")
    idle: int = integer("the last of them without progress", 0, "epoch")
    best: float = real("the best objective so far", -math.inf, math.inf)
    solution: Floats = array("after the last epoch", shape="shape")
    converged: bool = flag("whether it has said to stop")


class BookState(Document):
    """What a `Book` knows after some rounds."""

    rounds: int = count("so far")
    rule: WatchState | None = optional(nested("what the stopping rule knows", WatchState))
    gaps: Mapping[str, float] = mapping("by rounds", real("relative", -math.inf, math.inf))
    losses: Mapping[str, float] = mapping("by rounds", real("held out", -math.inf, math.inf))

    def fault(self, scope: Scope) -> str:
        """Return what does not fit the stopping rule and the marks of a run."""
        if (self.rule is None) != (scope.find("shape") == ()):
            return "rule must be there, unless the solver ends by itself"
        fine = {*self.gaps, *self.losses} <= scope.find("marks").keys()
        return "" if fine else "gaps and losses must be those at marks"


class RuleState(File):
    """The file of a stopping rule."""

    kind = "Rule"
    rules: list[BookState] = listed("before the last result was saved, and after", BookState)


class Book:
    """Called after each epoch: asks the stopping rule, and notes gaps and losses at the marks.

    Parameters
    ----------
    marks : sequence of int
        The rounds at which the loss on rows held out is computed.
    watch : Watch or None
        The estimator's stopping rule; None where the solver ends by itself.
    held : Held or None
    """

    def __init__(self, marks: Sequence[int], watch: Any, held: Held | None) -> None:
        self.marks, self.watch, self.held = set(marks), watch, held
        self.gaps: dict[int, float] = {}
        self.losses: dict[int, float] = {}
        self.saved: BookState | None = None  # the state that was saved last

    @property
    def converged(self) -> bool:
        """Whether the rule has said to stop."""
        return self.watch is not None and bool(self.watch.converged)

    def __call__(self, rounds: int, solution: NDArray[np.float64], loss: float) -> bool:
        """Return whether to stop."""
        ends = self.watch is not None and bool(self.watch(rounds, solution, loss))
        if rounds in self.marks:
            knows = self.watch is not None and self.watch.reduced and self.watch.tol is not None
            self.note(rounds, solution, self.watch.gap if knows else math.nan)
        return ends

    def note(self, rounds: int, solution: NDArray[np.float64], gap: float) -> None:
        """Note the gap and the loss on the rows held out."""
        self.gaps[rounds] = float(gap)
        if self.held is not None and rounds not in self.losses:
            self.losses[rounds] = self.held.loss(solution)

    def column(self, rounds: NDArray[np.int64], noted: dict[int, float]) -> NDArray[np.float64]:
        """Return what was noted at these rounds, NaN where nothing was."""
        return np.array([noted.get(int(mark), math.nan) for mark in rounds])

    def state(self, rounds: int) -> BookState:
        """Return all that it knows after some rounds."""
        watch = self.watch
        rule = {} if watch is None else {name: getattr(watch, name) for name in WatchState.declared}
        return BookState(
            rounds=rounds,
            rule=None if watch is None else WatchState(**rule),
            gaps=_known(self.gaps),
            losses=_known(self.losses),
        )

    def load(self, path: Path, rounds: int) -> None:
        """Set it to what a file says that it knew after some rounds.

        Raises
        ------
        CheckpointError
            If the file does not fit; nothing is changed.
        """
        shape = () if self.watch is None else self.watch.solution.shape
        marks = {str(mark): mark for mark in self.marks}
        rules = RuleState.load(path, shape=shape, marks=marks).rules
        state = next((it for it in rules if it.rounds == rounds), None)
        if state is None:
            raise CheckpointError(f"{path} does not fit a result of {rounds} rounds")
        if state.rule is not None:
            for name, value in vars(state.rule).items():
                setattr(self.watch, name, value)
        self.gaps = {marks[mark]: gap for mark, gap in state.gaps.items()}
        self.losses = {marks[mark]: loss for mark, loss in state.losses.items()}
        self.saved = state


def _known(noted: dict[int, float]) -> dict[str, float]:
    return {str(rounds): value for rounds, value in noted.items() if not math.isnan(value)}
