"""The draw: an immutable ticket of the items drawn and their probabilities."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tombola.state import Floats, Ints, Scope, Versioned, array, integer, optional
from tombola.validation import whole

__all__ = ["Draw"]

SMALLEST = 2.0**-200  # keeps squared importances finite; no sampler gets close to it


class SavedDraw(Versioned):
    """What `Draw.to_dict` and `Draw.state_dict` return."""

    kind: ClassVar = "Draw"
    form: ClassVar = 2

    n: int = integer("the number of items that the sampler draws from", 1, 2**63 - 1)
    round: int = integer("the calls of `draw` before this one", 0, 2**63 - 1)
    indices: Ints = array("the items drawn", 0, "n - 1", dtype=np.int64)
    probabilities: Floats = array(
        "the probability of each", SMALLEST, 1.0, dtype=np.float64, shape=("indices.size",)
    )
    tags: NDArray[np.uint8] | None = optional(
        array("data of the sampler", 0, 255, dtype=np.uint8, shape=("indices.size",))
    )
    nominal: int | None = optional(integer("the expected number of items", 1, 2**63 - 1))


class Draw:
    """The items drawn and the probability of each; immutable.

    A draw carries everything that an unbiased estimate needs. Feedback to a sampler may therefore
    arrive late, out of order, in parts or never, and from another process.

    Parameters
    ----------
    indices : array-like of int64, shape (B,)
        The items drawn, from 0 to n - 1.
    probabilities : array-like of float64, shape (B,)
        The probability that each item was drawn with, mixing included.
    n : int
        The number of items that the sampler draws from.
    round : int, default=0
        The number of `draw` calls that the sampler had made before this one.
    tags : array-like of uint8, shape (B,), optional
        Data that the sampler needs when feedback arrives (`SRG` stores its coin flips).
    nominal : int, optional
        The expected number of items, if it is random how many are drawn (`KVib`). Such a draw may
        be empty.

    Attributes
    ----------
    size : int
        What `mean` divides by: the nominal size, or else the number of items. A part of a draw of
        nominal size keeps that size: the means of its parts add up to its mean.
    importances : ndarray of float64, shape (B,)
        ``1 / (n * probabilities)``: the factors of an unbiased estimate.

    Examples
    --------
    >>> draw = Draw([2, 0, 2], [0.5, 0.25, 0.5], n=3)
    >>> draw.mean([6.0, 3.0, 6.0])                  # estimates the mean over all three items
    4.0
    >>> draw[:2]
    Draw(2 of 3 items, round 0)
    >>> [len(part) for part in draw.split(3)]
    [1, 1, 1]
    """

    __slots__ = ("_importances", "indices", "n", "nominal", "probabilities", "round", "tags")

    indices: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    n: int
    round: int
    tags: NDArray[np.uint8] | None
    nominal: int | None
    _importances: NDArray[np.float64] | None

    def __init__(
        self,
        indices: ArrayLike,
        probabilities: ArrayLike,
        n: int,
        round: int = 0,
        tags: ArrayLike | None = None,
        nominal: int | None = None,
    ) -> None:
        n, number = whole("n", n, 1, 2**63), whole("round", round, 0, 2**63)
        items = np.asarray(indices)
        if items.size and items.dtype.kind not in "iu":
            raise TypeError(f"indices must hold integers, got dtype {items.dtype}")
        items = items.astype(np.int64)
        chances = np.array(probabilities, dtype=np.float64)
        if items.ndim != 1 or chances.shape != items.shape:
            raise ValueError(
                "indices and probabilities must be of one dimension and equal length, "
                f"got shapes {items.shape} and {chances.shape}"
            )
        _refuse_first("indices", items, (items < 0) | (items >= n), f"not from 0 to {n - 1}")
        wrong = ~((chances >= SMALLEST) & (chances <= 1))
        _refuse_first("probabilities", chances, wrong, "not from 2^-200 to 1")
        marks = None if tags is None else _checked_tags(tags, items.shape)
        if nominal is not None:
            nominal = whole("nominal", nominal, 1, 2**63)
        made = Draw.made(items, chances, n, number, marks, nominal)
        for name in Draw.__slots__:
            object.__setattr__(self, name, getattr(made, name))

    @classmethod
    def made(
        cls,
        indices: NDArray[np.int64],
        probabilities: NDArray[np.float64],
        n: int,
        round: int,
        tags: NDArray[np.uint8] | None = None,
        nominal: int | None = None,
    ) -> "Draw":
        """Return a draw that owns arrays just made by a sampler: no checks, no copies."""
        # write, by its place: twice as fast as by its name
        indices.setflags(False)  # type: ignore[call-arg]
        probabilities.setflags(False)  # type: ignore[call-arg]
        draw: Any = _Open()  # three times as fast as assignments around `__setattr__`
        draw.indices = indices
        draw.probabilities = probabilities
        draw.n = n
        draw.round = round
        draw.nominal = nominal
        draw._importances = None
        draw.tags = tags
        if tags is not None:
            tags.setflags(write=False)
        draw.__class__ = Draw
        return draw  # type: ignore[no-any-return]

    @property
    def size(self) -> int:
        """What `mean` divides by: the nominal size, or else the number of items."""
        return len(self.indices) if self.nominal is None else self.nominal

    @property
    def importances(self) -> NDArray[np.float64]:
        """``1 / (n * probabilities)``: the factors of an unbiased estimate."""
        if self._importances is None:
            importances = 1.0 / (self.n * self.probabilities)
            importances.setflags(write=False)
            object.__setattr__(self, "_importances", importances)
        assert self._importances is not None
        return self._importances

    def mean(self, values: ArrayLike) -> Any:
        """Return the unbiased estimate of the mean over all n items.

        ``values[j]`` belongs to item ``indices[j]``: a number, or an array of any shape.
        """
        array = np.asarray(values)
        if array.shape[:1] != self.indices.shape:
            raise ValueError(
                f"values must have one entry for each of the {len(self)} items drawn, "
                f"got shape {array.shape}"
            )
        if self.size == 0:
            raise ValueError("an empty draw estimates nothing")
        mean = np.tensordot(self.importances, array, axes=1) / self.size
        return float(mean) if mean.ndim == 0 else mean

    def sum(self, values: ArrayLike) -> Any:
        """Return the unbiased estimate of the sum over all n items."""
        return self.n * self.mean(values)

    def split(self, parts: int) -> list["Draw"]:
        """Split into equal parts, each a valid draw, for ranks or accumulation steps."""
        if self.nominal is not None:
            raise ValueError("a draw of nominal size does not split: its means would not average")
        if parts < 1 or len(self) % parts:
            raise ValueError(f"a draw of {len(self)} items does not split into {parts} equal parts")
        size = len(self) // parts
        return [self[k * size : (k + 1) * size] for k in range(parts)]

    def to_dict(self) -> dict[str, Any]:
        """Return the draw as a dict of arrays, integers and None; `read` is the inverse."""
        return self._saved().to_dict()

    def _saved(self) -> SavedDraw:
        return SavedDraw(**{name: getattr(self, name) for name in SavedDraw.declared})

    @classmethod
    def read(cls, value: Any, name: str = "", outer: Scope | None = None) -> "Draw":
        """Return the draw in a dict that may hold anything, or raise a `CheckpointError`.

        Parameters are those of `tombola.state.Document.read`.
        """
        return cls(**vars(SavedDraw.read(value, name, outer)))

    def state_dict(self) -> dict[str, Any]:
        """Return what `to_dict` does, with class and format; `tombola.save` writes it to a file."""
        return self._saved().state_dict()

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "Draw":
        """Return the draw that `state_dict` described, or raise a `CheckpointError`."""
        return cls(**vars(SavedDraw.from_state_dict(state)))

    def __getitem__(self, key: Any) -> "Draw":
        if isinstance(key, (int, np.integer)):
            if not -len(self) <= key < len(self):
                raise IndexError(f"position {key} is out of range for a draw of {len(self)} items")
            key = slice(key % len(self), key % len(self) + 1)
        tags = None if self.tags is None else np.ascontiguousarray(self.tags[key])
        items = np.ascontiguousarray(self.indices[key])
        chances = np.ascontiguousarray(self.probabilities[key])
        return Draw.made(items, chances, self.n, self.round, tags, self.nominal)

    def __iter__(self) -> Iterator["Draw"]:
        return (self[j] for j in range(len(self)))

    def __len__(self) -> int:
        return len(self.indices)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Draw):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in SavedDraw.declared
        )

    __hash__ = None  # type: ignore[assignment]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a draw is immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a draw is immutable: cannot delete {name}")

    def __reduce__(self) -> Any:
        return Draw.read, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"Draw({len(self)} of {self.n} items, round {self.round})"


class _Open:
    """A draw that is being filled: the same slots, but assignable."""

    __slots__ = Draw.__slots__


def _checked_tags(tags: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return a copy of tags, or raise an error that names the first bad one."""
    marks = np.asarray(tags)
    if marks.dtype.kind not in "biuf":
        raise TypeError(f"tags must hold integers, got dtype {marks.dtype}")
    if marks.shape != shape:
        raise ValueError(f"tags must have shape {shape}, got {marks.shape}")
    wrong = ~((marks >= 0) & (marks <= 255) & (marks % 1 == 0))
    _refuse_first("tags", marks, wrong, "not an integer from 0 to 255")
    return marks.astype(np.uint8)


def _refuse_first(name: str, array: NDArray[Any], wrong: NDArray[Any], reason: str) -> None:
    if wrong.any():
        position = int(np.argmax(wrong))
        raise ValueError(f"{name}[{position}] is {array[position]}, {reason}")
