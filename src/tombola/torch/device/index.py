"""The index on a device: its public class, with arguments, errors and checkpoints."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import tombola.index
from tombola.state import CheckpointError, Ints, array, count, integer, optional
from tombola.torch.device import launching
from tombola.torch.device.board import MOST_CHANGES, Board
from tombola.torch.device.device_draw import IndexDraw, unscaled
from tombola.torch.device.launching import place_of
from tombola.torch.device.layout import LIMIT, MOST_ITEMS, Fault
from tombola.torch.tensors import TensorState, from_tensors, to_tensors
from tombola.validation import whole

__all__ = ["WeightIndex"]

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
FLOATS = "make the index from float weights: it then takes real numbers"
NOT_A_NUMBER = -(2**63)  # in place of the integer of NaN
BEYOND = 2**62 + 2**10  # in place of an integer that no index takes
LEAST_EXPONENT, LARGEST_EXPONENT = -1020, 1000  # of the scale, so that it is finite
SPARE_BITS = 10  # real weights may grow to 2^10 times the largest one at first
MOST_DRAWS = 2**30
PIECE = 1 << 26  # weights that are searched for the first bad one at a time


class IndexState(TensorState):
    """All that defines a `WeightIndex` on a CUDA device."""

    kind: ClassVar = "torch.WeightIndex"
    form: ClassVar = 4

    seed: int = integer("the seed of the draws", 0, 2**64 - 1)
    position: int = count("calls of `draw` so far")
    exponent: int | None = optional(
        integer(
            "of the scale, 2^exponent; None if weights are integers",
            LEAST_EXPONENT,
            LARGEST_EXPONENT,
        )
    )
    weights: Ints = array("the integer of each item", 0, "limit", dtype=np.int64, shape=("n",))


class WeightIndex:
    """Draws items exactly in proportion to weights that can change, where the training runs.

    On a CUDA device everything stays there: `draw`, `set` and `add` launch kernels and return at
    once, whatever the number of items, and may be captured in a CUDA graph; every replay continues
    the stream of draws. Item i is drawn with probability ``weights[i] / total``, exactly, after any
    number of changes. The CPU's is a `tombola.WeightIndex` that takes and returns tensors, with the
    same draws for the same seed.

    On a CUDA device, real weights are drawn by integers on one scale, a power of two that is chosen
    once: the weight times the scale, rounded down, but at least 1 if the weight is positive. An
    integer can be up to ``2^62 // n``, and the scale leaves room for weights of 1024 times the
    largest one at first (of 1024, if all are 0 at first): with n = 10^6, the unit is at most 2^-31
    of the largest weight. It is at least 2^-1000: positive weights below that are drawn equally
    often.

    A CUDA device cannot raise errors without waiting. A batch with a bad item or weight is
    therefore refused as a whole, nothing changes, and `check` or `state_dict` raises the error of
    the first such batch. On the CPU, the call itself raises it.

    Parameters
    ----------
    weights : Tensor or array-like of int or float, shape (n,)
        Integers are exact, from 0 to ``2^62 // n`` each on a CUDA device, so that no total can
        overflow. Floats are real weights, finite and not negative.
    device : torch.device or str, optional
        The device of the index; by default that of `weights`.
    seed : int, default=0
        From 0 to 2^64 - 1. The same seed gives the same draws in every run on the same kind of
        device; the CPU's are others.

    Notes
    -----
    Memory: 8.07 bytes per item on a CUDA device, 16 on the CPU. Calls on one index must be ordered,
    as they are on one stream. Tensors of int64 on the device are used without a copy and without
    waiting. Float tensors on the device are converted there, without waiting; anything else is
    copied to the device first. Make one call of each kind and size before the capture of a CUDA
    graph: the first one compiles kernels, and allocates scratch memory for `add` and for large
    batches of `set`.

    Not offered here, on any device: `draw_distinct`, `extend`, `uniform` (pass
    ``torch.ones(n, dtype=torch.int64)``), ``draw(uniform=...)`` and ``index[item]`` of a
    `tombola.WeightIndex`.

    Examples
    --------
    >>> index = WeightIndex(torch.tensor([1, 2, 0, 5]), seed=1)
    >>> draw = index.draw(6)
    >>> draw.indices                                     # as tombola.WeightIndex([1, 2, 0, 5], 1)
    tensor([1, 0, 3, 3, 1, 3])
    >>> draw.probabilities
    tensor([0.2500, 0.1250, 0.6250, 0.6250, 0.2500, 0.6250], dtype=torch.float64)
    >>> index.set(torch.tensor([3, 0]), torch.tensor([0, 6]))
    >>> index.add(torch.tensor([1, 1]), torch.tensor([1, 1]))
    >>> index.weights, index.total
    (tensor([6, 4, 0, 0]), tensor(10))
    >>> index.check()                                    # on a CUDA device, errors come here
    >>> index = WeightIndex(torch.tensor([0.5, 0.0, 1.5]), seed=1)
    >>> index.add(torch.tensor([1]), torch.tensor([2.0]))
    >>> index.weights, index.total
    (tensor([0.5000, 2.0000, 1.5000], dtype=torch.float64), tensor(4., dtype=torch.float64))
    """

    def __init__(
        self, weights: Any, *, device: torch.device | str | None = None, seed: int = 0
    ) -> None:
        seed = whole("seed", seed, 0, 2**64)
        # by way of numpy, for which a list of floats is of float64
        given = weights if isinstance(weights, Tensor) else torch.as_tensor(np.asarray(weights))
        if not given.dtype.is_floating_point:
            _check_integers("weights", given)
        if given.ndim != 1:
            raise ValueError(f"weights must have one dimension, got shape {tuple(given.shape)}")
        if not 0 < given.numel() <= MOST_ITEMS:
            raise ValueError(
                f"weights must be those of 1 to 2^38 items, got {given.numel()} of them"
            )
        self._n, self._limit, self._seed = given.numel(), LIMIT // given.numel(), seed
        self._device = given.device if device is None else place_of(device)
        self._exponent: int | None = None
        self._draws = 0
        self._engine: Any
        self._on_host = not launching.runs_kernels(self._device)
        if self._on_host:
            self._engine = tombola.index.WeightIndex(_array(given), seed)
            return
        if given.dtype.is_floating_point:
            self._exponent = _exponent_for(given, self._limit)
            given = _integers(given, 2.0**self._exponent)
        self._check_range(given)
        self._engine = Board(given, self._device, seed)

    def draw(self, size: int) -> IndexDraw:
        """Draw items, with replacement.

        Parameters
        ----------
        size : int
            The number of draws. Zero uses nothing of the stream.

        Returns
        -------
        draw : IndexDraw
            Items, probabilities and importances, and the weights. With a total of zero the items
            are -1, and `check` raises.
        """
        if type(size) is not int or not 0 <= size < MOST_DRAWS:
            size = whole("size", size, 0, MOST_DRAWS)
        drawn = self._engine.draw(size)
        if self._on_host:
            index, items = self._engine, torch.tensor(drawn.indices)
            units, total = index._index.weights[drawn.indices], torch.tensor(int(index._total[0]))
            exponent = None if index._real is None else index._real.exponent
            return IndexDraw(items, torch.from_numpy(units), total, self._n, drawn.round, exponent)
        number = self._draws
        self._draws += size > 0
        return IndexDraw.within(drawn, size, self._n, number, self._exponent)

    def set(self, items: Any, weights: Any) -> None:
        """Set the weights of items; if an item occurs more than once, its last weight wins.

        Parameters
        ----------
        items : Tensor or array-like of int, shape (k,)
        weights : Tensor or array-like of int or float, shape (k,)
        """
        if self._on_host:
            self._engine.set(self._given("items", items), self._given("weights", weights))
        else:
            self._engine.set(*self._batch(items, weights, "weights"))

    def add(self, items: Any, deltas: Any) -> None:
        """Add to the weights of items; if an item occurs more than once, all its deltas count.

        Parameters
        ----------
        items : Tensor or array-like of int, shape (k,)
        deltas : Tensor or array-like of int or float, shape (k,)
            On a CUDA device, integers from -m to m with ``m = 2^62 // max(n, k)``; a real delta is
            rounded towards 0, but to at least one unit if it is not 0. If a weight would leave the
            range from 0 to ``2^62 // n``, the batch is refused.
        """
        if self._on_host:
            self._engine.add(self._given("items", items), self._given("deltas", deltas))
            return
        places, changes = self._batch(items, deltas, "deltas")
        self._engine.add(places, changes, LIMIT // max(self._n, places.numel()))

    @property
    def total(self) -> Tensor:
        """The exact sum of all weights, on the device: int64, or float64 for real weights."""
        if self._on_host:
            return torch.from_numpy(np.asarray(self._engine.total))
        return unscaled(self._engine.total, self._exponent)

    @property
    def weights(self) -> Tensor:
        """A copy of all weights, on the device; real ones are rounded on a CUDA device, float64."""
        if self._on_host:
            return torch.from_numpy(self._engine.weights)
        return unscaled(self._engine.leaves.clone(), self._exponent)

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
        if self._on_host:
            return int(self._engine.nbytes)
        return sum(part.nbytes for part in self._engine.tensors())

    def probabilities(self, items: Any) -> Tensor:
        """Return the present probabilities of items, float64; NaN for an item out of range."""
        given = self._tensor("items", items)
        inside = (given >= 0) & (given < self._n)
        places = torch.where(inside, given, 0)
        if self._on_host:
            real, weights = self._engine._real, self._engine._index.weights
            chosen = torch.from_numpy(weights if real is None else real.values)[places]
            return torch.where(inside, chosen.double() / self.total, float("nan"))
        units = self._engine.leaves[places].double()
        return torch.where(inside, units / self._engine.total, float("nan"))

    def check(self) -> None:
        """Raise the error of the first call that was refused since the last check; this waits.

        Nothing has changed by a call that was refused, and it is forgotten once its error was
        raised. On the CPU there is nothing to check: calls raise errors themselves.
        """
        if self._on_host:
            return
        kind, where, value = self._engine.fault()
        if kind != Fault.NONE:
            raise self._error(kind, where, value)

    def verify(self) -> None:
        """Check every sum, in O(n); raise a RuntimeError that locates a violation."""
        level = self._engine.verify()
        if not self._on_host and level >= 0:
            raise RuntimeError(
                f"the index is corrupt at its sums of level {level}; please report this as a bug"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return all that defines the index; raises as `check` does.

        The state holds tensors on the CPU and integers only. One of a CUDA device loads on any
        CUDA device. That of the CPU is the state of a `tombola.WeightIndex`, as tensors.
        """
        if self._on_host:
            state: dict[str, Any] = to_tensors(self._engine.state_dict())
            return state
        self.check()
        return IndexState(
            seed=self._seed,
            position=self._engine.position,
            exponent=self._exponent,
            weights=self._engine.leaves.numpy(force=True),
        ).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory; a bad state raises and changes nothing."""
        if self._on_host:
            index = tombola.index.WeightIndex.from_state_dict(from_tensors(state))
            if len(index) != self._n:
                raise CheckpointError(f"saved with n={len(index)}, here it is {self._n}")
            self._engine, self._seed = index, index.seed
            return
        read = IndexState.from_state_dict(state, n=self._n, limit=self._limit)
        self._engine.load(torch.from_numpy(read.weights), read.seed, read.position)
        self._seed, self._exponent, self._draws = read.seed, read.exponent, read.position

    def _given(self, name: str, values: Any) -> NDArray[Any]:
        """Return items or weights as an array, for the host's index, which looks at them."""
        if isinstance(values, Tensor):
            self._check_device(name, values)
            return _array(values)
        return np.asarray(values)

    def _check_device(self, name: str, given: Tensor) -> None:
        if given.device != self._device:
            raise ValueError(f"{name} is on {given.device}, the index on {self._device}")

    def _batch(self, items: Any, values: Any, name: str) -> tuple[Tensor, Tensor]:
        """Return a batch as contiguous int64 tensors on the device; kernels look at the values."""
        places = self._tensor("items", items)
        scale = None if self._exponent is None else 2.0**self._exponent
        given = self._tensor(name, values, scale)
        if places.shape != given.shape:
            raise ValueError(
                f"items and {name} must have the same length, got {len(places)} and {len(given)}"
            )
        if len(places) > MOST_CHANGES:
            raise ValueError(
                f"items has {len(places)} entries, a batch of changes at most {MOST_CHANGES}"
            )
        return places, given

    def _tensor(self, name: str, values: Any, scale: float | None = None) -> Tensor:
        """Return a contiguous tensor of int64 on the device, of one dimension.

        With a scale, the values are real weights, and the tensor has their integers.
        """
        if isinstance(values, Tensor):
            tensor = values
            self._check_device(name, tensor)
        else:
            tensor = torch.as_tensor(np.asarray(values), device=self._device)
            tensor = tensor if tensor.numel() else tensor.long()  # an empty list is of floats
        if scale is not None and (tensor.dtype.is_floating_point or tensor.dtype in INTEGERS):
            tensor = _integers(tensor, scale)
        elif tensor.dtype != torch.int64:
            _check_integers(name, tensor)
            tensor = tensor.long()
        if tensor.ndim != 1:
            raise ValueError(f"{name} must have one dimension, got shape {tuple(tensor.shape)}")
        return tensor.contiguous()

    def _error(self, kind: int, where: int, value: int) -> Exception:
        """Return the error of a fault."""
        if kind == Fault.INDEX:
            return IndexError(
                f"items[{where}] is {value}, out of range for an index of {self._n} items"
            )
        if kind == Fault.WEIGHT:
            return ValueError(self._wrong_weight(where, value))
        if kind == Fault.AMOUNT:
            return ValueError(
                f"deltas[{where}] is {self._shown(value)}, but 2^62 // max(n, k)"
                f"{self._in_units} is the most that can be added"
            )
        if kind == Fault.RANGE:
            return ValueError(
                f"the deltas for item {value}, the last one at position {where}, bring its weight "
                f"outside 0 to {self._shown(self._limit)}, which is 2^62 // n{self._in_units}"
            )
        if kind == Fault.EMPTY:
            return ValueError(
                f"nothing to draw from in draw {where}: all {self._n} items had weight 0"
            )
        if kind == Fault.UNLUCKY:
            return RuntimeError(f"draw {where} rejected every random word; please report this")
        return RuntimeError(f"position {where} of a batch found no slot; please report this")

    def _wrong_weight(self, where: int, value: int) -> str:
        if value < 0:
            rule = "must not be negative" if value != NOT_A_NUMBER else "must be finite"
            return f"weights[{where}] is {self._shown(value)}, but weights {rule}"
        if self._exponent is None:
            return (
                f"weights[{where}] is {value}, but 2^62 // n = {self._limit} is the largest weight"
            )
        return (
            f"weights[{where}] is {self._shown(value)}; the scale of this index, chosen when it "
            f"was made, allows finite weights up to {self._shown(self._limit)}"
        )

    def _shown(self, value: int) -> str:
        """Return the weight that an integer stands for, in words."""
        if self._exponent is None:
            return str(value)
        if value == NOT_A_NUMBER:
            return "nan"
        beyond = " or beyond" if abs(value) >= BEYOND else ""
        return f"{max(-LIMIT, min(value, LIMIT)) / 2.0**self._exponent}{beyond}"

    @property
    def _in_units(self) -> str:
        return "" if self._exponent is None else f" units of 2^{-self._exponent}"

    def _check_range(self, weights: Tensor) -> None:
        """Raise at the first integer that is negative or above the limit; this waits."""
        low, high = torch.aminmax(weights)
        if low >= 0 and high <= self._limit:
            return
        for first in range(0, weights.numel(), PIECE):
            piece = weights[first : first + PIECE].long()
            bad = (piece < 0) | (piece > self._limit)
            if bad.any():
                where = int(bad.long().argmax())
                raise ValueError(self._wrong_weight(first + where, int(piece[where])))

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        return f"WeightIndex(n={self._n}, device='{self._device}', seed={self._seed})"


