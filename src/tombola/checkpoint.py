"""Save and load everything that has a state, one file each; safe against crashes and crafted files.

A file holds data, never code. It is written whole or not at all, and read only if every byte and
every field of it is valid.
"""

import math
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola import samplers
from tombola.samplers.base import read_sampler
from tombola.state import CheckpointError
from tombola.state.archive import read, write
from tombola.validation import brief, shown

__all__ = ["CheckpointError", "load", "read", "save", "write"]

# what a state alone is enough to make, besides samplers, and where its class is
COMPLETE = {
    "Draw": "tombola.draws",
    "Result": "tombola.solvers",
    "Stream": "tombola.random",
    "WeightIndex": "tombola.index",
}
# what is made with data first: a state is loaded into it
BOUND = (
    "DeviceLoader",
    "ImportanceLoader",
    "PrioritizedSampler",
    "WeightedSampler",
    "torch.GroupVRB",
    "torch.VRB",
    "torch.WeightIndex",
)


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Save anything that has a state: samplers, draws, indexes, streams, results, loaders.

    An existing file is replaced only after a complete write. A symbolic link is followed: the file
    that it points to is replaced.

    Examples
    --------
    >>> import tempfile, tombola
    >>> sampler = tombola.VRB(1000, seed=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tombola.save(sampler, f"{folder}/sampler.npz")
    ...     copy = tombola.load(f"{folder}/sampler.npz")
    >>> bool((copy.draw(5).indices == sampler.draw(5).indices).all())
    True
    """
    if isinstance(thing, (str, os.PathLike)):
        raise TypeError("save takes what to save first, then the path")
    if isinstance(thing, type) or not hasattr(thing, "state_dict"):
        name = thing.__name__ if isinstance(thing, type) else shown(thing)
        raise TypeError(f"save needs something with a state, such as a sampler, got {name}")
    write(path, thing.state_dict())


def load(path: str | os.PathLike[str], *, into: Any = None) -> Any:
    """Load what `save` wrote: it continues exactly where the saved one stopped.

    It is safe to load an untrusted file: a file that is damaged, or does not describe a valid state
    of a class of this library, raises a `CheckpointError` that says what is wrong.

    Parameters
    ----------
    path : path-like
    into : optional
        Something made like what was saved, which takes its state: needed for a loader, which is
        made with a data set, and for classes of your own. On an error nothing has changed.

    Returns
    -------
    object
        What was saved; `into`, if that is given.
    """
    if into is not None and not hasattr(into, "load_state_dict"):
        raise TypeError(f"into must be something with a state, got {shown(into)}")
    state = read(path)
    try:
        if into is not None:
            into.load_state_dict(state)
            return into
        return restored(state)
    except CheckpointError as error:
        raise CheckpointError(f"{os.fspath(path)}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"{os.fspath(path)} does not hold a valid state: {error}") from None


def restored(state: Mapping[str, Any]) -> Any:
    """Return what a state describes, or raise a CheckpointError."""
    name = state.get("class")
    if isinstance(name, str) and name in COMPLETE:
        return getattr(import_module(COMPLETE[name]), name).from_state_dict(state)
    if (sampler := restored_sampler(state)) is not None:
        return sampler
    if name in BOUND:
        raise CheckpointError(f"this is the state of a {name}: make one and pass it as into=")
    raise CheckpointError(f"the class {brief(name)} is not one of tombola: pass yours as into=")


def restored_sampler(state: Mapping[str, Any]) -> samplers.Sampler | None:
    """Return the sampler that a state describes; None if it is of a class of your own."""
    name = state.get("class")
    if not isinstance(name, str) or name not in samplers.__all__ or name == "Sampler":
        return None
    kind: Any = getattr(samplers, name)
    saved = read_sampler(kind, state)
    sizes = [array.size for array in _arrays_in(saved.parts)]
    entries = kind._entries(saved.parameters)
    if max(sizes, default=0) < entries:
        raise CheckpointError(f"the state has no array of {entries} entries")
    room = sum(array.nbytes for array in _arrays_in(state))
    for parameter, value in saved.parameters.items():
        if isinstance(value, list) and not _bytes_as_array(value) <= room:
            raise CheckpointError(f"parameters.{parameter} is a list that is not of this state")
    try:
        sampler: samplers.Sampler = kind(**saved.parameters)
    except (ValueError, TypeError, OverflowError) as error:
        raise CheckpointError(f"its parameters are not those of a {name}: {error}") from None
    sampler.load_state_dict(state)
    return sampler


def _arrays_in(state: Any) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a nested state."""
    if isinstance(state, np.ndarray):
        yield state
    elif isinstance(state, Mapping):
        for part in state.values():
            yield from _arrays_in(part)


def _bytes_as_array(values: list[Any]) -> float:
    """Return the memory of a list as an array, where a text takes as much as the longest does."""
    if not all(isinstance(value, (str, int, float)) for value in values):
        return math.inf
    longest = max((len(value) for value in values if isinstance(value, str)), default=2)
    return 4.0 * longest * len(values)
