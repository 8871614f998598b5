"""What a campaign attacks besides `fuzz_targets.torch_targets`.

`DeviceLoader`, files of `PrioritizedSampler`, and tensors that no honest state has: sparse ones,
and such without values.
"""

import functools

import numpy as np
import torch
from torch.utils.data import TensorDataset

from fuzz_targets import BLIND, OfFile, OfTorch
from players import N, require
from tombola.torch import DeviceLoader

DATA = TensorDataset(torch.arange(N))
ODD = {
    "meta": lambda tensor: tensor.to("meta"),
    "sparse": lambda tensor: tensor.to_sparse(),
    "bfloat16": lambda tensor: tensor.bfloat16(),
    "of one value": lambda tensor: tensor[:1].expand(tensor.shape),
    "with a gradient": lambda tensor: tensor.double().requires_grad_(),
}


def tensors_in(state):
    """Every dict or list with a tensor in it, and its key."""
    items = state.items() if isinstance(state, dict) else enumerate(state)
    for key, inner in list(items):
        if isinstance(inner, np.ndarray) and inner.ndim and inner.dtype.kind in "biuf":
            yield state, key
        elif isinstance(inner, (dict, list)):
            yield from tensors_in(inner)


class WithOddTensors(OfTorch):
    """Damage as of any state, or to the kind of a tensor."""

    def damage(self, state, rng):
        state, what = super().damage(state, rng)
        places = list(tensors_in(state))
        if rng.integers(2) and places:
            holder, key = places[rng.integers(len(places))]
            name = list(ODD)[rng.integers(len(ODD))]
            holder[key] = ODD[name](torch.from_numpy(holder[key].copy()))
            what += f"; {key} became {name}"
        return state, what


class ReplayFile(OfFile):
    """`PrioritizedSampler.loads` of a folder."""

    kind = "torch"

    def __init__(self, target, how):
        super().__init__("file of PrioritizedSampler", how)
        self.target = target

    @functools.cached_property
    def path(self):
        return super().path.with_name("prioritized_sampler.npz")

    def save(self):
        self.target.old().dumps(self.path.parent)

    def load(self):
        sampler = self.target.make()
        sampler.loads(self.path.parent)
        self.target.use(sampler)


def use_loader(loader):
    epoch = loader.epoch
    for seen, ((items,), draw) in enumerate(loader):
        require(seen < 100, "an epoch without end")
        require(len(items) > 0, "an empty batch")
        require(0 <= int(items.min()) <= int(items.max()) < N, "an item that is not there")
        loader.update(draw, 1.0 + items % 3)
    require(loader.epoch == epoch + 1, "an epoch that does not count")
    require(all(count >= 0 for _, count in loader.most_drawn(N)), "a count below 0")
    loader.load_state_dict(loader.state_dict())


def new_loader(groups):
    return DeviceLoader(DATA, 8, seed=5, groups=groups)


def old_loader(groups):
    """One in the middle of an epoch."""
    loader = new_loader(groups)
    for _, ((items,), draw) in zip(range(3), loader, strict=False):
        loader.update(draw, 1.0 + items % 3)
    return loader


def targets(known):
    """Return new targets, and odd tensors for some of those that are known."""
    known = {target.name: target for target in known}
    for name, groups in {"DeviceLoader": None, "DeviceLoader, groups": np.arange(N) % 3}.items():
        make, old = (functools.partial(f, groups) for f in (new_loader, old_loader))
        yield WithOddTensors(name, make, old, use_loader, tensors=True)
    for name in ("WeightIndex on the CPU", "VRB on the CPU", "PrioritizedSampler", "loader"):
        base = known[f"torch: {name}"]
        yield WithOddTensors(f"{name}, odd tensors", base.make, base.old, base.use, tensors=True)
    for how in ("fields", *BLIND):
        yield ReplayFile(known["torch: PrioritizedSampler"], how)
