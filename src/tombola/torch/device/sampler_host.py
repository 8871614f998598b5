"""A sampler on the CPU: the host's own, behind the interface of a board."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tombola.draws import SMALLEST, Draw
from tombola.gauge import Tally
from tombola.samplers import VRB, GroupVRB
from tombola.state import Cell
from tombola.torch.device.vrb_layout import Trouble

__all__ = ["SamplerHost"]


class SamplerHost:
    """A sampler of `tombola.samplers`, with faults kept until they are asked for."""

    def __init__(self, sampler: VRB | GroupVRB) -> None:
        self.sampler = sampler
        self._trouble: tuple[int, int, float] = (Trouble.NONE, 0, 0.0)

    def reset(self) -> None:
        """Return to the initial state."""
        self.sampler.reset()
        self._trouble = (Trouble.NONE, 0, 0.0)

    def draw(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return items, their probabilities and their importances."""
        draw = self.sampler.draw(size)
        importances = torch.from_numpy(draw.importances.astype(np.float32))
        return torch.tensor(draw.indices), torch.tensor(draw.probabilities), importances

    def update(self, indices: Tensor, probabilities: Tensor, losses: Tensor) -> None:
        """Learn from losses, or keep the first fault."""
        n, given = self.sampler.n, losses.double()
        bad_item = (indices < 0) | (indices >= n)
        bad_chance = ~((probabilities >= SMALLEST) & (probabilities <= 1))
        bad = bad_item | bad_chance | ~((given >= 0) & (given < torch.inf))
        if not bad.any():
            self.sampler.update(Draw(indices.numpy(), probabilities.numpy(), n), given.numpy())
        elif self._trouble[0] == Trouble.NONE:
            j = int(bad.long().argmax())
            if bad_item[j]:
                self._trouble = Trouble.INDEX, j, float(indices[j])
            elif bad_chance[j]:
                self._trouble = Trouble.PROBABILITY, j, float(probabilities[j])
            else:
                self._trouble = Trouble.LOSS, j, float(given[j])

    def trouble(self) -> tuple[int, int, float]:
        """Return kind, position and value of the first fault since the last call."""
        trouble, self._trouble = self._trouble, (Trouble.NONE, 0, 0.0)
        return trouble

    def probabilities(self) -> Tensor:
        """Return the distribution as of the latest draw, with the feedback since then."""
        return torch.from_numpy(self.sampler.probabilities())

    def tally(self) -> Cell[Tally]:
        """Return a copy of the sums of the gauge."""
        tally: Any = self.sampler.tally.copy()
        return tally  # type: ignore[no-any-return]

    @property
    def largest_importance(self) -> float:
        """What no importance of a draw has exceeded."""
        return self.sampler.gauge.importance_limit

    @property
    def shuffling(self) -> bool:
        """Whether shuffled epochs are dealt."""
        return self.sampler.mode == "shuffle"

    @property
    def nbytes(self) -> int:
        """The memory used by the arrays of the sampler."""
        return sum(part.nbytes for part in arrays_of(self.sampler.state))

    def saved(self) -> dict[str, Any]:
        """Return all that defines the sampler."""
        return self.sampler.state_dict()

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; a bad one raises and changes nothing."""
        self.sampler.load_state_dict(state)
        self._trouble = (Trouble.NONE, 0, 0.0)


def arrays_of(state: Any) -> Iterator[NDArray[Any]]:
    """Return the arrays of a nested state."""
    for part in state:
        if isinstance(part, np.ndarray):
            yield part
        else:
            yield from arrays_of(part)
