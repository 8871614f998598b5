"""Launches that cost the host little: a kernel is looked up once for each way to cut it."""

from typing import Any

import torch
from torch import Tensor

__all__ = ["Launcher"]

ALIGNED = 16  # bytes: Triton reads wider where all tensors begin at multiples of this


class Launcher:
    """Launches kernels on one device.

    Triton looks at every argument of every launch to find the compiled kernel, which takes longer
    than the launch itself. Here the arguments of a kind of launch never change their types, and
    what was compiled for the first one serves all. It takes addresses in place of tensors.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._compiled: dict[Any, Any] = {}
        self._stream: Any = None  # a function that returns the current stream, as a number

    def __call__(
        self,
        kernel: Any,
        programs: int,
        *arguments: Any,
        warps: int,
        given: tuple[Tensor, ...] = (),
        **constants: Any,
    ) -> None:
        """Launch a kernel.

        Parameters
        ----------
        kernel, programs, arguments, warps
            What to launch, how often, and on how many warps each.
        given : tuple of Tensor
            Those of the arguments that come from the user, and may begin anywhere.
        constants
            The compile-time arguments, all and in order.
        """
        if self.device.type == "cuda" and self.device.index != torch.cuda.current_device():
            with torch.cuda.device(self.device):
                self(kernel, programs, *arguments, warps=warps, given=given, **constants)
            return
        key: Any = (id(kernel), warps, *constants.values())
        for part in given:
            if part.data_ptr() % ALIGNED:
                key = None
        compiled = self._compiled.get(key)
        if compiled is not None:
            values = (part.data_ptr() if isinstance(part, Tensor) else part for part in arguments)
            stream = self._stream(self.device.index)
            compiled[(programs, 1, 1)](*values, *constants.values(), stream=stream)
            return
        compiled = kernel[(programs,)](*arguments, **constants, num_warps=warps)
        if key is not None and hasattr(compiled, "run"):  # the interpreter returns None
            from triton.runtime import driver

            self._compiled[key] = compiled
            self._stream = driver.active.get_current_stream
