"""Weighted draws of any number of items, as `torch.utils.data.WeightedRandomSampler` makes them."""

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Sampler

from tombola.index.layout import place_type
from tombola.index.real import LARGEST_EXPONENT, LEAST_EXPONENT, RealWeights
from tombola.random import Stream
from tombola.state import (
    Floats,
    Scope,
    array,
    count,
    integer,
    nested,
    optional,
    same,
)
from tombola.torch.tensors import TensorState
from tombola.torch.weighted_epoch import Epoch, SavedEpoch
from tombola.torch.weighted_inputs import connection_of, real_numbers, set_generator, shared_update
from tombola.validation import positive_count, whole

__all__ = ["WeightedSampler"]


class WeightedState(TensorState):
    """Everything that a `WeightedSampler` needs to continue; the same on all processes."""

    kind: ClassVar = "WeightedSampler"

    n: int = same("items")
    num_samples: int = same("draws in an epoch, of all processes together")
    replacement: bool = same("whether items stay on the board when they are drawn")
    weights: Floats = array("the weight of each item", 0.0, dtype=np.float64, shape=("n",))
    exponent: int = integer("the scale is 2^exponent", LEAST_EXPONENT, LARGEST_EXPONENT)
    order: NDArray[Any] = array(
        "the order of the items on the board", 0, "n - 1", dtype="places", shape=("n",)
    )
    taken: NDArray[np.bool_] | None = optional(
        array("which items are off the board", 0, 1, dtype=np.bool_, shape=("n",))
    )
    epoch: int = count("epochs that are over")
    open: SavedEpoch | None = optional(nested("the epoch that has begun", SavedEpoch))
    generator: NDArray[np.uint8] | None = optional(
        array("the state of the generator", 0, 255, dtype=np.uint8)
    )

    def fault(self, scope: Scope) -> str:
        """Return what is wrong between the parts."""
        own = scope.find("has_generator")
        if own == (self.generator is None):
            return (
                f"the state was saved with{'out' if own else ''} a generator, "
                f"here there is {'one' if own else 'none'}"
            )
        if self.open is None or self.replacement:
            return "" if self.taken is None else "taken must be None: no item is off the board"
        if self.open.over == (self.taken is not None):
            return f"taken must be {'None' if self.open.over else 'an array'}"
        ahead = self.open.ahead
        drawn, taken = self.open.begin + ahead.size, self.taken
        if (
            np.unique(ahead).size < ahead.size
            or drawn > self.num_samples
            or not (taken is None or (np.count_nonzero(taken) == drawn and taken[ahead].all()))
        ):
            return "open and taken do not fit: each item is drawn once, and those drawn are taken"
        return ""


