"""The class of TorchRL that its buffers expect, if TorchRL is installed."""

import importlib
from typing import Any

__all__ = ["base_class"]


def base_class() -> Any:
    """Return TorchRL's `PrioritizedSampler`, or `object` without TorchRL.

    Its methods are all replaced, and its trees are never made. A subclass of the plain `Sampler`
    would not do: `TensorDictReplayBuffer.update_tensordict_priority` does nothing, without a word,
    for a sampler that is not a `PrioritizedSampler`.
    """
    try:
        return importlib.import_module("torchrl.data.replay_buffers.samplers").PrioritizedSampler
    except (ImportError, OSError):  # OSError: a library that it links to is not there
        return object
