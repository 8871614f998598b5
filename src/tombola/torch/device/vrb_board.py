"""`VRB` on a device: tensors of fixed address, one launch for a draw and one for an update."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from tombola.samplers.fallback import block_size
from tombola.samplers.weighted import TARGET
from tombola.torch.device.board import Board, draw_launch
from tombola.torch.device.vrb_layout import NEVER, Real, Trouble, Whole, reals, wholes

__all__ = ["VRBBoard"]

MOST_CHUNK = 512  # losses that are learnt from at a time
PAIRS = 32  # positions that all positions of a chunk are compared with at a time


class Unfused:
    """A kernel whose multiplications and additions are rounded one by one, as on the host."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Any:
        return partial(self.kernel[grid], enable_fp_fusion=False)


class VRBBoard:
    """The state on one device, and the kernels that work on it.

    Nothing here is validated but by the kernels; `VRB` is the public class.
    """

    def __init__(self, n: int, device: torch.device, seed: int, *, shuffle: bool) -> None:
        draw, learn = load_kernels()
        self._draw, self._learn = Unfused(draw), Unfused(learn)
        scale = TARGET / 2.0 ** n.bit_length()
        weights = torch.full((n,), int(scale), dtype=torch.int64, device=device)
        self.board = Board(weights, device, seed)
        del weights
        self.n = n
        self.bits, self.block = (n - 1).bit_length(), block_size(n)
        self.reals = torch.zeros(len(reals), dtype=torch.float64, device=device)
        self.wholes = torch.zeros(len(wholes), dtype=torch.int64, device=device)
        self.scores = torch.zeros(n, dtype=torch.float64, device=device)
        self.visits = torch.zeros(n, dtype=torch.float32, device=device)
        self.scratch = torch.zeros(4 * MOST_CHUNK, dtype=torch.float64, device=device)
        self.reals[Real.MIXING] = 1.0
        self.reals[Real.SCALE] = scale
        self.wholes[Whole.LEFT] = self.block if shuffle else NEVER

    def draw(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return items, their probabilities and their importances."""
        device = self.reals.device
        items = torch.empty(size, dtype=torch.int64, device=device)
        probabilities = torch.empty(size, dtype=torch.float64, device=device)
        importances = torch.empty(size, dtype=torch.float32, device=device)
        if size == 0:
            self.wholes[Whole.ROUNDS] += 1
            return items, probabilities, importances
        tile, warps, groups = draw_launch(size)
        self.board.launch(
            self._draw, -(-size // tile), self.board.memory, self.n, self.reals, self.wholes, items,
            probabilities, importances, size, self.bits, self.block, warps=warps,
            HEIGHT=self.board.shape.height, TILE=tile, GROUPS=groups,
        )  # fmt: skip
        return items, probabilities, importances

    def update(self, indices: Tensor, probabilities: Tensor, losses: Tensor) -> None:
        """Learn from losses."""
        size = indices.numel()
        if size == 0:
            return
        chunk = max(16, min(MOST_CHUNK, 1 << (size - 1).bit_length()))
        self.board.launch(
            self._learn, 1, self.board.memory, self.n, self.reals, self.wholes, self.scores,
            self.visits, indices, probabilities, losses, size, self.scratch,
            warps=max(4, min(16, chunk // 32)), given=(indices, probabilities, losses),
            HEIGHT=self.board.shape.height, CHUNK=chunk, PAIRS=min(PAIRS, chunk),
            DOUBLE=losses.dtype == torch.float64,
        )  # fmt: skip

    def trouble(self) -> tuple[int, int, float]:
        """Return kind, position and value of the first fault since the last call; this waits."""
        kind, where = self.wholes[Whole.TROUBLE : Whole.WHERE + 1].tolist()
        value = float(self.reals[Real.BAD_VALUE])
        if kind != Trouble.NONE:
            self.wholes[Whole.TROUBLE] = Trouble.NONE
        return kind, where, value


def load_kernels() -> tuple[Any, Any]:
    """Return the kernels of draws and updates, which need Triton."""
    try:
        from tombola.torch.device.learn_kernels import learn_kernel
        from tombola.torch.device.vrb_kernels import draw_kernel
    except ImportError as error:
        raise ImportError(
            f"VRB on a GPU needs Triton, which comes with PyTorch: {error}"
        ) from error
    return draw_kernel, learn_kernel
