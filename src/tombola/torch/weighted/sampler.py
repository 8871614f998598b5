"""Weighted draws of any number of items, as `torch.utils.data.WeightedRandomSampler` makes them."""

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.utils.data.distributed import DistributedSampler

from tombola.index.layout import place_type
from tombola.index.real import RealWeights
from tombola.random import Stream
from tombola.torch.communication import (
    Connection,
    find_connection,
    require_initialised,
    world_size,
)
from tombola.torch.weighted.epoch import Epoch
from tombola.torch.weighted.sharing import divider, given_connection, shared_update, weights_of
from tombola.torch.weighted.state import SavedEpoch, WeightedState, set_generator
from tombola.validation import positive_count, whole

__all__ = ["WeightedSampler"]


class WeightedSampler(DistributedSampler[int]):
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

    An item is drawn when it is asked for; a `DataLoader` with workers asks for
    ``num_workers * prefetch_factor`` batches ahead of the loop. An iteration that begins abandons
    the epoch of the one before it, which may continue with the weights of that moment, and is not
    in the state. Errors that the original raises during iteration, such as a negative weight, are
    raised here when the sampler is made.

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
        The number of processes and of this one; by default from torch.distributed, if that is
        initialised when an epoch begins. If they are given, processes do not communicate: they need
        a `generator` in the same state, and the same updates. ``num_replicas=1, rank=0`` draws for
        this process alone.
    process_group : ProcessGroup, optional
        The processes that share the draw; by default all.

    Attributes
    ----------
    num_samples : int
    replacement : bool
    generator : torch.Generator or None
    epoch : int
        The number of epochs that are over: handed out to the last item, or abandoned. A loop that
        may be resumed says ``for epoch in range(sampler.epoch, epochs)``.

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

    Frameworks: it is a `DistributedSampler`, which Lightning and others leave as it is, also if it
    is made before the processes meet. Accelerate, and Hugging Face's Trainer with it, divides the
    items of any sampler among the processes: it needs ``num_replicas=1, rank=0`` and a generator
    with the same seed on each, and without them the first draw is an error.

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
        values = weights_of(weights)
        if np.ndim(weights) == 0:
            raise ValueError("weights must have one dimension, got shape ()")
        if not values.size:
            raise ValueError("weights is empty: there is nothing to draw")
        if num_samples is not None:
            num_samples = positive_count("num_samples", num_samples, "draws")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement must be True or False, got {replacement!r}")
        if generator is not None and not isinstance(generator, torch.Generator):
            raise TypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
        self.num_samples = values.size if num_samples is None else num_samples
        self.generator = generator
        self.epoch = 0
        self._board = RealWeights(values, replacement)
        self._epoch: Epoch | None = None
        self._continues = False  # whether the next iteration continues the epoch of a state
        numbered = num_replicas is not None or rank is not None
        self._may_meet = not numbered and process_group is None
        self._connection = Connection()
        if numbered:
            self._connection = given_connection(num_replicas, rank, process_group, generator)
        elif world_size():
            self._meet(process_group)
        self._checked_share()

    # --- processes ------------------------------------------------------------------------------

    def _world(self) -> int:
        """Return the number of processes, which may have met after the sampler was made."""
        if not self._may_meet:
            return self._connection.world
        world = world_size()
        if not world:
            require_initialised(", or pass num_replicas and rank")
        return max(1, world)

    def _meet(self, process_group: Any = None) -> None:
        """Find the other processes, and check that they have the same sampler."""
        self._connection = find_connection("auto", process_group)
        self._connection.require_equal(
            {
                "number of items": len(self._board.values),
                "num_samples": self.num_samples,
                "replacement": self.replacement,
                "weights (a checksum)": zlib.crc32(self._board.values.data),
            }
        )

    def _connected(self) -> Connection:
        """Return the connection to the other processes, which all call this at the same time."""
        if self._world() != self._connection.world:
            state = self.state_dict()
            self._meet()
            if self._continues:  # the rest is divided among other processes now
                self.load_state_dict(state)
        return self._connection

    def _checked_share(self) -> int:
        """Return the number of items for each process in an epoch, if one can be drawn."""
        world = self._connection.world
        share = self._share(self.num_samples, world)
        if share == 0:
            raise ValueError(f"num_samples={self.num_samples} is less than the {world} processes")
        self._board.check_enough(share * world)
        return share

    def _share(self, draws: int, world: int) -> int:
        """Return the number of items for each process."""
        return -(-draws // world) if self.replacement else draws // world

    # --- draws ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of items that an epoch hands out to this process."""
        return self._share(self.num_samples, self._world())

    def __iter__(self) -> Iterator[int]:
        _, rank, world, _ = self._connected()
        kind = divider()
        if kind and world > 1:
            raise RuntimeError(
                f"Accelerate ({kind}) divides the draws among the processes, and this sampler has "
                "divided them already: pass it num_replicas=1, rank=0 and a generator with the "
                "same seed on all processes"
            )
        if kind == "BatchSamplerShard" and self.generator is None:
            raise RuntimeError(
                "Accelerate (BatchSamplerShard) needs the same draws on all processes: pass a "
                "generator with the same seed on each"
            )
        if not self._continues:
            self._begin()
        self._continues = False
        epoch = self._epoch
        assert epoch is not None
        epoch.iterated = True
        try:
            while epoch.handed < epoch.share:
                if not (epoch is self._epoch or epoch.apart):
                    raise RuntimeError("this iteration is over: a state was loaded")
                first = epoch.handed * world
                if epoch.drawn < first + world:
                    epoch.draw(first + world)
                epoch.handed += 1
                if epoch.handed == epoch.share and not epoch.apart:
                    epoch.release()
                    self.epoch += 1
                yield int(epoch.items[first + rank])
        finally:
            epoch.iterated = False

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
        _, rank, world, _ = self._connected()
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
        epoch, n = self._epoch, len(self._board.values)
        under_way = epoch is not None and epoch.iterated
        connection = self._connection if under_way else self._connected()
        handed = 0 if epoch is None else epoch.handed
        items, values = shared_update(connection, handed, n, indices, weights)
        if not items.size:
            return
        if epoch is not None:
            epoch.settle()
        self._board.set(items, values)

    @property
    def weights(self) -> Tensor:
        """A copy of the weights, as they were given; change them by `update`."""
        return torch.from_numpy(self._board.values.copy())

    @weights.setter
    def weights(self, weights: Any) -> NoReturn:
        raise AttributeError("weights cannot be assigned: call update(indices, weights)")

    @property
    def replacement(self) -> bool:
        """Whether an item may be drawn more than once in an epoch."""
        return self._board.replacement

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
        epoch, world = self._epoch, self._connection.world
        opened, over = None, self.epoch
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
        self._board, self._epoch, self.epoch = board, None, read.epoch
        if read.open is not None:
            world = self._connection.world
            left = self._share(max(0, self.num_samples - read.open.begin), world)
            self._epoch = Epoch.restored(self._board, read.open, left, world)
            if self._epoch.share == 0:  # of less than one item for each process
                self._epoch.release()
                self.epoch += 1
        self._continues = self._epoch is not None and self._epoch.share > 0

    # --- the epoch ------------------------------------------------------------------------------

    def _seed(self) -> int:
        """Take a seed from the generator; processes that communicate use that of rank 0."""
        device = "cpu" if self.generator is None else self.generator.device
        word = torch.empty((), dtype=torch.int64, device=device).random_(generator=self.generator)
        if self._connection.gather is None:
            return int(word)
        return int(self._connection.gather(np.array([int(word)]))[0, 0])

    def _begin(self) -> None:
        if self._epoch is not None and self._epoch.handed < self._epoch.share:
            self._epoch.abandon()
            self.epoch += 1
        self._epoch = None
        share = self._checked_share()
        self._epoch = Epoch(self._board, Stream(self._seed()), share, self._connection.world)
