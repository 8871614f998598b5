"""A prioritised sampler for the replay buffers of TorchRL, and for any other."""

import importlib
import os
from collections.abc import Callable, Mapping
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tombola.checkpoint import load, save
from tombola.compiling import entry
from tombola.index.inputs import item_numbers, real_numbers
from tombola.index.layout import place_type
from tombola.random import new_state
from tombola.state import Floats, Ints
from tombola.torch.replay.priorities import (
    Board,
    PriorityState,
    draw,
    fault,
    first,
    largest_present,
    new_board,
    put,
    rescale,
    too_heavy,
)
from tombola.torch.tensors import as_array
from tombola.validation import not_negative, positive, positive_count

__all__ = ["PrioritizedSampler"]

FILE = "prioritized_sampler.npz"
DTYPES = {torch.float32: np.float32, torch.float64: np.float64}
REDUCTIONS = ("max", "min", "median", "mean")


def base_class() -> Any:
    """Return TorchRL's `PrioritizedSampler`, or `object` without TorchRL.

    Its methods are all replaced, and its trees are never made. A subclass of the plain `Sampler`
    would not do: `TensorDictReplayBuffer.update_tensordict_priority` silently ignores any sampler
    that is not a `PrioritizedSampler`.
    """
    try:
        return importlib.import_module("torchrl.data.replay_buffers.samplers").PrioritizedSampler
    except (ImportError, OSError):  # OSError: a library that it links to is not there
        return object


