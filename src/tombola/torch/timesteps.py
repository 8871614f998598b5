"""Timesteps of diffusion models, drawn more often where the weighted loss is large."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tombola.torch.communication import (
    Connection,
    find_connection,
    require_initialised,
    world_size,
)
from tombola.torch.device import VRB, DeviceDraw
from tombola.torch.tensor_draw import wrong_shape
from tombola.validation import whole

__all__ = ["TimestepSampler"]

BELOW_ONE = 1.0 - 2.0**-24  # the largest float32 below 1


class TimestepSampler(VRB):
    """Draws the timesteps of a diffusion model: a `VRB` over timesteps, in place of ``randint``.

    It learns from the weighted losses which timesteps cause the noise of the gradient. It pays for
    steep weightings, such as that of the variational bound; with the unweighted loss there is
    little to gain.

    `sample` and `update_with_local_losses` are those of the schedule samplers of guided-diffusion
    and its forks, so this class can replace what ``create_named_schedule_sampler`` returns. `draw`
    and `update` are those of `VRB`.

    Parameters
    ----------
    n : int
        The number of timesteps, or of bins of a continuous t.
    continuous : bool, default=False
        Whether `sample` returns t in [0, 1), uniform within the bin that was drawn. The position
        within the bin comes from torch's default generator.
    device, shuffle, quantity, seed
        As for `VRB`. On a CUDA device, in a single process, nothing waits for the host, and
        `sample` and `update_with_local_losses` may be captured in a CUDA graph.

    Notes
    -----
    Several processes, connected by torch.distributed, draw one global batch, of which each gets its
    own part. Make the sampler with the same arguments on each, and call `sample` with the same
    batch size; `update_with_local_losses` gathers the losses, so all hold the same state, and one
    may save it. `draw` and `update` do not communicate.

    Examples
    --------
    The objective is the mean over timesteps of ``weight[t] * error``:

    >>> weight = 1000.0 / torch.arange(1, 1001)
    >>> sampler = TimestepSampler(1000)
    >>> for _ in range(100):
    ...     t, importances = sampler.sample(64)
    ...     losses = weight[t] * torch.rand(64)              # of the model, at timesteps t
    ...     loss = (importances * losses).mean()             # unbiased; loss.backward()
    ...     sampler.update_with_local_losses(t, losses)
    >>> bool(sampler.probabilities()[0] > 0.01)
    True

    References
    ----------
    Nichol, Dhariwal (2021). Improved Denoising Diffusion Probabilistic Models: the interface.
    """

    def __init__(
        self,
        n: int,
        *,
        continuous: bool = False,
        device: torch.device | str | None = None,
        shuffle: bool = True,
        quantity: str = "loss",
        seed: int = 0,
    ) -> None:
        super().__init__(n, device=device, shuffle=shuffle, quantity=quantity, seed=seed)
        self.continuous = bool(continuous)
        self._connection, self._world = Connection(), 0
        # the global batch, this process's t as it was returned, and a copy of it
        self._kept: tuple[DeviceDraw, Tensor, Tensor] | None = None

    def sample(
        self, batch_size: int, device: torch.device | str | None = None
    ) -> tuple[Tensor, Tensor]:
        """Draw timesteps, and keep the draw for `update_with_local_losses`.

        Parameters
        ----------
        batch_size : int
            The number of timesteps, in this process.
        device : torch.device or str, optional
            Where the tensors are returned; by default the device of the sampler.

        Returns
        -------
        t : Tensor, shape (batch_size,)
            int64 from 0 to n - 1; float32 in [0, 1) if `continuous`.
        weights : Tensor of float32, shape (batch_size,)
            Importances: ``(weights * losses).mean()`` is an unbiased estimate of the mean over
            timesteps.
        """
        connection, size = self._connect(), whole("batch_size", batch_size, 1)
        draw = own = self.draw(size * connection.world)
        if connection.world > 1:
            own = draw[connection.rank * size : (connection.rank + 1) * size]
        copy = self.times(own) if self.continuous else own.indices
        place = self.device if device is None else device
        t = copy.to(place, copy=True)
        self._kept = draw, t, copy
        return t, own.importances.to(place)

    def update_with_local_losses(self, t: Tensor, losses: Tensor) -> None:
        """Learn from the losses of the latest `sample`, gathered over all processes.

        On an error nothing is learnt, in any process, and the draw is kept: call it again. On a
        CUDA device, in a single process, `check` raises the error of bad losses later.

        Parameters
        ----------
        t : Tensor, shape (batch_size,)
            As `sample` returned it.
        losses : Tensor, shape (batch_size,)
            Weighted as in the objective, finite and not negative, *not* multiplied by importances.
        """
        connection, fault = self._connect(), None
        try:
            draw = self._kept_draw(t)
            if not isinstance(losses, Tensor):
                raise TypeError(f"losses must be a tensor, got {type(losses).__name__}")
            if losses.shape != t.shape:
                raise ValueError(wrong_shape(len(t), tuple(losses.shape)))
            losses = losses.detach().to(self.device)
            if connection.gather is not None:
                _require_valid(losses)
        except (TypeError, ValueError, IndexError, RuntimeError) as error:
            if connection.gather is None:
                raise
            fault = error
        if connection.gather is not None:
            # a header: whether there is a fault, the size and the number of the draw
            kept = (0, -1) if self._kept is None else (len(self._kept[2]), self._kept[0].number)
            headers = connection.gather(np.array([fault is not None, *kept], dtype=np.int64))
            if fault is not None:
                raise fault
            if headers[:, 0].any():
                raise ValueError(
                    f"rank {int(headers[:, 0].argmax())} has raised an error: nothing was learnt"
                )
            if (headers != headers[0]).any():
                raise RuntimeError(
                    "all ranks must call sample equally often, with the same batch size; they have "
                    f"drawn {headers[:, 1].tolist()} timesteps in calls {headers[:, 2].tolist()}: "
                    "load one state on all of them, or reset all"
                )
            rows = connection.gather(losses.double().cpu().numpy().view(np.int64))
            losses = torch.from_numpy(rows.view(np.float64).reshape(-1)).to(self.device)
        self.update(draw, losses)
        self._kept = None

    def times(self, draw: DeviceDraw) -> Tensor:
        """Return t in [0, 1) for a draw of `n` bins: float32, uniform within each bin."""
        bins = draw.indices
        offsets = torch.rand(bins.shape, dtype=torch.float64, device=bins.device)
        return ((bins + offsets) / self.n).float().clamp_(max=BELOW_ONE)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, in the same memory; a draw kept by `sample` is dropped.

        Raises
        ------
        CheckpointError
            If the state is invalid or belongs to another sampler; nothing has changed then.
        """
        super().load_state_dict(state)
        self._kept = None

    def reset(self) -> None:
        """Return to the initial state, in the same memory: the sampler then repeats its draws."""
        super().reset()
        self._kept = None

    def _connect(self) -> Connection:
        """Return the connection to the other processes, found again if their number changes."""
        world = world_size()
        if world != self._world or not world:
            require_initialised("")
            self._connection, self._world = find_connection("auto", None), world
            self._connection.require_equal({"n": self.n, "seed": self.seed})
        return self._connection

    def _kept_draw(self, t: Tensor) -> DeviceDraw:
        """Return the draw that t belongs to, or raise an error that says what to do."""
        if self._kept is None:
            raise RuntimeError(
                "no draw waits for losses: call update_with_local_losses once after each sample"
            )
        draw, returned, copy = self._kept
        if t is returned and t.is_cuda:
            return draw  # a comparison would wait for the device
        if not isinstance(t, Tensor):
            raise TypeError(f"t must be a tensor, got {type(t).__name__}")
        if t.shape == copy.shape and bool((t.to(copy.device) == copy).all()):
            return draw
        limit = 1 if self.continuous else self.n
        outside = ~((t >= 0) & (t < limit)).reshape(-1)
        if bool(outside.any()):
            j = int(outside.int().argmax())
            within = "in [0, 1)" if self.continuous else f"from 0 to {self.n - 1}"
            raise IndexError(f"t[{j}] is {t.reshape(-1)[j].item()}, not {within}")
        raise ValueError(
            "t is not what the latest sample returned: pass it unchanged, before the next sample; "
            "to learn from several draws at a time use draw and update"
        )


def _require_valid(losses: Tensor) -> None:
    wrong = ~((losses >= 0) & losses.isfinite())
    if bool(wrong.any()):
        j = int(wrong.int().argmax())
        raise ValueError(
            f"losses[{j}] is {losses[j].item()}: losses must be finite and not negative"
        )
