"""`VRB` on a device: tensors of fixed address, one launch for a draw and two for an update."""

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.index.real import DEVICE_TARGET
from tombola.state import Floats, array
from tombola.torch.device.board import draw_launch
from tombola.torch.device.layout import WIDTH
from tombola.torch.device.rule_board import RuleBoard, RuleState, Table, learn_launch, unfused
from tombola.torch.device.vrb_layout import Real, Whole

__all__ = ["VRBBoard"]


class VRBBoardState(RuleState):
    """What changes in `VRB` on a device."""

    scores: Floats = array("h of each item", 0.0, 2.0**1020, dtype=np.float64, shape=("n",))
    visits: NDArray[np.float32] = array(
        "V of each item", 0.0, 2.0**100, dtype=np.float32, shape=("n",)
    )


class VRBBoard(RuleBoard):
    """Weights, h (`scores`) and V (`visits`) of all items."""

    saved_as: ClassVar = VRBBoardState

    def __init__(self, n: int, device: torch.device, seed: int, *, shuffle: bool) -> None:
        self._draw, self._enter, self._visit, self._learn, self._weigh = unfused(load_kernels)
        scale = DEVICE_TARGET / 2.0 ** n.bit_length()  # of n weights of value 1
        weights = torch.full((n,), int(scale), device=device)
        super().__init__(weights, seed, scale=scale, mixing=1.0, shuffle=shuffle)
        self.scores = torch.zeros(n, dtype=torch.float64, device=device)
        self.visits = torch.zeros(n, dtype=torch.float32, device=device)

    def reset(self) -> None:
        """Return to the initial state, in the same memory."""
        self.board.load(torch.full_like(self.board.leaves, int(self.scale)), self.seed, 0, None)
        self.scores.zero_()
        self.visits.zero_()
        self._begin()

    def _draw_into(self, items: Tensor, probabilities: Tensor, importances: Tensor) -> None:
        size = items.numel()
        tile, warps, groups = draw_launch(size)
        self.board.launch(
            self._draw, -(-size // tile), self.board.memory, self.n, self.reals, self.wholes, items,
            probabilities, importances, size, self.bits, self.block, warps=warps,
            HEIGHT=self.board.shape.height, TILE=tile, GROUPS=groups,
        )  # fmt: skip

    def _learn_from(self, batch: tuple[Tensor, Tensor, Tensor], table: Table) -> None:
        """Learn by two launches, or three for many losses."""
        size, double = batch[0].numel(), batch[2].dtype == torch.float64
        launch, height = self.board.launch, self.board.shape.height
        state = (self.board.memory, self.n, self.reals, self.wholes, self.scores, self.visits)
        *slots, bits, parts, chosen = table
        tile, warps = learn_launch(size)
        programs = -(-size // tile)
        if programs > 1:
            launch(
                self._enter, programs, self.n, self.reals, self.wholes, *batch, size, *slots, bits,
                parts, warps=warps, given=batch, TILE=tile, DOUBLE=double,
            )  # fmt: skip
        launch(
            self._learn if programs == 1 else self._visit, programs, *state, *batch, size, *slots,
            bits, parts, chosen, programs, warps=warps, given=batch, HEIGHT=height, TILE=tile,
            DOUBLE=double,
        )  # fmt: skip
        drawn, rows = -(-size // WIDTH), min(self.board.shape.rows[0], 2 * size // WIDTH + 3)
        launch(self._weigh, drawn + rows, *state, chosen, size, drawn, warps=4, HEIGHT=height)

    def probabilities(self) -> Tensor:
        """Return the distribution as of the latest draw, with the feedback since then."""
        n, mixing, total = self.n, self.reals[Real.MIXING], self.board.total
        share = mixing / (1.0 - mixing) * total
        uniform = (mixing >= 1.0) | (share >= 2.0**61) | (self.wholes[Whole.SHUFFLING] > 0)
        spread = (torch.where(uniform, 0.0, share) / n).long() + 1
        chances = (self.board.leaves + spread).double() / (total + n * spread).double()
        return torch.where(uniform, 1.0 / n, chances)


def load_kernels() -> tuple[Any, ...]:
    """Return the kernels: of draws, of what is learnt, in two steps or one, and of weights."""
    from tombola.torch.device.learn_kernels import enter_kernel, learn_kernel, visit_kernel
    from tombola.torch.device.vrb_kernels import draw_kernel
    from tombola.torch.device.weigh_kernels import weigh_kernel

    return draw_kernel, enter_kernel, visit_kernel, learn_kernel, weigh_kernel
