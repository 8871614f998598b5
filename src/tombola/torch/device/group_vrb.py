"""GroupVRB on a device: items of the same group share what is learnt from their losses."""

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

import tombola.samplers
from tombola.samplers.groups import group_numbers
from tombola.state import same
from tombola.torch.device import sampler
from tombola.torch.device.group_board import GroupBoard
from tombola.torch.device.layout import MOST_ITEMS
from tombola.torch.device.sampler import DeviceSampler, DeviceState, place_of
from tombola.torch.device.sampler_host import SamplerHost
from tombola.validation import whole

__all__ = ["GroupVRB"]


class GroupVRBState(DeviceState):
    """All that defines a `GroupVRB`."""

    kind: ClassVar = "torch.GroupVRB"

    groups: NDArray[np.int32] = same("the number of the group of each item")


class GroupVRB(DeviceSampler):
    """A bandit over groups, with a bandit over items within each group, where the training runs.

    The rule is that of `tombola.GroupVRB`: a few losses of a group inform about all of its items,
    long before each of them has been drawn. On a CUDA device all of it stays there: `draw` and
    `update` return at once, and both may be captured in a CUDA graph. A batch with a bad loss is
    refused as a whole, and `check` or `state_dict` raises the error, as for `VRB`. On the CPU a
    `tombola.GroupVRB` does the work.

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
        What the caller passes to `update`, for the gauge: "loss" or "gradient norm".
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
        n, seed = whole("n", len(numbers), 1, MOST_ITEMS + 1), whole("seed", seed, 0, 2**64)
        place, shuffle = place_of(device), bool(shuffle)
        engine: GroupBoard | SamplerHost
        if sampler.runs_kernels(place):
            engine = GroupBoard(numbers, place, seed, shuffle=shuffle)
        else:
            host = tombola.samplers.GroupVRB(numbers, shuffle=shuffle, seed=seed)
            engine = SamplerHost(host)
        super().__init__(n, place, engine, shuffle=shuffle, quantity=str(quantity), seed=seed)
        self._numbers = torch.from_numpy(numbers.astype(np.int32))

    def group_probabilities(self) -> Tensor:
        """Return the probability of each group, in the order of `labels`, in O(n)."""
        chances = self.probabilities()
        shares = torch.zeros(len(self.labels), dtype=torch.float64, device=self.device)
        return shares.index_add_(0, self._numbers.to(self.device), chances)

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "groups": self._numbers.numpy()}
