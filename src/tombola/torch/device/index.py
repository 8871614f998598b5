"""The public class of the index on a device: arguments, errors and checkpoints."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.index.layout import is_order, place_type
from tombola.state import Ints, Scope, array, count, integer, optional
from tombola.torch.device.board import MOST_CHANGES, Board
from tombola.torch.device.host import Host
from tombola.torch.device.layout import LIMIT, MOST_ITEMS, Fault
from tombola.torch.tensors import TensorState
from tombola.validation import whole

__all__ = ["IndexDraw", "WeightIndex"]

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
FLOATS = "scale them to whole numbers first, (weights * (2**30 / weights.max())).round().long()"
PIECE = 1 << 26  # weights that are searched for the first bad one at a time


class IndexState(TensorState):
    """All that defines a `WeightIndex`."""

    kind: ClassVar = "torch.WeightIndex"

    seed: int = integer("the seed of the draws", 0, 2**64 - 1)
    position: int = count("calls of `draw` so far")
    weights: Ints = array("the weight of each item", 0, "limit", dtype=np.int64, shape=("n",))
    order: NDArray[Any] | None = optional(
        array("on the CPU, the order of the columns", 0, "n - 1", dtype="places", shape=("n",))
    )

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the order."""
        if self.order is None or is_order(self.weights, self.order):
            return ""
        return "order must sort the items by the heights of their weights"


class IndexDraw(NamedTuple):
    """Items drawn, with what their probabilities were.

    Attributes
    ----------
    indices : Tensor of int64, shape (B,)
        The items; -1 if there was nothing to draw from.
    weights : Tensor of int64, shape (B,)
        Their weights when they were drawn.
    total : Tensor of int64, shape ()
        The total when they were drawn.
    """

    indices: Tensor
    weights: Tensor
    total: Tensor

    @property
    def probabilities(self) -> Tensor:
        """The probability of each item at the time of the draw, float64."""
        return self.weights.double() / self.total


