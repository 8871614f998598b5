"""The Variance Reducer Bandit on a device."""

from typing import ClassVar

import torch

import tombola.samplers
from tombola.torch.device import sampler
from tombola.torch.device.layout import MOST_ITEMS
from tombola.torch.device.sampler import DeviceSampler, DeviceState, place_of
from tombola.torch.device.sampler_host import SamplerHost
from tombola.torch.device.vrb_board import VRBBoard
from tombola.validation import whole

__all__ = ["VRB"]


class VRBState(DeviceState):
    """All that defines a `VRB`."""

    kind: ClassVar = "torch.VRB"


class VRB(DeviceSampler):
    """The Variance Reducer Bandit without parameters, where the training runs.

    The rule is that of ``tombola.VRB(n)``: it learns from the losses of drawn items which items
    cause the noise, and deals shuffled epochs while adaptive draws do not pay. On a CUDA device all
    of it stays there: `draw` and `update` launch one to three kernels each and return at once, and
    both may be captured in a CUDA graph; every replay continues. On the CPU a `tombola.VRB` does
    the work.

    The device cannot raise errors without waiting. A batch with a loss that is negative or not
    finite is therefore refused as a whole, nothing is learnt from it, and `check` or `state_dict`
    raises the error of the first such batch. This is so on the CPU as well.

    Parameters
    ----------
    n : int
        The number of items.
    device : torch.device or str, optional
        Where the sampler is; by default torch's default device.
    shuffle : bool, default=True
        Whether to deal shuffled epochs while adaptive draws do not pay.
    quantity : str, default="loss"
        What the caller passes to `update`, for the gauge: "loss" or "gradient norm".
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
    >>> sampler.check()
    >>> bool(sampler.probabilities().argmax() == 99)
    True
    >>> sampler.update(draw, losses[draw.indices] - 1)       # refused
    >>> sampler.check()
    Traceback (most recent call last):
    ValueError: losses[0] is -0.8999999761581421: losses must be finite and not negative
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
        n, seed = whole("n", n, 1, MOST_ITEMS + 1), whole("seed", seed, 0, 2**64)
        place, shuffle = place_of(device), bool(shuffle)
        engine: VRBBoard | SamplerHost
        if sampler.runs_kernels(place):
            engine = VRBBoard(n, place, seed, shuffle=shuffle)
        else:
            engine = SamplerHost(tombola.samplers.VRB(n, shuffle=shuffle, seed=seed))
        super().__init__(n, place, engine, shuffle=shuffle, quantity=str(quantity), seed=seed)
