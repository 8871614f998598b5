"""When a part of the fit of `tombola train` ends, and what is noted on the way."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.entries import Entry

__all__ = ["Book", "Held", "marks_of"]

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

    fields = ("epoch", "idle", "best", "solution", "converged")  # the state of a Watch

    def __init__(self, marks: Sequence[int], watch: Any, held: Held | None) -> None:
        self.marks, self.watch, self.held = set(marks), watch, held
        self.gaps: dict[int, float] = {}
        self.losses: dict[int, float] = {}
        self.saved: dict[str, Any] | None = None  # the state that was saved last

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

    def state(self, rounds: int) -> dict[str, Any]:
        """Return all that it knows after some rounds."""
        names = self.fields if self.watch is not None else ()
        rule = {name: getattr(self.watch, name) for name in names}
        noted = {
            name: {"rounds": np.array(list(column), dtype=np.int64),
                   "values": np.array(list(column.values()), dtype=np.float64)}
            for name, column in (("gaps", self.gaps), ("losses", self.losses))
        }  # fmt: skip
        return {"rounds": rounds, "rule": rule, **noted}

    def load(self, state: Entry) -> None:
        """Set it to a saved state, which may hold anything.

        Raises
        ------
        CheckpointError
            If the state does not fit; nothing is changed.
        """
        rule, rounds = state.entry("rule"), state.whole("rounds")
        found: dict[str, Any] = {}
        if self.watch is not None:
            found["epoch"] = rule.whole("epoch", 0, rounds)
            found["idle"] = rule.whole("idle", 0, found["epoch"])
            found["best"], found["converged"] = rule.number("best"), rule.flag("converged")
            found["solution"] = rule.numbers("solution", *self.watch.solution.shape)
        gaps, losses = self._noted(state.entry("gaps")), self._noted(state.entry("losses"))
        for name, value in found.items():
            setattr(self.watch, name, value)
        self.saved, self.gaps, self.losses = dict(state.value), gaps, losses

    def _noted(self, column: Entry) -> dict[int, float]:
        """Return what a state says was noted, by rounds."""
        rounds = column.array("rounds", np.int64, None).tolist()
        values = column.array("values", np.float64, len(rounds)).tolist()
        rising = all(a < b for a, b in pairwise(rounds)) and self.marks.issuperset(rounds)
        column.require("rounds", rising, "marks in rising order")
        return dict(zip(rounds, values, strict=True))
