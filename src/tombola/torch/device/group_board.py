"""`GroupVRB` on a device: a board of members, a board of groups, and three or four launches."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.index.real import TARGET
from tombola.samplers.group_rule import MEMORY, SMALLEST, UNSEEN
from tombola.samplers.groups import new_groups
from tombola.state import Floats, Ints, Scope, array
from tombola.torch.device.board import Board, draw_launch
from tombola.torch.device.layout import LIMIT
from tombola.torch.device.rule_board import (
    RuleBoard,
    RuleState,
    Table,
    learn_launch,
    sum_fault,
    unfused,
)
from tombola.torch.device.vrb_layout import Whole

__all__ = ["GroupBoard"]

LARGEST = 2**40  # the largest weight of a member, unless there are so many that less fits


class GroupBoardState(RuleState):
    """What changes in `GroupVRB` on a device; items are in the order of groups."""

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

    def __init__(
        self, numbers: NDArray[np.int32], device: torch.device, seed: int, *, shuffle: bool
    ) -> None:
        (
            self._draw, self._enter, self._visit, self._learn, self._weigh, self._regroup
        ) = unfused(load_kernels)  # fmt: skip
        n, count = numbers.size, int(numbers.max()) + 1
        order = new_groups(numbers)
        self.most = min(LARGEST, LIMIT // (2 * n))
        weights = torch.full((n,), min(UNSEEN, self.most), device=device)
        scale = TARGET / 2.0 ** n.bit_length()
        super().__init__(weights, seed, scale=scale, mixing=0.125, shuffle=shuffle)
        place = np.empty(n, dtype=np.int64)
        place[order.members] = np.arange(n)
        self.places = torch.from_numpy(place).to(device)
        self.members = torch.from_numpy(order.members.copy()).to(device)
        self.group_of = torch.from_numpy(numbers[order.members]).to(device)
        self.starts = torch.from_numpy(order.starts).to(device)
        self.sizes = self.starts.diff()
        self.groups = Board(self._first_weights(), device, seed)
        self.group_weights = self.groups.leaves
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
        self.board.load(weights, self.seed, 0, None)
        self.groups.load(self._first_weights(), self.seed, 0, None)
        self.scores.fill_(1.0)
        for part in (self.visits, self.levels, self.seen, self.losses_of, self.sums_of):
            part.zero_()
        self._add_areas()
        self._begin()

    def _draw_into(self, items: Tensor, probabilities: Tensor, importances: Tensor) -> None:
        size = items.numel()
        tile, warps, groups = draw_launch(size)
        self.board.launch(
            self._draw, -(-size // tile), self.board.memory, self.n, self.groups.memory,
            self.levels.numel(), self.reals, self.wholes, self.starts, self.areas, self.members,
            self.group_of, items, probabilities, importances, size, self.bits, self.block,
            warps=warps, HEIGHT=self.board.shape.height, GROUP_HEIGHT=self.groups.shape.height,
            TILE=tile, GROUPS=groups,
        )  # fmt: skip

    def _learn_from(self, batch: tuple[Tensor, Tensor, Tensor], table: Table) -> None:
        """Learn by three launches, or four for many losses."""
        size, double = batch[0].numel(), batch[2].dtype == torch.float64
        launch, count = self.board.launch, self.levels.numel()
        height, group_height = self.board.shape.height, self.groups.shape.height
        *slots, bits, parts, chosen = table
        tile, warps = learn_launch(size)
        programs = -(-size // tile)
        sums = (self.levels, self.seen, self.losses_of, self.sums_of)
        if programs > 1:
            launch(
                self._enter, programs, self.n, self.reals, self.wholes, self.places, self.group_of,
                self.scores, *sums, *batch, size, *slots, bits, parts, warps=warps, given=batch,
                TILE=tile, DOUBLE=double,
            )  # fmt: skip
        launch(
            self._learn if programs == 1 else self._visit, programs, self.board.memory, self.n,
            self.groups.memory, count, self.reals, self.wholes, self.starts, self.areas,
            self.places, self.group_of, self.scores, self.visits, *sums, *batch, size, *slots,
            bits, parts, chosen, programs, warps=warps, given=batch, HEIGHT=height,
            GROUP_HEIGHT=group_height, TILE=tile, DOUBLE=double,
        )  # fmt: skip
        launch(
            self._weigh, -(-size // 128), self.board.memory, self.n, self.most, self.wholes,
            self.areas, self.group_of, self.scores, chosen, size, warps=4, HEIGHT=height, TILE=128,
        )  # fmt: skip
        launch(
            self._regroup, self.groups.shape.rows[0], self.groups.memory, count, self.reals,
            self.wholes, self.areas, *sums, bits, warps=4, GROUP_HEIGHT=group_height,
        )  # fmt: skip

    def probabilities(self) -> Tensor:
        """Return the distribution as of the latest draw, with the feedback since then."""
        shares = self.group_weights.double() / self.groups.total / self.areas
        floors = 0.125 / self.n + 0.125 / (self.levels.numel() * self.sizes.double())
        by_place = 0.75 * shares[self.group_of] * self.board.leaves + floors[self.group_of]
        return torch.where(self.wholes[Whole.SHUFFLING] > 0, 1.0 / self.n, by_place[self.places])

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory; a bad one raises and changes nothing."""
        super().load(state)
        self.groups.load(self.group_weights, self.seed, 0, None)
        self.losses_of.zero_()
        self.sums_of.zero_()
        self._add_areas()

    def _sizes(self) -> dict[str, Any]:
        return {"groups": self.levels.numel()}


def load_kernels() -> tuple[Any, ...]:
    """Return the kernels: of draws, of what is learnt, in two steps or one, and of weights."""
    from tombola.torch.device import group_learn_kernels as learn
    from tombola.torch.device.group_kernels import group_draw_kernel

    return (
        group_draw_kernel, learn.group_enter_kernel, learn.group_visit_kernel,
        learn.group_learn_kernel, learn.weigh_members_kernel, learn.regroup_kernel,
    )  # fmt: skip
