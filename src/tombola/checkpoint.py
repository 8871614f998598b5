"""Save and load samplers and draws, one file each; safe against crashes and crafted files."""

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tombola import samplers
from tombola.draws import Draw
from tombola.samplers.base import read_sampler
from tombola.state import CheckpointError, body_of
from tombola.state.archive import read, write
from tombola.validation import brief, is_exactly

__all__ = ["CheckpointError", "load", "read", "save", "write"]

DRAW_FORMAT = 2  # of saved draws


def save(thing: samplers.Sampler | Draw, path: str | os.PathLike[str]) -> None:
    """Save a sampler or a draw; an existing file is replaced only after a complete write.

    A symbolic link is followed: the file that it points to is replaced.

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
    if isinstance(thing, Draw):
        write(path, {"class": "Draw", "format": DRAW_FORMAT, **thing.to_dict()})
    elif isinstance(thing, samplers.Sampler):
        thing.save(path)
    elif isinstance(thing, (str, os.PathLike)):
        raise TypeError("save takes the sampler or draw first, then the path")
    else:
        raise TypeError(f"can save a sampler or a draw, got {type(thing).__name__}")


def load(path: str | os.PathLike[str]) -> Any:
    """Load a sampler or a draw from a file written by `save`.

    A loaded sampler continues where the saved one stopped. It is safe to load an untrusted file:
    files hold data, never code, and a file that does not describe a valid sampler or draw raises a
    `CheckpointError` that says what is wrong.

    To load a sampler of your own class, make one with the same parameters and call
    ``sampler.load_state_dict(tombola.checkpoint.read(path))``.
    """
    state = read(path)
    try:
        if is_exactly(state.get("class"), "Draw"):
            return Draw.read(body_of(state, "Draw", DRAW_FORMAT))
        sampler = restored(state)
    except CheckpointError as error:
        raise CheckpointError(f"{os.fspath(path)}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(
            f"{os.fspath(path)} does not describe a sampler or a draw: {error}"
        ) from None
    if sampler is None:
        raise CheckpointError(
            f"{os.fspath(path)} holds a {brief(state.get('class'))}, "
            "which is not a sampler of tombola"
        )
    return sampler


def restored(state: dict[str, Any]) -> samplers.Sampler | None:
    """Return the sampler that a state describes; None if its class is not one of this library."""
    name = str(state.get("class"))
    if name not in samplers.__all__ or name == "Sampler":
        return None
    kind = getattr(samplers, name)
    saved = read_sampler(kind, state)
    sizes = [array.size for array in _arrays_in(saved.parts)]
    entries = kind._entries(saved.parameters)
    if max(sizes, default=0) < entries:
        raise CheckpointError(f"the state has no array of {entries} entries")
    room = sum(array.nbytes for array in _arrays_in(state))
    for parameter, value in saved.parameters.items():
        if isinstance(value, list) and not _bytes_as_array(value) <= room:
            raise CheckpointError(f"parameters.{parameter} is a list that is not of this state")
    sampler: samplers.Sampler = kind(**saved.parameters)
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