def _array(values: Tensor) -> NDArray[Any]:
    """Return a tensor of any type as an array; floats are of float64."""
    exact = values.double() if values.dtype.is_floating_point else values
    return exact.numpy(force=True)


def _check_integers(name: str, values: Tensor) -> None:
    """Raise a TypeError unless the tensor holds integers."""
    if values.dtype in INTEGERS:
        return
    real = values.dtype.is_floating_point and name != "items"
    advice = f"; {FLOATS}" if real else ", use int64"
    raise TypeError(f"{name} must hold integers, got {values.dtype}{advice}")


def _exponent_for(weights: Tensor, limit: int) -> int:
    """Return the exponent of the scale for real weights; this waits."""
    finite = weights[torch.isfinite(weights)]
    largest = float(finite.max()) if finite.numel() else 0.0
    size = math.frexp(largest)[1] if largest > 0 else 1
    return min(limit.bit_length() - 1 - SPARE_BITS - size, LARGEST_EXPONENT)


def _integers(values: Tensor, scale: float) -> Tensor:
    """Return real numbers as integers by the rule of `tombola.index.real`, on their device.

    A negative number keeps its sign. Values beyond 2^62 become BEYOND and NaN becomes NOT_A_NUMBER,
    which the kernels refuse.
    """
    real, beyond = values.double(), float(BEYOND)
    sizes = torch.nan_to_num(real.abs() * scale, nan=0.0, posinf=beyond).clamp_(max=beyond)
    units = torch.maximum(sizes.long(), (real != 0).long())
    return torch.where(real.isnan(), NOT_A_NUMBER, torch.where(real < 0, -units, units))
