"""GroupVRB on a device: items of the same group share what is learnt from their losses."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tombola import samplers
from tombola.index.real import TARGET
from tombola.samplers.group_rule import MEMORY, SMALLEST, UNSEEN
from tombola.samplers.groups import group_numbers, new_groups
from tombola.state import Floats, Ints, Scope, array, same
from tombola.torch.device.board import Board
from tombola.torch.device.launching import Launch, kernels
from tombola.torch.device.layout import LIMIT, Whole
from tombola.torch.device.sampler import (
    DeviceSampler,
    DeviceState,
    RuleBoard,
    RuleState,
    sum_fault,
)

__all__ = ["GroupVRB"]

LARGEST = 2**40  # the largest weight of a member, or less if there are too many members for that


class GroupVRBState(DeviceState):
    """All that defines a `GroupVRB`."""

    kind: ClassVar = "torch.GroupVRB"

    groups: NDArray[np.int32] = same("the number of the group of each item")


class GroupVRB(DeviceSampler):
    """A bandit over groups, with a bandit over items within each group, where the training runs.

    The rule is that of `tombola.GroupVRB`: a few losses of a group inform about all of its items,
    long before each of them has been drawn. On a CUDA device all of it stays there: `draw` and
    `update` return at once, and both may be captured in a CUDA graph. A batch with a bad loss is
    refused as a whole, and `check` or `state_dict` raises the error, as for `VRB`. The CPU's is a
    `tombola.GroupVRB` that takes and returns tensors, with the same draws for the same seed.

    Parameters
    ----------
    groups : array-like or Tensor of labels, shape (n,)
        The group of each item, for example its class label. None and NaN are refused.
    labels : array-like, optional
        The expected groups; a group without items is refused.
    device : torch.device or str, optional
        Where the sampler is; by default torch's default device.
    shuffle : bool, default=True
        Whether to deal shuffled epochs while adaptive draws do not pay.
    quantity : str, default="loss"
        The kind of feedback, for the gauge: "loss" or "gradient norm".
    seed : int, default=0
        From 0 to 2^64 - 1.

    Attributes
    ----------
    labels : list
        The groups, in the order of `group_probabilities`.

    Notes
    -----
    Memory on a CUDA device: 38 bytes per item and 56 per group. An update takes time in proportion
    to the number of groups, about a microsecond for 10^5 of them. Make one call of each kind and
    size before the capture of a CUDA graph.

    Deviations from the host: on a device, a batch is learnt from at once, not loss by loss
    (``docs/decisions/device_vrb.md``), an epoch is a keyed permutation, and bounds are not offered.

    Examples
    --------
    >>> labels = torch.tensor([0] * 950 + [1] * 50)
    >>> losses = torch.where(labels == 1, 2.0, 0.1)
    >>> sampler = GroupVRB(labels, device="cpu")
    >>> for _ in range(10):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> bool(sampler.group_probabilities()[1] > 0.3)      # 5% of the items
    True
    """

    saved_as: ClassVar = GroupVRBState

    def __init__(
        self,
        groups: ArrayLike | Tensor,
        *,
        labels: ArrayLike | None = None,
        device: torch.device | str | None = None,
        shuffle: bool = True,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        given: Any = groups.numpy(force=True) if isinstance(groups, Tensor) else groups
        numbers, self.labels = group_numbers(given, labels)
        super().__init__(
            len(numbers), numbers, GroupBoard, samplers.GroupVRB, device=device, shuffle=shuffle,
            quantity=quantity, seed=seed,
        )  # fmt: skip
        self._numbers = torch.from_numpy(numbers.astype(np.int32))

    def group_probabilities(self) -> Tensor:
        """Return the probability of each group, in the order of `labels`, in O(n)."""
        chances = self.probabilities()
        shares = torch.zeros(len(self.labels), dtype=torch.float64, device=self.device)
        return shares.index_add_(0, self._numbers.to(self.device), chances)

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "groups": self._numbers.numpy()}


class GroupBoardState(RuleState):
    """The mutable state of `GroupVRB` on a device; items are in the order of groups."""

    scores: Floats = array("h of each item", SMALLEST, 2.0**1000, dtype=np.float64, shape=("n",))
    visits: NDArray[np.uint8] = array("V of each item", 0, MEMORY, dtype=np.uint8, shape=("n",))
    levels: Floats = array(
        "kappa of each group", 0.0, 2.0**1000, dtype=np.float64, shape=("groups",)
    )
    seen: Ints = array("losses of each group", 0, 2**60, dtype=np.int64, shape=("groups",))
    group_weights: Ints = array(
        "the weight of each group", 1, LIMIT, dtype=np.int64, shape=("groups",)
    )

    def fault(self, scope: Scope) -> str:
        """Return what is wrong with the sums of the weights."""
        return super().fault(scope) or sum_fault("group_weights", self.group_weights)


class GroupBoard(RuleBoard):
    """Weights, h (`scores`) and V (`visits`) by place, in the order of groups; kappa (`levels`).

    `group_weights` are the leaves of the board of groups.
    """

    saved_as: ClassVar = GroupBoardState
    grouped: ClassVar = True

    def __init__(
        self, numbers: NDArray[np.int32], *, device: torch.device, seed: int, shuffle: bool,
        quantity: str,
    ) -> None:  # fmt: skip
        n, count = numbers.size, int(numbers.max()) + 1
        order = new_groups(numbers)
        self.most = min(LARGEST, LIMIT // (2 * n))
        weights = torch.full((n,), min(UNSEEN, self.most), device=device)
        scale = TARGET / 2.0 ** n.bit_length()
        super().__init__(
            weights, seed, scale=scale, mixing=0.125, shuffle=shuffle, quantity=quantity
        )
        place = np.empty(n, dtype=np.int64)
        place[order.members] = np.arange(n)
        self.places = torch.from_numpy(place).to(device)
        self.members = torch.from_numpy(order.members.copy()).to(device)
        self.group_of = torch.from_numpy(numbers[order.members]).to(device)
        self.starts = torch.from_numpy(order.starts).to(device)
        self.sizes = self.starts.diff()
        self.groups = Board(self._first_weights(), device, seed)
        self.group_weights, self.group_height = self.groups.leaves, self.groups.shape.height
        self.scores = torch.ones(n, dtype=torch.float64, device=device)
        self.visits = torch.zeros(n, dtype=torch.uint8, device=device)
        self.levels = torch.zeros(count, dtype=torch.float64, device=device)
        self.areas, self.seen, self.losses_of, self.sums_of = (
            torch.zeros(count, dtype=torch.int64, device=device) for _ in range(4)
        )
        self._add_areas()

    def _first_weights(self) -> Tensor:
        """Return weights of groups in proportion to their sizes."""
        return (self.sizes.double() * self.scale).long()

    def _add_areas(self) -> None:
        """Compute the sum of the weights of each group."""
        self.areas.zero_().index_add_(0, self.group_of, self.board.leaves)

    def reset(self) -> None:
        """Return to the initial state, in the same memory."""
        weights = torch.full_like(self.board.leaves, min(UNSEEN, self.most))
        self.board.load(weights, self.seed, 0)
        self.groups.load(self._first_weights(), self.seed, 0)
        self.scores.fill_(1.0)
        for part in (self.visits, self.levels, self.seen, self.losses_of, self.sums_of):
            part.zero_()
        self._add_areas()
        self._begin()

    def tensors(self) -> Iterator[Tensor]:
        """Return all memory, scratch included; that of the board of groups is among it."""
        yield from super().tensors()
        yield from self.groups.tensors()

    def _drawn_by(self) -> tuple[Any, tuple[Any, ...], dict[str, int]]:
        head = (
            self.board.memory, self.n, self.groups.memory, self.levels.numel(), self.reals,
            self.wholes, self.starts, self.areas, self.members, self.group_of,
        )  # fmt: skip
        kernel = kernels("draw_kernels").group_draw_kernel
        return kernel, head, {"GROUP_HEIGHT": self.group_height}

    def _groups(self) -> tuple[Any, ...]:
        return (
            self.groups.memory, self.levels.numel(), self.starts, self.areas, self.places,
            self.group_of, self.levels, self.seen, self.losses_of, self.sums_of,
        )  # fmt: skip

    def _plan_weights(self, size: int, programs: int, chosen: Tensor, bits: int) -> list[Launch]:
        """Write the weights of members, then those of all groups."""
        del programs  # in every case
        launch, kernels = self.board.launch, self.weighing
        members = launch(
            kernels.weigh_members_kernel, -(-size // 128),
            (self.board.memory, self.n, self.most, self.wholes, self.areas, self.group_of,
             self.scores, chosen, size),
            warps=4, HEIGHT=self.board.shape.height, TILE=128,
        )  # fmt: skip
        groups = launch(
            kernels.regroup_kernel, self.groups.shape.rows[0],
            (self.groups.memory, self.levels.numel(), self.reals, self.wholes, self.areas,
             self.levels, self.seen, self.losses_of, self.sums_of, bits),
            warps=4, GROUP_HEIGHT=self.group_height,
        )  # fmt: skip
        return [members, groups]

    def probabilities(self) -> Tensor:
        """Return the distribution as of the latest draw, with the feedback since then."""
        shares = self.group_weights.double() / self.groups.total / self.areas
        floors = 0.125 / self.n + 0.125 / (self.levels.numel() * self.sizes.double())
        by_place = 0.75 * shares[self.group_of] * self.board.leaves + floors[self.group_of]
        return torch.where(self.wholes[Whole.SHUFFLING] > 0, 1.0 / self.n, by_place[self.places])

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory; a bad one raises and changes nothing."""
        super().load(state)
        self.groups.load(self.group_weights, self.seed, 0)
        self.losses_of.zero_()
        self.sums_of.zero_()
        self._add_areas()

    def _sizes(self) -> dict[str, Any]:
        return {"groups": self.levels.numel()}
