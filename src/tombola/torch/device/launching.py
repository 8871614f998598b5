"""Launches that cost the host little: everything but the addresses of a call is prepared once."""

import importlib
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch import Tensor

__all__ = ["Launch", "Plans", "kernels", "place_of", "runs_kernels"]

ALIGNED = 16  # bytes: Triton reads wider if all tensors begin at multiples of this
MOST_PLANS = 1024

Key = TypeVar("Key", bound=Hashable)
Plan = TypeVar("Plan")


def place_of(device: torch.device | str | None) -> torch.device:
    """Return a device with its number, by default torch's default device."""
    place = torch.get_default_device() if device is None else torch.device(device)
    if place.type == "cuda" and place.index is None:
        place = torch.device("cuda", torch.cuda.current_device())
    return place


def runs_kernels(device: torch.device) -> bool:
    """Return whether kernels do the work on a device, not the host's sampler."""
    return device.type != "cpu"


def kernels(name: str) -> Any:
    """Return a module of kernels, which needs Triton."""
    try:
        return importlib.import_module(f"tombola.torch.device.{name}")
    except ImportError as error:
        raise ImportError(f"a GPU needs Triton, which comes with PyTorch: {error}") from error


class Plans(dict[Key, Plan]):
    """A cache of launches by the size of a call."""

    def __init__(self, make: Callable[[Key], Plan]) -> None:
        self._make = make

    def __missing__(self, key: Key) -> Plan:
        if len(self) >= MOST_PLANS:
            self.clear()
        self[key] = self._make(key)
        return self[key]


class Launch:
    """A kernel with its arguments; a call adds the tensors that differ from call to call.

    Triton looks at every argument of every launch to find the compiled kernel, which takes longer
    than the launch itself. After the first launch of a kind, compiled code is called directly, with
    addresses in place of tensors. Tensors that begin at an odd address take the long way.

    Multiplications and additions are rounded one by one, as on the host.

    `compiled` is shared by the launches of a device. `head` and `tail` are the arguments before and
    after the tensors of a call; `constants` are all compile-time arguments, in order.
    """

    def __init__(
        self, device: torch.device, compiled: dict[Any, Any], kernel: Any, programs: int,
        head: tuple[Any, ...], tail: tuple[Any, ...] = (), *, warps: int, **constants: Any,
    ) -> None:  # fmt: skip
        self._device, self._index, self._compiled = device, device.index, compiled
        self._kernel, self._programs = kernel, programs
        self._head, self._tail, self._warps, self._constants = head, tail, warps, constants
        # the types of all arguments depend on the kernel and its constants only
        self._key = (kernel, warps, *constants.values())
        self._run: Any = None

    def __call__(self, *given: Tensor) -> None:
        """Launch the kernel on tensors whose types are the same in every call."""
        addresses = [part.data_ptr() for part in given]
        for address in addresses:
            if address % ALIGNED:
                self._run_any(*given)
                return
        if self._run is None:
            self._begin(*given)
        elif self._index != torch.cuda.current_device():
            with torch.cuda.device(self._index):
                self(*given)
        else:
            self._run(
                self._programs, 1, 1, self._stream(self._index), self._function, self._packed,
                None, None, None, *self._first, *addresses, *self._last,
            )  # fmt: skip

    def _begin(self, *given: Tensor) -> None:
        """Compile the kernel, unless it is compiled already, and prepare the next launch."""
        compiled = self._compiled.get(self._key)
        if compiled is None:
            compiled = self._run_any(*given)
            if not hasattr(compiled, "run"):  # the interpreter returns None
                return
            self._compiled[self._key] = compiled
            self._bind(compiled)
        else:
            self._bind(compiled)
            self(*given)

    def _bind(self, compiled: Any) -> None:
        from triton.runtime import driver

        self._stream = driver.active.get_current_stream
        self._function, self._packed = compiled.function, compiled.packed_metadata
        self._first = tuple(map(_address, self._head))
        self._last = (*map(_address, self._tail), *self._constants.values())
        self._run = compiled.run

    def _run_any(self, *given: Tensor) -> Any:
        """Launch through Triton, which compiles the kernel if needed."""
        device = self._device
        if device.type == "cuda" and device.index != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self._run_any(*given)
        return self._kernel[(self._programs,)](
            *self._head, *given, *self._tail, **self._constants, num_warps=self._warps,
            enable_fp_fusion=False,
        )  # fmt: skip


def _address(argument: Any) -> Any:
    return argument.data_ptr() if isinstance(argument, Tensor) else argument
