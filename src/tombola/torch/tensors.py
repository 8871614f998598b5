"""States as tensors, numbers and strings, for `torch.save` and ``weights_only=True``; and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tombola import validation
from tombola.checkpoint import CheckpointError

__all__ = ["from_tensors", "shown", "to_tensors", "vector"]


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
    """Return a nested state with arrays for tensors, on whatever device these are.

    What is in a state more than once is converted once: a small file may repeat a list in lists.
    """
    try:
        return _with_arrays(value, name, {})
    except RecursionError:
        raise CheckpointError(f"{name} is nested too deeply") from None


def _with_arrays(value: Any, name: str, done: dict[int, tuple[Any, Any]]) -> Any:
    if id(value) in done:
        return done[id(value)][1]
    new: Any = value
    if isinstance(value, Tensor):
        try:
            new = value.detach().cpu().numpy()
        except (TypeError, RuntimeError, NotImplementedError) as error:
            raise CheckpointError(f"{name} is a tensor that numpy cannot hold: {error}") from None
    elif isinstance(value, Mapping):
        new = {key: _with_arrays(inner, f"{name}.{key}", done) for key, inner in value.items()}
    elif isinstance(value, (list, tuple)):
        new = [_with_arrays(inner, f"{name}.{k}", done) for k, inner in enumerate(value)]
    done[id(value)] = value, new  # the value stays alive, so that its id is not used again
    return new


def vector(name: str, value: Any, dtypes: Sequence[torch.dtype], size: int) -> Tensor:
    """Return an entry of a state that must be a tensor of one of these types and of this length.

    A sparse tensor, or one that has no values ("meta"), is none.
    """
    if (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and not (value.is_nested or value.is_meta)
        and value.dtype in dtypes
        and value.shape == (size,)
    ):
        return value.detach()
    types = " or ".join(map(str, dtypes))
    raise CheckpointError(
        f"{name} must be a tensor of {types} and length {size}, got {shown(value)}"
    )


def shown(value: Any) -> str:
    """Return an entry that may be anything as a few words for an error message."""
    if isinstance(value, Tensor) and not value.is_nested:
        kind = "" if value.layout == torch.strided else f"{value.layout} "
        return f"a {kind}tensor of {value.dtype} of shape {tuple(value.shape)} on {value.device}"
    return validation.shown(value)
