"""The state of a `PrioritizedSampler` as a plain dict, and back with every entry checked."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tombola.checkpoint import CheckpointError
from tombola.entries import Entry
from tombola.index.layout import place_type
from tombola.torch.replay.board import PriorityBoard
from tombola.torch.tensors import from_tensors
from tombola.validation import is_exactly, number

__all__ = ["exponent", "new_state", "positive", "read_state"]

FORMAT = 1


def exponent(name: str, value: Any) -> float:
    """Return an argument as a float of at least 0, or raise an error that names it."""
    given = number(name, value)
    if not 0 <= given < np.inf:
        raise ValueError(f"{name} must be finite and not negative, got {value}")
    return given


def positive(name: str, value: Any) -> float:
    """Return an argument as a float above 0, or raise an error that names it."""
    given = number(name, value)
    if not 0 < given < np.inf:
        raise ValueError(f"{name} must be finite and above 0, got {value}")
    return given


def new_state(board: PriorityBoard, beta: float) -> dict[str, Any]:
    """Return everything that a sampler needs to continue, as arrays and numbers."""
    return {
        "format": FORMAT,
        "max_capacity": board.capacity,
        "alpha": board.alpha,
        "beta": beta,
        "eps": board.eps,
        **board.state(),
    }


def read_state(state: Mapping[str, Any], expected: int) -> tuple[PriorityBoard, float]:
    """Return the board and beta of a dict that may hold anything, or raise a `CheckpointError`."""
    entry = Entry(from_tensors(state))
    if not is_exactly(entry.value.get("format"), FORMAT):
        raise CheckpointError(
            f"the state is not from tombola's PrioritizedSampler, format {FORMAT}"
        )
    capacity = entry.whole("max_capacity", 1)
    if capacity != expected:
        raise CheckpointError(
            f"the state was saved with max_capacity={capacity}, here it is {expected}"
        )
    priorities = entry.array("priorities", np.float64, capacity)
    good = ((priorities >= 0) & (priorities < np.inf)) | np.isnan(priorities)
    entry.require("priorities", good, "finite and at least 0, or NaN")
    alpha, beta = (_checked(entry, name, exponent) for name in ("alpha", "beta"))
    eps = _checked(entry, "eps", positive)
    scale, largest = (_checked(entry, name, number) for name in ("scale", "largest"))
    board = PriorityBoard.restored(
        alpha,
        eps,
        priorities,
        entry.array("units", np.int64, capacity).copy(),
        entry.array("order", place_type(capacity), capacity).copy(),
        scale,
        largest,
    )
    return board, beta


def _checked(entry: Entry, name: str, check: Callable[[str, Any], float]) -> float:
    try:
        return check(name, entry.get(name))
    except (TypeError, ValueError, OverflowError) as error:
        raise CheckpointError(str(error)) from None
