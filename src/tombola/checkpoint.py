"""Save and load samplers and draws, one file each; safe against crashes and crafted files."""

import os
from typing import Any

import numpy as np

from tombola import samplers
from tombola.archive import CheckpointError, read, write
from tombola.draws import Draw
from tombola.samplers.base import check_parameters

__all__ = ["CheckpointError", "load", "read", "save", "write"]


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
        write(path, {"class": "Draw", "format": 1, "arrays": thing.to_arrays()})
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
        if state.get("class") == "Draw":
            return Draw.from_arrays(state["arrays"])
        sampler = restored(state)
    except CheckpointError as error:
        raise CheckpointError(f"{os.fspath(path)}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(
            f"{os.fspath(path)} does not describe a sampler or a draw: {error}"
        ) from None
    if sampler is None:
        raise CheckpointError(
            f"{os.fspath(path)} holds a {state.get('class')!r}, which is not a sampler of tombola"
        )
    return sampler


def restored(state: dict[str, Any]) -> samplers.Sampler | None:
    """Return the sampler that a state describes; None if its class is not one of this library."""
    name = str(state.get("class"))
    if name not in samplers.__all__ or name == "Sampler":
        return None
    kind = getattr(samplers, name)
    check_parameters(kind, state)
    entries = kind._entries(state["parameters"])
    if _largest_array(state["parts"]) < entries:
        raise CheckpointError(f"the state has no array of n={entries} items")
    sampler: samplers.Sampler = kind(**state["parameters"])
    sampler.load_state_dict(state)
    return sampler


def _largest_array(parts: Any) -> int:
    if isinstance(parts, dict):
        return max((_largest_array(part) for part in parts.values()), default=0)
    return parts.size if isinstance(parts, np.ndarray) else 0
