"""Checkpoints of a fit in rounds: the driver's state in one file, dual variables in one each.

A folder holds `fit.npz`, which names the round, and `duals-ROUND-PARTITION.npz`. The first is
written last, and files of other rounds are removed after it, so a crash leaves the old checkpoint
or the new one. Fits of losses with kinks have no dual variables between rounds.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tombola.dask.fit import Fit
from tombola.dask.overview import mark_of
from tombola.state import (
    CheckpointError,
    Floats,
    Scope,
    array,
    entry_of,
    integer,
    listed,
    mapping,
    text,
)
from tombola.state.archive import File
from tombola.state.fields import refuse_unknown

__all__ = ["Checkpoint", "folder_at"]

FORMAT = 5


class FitState(File):
    """The file of the driver."""

    kind, form = "dask fit", FORMAT
    fingerprint: str = text("a hash of what the fit depends on")
    missing: list[int] = listed(
        "partitions without dual variables", integer("a partition", 0, "partitions - 1")
    )
    parts: Mapping[str, Any] = mapping("what the driver keeps: see `Fit.states`")

    def fault(self, scope: Scope) -> str:
        """Return whether it is of another fit; check what the driver keeps."""
        if self.fingerprint != scope.find("own"):
            return (
                "it is of a fit of other data, partitions or parameters (with random_state=None "
                "every fit has its own): remove the folder, or give another one"
            )
        states = scope.find("states")
        for name, state in states.items():
            state.check(entry_of(self.parts, name, "parts"), f"parts.{name}")
        refuse_unknown(self.parts, states, "parts")
        return ""


class DualsState(File):
    """The file of the dual variables of a partition."""

    kind, form = "duals", FORMAT
    duals: Floats = array("by output and row", shape=("outputs", "rows"))


class Checkpoint:
    """The files of a fit, in a folder.

    `sizes` are the rows of each partition, and `mark` is a hash of the data.
    """

    def __init__(self, folder: Path, fit: Fit, sizes: list[int], mark: str) -> None:
        self.folder, self.fit, self.sizes, self.mark = folder, fit, sizes, mark

    def save(self) -> None:
        """Write the fit as it is."""
        number, missing = int(self.fit.counts[0].rounds), []
        for k, duals in enumerate(self.fit.runner.state()):
            if duals is None:
                missing.append(k)
            else:
                DualsState(duals=duals).save(self._duals(number, k))
        parts = {name: state.saved() for name, state in self.fit.states.items()}
        state = FitState(fingerprint=self._fingerprint(), missing=missing, parts=parts)
        state.save(self.folder / "fit.npz")
        for path in self.folder.glob("duals-*.npz"):
            if not path.name.startswith(f"duals-{number}-"):
                path.unlink()

    def restore(self) -> bool:
        """Set the fit to what was saved; return whether there was anything.

        Raises
        ------
        CheckpointError
            Where it is damaged, or of other data or parameters.
        """
        path = self.folder / "fit.npz"
        if not path.exists():
            return False
        states, partitions = self.fit.states, len(self.sizes)
        own = self._fingerprint()
        saved = FitState.load(path, own=own, states=states, partitions=partitions)
        number = saved.parts["driver"]["counts"]["rounds"]
        duals = [
            None if k in saved.missing else self._read_duals(number, k) for k in range(partitions)
        ]
        for name, state in states.items():
            state.load(saved.parts[name])
        self.fit.runner.load(duals)
        return True

    def _duals(self, number: int, k: int) -> Path:
        return self.folder / f"duals-{number}-{k}.npz"

    def _read_duals(self, number: int, k: int) -> Any:
        path = self._duals(number, k)
        if not path.exists():
            raise CheckpointError(f"{path} is not there")
        saved = DualsState.load(path, outputs=self.fit.setting.outputs, rows=self.sizes[k])
        return np.ascontiguousarray(saved.duals)

    def _fingerprint(self) -> str:
        """Return a hash of what a fit depends on, as far as the driver knows it."""
        setting = self.fit.setting
        digest = hashlib.sha256(repr((self.sizes, self.fit.pace, self.mark)).encode())
        for name, part in zip(setting._fields, setting, strict=True):
            text = mark_of(part) if isinstance(part, np.ndarray) else repr(part)
            digest.update((name + text).encode())
        return digest.hexdigest()[:16]


def folder_at(path: Any) -> Path:
    """Return a folder for checkpoints, which is made; or raise an error that says why not."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be the path of a folder, got {path!r}")
    folder = Path(path)
    if folder.is_file():
        raise ValueError(f"checkpoint must be a folder, {folder} is a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"checkpoint={str(path)!r} cannot be made: {error}") from error
    return folder
