"""The state of a `WeightedSampler` as a plain dict, and back with every entry checked."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.checkpoint import CheckpointError
from tombola.entries import Entry
from tombola.index.layout import place_type
from tombola.torch.real_weights import LARGEST_EXPONENT, RealWeights
from tombola.torch.tensors import from_tensors, to_tensors
from tombola.validation import is_exactly

__all__ = ["SavedEpoch", "Settings", "WeightedState"]

FORMAT = 1


class Settings(NamedTuple):
    """What a state and the sampler that loads it must have in common."""

    n: int
    num_samples: int
    replacement: bool
    generator: bool


class SavedEpoch(NamedTuple):
    """An epoch that has begun.

    Attributes
    ----------
    seed, position : int
        Of its stream.
    begin : int
        The number of items, over all processes, that were used.
    ahead : ndarray of int64
        Items that were drawn after these.
    over : bool
        Whether all items of the epoch were drawn, and none is off the board any more.
    """

    seed: int
    position: int
    begin: int
    ahead: NDArray[np.int64]
    over: bool


class WeightedState(NamedTuple):
    """Everything that a sampler needs to continue; the same on all processes."""

    settings: Settings
    board: RealWeights
    epoch: int
    open: SavedEpoch | None
    generator: NDArray[np.uint8] | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dict of tensors, numbers, dicts and None."""
        board = self.board
        off = self.open is not None and not self.open.over and not self.settings.replacement
        state: dict[str, Any] = to_tensors(
            {
                "format": FORMAT,
                "n": self.settings.n,
                "num_samples": self.settings.num_samples,
                "replacement": self.settings.replacement,
                "weights": board.values,
                "exponent": board.exponent,
                "order": board.order,
                "taken": board.taken if off else None,
                "epoch": self.epoch,
                "open": None if self.open is None else self.open._asdict(),
                "generator": self.generator,
            }
        )
        return state

    @classmethod
    def from_dict(cls, state: Any, expected: Settings) -> "WeightedState":
        """Return the state in a dict that may hold anything, or raise a `CheckpointError`."""
        entry = Entry(from_tensors(state))
        if not is_exactly(entry.value.get("format"), FORMAT):
            raise CheckpointError(
                f"the state is not from state_dict() of a WeightedSampler, format {FORMAT}"
            )
        _check_settings(entry, expected)
        opened = None if entry.get("open") is None else _epoch(entry.entry("open"), expected.n)
        return cls(
            expected,
            _board(entry, expected, opened),
            entry.whole("epoch"),
            opened,
            entry.array("generator", np.uint8, None) if expected.generator else None,
        )


def _check_settings(entry: Entry, expected: Settings) -> None:
    found = Settings(
        n=entry.whole("n", 1),
        num_samples=entry.whole("num_samples", 1),
        replacement=entry.flag("replacement"),
        generator=entry.get("generator") is not None,
    )
    for name, saved, own in zip(Settings._fields, found, expected, strict=True):
        if saved == own:
            continue
        if name == "generator":
            raise CheckpointError(
                f"the state was saved {'with' if saved else 'without'} a generator, "
                f"here there is {'one' if own else 'none'}"
            )
        raise CheckpointError(f"the state was saved with {name}={saved}, here it is {own}")


def _epoch(entry: Entry, n: int) -> SavedEpoch:
    ahead = entry.array("ahead", np.int64, None)
    entry.require("ahead", (ahead >= 0) & (ahead < n), f"an item from 0 to {n - 1}")
    return SavedEpoch(
        seed=entry.whole("seed", 0, 2**63 - 1),
        position=entry.whole("position"),
        begin=entry.whole("begin"),
        ahead=ahead.copy(),
        over=entry.flag("over"),
    )


def _board(entry: Entry, expected: Settings, opened: SavedEpoch | None) -> RealWeights:
    n = expected.n
    values = entry.numbers("weights", n, least=0.0)
    order = np.ascontiguousarray(entry.array("order", place_type(n), n))
    exponent = entry.whole("exponent", -LARGEST_EXPONENT, LARGEST_EXPONENT)
    taken = np.zeros(0 if expected.replacement else n, dtype=bool)
    if opened is not None and not expected.replacement:
        ahead = np.zeros(n, dtype=bool)
        ahead[opened.ahead] = True
        drawn = opened.begin + opened.ahead.size
        if not opened.over:
            taken = entry.array("taken", np.bool_, n)
        if (
            np.count_nonzero(ahead) < opened.ahead.size
            or drawn > expected.num_samples
            or not (opened.over or (np.count_nonzero(taken) == drawn and taken[ahead].all()))
        ):
            raise CheckpointError(
                "open and taken do not fit: each item is drawn once, and those drawn are taken"
            )
    return RealWeights.restored(values, taken, exponent, order)
