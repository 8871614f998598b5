"""Checkpoints of a fit in rounds: the driver's state in one file, dual variables in one each.

A folder holds `fit.npz`, which names the round, and `duals-ROUND-PARTITION.npz`. The first is
written last, and files of other rounds are removed after it, so a crash leaves the old checkpoint
or the new one.
"""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from tombola.checkpoint import CheckpointError, read, write
from tombola.dask.rounds import Ascent

__all__ = ["Checkpoint"]

FORMAT = 1
ARRAYS = ("w", "centre", "previous", "point", "best", "slopes")
RECORDS = ("level", "bounds", "trust")


class Checkpoint:
    """The files of a fit, in a folder.

    Parameters
    ----------
    folder : path
    fit : Ascent
        What is saved, and restored.
    sizes : sequence of int
        The rows of each partition.
    """

    def __init__(self, folder: str | os.PathLike[str], fit: Ascent, sizes: list[int]) -> None:
        self.folder, self.fit, self.sizes = Path(folder), fit, sizes

    def save(self) -> None:
        """Write the fit as it is."""
        fit, number = self.fit, int(self.fit.counts[0].rounds)
        self.folder.mkdir(parents=True, exist_ok=True)
        missing = []
        for k, duals in enumerate(fit.runner.state()):
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
                "counts": _numbers(fit.counts),
                "contributions": fit.contributions,
                "positive": fit.positive,
                "negative": fit.negative,
                "outputs": [
                    {name: getattr(output, name) for name in ARRAYS}
                    | {name: _numbers(getattr(output, name)) for name in RECORDS}
                    for output in fit.outputs
                ],
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
        if saved.get("class") != "dask fit" or saved.get("format") != FORMAT:
            raise CheckpointError(f"{path} does not hold a fit of format {FORMAT}")
        if saved.get("fingerprint") != self._fingerprint():
            raise CheckpointError(
                f"{path} is of a fit of other data, partitions or parameters: remove the folder, "
                "or give another one"
            )
        fit = self.fit
        try:
            number = int(saved["counts"]["rounds"])
            duals = [
                None if k in saved["missing"] else self._read_duals(number, k)
                for k in range(len(self.sizes))
            ]
            for name in ("contributions", "positive", "negative"):
                _copy(getattr(fit, name), saved[name], name)
            if len(saved["outputs"]) != len(fit.outputs):
                raise CheckpointError(f"{path} has {len(saved['outputs'])} outputs")
            for output, parts in zip(fit.outputs, saved["outputs"], strict=True):
                for name in ARRAYS:
                    _copy(getattr(output, name), parts[name], name)
                for name in RECORDS:
                    _fill(getattr(output, name), parts[name], name)
            _fill(fit.counts, saved["counts"], "counts")
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is not a sound fit: {error}") from None
        fit.runner.load(duals)
        return True

    def _duals(self, number: int, k: int) -> Path:
        return self.folder / f"duals-{number}-{k}.npz"

    def _read_duals(self, number: int, k: int) -> Any:
        duals = read(self._duals(number, k)).get("duals")
        shape = (self.fit.setting.outputs, self.sizes[k])
        if not isinstance(duals, np.ndarray) or duals.shape != shape:
            raise CheckpointError(f"{self._duals(number, k)} does not hold duals of shape {shape}")
        if not np.isfinite(duals).all():
            raise CheckpointError(f"{self._duals(number, k)} holds a value that is not finite")
        return np.ascontiguousarray(duals, dtype=np.float64)

    def _fingerprint(self) -> str:
        """Return a hash of what a fit depends on, as far as the driver knows it."""
        setting = self.fit.setting
        digest = hashlib.sha256(repr((self.sizes, self.fit.epochs)).encode())
        for name, part in zip(setting._fields, setting, strict=True):
            text = part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()
            digest.update(name.encode() + text)
        return digest.hexdigest()[:16]


def _numbers(record: Any) -> dict[str, Any]:
    return {name: record[name][0].item() for name in record.dtype.names}


def _fill(record: Any, saved: Any, name: str) -> None:
    if set(saved) != set(record.dtype.names):
        raise ValueError(f"{name} has other fields")
    for field, value in saved.items():
        record[field][0] = value


def _copy(array: Any, saved: Any, name: str) -> None:
    if not isinstance(saved, np.ndarray) or saved.shape != array.shape:
        raise ValueError(f"{name} is not an array of shape {array.shape}")
    if not np.isfinite(saved).all():
        raise ValueError(f"{name} holds a value that is not finite")
    array[...] = saved
