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

from tombola.archive import CheckpointError, is_of, read, write
from tombola.compiling import check_fit, leaves, load_parts, saved_parts
from tombola.dask.overview import mark_of
from tombola.dask.refinement import Refinement
from tombola.dask.rounds import Ascent
from tombola.entries import LARGEST_COUNT

__all__ = ["Checkpoint", "folder_at"]

FORMAT = 4


class Checkpoint:
    """The files of a fit, in a folder.

    Parameters
    ----------
    folder : path
    fit : Ascent or Refinement
        What is saved, and restored.
    sizes : sequence of int
        The rows of each partition.
    mark : str
        A hash of the data.
    """

    def __init__(self, folder: Path, fit: Ascent | Refinement, sizes: list[int], mark: str) -> None:
        self.folder, self.fit, self.sizes, self.mark = folder, fit, sizes, mark

    def save(self) -> None:
        """Write the fit as it is."""
        number, missing = int(self.fit.counts[0].rounds), []
        for k, duals in enumerate(self.fit.runner.state()):
            if duals is None:
                missing.append(k)
            else:
                write(self._duals(number, k), {"class": "duals", "format": FORMAT, "duals": duals})
        write(
            self.folder / "fit.npz",
            {
                "class": "dask fit",
                "format": FORMAT,
                "fingerprint": self._fingerprint(),
                "missing": missing,
                "parts": saved_parts(self.fit.parts()),
            },
        )
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
        saved = read(path)
        if not is_of(saved, "dask fit", FORMAT):
            raise CheckpointError(f"{path} does not hold a fit of format {FORMAT}")
        if self._fingerprint() != str(saved.get("fingerprint")):
            raise CheckpointError(
                f"{path} is of a fit of other data, partitions or parameters (with "
                "random_state=None every fit has its own): remove the folder, or give another one"
            )
        parts: Any = saved.get("parts")
        missing = saved.get("missing")
        try:
            check_fit(self.fit.parts(), parts)
            check_numbers(parts, self.fit.limits)
            if not (isinstance(missing, list) and all(type(k) is int for k in missing)):
                raise ValueError("missing is not a list of partitions")
        except ValueError as error:
            raise CheckpointError(f"{path} is not a sound fit: {error}") from None
        duals = [
            None if k in missing else self._read_duals(parts["counts"]["rounds"], k)
            for k in range(len(self.sizes))
        ]
        load_parts(self.fit.parts(), parts)
        self.fit.runner.load(duals)
        return True

    def _duals(self, number: int, k: int) -> Path:
        return self.folder / f"duals-{number}-{k}.npz"

    def _read_duals(self, number: int, k: int) -> Any:
        path, shape = self._duals(number, k), (self.fit.setting.outputs, self.sizes[k])
        if not path.exists():
            raise CheckpointError(f"{path} is not there")
        saved = read(path)
        if not is_of(saved, "duals", FORMAT):
            raise CheckpointError(f"{path} does not hold duals of format {FORMAT}")
        duals = saved.get("duals")
        if not (isinstance(duals, np.ndarray) and duals.dtype == np.float64):
            raise CheckpointError(f"{path} does not hold an array of float64")
        if duals.shape != shape:
            raise CheckpointError(f"{path} does not hold duals of shape {shape}")
        if not np.isfinite(duals).all():
            raise CheckpointError(f"{path} holds a value that is not finite")
        return np.ascontiguousarray(duals)

    def _fingerprint(self) -> str:
        """Return a hash of what a fit depends on, as far as the driver knows it."""
        setting = self.fit.setting
        digest = hashlib.sha256(repr((self.sizes, self.fit.pace, self.mark)).encode())
        for name, part in zip(setting._fields, setting, strict=True):
            text = mark_of(part) if isinstance(part, np.ndarray) else repr(part)
            digest.update((name + text).encode())
        return digest.hexdigest()[:16]


def check_numbers(parts: Any, limits: Mapping[str, tuple[float, float]]) -> None:
    """Raise a ValueError that names the first number of the parts of a fit that cannot be."""
    for name, leaf in leaves(parts).items():
        if not np.isfinite(leaf).all():
            raise ValueError(f"{name} holds a value that is not finite")
    for name, count in parts["counts"].items():
        if not 0 <= count <= LARGEST_COUNT:
            raise ValueError(f"counts.{name} is {count}")
    for c, output in parts["outputs"].items():
        found = leaves(output)
        for name, (low, high) in limits.items():
            if not low <= found[name] <= high:
                raise ValueError(f"outputs.{c}.{name} is {found[name]}, not from {low} to {high}")
        bounds = output["bounds"]
        if bounds["gap"] != bounds["primal"] - bounds["dual"] or bounds["gap"] < 0.0:
            raise ValueError(f"outputs.{c}.bounds is {bounds}")


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