class WeightedSampler(Sampler[int]):
    """Draw items in proportion to weights: `torch.utils.data.WeightedRandomSampler`, and more.

    Change the import. The arguments are in the same places and mean the same; iteration gives
    Python integers. Beyond the original:

    - any number of items, not only 2^24, and an epoch takes O(draws) instead of O(n);
    - weights change between epochs and during one, see `update`;
    - draws are exact, with and without replacement, and an item of weight 0 is never drawn;
    - with several processes there is one global draw: each takes its share, all shares are equally
      long, and without replacement no item comes up twice anywhere;
    - `state_dict` and `load_state_dict` resume in the middle of an epoch;
    - `sample` gives tensors.

    An item is drawn when it is asked for, so one epoch is handed out at a time: an iteration that
    begins ends the one before it. A `DataLoader` with workers asks for
    ``num_workers * prefetch_factor`` batches ahead of the loop.

    Parameters
    ----------
    weights : sequence of float, tensor or array, shape (n,)
        Finite and not negative, in any unit; they are copied.
    num_samples : int, optional
        Draws in an epoch, of all processes together; n by default. If the number of processes does
        not divide it, it is rounded up with replacement, and down without.
    replacement : bool, default=True
        If False, each draw is in proportion to the weights of the items that this epoch has not
        drawn yet, and `num_samples` is at most the number of items of positive weight.
    generator : torch.Generator, optional
        Each epoch and each `sample` takes one seed from it, or from torch's default generator: the
        same state of the generator, the same draws. Processes use the seed of rank 0.
    num_replicas, rank : int, optional
        The number of processes and of this one; by default from torch.distributed if that is
        initialised. If they are given, processes do not communicate: they need a `generator` in
        the same state, and the same updates. ``num_replicas=1, rank=0`` draws for this process
        alone.
    process_group : ProcessGroup, optional
        The processes that share the draw; by default all.

    Attributes
    ----------
    num_samples : int
    replacement : bool
    generator : torch.Generator or None

    Notes
    -----
    Rounding: weights are whole numbers of a unit, a power of two that is at most 2^-49 of the total
    that is drawn from, at every draw. A weight is rounded down to a whole number of units, but a
    positive one to at least one unit, so it never becomes 0. A probability p is off by at most
    (1 + m p) 2^-49, m being the number of items that can be drawn; whole numbers with a total of at
    most 2^49 are not rounded at all. Draws are exactly in proportion to the rounded weights.

    Cost: 24 bytes an item (25 without replacement), and 8 bytes for each draw of an epoch. A draw
    and the update of an item take O(1); an update that moves the total by a factor of 16 or more,
    or changes more than one item in eight, takes O(n).

    Frameworks that divide a sampler among processes themselves (Accelerate's ``prepare``,
    Lightning without ``use_distributed_sampler=False``) would divide the share again: give such a
    framework a sampler with ``num_replicas=1, rank=0``, and each process the same seed.

    Examples
    --------
    >>> generator = torch.Generator().manual_seed(1)
    >>> sampler = WeightedSampler([1.0, 0.0, 3.0, 1.0], 8, generator=generator)
    >>> list(sampler)
    [2, 0, 2, 0, 0, 2, 3, 0]
    >>> sampler.update([1, 2], [5.0, 0.0])
    >>> sampler.sample(6)
    tensor([1, 0, 0, 3, 1, 1])
    >>> list(WeightedSampler([1.0, 2.0, 3.0], replacement=False, generator=generator))
    [2, 1, 0]
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int | None = None,
        replacement: bool = True,
        generator: torch.Generator | None = None,
        *,
        num_replicas: int | None = None,
        rank: int | None = None,
        process_group: Any = None,
    ) -> None:
        values = real_numbers("weights", weights)
        if not values.size:
            raise ValueError("weights is empty: there is nothing to draw")
        if num_samples is not None:
            num_samples = positive_count("num_samples", num_samples, "draws")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement must be True or False, got {replacement!r}")
        if generator is not None and not isinstance(generator, torch.Generator):
            raise TypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
        self.num_samples = values.size if num_samples is None else num_samples
        self.replacement = replacement
        self.generator = generator
        self._processes = connection_of(num_replicas, rank, process_group, generator)
        self._processes.require_equal(
            {
                "number of items": values.size,
                "num_samples": self.num_samples,
                "replacement": replacement,
                "weights (a checksum)": zlib.crc32(values.data),
            }
        )
        if len(self) == 0:
            raise ValueError(
                f"num_samples={self.num_samples} is less than the {self._processes.world} processes"
            )
        self._board = RealWeights(values, replacement)
        self._board.check_enough(len(self) * self._processes.world)
        self._epoch: Epoch | None = None
        self._continues = False  # whether the next iteration continues the epoch of a state
        self._over = 0

    # --- draws ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of items that an epoch hands out to this process."""
        return self._share(self.num_samples)

    def __iter__(self) -> Iterator[int]:
        if not self._continues:
            self._begin()
        self._continues = False
        epoch, (_, rank, world, _) = self._epoch, self._processes
        assert epoch is not None
        while epoch.handed < epoch.share:
            if self._epoch is not epoch:
                raise RuntimeError(
                    "this iteration is over: another one has begun, or a state was loaded"
                )
            first = epoch.handed * world
            if epoch.drawn < first + world:
                epoch.draw(first + world)
            epoch.handed += 1
            if epoch.handed == epoch.share:
                self._end(epoch)
            yield int(epoch.items[first + rank])

    def sample(self, size: int) -> Tensor:
        """Draw some items now, apart from any epoch.

        Like ``torch.multinomial(weights, size, replacement, generator=generator)``: without
        replacement the items are distinct, and all of them are there again for the next call (a
        call in the middle of an epoch without replacement takes O(n)). With several processes, all
        of them call it, and each gets `size` items of one global draw.

        Parameters
        ----------
        size : int

        Returns
        -------
        items : Tensor of int64, shape (size,)
        """
        rank, world = self._processes.rank, self._processes.world
        items = np.empty(whole("size", size) * world, dtype=np.int64)
        board = self._board
        if self._epoch is not None and self._epoch.off_board:
            board = RealWeights(board.values, self.replacement)
        if items.size:
            board.check_enough(items.size)
        stream, made = Stream(self._seed()), 0
        while made < items.size:
            made += board.draw(stream, items[made:])
        board.release(items)
        return torch.from_numpy(items[rank::world].copy())

    def update(self, indices: Any, weights: Any) -> None:
        """Set the weights of some items; they count from the next draw on.

        Draws that were asked for stay as they are, those of a `DataLoader` with workers included.
        Without replacement, an item that this epoch has drawn stays out until the epoch ends, and
        its new weight counts from the next one on. Each draw is in proportion to the present
        weights of the items that are not drawn yet. If these are too few for the rest of the epoch,
        the draw that cannot be made raises the error, not the update.

        With several processes, all of them call it at the same point of the epoch, each with
        items of its own choice, and all weights reach all processes. If processes set the same
        item, the highest rank wins.

        Parameters
        ----------
        indices : array-like or tensor of int, shape (k,), or int
            If an item occurs more than once, its last weight wins.
        weights : array-like or tensor of float, shape (k,), or float
            Finite and not negative. If anything is wrong, nothing changes.
        """
        handed = 0 if self._epoch is None else self._epoch.handed
        items, values = shared_update(
            self._processes, handed, len(self._board.values), indices, weights
        )
        if not items.size:
            return
        if self._epoch is not None:
            self._epoch.settle()
        self._board.set(items, values)

    @property
    def weights(self) -> Tensor:
        """A copy of the weights, as they were given; change them by `update`."""
        return torch.from_numpy(self._board.values.copy())

    @property
    def epoch(self) -> int:
        """The number of epochs that are over: handed out to the last item, or abandoned.

        A loop that may be resumed says ``for epoch in range(sampler.epoch, epochs)``.
        """
        return self._over

    def set_epoch(self, epoch: int) -> None:
        """Do nothing: every epoch has a seed of its own. Loops written for others call it."""

    # --- states ---------------------------------------------------------------------------------

    def state_dict(self, consumed: int | None = None) -> dict[str, Any]:
        """Return the state: weights, where the epoch is, and the state of a given generator.

        It holds tensors, numbers, dicts and None, and loads under
        ``torch.load(..., weights_only=True)``. It is the same on all processes, so one may save
        it. Without `generator`, later epochs depend on torch's default generator: save that, too.

        Parameters
        ----------
        consumed : int, optional
            How many items of this iteration the loop has used, on each process; by default all that
            were handed out. With the workers of a `DataLoader`, which ask ahead, say how many
            the loop has received: ``batches * batch_size``.
        """
        epoch, world = self._epoch, self._processes.world
        opened, over = None, self._over
        handed = 0 if epoch is None else epoch.handed
        used = handed if consumed is None else whole("consumed", consumed, 0, handed + 1)
        if epoch is not None and used < epoch.share:
            epoch.settle()
            opened = SavedEpoch(
                seed=epoch.stream.seed,
                position=epoch.stream.position,
                begin=epoch.begin + used * world,
                ahead=epoch.items[used * world : epoch.drawn],
                over=epoch.over,
            )
            over -= handed == epoch.share
        board = self._board
        off = opened is not None and not (opened.over or self.replacement)
        return WeightedState(
            n=len(board.values),
            num_samples=self.num_samples,
            replacement=self.replacement,
            weights=board.values,
            exponent=board.exponent,
            order=board.index.order,
            taken=board.taken if off else None,
            epoch=over,
            open=opened,
            generator=None if self.generator is None else self.generator.get_state().numpy(),
        ).state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; the next iteration hands out the rest of its epoch.

        The number of items, `num_samples` and `replacement` must be those of the state; the number
        of processes may differ. An iteration that is in progress ends with an error.

        The state may come from anywhere: every entry is checked first. One that is missing,
        damaged or does not fit raises a `tombola.checkpoint.CheckpointError`, and nothing changes.
        """
        n = len(self._board.values)
        read = WeightedState.from_state_dict(
            state,
            n=n,
            num_samples=self.num_samples,
            replacement=self.replacement,
            places=place_type(n),
            has_generator=self.generator is not None,
        )
        board = RealWeights.restored(
            read.weights, self.replacement, read.taken, read.exponent, read.order
        )
        if self.generator is not None and read.generator is not None:
            set_generator(self.generator, read.generator)
        self._board, self._epoch, self._over = board, None, read.epoch
        if read.open is not None:
            left = self._share(max(0, self.num_samples - read.open.begin))
            self._epoch = Epoch.restored(self._board, read.open, left, self._processes.world)
            if self._epoch.share == 0:  # of less than one item for each process
                self._end(self._epoch)
        self._continues = self._epoch is not None and self._epoch.share > 0

    # --- the epoch ------------------------------------------------------------------------------

    def _share(self, draws: int) -> int:
        """Return the number of items for each process."""
        world = self._processes.world
        return -(-draws // world) if self.replacement else draws // world

    def _seed(self) -> int:
        """Take a seed from the generator; processes that communicate use that of rank 0."""
        device = "cpu" if self.generator is None else self.generator.device
        word = torch.empty((), dtype=torch.int64, device=device).random_(generator=self.generator)
        if self._processes.gather is None:
            return int(word)
        return int(self._processes.gather(np.array([int(word)]))[0, 0])

    def _begin(self) -> None:
        if self._epoch is not None and self._epoch.handed < self._epoch.share:
            self._epoch.settle()  # how far draws were ahead must not matter
            self._end(self._epoch)
        self._epoch = None
        self._board.check_enough(len(self) * self._processes.world)
        self._epoch = Epoch(self._board, Stream(self._seed()), len(self), self._processes.world)

    def _end(self, epoch: Epoch) -> None:
        """Count an epoch that is handed out or abandoned; its items are back on the board."""
        epoch.release()
        self._over += 1