class PrioritizedSampler(base_class()):  # type: ignore[misc]
    """Draw items of a replay buffer in proportion to (priority + eps)^alpha.

    Change the import: it takes the arguments of TorchRL's `PrioritizedSampler`, and goes where that
    goes, ``ReplayBuffer(sampler=...)`` or ``TensorDictReplayBuffer(sampler=...)``. It needs none of
    TorchRL's compiled trees; without TorchRL it works with any storage that has a length. Beyond
    the original:

    - draws and updates take O(1), not O(log n);
    - draws are exact, after any number of updates: weights are whole numbers, nothing drifts, and
      an empty slot is never drawn;
    - ``normalize=False`` gives importances that are unbiased;
    - `alpha` can be changed at any time, from 0 as well;
    - wrong indices and priorities are errors that name the position, and change nothing.

    Items are slots of a ring. A slot that was written has the largest priority until its first
    `update_priority`. A priority belongs to the slot: an update that comes late, after the slot was
    overwritten, counts for the item that is there now, as in TorchRL. If an update names a slot
    more than once, the last priority wins. Negative slots are left out, with their priorities:
    writers mark with -1 what they did not store.

    Parameters
    ----------
    max_capacity : int
        The number of slots.
    alpha : float
        At least 0; with 0, draws are uniform.
    beta : float
        At least 0, the exponent of importances; it may change at any time (``sampler.beta = 0.7``,
        or a scheduler of TorchRL).
    eps : float, default=1e-8
        Above 0; added to every priority.
    dtype : torch.dtype, default=torch.float32
        Of the importances; float32 or float64.
    reduction : {"max", "min", "median", "mean"}, default="max"
        How TorchRL's buffers make one priority of those of a trajectory.
    max_priority_within_buffer : bool, default=False
        Whether the largest priority is that of the items that are in the buffer, instead of the
        largest that was ever set.
    normalize : bool, default=True
        Whether importances are divided by the largest that an item of the buffer could have, as
        TorchRL does. They are then at most 1, and biased even with ``beta=1``: a weighted mean of
        losses is too small by a factor that depends on the least priority and changes over time.
        If False, importances are 1 / (n p)^beta, p being the probability of a draw of the item and
        n the number of items. With ``beta=1`` the mean of ``priority_weight * loss`` over a batch
        is an unbiased estimate of the mean loss of all n items.

    Attributes
    ----------
    alpha, beta : float
    default_priority : float
    dtype : torch.dtype
    reduction : str
    normalize : bool

    Notes
    -----
    Each `sample` takes one seed from the generator of the buffer (``buffer.set_rng``), or from
    torch's default generator: the same state of the generator, the same draws.

    Weights are whole numbers of a unit that is at most 2^-49 of the total, and a weight is at least
    one unit. Importances are of these weights, so rounding does not bias them.

    Cost: 24 bytes a slot. `sample` and `update_priority` take O(1) an item; if the item of least
    priority has changed, the next sample reads about 2 sqrt(n) numbers. A change of `alpha`, and of
    the total by a factor of 16 or more, takes O(n). Draws are made on the CPU, for storages on any
    device; `tombola.torch.WeightIndex` draws on a GPU.

    Examples
    --------
    >>> sampler = PrioritizedSampler(max_capacity=5, alpha=1.0, beta=1.0, normalize=False)
    >>> storage = ["a", "b", "c"]                   # below capacity
    >>> sampler.extend([0, 1, 2])
    >>> sampler.update_priority([0, 1, 2], [1.0, 4.0, 1.0])
    >>> _ = torch.manual_seed(2)
    >>> index, info = sampler.sample(storage, 6)
    >>> index
    tensor([1, 1, 1, 2, 1, 2])
    >>> info["priority_weight"]                     # 1 / (3 p), p = 4/6 or 1/6
    tensor([0.5000, 0.5000, 0.5000, 2.0000, 0.5000, 2.0000])

    References
    ----------
    Schaul, Quan, Antonoglou, Silver (2016). Prioritized experience replay.
    """

    _rng: torch.Generator | None = None  # a buffer of TorchRL sets it

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        max_priority_within_buffer: bool = False,
        *,
        normalize: bool = True,
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {REDUCTIONS}, got {reduction!r}")
        for name, flag in (
            ("max_priority_within_buffer", max_priority_within_buffer),
            ("normalize", normalize),
        ):
            if not isinstance(flag, bool):
                raise TypeError(f"{name} must be True or False, got {flag!r}")
        self.dtype = dtype
        self.reduction = reduction
        self.normalize = normalize
        self._within_buffer = max_priority_within_buffer
        self._word = torch.empty((), dtype=torch.int64)  # for seeds
        self._stream = new_state(0, ())
        self._use(
            new_board(
                positive_count("max_capacity", max_capacity, "slots"),
                not_negative("alpha", alpha),
                positive("eps", eps),
            )
        )
        self.beta = beta

    def _use(self, board: Board) -> None:
        """Draw from this board from now on."""
        self._board = board
        self._end = board.rule["end"]  # views, for faster access
        self._count = board.slots.sums["at_least"][0, 1:2]
        self._draw: Callable[..., None] | None = None  # machine code, after first use
        self._put: Callable[..., int] | None = None

    # --- draws ----------------------------------------------------------------------------------

    def sample(self, storage: Any, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """Draw items, with replacement.

        Parameters
        ----------
        storage : Storage, or anything with a length
            Items from ``len(storage)`` on are not drawn, even if they have a priority.
        batch_size : int

        Returns
        -------
        index : Tensor of int64, shape (batch_size,)
            For a storage of several dimensions a tuple of such tensors, one for each.
        info : dict
            ``"priority_weight"`` is a tensor of the importances.
        """
        n, size = len(storage), positive_count("batch_size", batch_size, "items")
        if n == 0:
            raise RuntimeError("Cannot sample from an empty storage.")
        board, count = self._board, self._count
        if beyond := self._end.item() > n:
            board = first(board, n)
            count = board.slots.sums["at_least"][0, 1:2]
        if count.item() == 0:
            raise RuntimeError(
                f"none of the {n} items of the storage has a priority: call extend, mark_update or "
                "update_priority first"
            )
        items, importances = np.empty(size, dtype=np.int64), np.empty(size, DTYPES[self.dtype])
        arguments = (
            board, self._stream, self._seed(), items, importances, self._beta, self.normalize
        )  # fmt: skip
        if beyond:
            entry(draw, *arguments)(*arguments)
        else:
            if self._draw is None:
                self._draw = entry(draw, *arguments)
            self._draw(*arguments)
        index: Any = torch.from_numpy(items)
        if getattr(storage, "ndim", 1) > 1:
            index = torch.unravel_index(index, storage.shape)
        return index, {"priority_weight": torch.from_numpy(importances)}

    def _seed(self) -> int:
        word = self._word
        if self._rng is not None and self._rng.device != word.device:
            word = torch.empty_like(word, device=self._rng.device)
        return word.random_(generator=self._rng).item()  # type: ignore[return-value]

    # --- items that come and change -------------------------------------------------------------

    def add(self, index: Any) -> None:
        """Register a slot that was written: its item gets the largest priority."""
        self.extend(index)

    def extend(self, index: Any) -> None:
        """Register slots that were written: their items get the largest priority.

        Coordinates in a storage of several dimensions are left to `mark_update`, which TorchRL's
        writers call first.
        """
        if not has_coordinates(index):
            self.mark_update(index)

    def mark_update(self, index: Any, *, storage: Any = None) -> None:
        """Give items the largest priority."""
        self.update_priority(index, self.default_priority, storage=storage)

    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:
        """Set the priorities of items.

        Parameters
        ----------
        index : int, tensor or array-like of int, shape (k,)
            Slots; negative ones are left out. For a storage of several dimensions, a tensor of
            shape (k, dimensions) or a tuple of tensors.
        priority : float, tensor or array-like of float, shape (k,)
            Finite and not negative, usually absolute TD errors. If anything is wrong, nothing
            changes.
        storage : Storage, optional
            Needed for its shape if it has several dimensions.
        """
        items = slots_of(index, storage)
        if not items.size:
            return
        priorities = priorities_of(priority, items.size)
        if self._put is None:
            self._put = entry(put, self._board, items, priorities)
        position = self._put(self._board, items, priorities)
        if position >= 0:
            raise fault(self._board, items, priorities, position)

    @property
    def default_priority(self) -> float:
        """The priority of a new item: the largest so far, or 1 at first."""
        board = self._board
        largest = largest_present(board) if self._within_buffer else board.rule[0].largest
        return 1.0 if largest < 0 else float(largest)

    def empty(self) -> None:
        """Forget all items, and the largest priority."""
        self._use(new_board(self.max_size, self.alpha, self._eps))

    def _empty(self) -> None:
        self.empty()

    # --- parameters -----------------------------------------------------------------------------

    @property
    def alpha(self) -> float:
        """The exponent of priorities; setting it computes all weights again, in O(n)."""
        return float(self._board.rule[0].alpha)

    @alpha.setter
    def alpha(self, alpha: float) -> None:
        value, largest = not_negative("alpha", alpha), float(largest_present(self._board))
        if too_heavy(largest, value, self._eps):
            raise ValueError(f"alpha is {alpha}: the weight of priority {largest} is beyond 2^900")
        if value != self.alpha:
            self._board.rule[0].alpha = value
            rescale(self._board)

    @property
    def _eps(self) -> float:
        return float(self._board.rule[0].eps)

    @property
    def beta(self) -> float:
        """The exponent of importances."""
        return self._beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._beta = not_negative("beta", beta)

    @property
    def max_size(self) -> int:
        """The number of slots."""
        return self._board.priorities.size

    @property
    def device(self) -> torch.device:
        """Where draws are made: the CPU."""
        return torch.device("cpu")

    @property
    def priorities(self) -> torch.Tensor:
        """A copy of the priorities of all slots, NaN for empty ones."""
        return torch.from_numpy(self._board.priorities.copy())

    def __repr__(self) -> str:
        return (
            f"PrioritizedSampler(max_capacity={self.max_size}, alpha={self.alpha}, "
            f"beta={self.beta}, eps={self._eps}, reduction={self.reduction!r}, "
            f"normalize={self.normalize})"
        )

    # --- states ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state: priorities, alpha, beta, eps, and all else that draws depend on.

        It holds tensors and numbers, and loads under ``torch.load(..., weights_only=True)``. The
        generator is not part of it.
        """
        return PriorityState.of(self._board, self._beta).state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a state, with its alpha, beta and eps.

        The capacity must be the same. The state may come from anywhere: one that is damaged or does
        not fit raises a `tombola.checkpoint.CheckpointError`, and nothing changes.
        """
        state = PriorityState.from_state_dict(
            state_dict, max_capacity=self.max_size, places=place_type(self.max_size)
        )
        self._use(state.board())
        self._beta = state.beta

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a folder, which is made if needed."""
        Path(path).mkdir(parents=True, exist_ok=True)
        save(self, Path(path) / FILE)

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Continue from a folder that `dumps` wrote."""
        load(Path(path) / FILE, into=self)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle: without the generator, which belongs to the buffer."""
        if get_spawning_popen() is not None:
            raise RuntimeError(
                "a PrioritizedSampler cannot be shared between processes: each would have its own "
                "priorities. Write from other processes, and sample and update in one"
            )
        return {**self.__dict__, "_rng": None, "_draw": None, "_put": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Continue as the original; views are made again."""
        self.__dict__.update(state)
        self._use(self._board)


def has_coordinates(index: Any) -> bool:
    """Return whether an index is of several dimensions: rows, or a vector for each dimension."""
    if isinstance(index, tuple):
        return any(np.ndim(part) > 0 for part in index)
    return np.ndim(index) > 1


def slots_of(index: Any, storage: Any) -> Ints:
    """Return slots as a vector; rows of coordinates become slots by the shape of the storage."""
    if isinstance(index, torch.Tensor) and index.dtype == torch.int64 and index.ndim == 1:
        return np.ascontiguousarray(index.cpu().numpy())  # the usual case, first for speed
    if not has_coordinates(index):
        return item_numbers("index", as_array(index))
    if isinstance(index, tuple):
        index = torch.stack([torch.as_tensor(part) for part in index], -1)
    given = np.asarray(as_array(index))
    rows = item_numbers("index", given.reshape(-1)).reshape(-1, given.shape[-1])
    shape = getattr(storage, "shape", None)
    if shape is None or len(shape) != rows.shape[1]:
        raise ValueError(
            f"index has rows of {rows.shape[1]} coordinates: pass a storage with that many "
            f"dimensions, got shape {None if shape is None else tuple(shape)}"
        )
    outside = (rows >= np.array(shape)).any(axis=1)
    if outside.any():
        j = int(outside.argmax())
        raise IndexError(
            f"index[{j}] is {rows[j].tolist()}, out of range for a storage of shape {tuple(shape)}"
        )
    slots = np.ravel_multi_index(tuple(rows.T), tuple(shape), mode="clip")
    return np.where((rows < 0).any(axis=1), -1, slots)


def priorities_of(priority: Any, count: int) -> Floats:
    """Return priorities as a vector of `count` numbers, or of one that counts for all."""
    values = real_numbers("priority", np.reshape(as_array(priority), -1))
    if values.size not in (1, count):
        raise ValueError(
            f"priority must be a number, or as many as index has items: got {values.size} for "
            f"{count} items"
        )
    return values