class WeightIndex:
    """Draws items exactly in proportion to integer weights, where the training runs.

    On a CUDA device everything stays there: `draw`, `set` and `add` launch kernels and return at
    once, whatever the number of items, and may be captured in a CUDA graph; every replay continues
    the stream of draws. Item i is drawn with probability ``weights[i] / total``, exactly, after any
    number of changes. On the CPU the same calls work on a `tombola.WeightIndex`.

    The device cannot raise errors without waiting. A batch with a bad index or weight is therefore
    refused as a whole, nothing changes, and `check` or `state_dict` raises the error of the first
    such batch. This is so on the CPU as well.

    Parameters
    ----------
    weights : Tensor or array-like of int, shape (n,)
        From 0 to ``2^62 // n`` each, so that no total can overflow. Floats are not accepted: scale
        them to integers.
    device : torch.device or str, optional
        Where the index is; by default where `weights` are.
    seed : int, default=0
        From 0 to 2^64 - 1. The same seed gives the same draws in every run on the same kind of
        device; the CPU's are others.

    Notes
    -----
    Memory: 8.07 bytes per item on a CUDA device, 16 on the CPU. Calls on one index must be ordered,
    as they are on one stream. Indices and weights that are tensors of int64 on the device are used
    without a copy and without waiting; anything else is converted first. Make one call of each
    kind and size before the capture of a CUDA graph: the first one compiles kernels, and allocates
    scratch memory for `add` and for large batches of `set`.

    Examples
    --------
    >>> index = WeightIndex(torch.tensor([1, 2, 0, 5]), seed=1)
    >>> draw = index.draw(6)
    >>> draw.indices
    tensor([1, 1, 3, 3, 1, 3])
    >>> draw.probabilities
    tensor([0.2500, 0.2500, 0.6250, 0.6250, 0.2500, 0.6250], dtype=torch.float64)
    >>> index.set(torch.tensor([3, 0]), torch.tensor([0, 6]))
    >>> index.add(torch.tensor([1, 1]), torch.tensor([1, 1]))
    >>> index.weights, index.total
    (tensor([6, 4, 0, 0]), tensor(10))
    >>> index.set(torch.tensor([0, 4]), torch.tensor([1, 1]))       # refused
    >>> index.check()
    Traceback (most recent call last):
    IndexError: indices[1] is 4, out of range for an index of 4 items
    """

    def __init__(
        self, weights: Any, *, device: torch.device | str | None = None, seed: int = 0
    ) -> None:
        seed = whole("seed", seed, 0, 2**64)
        given = weights if isinstance(weights, Tensor) else torch.as_tensor(weights)
        _check_integers("weights", given)
        if given.ndim != 1:
            raise ValueError(f"weights must have one dimension, got shape {tuple(given.shape)}")
        if not 0 < given.numel() <= MOST_ITEMS:
            raise ValueError(
                f"weights must be those of 1 to 2^38 items, got {given.numel()} of them"
            )
        self._n, self._limit = given.numel(), LIMIT // given.numel()
        place = given.device if device is None else torch.device(device)
        if place.type == "cuda" and place.index is None:
            place = torch.device("cuda", torch.cuda.current_device())
        _check_range(given, self._limit)
        self._seed = seed
        self._device = place
        self._engine = engine_of(place)(given, place, seed)

    def draw(self, size: int) -> IndexDraw:
        """Draw items, with replacement.

        Parameters
        ----------
        size : int
            The number of draws. Zero uses nothing of the stream.

        Returns
        -------
        draw : IndexDraw
            Items, their weights and the total. With a total of zero the items are -1, and `check`
            raises.
        """
        return IndexDraw(*self._engine.draw(whole("size", size, 0, 2**30)))

    def set(self, indices: Any, weights: Any) -> None:
        """Set the weights of items; if an item occurs more than once, its last weight wins.

        Parameters
        ----------
        indices, weights : Tensor or array-like of int, shape (k,)
        """
        self._engine.set(*self._batch(indices, weights, "weights"))

    def add(self, indices: Any, amounts: Any) -> None:
        """Add amounts to the weights of items; if an item occurs more than once, all count.

        Parameters
        ----------
        indices : Tensor or array-like of int, shape (k,)
        amounts : Tensor or array-like of int, shape (k,)
            From -m to m with ``m = 2^62 // max(n, k)``. If a weight would leave the range from 0 to
            ``2^62 // n``, the batch is refused.
        """
        items, changes = self._batch(indices, amounts, "amounts")
        self._engine.add(items, changes, LIMIT // max(self._n, items.numel()))

    @property
    def total(self) -> Tensor:
        """The exact sum of all weights, on the device."""
        return self._engine.total

    @property
    def weights(self) -> Tensor:
        """A copy of all weights, on the device."""
        return self._engine.leaves.clone()

    @property
    def device(self) -> torch.device:
        """Where the index is."""
        return self._device

    @property
    def seed(self) -> int:
        """The seed of the draws."""
        return self._seed

    @property
    def nbytes(self) -> int:
        """The memory used by the index, in bytes."""
        return self._engine.nbytes

    def probabilities(self, indices: Any) -> Tensor:
        """Return the present probabilities of items, float64; NaN for an index out of range."""
        items = self._tensor("indices", indices)
        inside = (items >= 0) & (items < self._n)
        weights = self._engine.leaves[torch.where(inside, items, 0)].double()
        return torch.where(inside, weights / self.total, float("nan"))

    def check(self) -> None:
        """Raise the error of the first call that was refused since the last check; this waits.

        Nothing has changed by a call that was refused, and it is forgotten once its error was
        raised.
        """
        kind, where, value = self._engine.fault()
        if kind != Fault.NONE:
            raise self._error(kind, where, value)

    def verify(self) -> None:
        """Check every sum, in O(n); raise a RuntimeError that locates a violation."""
        level = self._engine.verify()
        if level >= 0:
            raise RuntimeError(
                f"the index is corrupt at its sums of level {level}; please report this as a bug"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return all that defines the index; raises as `check` does.

        The state holds tensors on the CPU and integers only, and may be loaded on any device. What
        the order of changes was matters for the draws on the CPU, and is None elsewhere.
        """
        self.check()
        return IndexState(
            seed=self._seed,
            position=self._engine.position,
            weights=self._engine.leaves.numpy(force=True),
            order=self._engine.order,
        ).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory; a bad state raises and changes nothing."""
        read = IndexState.from_state_dict(
            state, n=self._n, limit=self._limit, places=place_type(self._n)
        )
        self._engine.load(torch.from_numpy(read.weights), read.seed, read.position, read.order)
        self._seed = read.seed

    def _batch(self, indices: Any, values: Any, name: str) -> tuple[Tensor, Tensor]:
        """Return a batch as contiguous int64 tensors on the device; kernels look at the values."""
        items, given = self._tensor("indices", indices), self._tensor(name, values)
        if items.shape != given.shape:
            raise ValueError(
                f"indices and {name} must have the same length, got {len(items)} and {len(given)}"
            )
        if len(items) > MOST_CHANGES:
            raise ValueError(
                f"indices has {len(items)} entries, a batch of changes at most {MOST_CHANGES}"
            )
        return items, given

    def _tensor(self, name: str, values: Any) -> Tensor:
        """Return a contiguous tensor of int64 on the device, of one dimension."""
        if isinstance(values, Tensor):
            tensor = values
            if tensor.device != self._device:
                raise ValueError(f"{name} is on {tensor.device}, the index on {self._device}")
        else:
            tensor = torch.as_tensor(values, device=self._device)
            tensor = tensor if tensor.numel() else tensor.long()  # an empty list is of floats
        if tensor.dtype != torch.int64:
            _check_integers(name, tensor)
            tensor = tensor.long()
        if tensor.ndim != 1:
            raise ValueError(f"{name} must have one dimension, got shape {tuple(tensor.shape)}")
        return tensor.contiguous()

    def _error(self, kind: int, where: int, value: int) -> Exception:
        """Return the error of a fault."""
        if kind == Fault.INDEX:
            return IndexError(
                f"indices[{where}] is {value}, out of range for an index of {self._n} items"
            )
        if kind == Fault.WEIGHT:
            return ValueError(_wrong_weight(where, value, self._limit))
        if kind == Fault.AMOUNT:
            return ValueError(
                f"amounts[{where}] is {value}, but 2^62 // max(n, k) is the most that can be added"
            )
        if kind == Fault.RANGE:
            return ValueError(
                f"the amounts for item {value}, the last one at position {where}, bring its weight "
                f"outside 0 to {self._limit}, which is 2^62 // n"
            )
        if kind == Fault.EMPTY:
            return ValueError(
                f"nothing to draw from in draw {where}: all {self._n} items had weight 0"
            )
        if kind == Fault.UNLUCKY:
            return RuntimeError(f"draw {where} rejected every random word; please report this")
        return RuntimeError(f"position {where} of a batch found no slot; please report this")

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"WeightIndex(n={self._n}, device='{self._device}', seed={self._seed})"


def engine_of(device: torch.device) -> type[Board] | type[Host]:
    """Return what does the work on a device."""
    return Host if device.type == "cpu" else Board


def _check_integers(name: str, values: Tensor) -> None:
    """Raise a TypeError unless the tensor holds integers."""
    if values.dtype in INTEGERS:
        return
    advice = f"; {FLOATS}" if values.dtype.is_floating_point else ", use int64"
    raise TypeError(f"{name} must hold integers, got {values.dtype}{advice}")


def _check_range(weights: Tensor, limit: int) -> None:
    """Raise at the first weight that is negative or above the limit; this waits."""
    low, high = torch.aminmax(weights)
    if low >= 0 and high <= limit:
        return
    for first in range(0, weights.numel(), PIECE):
        piece = weights[first : first + PIECE].long()
        bad = (piece < 0) | (piece > limit)
        if bad.any():
            where = int(bad.long().argmax())
            raise ValueError(_wrong_weight(first + where, int(piece[where]), limit))


def _wrong_weight(where: int, value: int, limit: int) -> str:
    if value < 0:
        return f"weights[{where}] is {value}, but weights must not be negative"
    return f"weights[{where}] is {value}, but 2^62 // n = {limit} is the largest weight"
