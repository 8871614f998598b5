"""Tensors to arrays and back: of arguments, and of states for ``torch.load(weights_only=True)``."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from tombola.state import CheckpointError, Versioned
from tombola.validation import LONGEST, brief

__all__ = ["TensorState", "as_array", "from_tensors", "to_tensors"]


def as_array(given: Any) -> Any:
    """Return an argument with an array in place of a tensor; anything else as it is.

    >>> as_array(torch.tensor([0.5, 2.0], dtype=torch.bfloat16, requires_grad=True))
    array([0.5, 2. ], dtype=float32)
    """
    if not isinstance(given, Tensor):
        return given
    given = given.detach().cpu()
    return (given.float() if given.dtype == torch.bfloat16 else given).numpy()


class TensorState(Versioned):
    """A whole state with tensors in the place of arrays."""

    form: ClassVar[int] = 2

    def state_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, tensors, numbers, strings and None."""
        return to_tensors(super().state_dict())  # type: ignore[no-any-return]

    @classmethod
    def from_state_dict(cls, state: Any, **known: Any) -> Self:
        """Return the state from any object, or raise a `CheckpointError`."""
        return super().from_state_dict(from_tensors(state), **known)


def to_tensors(value: Any, name: str = "the state") -> Any:
    """Return a nested state with tensors in the memory of its arrays; strings become lists.

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
        return torch.from_numpy(value)
    if isinstance(value, dict):
        return {str(key): to_tensors(inner, f"{name}.{key}") for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_tensors(inner, f"{name}.{k}") for k, inner in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (str, int, float, Tensor)):
        return value
    raise TypeError(f"{name} is of type {type(value).__name__}, which a checkpoint cannot keep")


def from_tensors(value: Any, name: str = "the state") -> Any:
    """Return a nested state with arrays for tensors, on whatever device these are.

    Repeated objects are converted once: a small file may repeat a list in lists.
    """
    check_memory(value, name)
    try:
        return _with_arrays(value, name, {})
    except RecursionError:
        raise CheckpointError(f"{name} is nested too deeply") from None


def check_memory(value: Any, name: str = "the state") -> None:
    """Raise a CheckpointError if tensors of a state are larger than the memory that holds them.

    Each counts as often as it is there. Else a small file could make us allocate much: by one
    number that stands for many, or by one tensor in many places.
    """
    storages: dict[int, int] = {}
    try:
        size = _bytes_of(value, {}, storages)
    except RecursionError:
        raise CheckpointError(f"{name} is nested too deeply") from None
    if size > sum(storages.values()):
        raise CheckpointError(f"tensors of {name} share memory, or repeat what they hold")


def _bytes_of(value: Any, done: dict[int, tuple[Any, int]], storages: dict[int, int]) -> int:
    """Return the size of all tensors, each as often as it is there; note the memory they are in."""
    if id(value) in done:
        return done[id(value)][1]
    size = 0
    if isinstance(value, Tensor):
        if value.layout == torch.strided and not (value.is_nested or value.is_meta):
            size, storage = value.numel() * value.element_size(), value.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    elif isinstance(value, Mapping):
        size = sum([_bytes_of(inner, done, storages) for inner in value.values()])
    elif isinstance(value, (list, tuple)):
        size = sum([_bytes_of(inner, done, storages) for inner in value])
    done[id(value)] = value, size  # the value stays alive, so that its id is not used again
    return size


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
        new = {key: _with_arrays(inner, _within(name, key), done) for key, inner in value.items()}
    elif isinstance(value, (list, tuple)):
        new = [_with_arrays(inner, _within(name, k), done) for k, inner in enumerate(value)]
    done[id(value)] = value, new
    return new


def _within(name: str, key: Any) -> str:
    """Return the name of an entry; a name that is too long to be read is not extended."""
    if len(name) > 5 * LONGEST:
        return name
    return f"{name}.{key[:LONGEST] if isinstance(key, str) else brief(key)}"
