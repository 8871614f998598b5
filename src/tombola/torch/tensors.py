"""States as tensors, numbers and strings, for `torch.save` and ``weights_only=True``; and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tombola.checkpoint import CheckpointError

__all__ = ["from_tensors", "to_tensors"]


def to_tensors(value: Any, name: str = "the state") -> Any:
    """Return a nested state with tensors for arrays; arrays of strings become lists.

    Examples
    --------
    >>> to_tensors({"scores": np.zeros(2), "labels": np.array(["a", "b"]), "seed": 3})
    {'scores': tensor([0., 0.], dtype=torch.float64), 'labels': ['a', 'b'], 'seed': 3}
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "U":
            return value.tolist()
        if value.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {value.dtype}, which a checkpoint cannot keep")
        return torch.from_numpy(np.array(value))
    if isinstance(value, dict):
        return {str(key): to_tensors(inner, f"{name}.{key}") for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_tensors(inner, f"{name}.{k}") for k, inner in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{name} is of type {type(value).__name__}, which a checkpoint cannot keep")


def from_tensors(value: Any, name: str = "the state") -> Any:
    """Return a nested state with arrays for tensors, on whatever device these are."""
    if isinstance(value, torch.Tensor):
        try:
            return value.detach().cpu().numpy()
        except (TypeError, RuntimeError, NotImplementedError) as error:
            raise CheckpointError(f"{name} is a tensor that numpy cannot hold: {error}") from None
    if isinstance(value, Mapping):
        return {key: from_tensors(inner, f"{name}.{key}") for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [from_tensors(inner, f"{name}.{k}") for k, inner in enumerate(value)]
    return value
