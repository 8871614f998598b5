"""The Variance Reducer Bandit on a device."""

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola import samplers
from tombola.index.real import DEVICE_TARGET
from tombola.state import Floats, array
from tombola.torch.device.launching import Launch, kernels
from tombola.torch.device.layout import WIDTH, Real, Whole
from tombola.torch.device.sampler import DeviceSampler, DeviceState, RuleBoard, RuleState

__all__ = ["VRB"]


class VRBState(DeviceState):
    """All that defines a `VRB`."""

    kind: ClassVar = "torch.VRB"


class VRB(DeviceSampler):
    """The Variance Reducer Bandit without parameters, where the training runs.

    The rule is that of ``tombola.VRB(n)``: it learns from the losses of drawn items which items
    cause the noise, and deals shuffled epochs while adaptive draws do not pay. On a CUDA device all
    of it stays there: `draw` and `update` launch one to three kernels each and return at once, and
    both may be captured in a CUDA graph; every replay continues. The CPU's is a `tombola.VRB` that
    takes and returns tensors, with the same draws for the same seed.

    A CUDA device cannot raise errors without waiting. A batch with a loss that is negative or not
    finite is therefore refused as a whole, nothing is learnt from it, and `check` or `state_dict`
    raises the error of the first such batch. On the CPU, `update` raises it.

    Parameters
    ----------
    n : int
        The number of items.
    device : torch.device or str, optional
        Where the sampler is; by default torch's default device.
    shuffle : bool, default=True
        Whether to deal shuffled epochs while adaptive draws do not pay.
    quantity : str, default="loss"
        The kind of feedback, for the gauge: "loss" or "gradient norm".
    seed : int, default=0
        From 0 to 2^64 - 1. The same seed and the same feedback give the same draws in every run on
        the same kind of device; the CPU's are others.

    Notes
    -----
    Memory on a CUDA device: 20 bytes per item, and scratch memory for batches: 0.2 kB per loss.
    Calls on one sampler must be ordered, as they are on one stream. Make one call of each kind and
    size before the capture of a CUDA graph: it compiles kernels and reserves scratch memory.

    Deviations from the host: on a device, a batch is learnt from at once, not loss by loss
    (``docs/decisions/device_vrb.md``), and an epoch is a keyed permutation, not a shuffled deck.

    Examples
    --------
    >>> losses = torch.tensor([0.1] * 99 + [5.0])            # one item causes the noise
    >>> sampler = VRB(100, device="cpu")
    >>> for _ in range(200):
    ...     draw = sampler.draw(32)
    ...     sampler.update(draw, losses[draw.indices])
    >>> sampler.check()                                      # on a CUDA device, errors come here
    >>> bool(sampler.probabilities().argmax() == 99)
    True
    """

    saved_as: ClassVar = VRBState

    def __init__(
        self,
        n: int,
        *,
        device: torch.device | str | None = None,
        shuffle: bool = True,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        super().__init__(
            n, None, VRBBoard, samplers.VRB, device=device, shuffle=shuffle, quantity=quantity,
            seed=seed,
        )  # fmt: skip


class VRBBoardState(RuleState):
    """The mutable state of `VRB` on a device."""

    scores: Floats = array("h of each item", 0.0, 2.0**1020, dtype=np.float64, shape=("n",))
    visits: NDArray[np.float32] = array(
        "V of each item", 0.0, 2.0**100, dtype=np.float32, shape=("n",)
    )


class VRBBoard(RuleBoard):
    """Weights, h (`scores`) and V (`visits`) of all items."""

    saved_as: ClassVar = VRBBoardState

    grouped: ClassVar = False

    def __init__(
        self, n: int, *, device: torch.device, seed: int, shuffle: bool, quantity: str
    ) -> None:
        scale = DEVICE_TARGET / 2.0 ** n.bit_length()  # of n weights of value 1
        weights = torch.full((n,), int(scale), device=device)
        super().__init__(weights, seed, scale=scale, mixing=1.0, shuffle=shuffle, quantity=quantity)
        self.scores = torch.zeros(n, dtype=torch.float64, device=device)
        self.visits = torch.zeros(n, dtype=torch.float32, device=device)

    def reset(self) -> None:
        """Return to the initial state, in the same memory."""
        self.board.load(torch.full_like(self.board.leaves, int(self.scale)), self.seed, 0)
        self.scores.zero_()
        self.visits.zero_()
        self._begin()

    def _drawn_by(self) -> tuple[Any, tuple[Any, ...], dict[str, int]]:
        head = (self.board.memory, self.n, self.reals, self.wholes)
        return kernels("draw_kernels").draw_kernel, head, {}

    def _plan_weights(self, size: int, programs: int, chosen: Tensor, bits: int) -> list[Launch]:
        if programs == 1:
            return []
        drawn, rows = -(-size // WIDTH), min(self.board.shape.rows[0], 2 * size // WIDTH + 3)
        state = (self.board.memory, self.n, self.reals, self.wholes, self.scores, self.visits)
        return [
            self.board.launch(
                self.weighing.weigh_kernel, drawn + rows, (*state, chosen, size, drawn), warps=4,
                HEIGHT=self.board.shape.height,
            )
        ]  # fmt: skip

    def probabilities(self) -> Tensor:
        """Return the distribution as of the latest draw, with the feedback since then."""
        n, mixing, total = self.n, self.reals[Real.MIXING], self.board.total
        share = mixing / (1.0 - mixing) * total
        uniform = (mixing >= 1.0) | (share >= 2.0**61) | (self.wholes[Whole.SHUFFLING] > 0)
        spread = (torch.where(uniform, 0.0, share) / n).long() + 1
        chances = (self.board.leaves + spread).double() / (total + n * spread).double()
        return torch.where(uniform, 1.0 / n, chances)
