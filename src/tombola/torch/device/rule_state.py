"""What a state of a sampler on a device may hold."""

import math
from collections.abc import Mapping
from typing import Any

import torch

from tombola.checkpoint import CheckpointError
from tombola.entries import LARGEST_COUNT
from tombola.torch.device.layout import LIMIT
from tombola.torch.device.vrb_layout import NEVER
from tombola.torch.tensors import shown, vector
from tombola.validation import whole

__all__ = ["check_arrays", "check_numbers"]

LARGEST_SUM = 1e300


def check_numbers(
    state: Mapping[str, Any], expected: Mapping[str, Any], n: int, block: int
) -> None:
    """Raise a CheckpointError unless all numbers are there, and each is within its range."""
    for part in ("reals", "wholes"):
        given, names = state[part], expected[part].keys()
        if not isinstance(given, Mapping) or given.keys() != names:
            raise CheckpointError(f"{part} has the entries {sorted(names)}")
    ranges = {
        "mixing": (2.0**-60, 1.0),
        "disagreement": (-1e-9, 1.0 + 1e-9),  # with a margin for rounding errors
        "scale": (2.0**-1000, 2.0**1000),
        "cross_spread": (-LARGEST_SUM, LARGEST_SUM),
    }
    for name, number in state["reals"].items():
        low, high = ranges.get(name, (0.0, LARGEST_SUM))
        if name in ("largest_loss",):
            high = math.nextafter(math.inf, 0.0)
        if not isinstance(number, float) or not low <= number <= high:
            raise CheckpointError(
                f"reals.{name} is {shown(number)}, not a float from {low} to {high}"
            )
    limits = {
        "left": (0, block) if block < NEVER else (1, NEVER),
        "shuffling": (0, 1),
        "cut": (0, 1),
        "cursor": (0, n - 1),
    }
    try:
        whole("position", state["position"], 0, LARGEST_COUNT + 1)
        for name, number in state["wholes"].items():
            low_count, high_count = limits.get(name, (0, LARGEST_COUNT))
            whole(f"wholes.{name}", number, low_count, high_count + 1)
    except (TypeError, ValueError) as error:
        raise CheckpointError(str(error)) from None


def check_arrays(
    state: Mapping[str, Any],
    expected: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]],
) -> None:
    """Raise a CheckpointError unless all arrays fit, and all their values are within range."""
    for name, (low, high) in {"weights": (1, LIMIT), **ranges}.items():
        mine = expected[name]
        given = vector(name, state[name], [mine.dtype], len(mine))
        wrong = ~((given >= low) & (given <= high))
        if wrong.any():
            where = int(wrong.long().argmax())
            raise CheckpointError(f"{name}[{where}] is {given[where]}, not from {low} to {high}")
        if "weights" in name and float(given.to(torch.float64).sum()) > LIMIT:
            raise CheckpointError(f"the sum of all {name} is above 2^62")
