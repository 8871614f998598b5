"""Hooks that take the norms in the backward pass that trains the model."""

from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tombola.torch.norms.layers import CONVOLUTIONS, least_dimensions
from tombola.torch.norms.rules import Use, squared_norms

__all__ = ["GradientNorms"]


class _Pass:
    """The forward passes over one batch: how often each parameter was used."""

    def __init__(self) -> None:
        self.calls: dict[nn.Parameter, int] = {}


class _Call(NamedTuple):
    """One call of a layer, kept for the backward pass."""

    name: str
    layer: nn.Module
    parts: dict[str, nn.Parameter]  # those to be trained, by "weight" or "bias"
    parent: _Pass
    kept: list[Any]  # a tensor whose autograd node holds the input; empty after its use


class _Keep(torch.autograd.Function):
    """Keep a tensor as autograd does: guarded against changes, recomputed if checkpointed."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return parameter.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("no gradient reaches this node")


class GradientNorms:
    """What `gradient_norms` returns: enter it, run forward and backward, then call `of(draw)`."""

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        self._layers = layers
        self._hooks: list[Any] | None = None  # to be removed on leaving
        self._forget()

    def _forget(self) -> None:
        self._next = _Pass()  # that forward passes belong to
        self._seen: _Pass | None = None  # whose gradients have arrived
        self._first: tuple[str, int] = "", 0  # the first layer to arrive, and its batch size
        self._squares: Tensor | None = None
        self._waiting: dict[nn.Parameter, list[Use]] = {}  # parameters used more than once

    def __enter__(self) -> "GradientNorms":
        if self._hooks is not None:
            raise RuntimeError("these gradient norms have been entered already")
        self._forget()
        self._hooks = []
        for name, layer in self._layers.items():
            hook = partial(self._after_forward, name)
            handle = layer.register_forward_hook(hook, prepend=True, with_kwargs=True)
            self._hooks.append(handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for handle in self._hooks or ():
            handle.remove()
        self._hooks = None

    def of(self, draw: Any, scale: float | Tensor = 1.0) -> Tensor:
        """Return the norms and clear them, for the next backward pass.

        Nothing is copied to the host. Under a `GradScaler`, gradients that overflow have norms
        that are not finite: feed them by ``loader.update(draw, norms, skip_nonfinite=True)``.

        Parameters
        ----------
        draw : Draw
            The examples of the batch, whose loss was ``scale * draw.mean(losses)``. Or an array or
            tensor with their importances.
        scale : float or tensor, default=1.0
            What the loss was multiplied by: one over the number of accumulation steps, times the
            scale of a `GradScaler`.

        Returns
        -------
        Tensor of float32, shape (len(draw),)
            On the device of the model, detached.
        """
        if self._seen is None:
            raise RuntimeError(
                "no gradient has arrived: call the model and backward() inside the with block, "
                "once for each call of of(), and not as compiled by torch.compile"
            )
        name, size = self._first
        importances = getattr(draw, "importances", draw)
        if not isinstance(importances, Tensor):
            importances = torch.tensor(importances)
        if importances.shape != (size,):
            raise ValueError(
                f"the draw has importances of shape {tuple(importances.shape)}, but the gradient "
                f"of {name!r} has first dimension {size}: the batch must come first"
            )
        with torch.no_grad():
            self._add(self._waiting.values())
            assert self._squares is not None
            lengths = self._squares.clamp_min(0.0).sqrt()  # rounding may give a value below zero
            importances = importances.to(lengths.device, lengths.dtype, non_blocking=True)
            factors = size / (importances * scale)
            self._forget()
            return (lengths * factors).to(torch.float32)

    def _after_forward(
        self, name: str, layer: nn.Module, args: Any, kwargs: Any, output: Tensor
    ) -> None:
        own = layer._parameters.items()
        parts = {part: p for part, p in own if p is not None and p.requires_grad}
        if not parts:
            return
        # a checkpointed layer runs again during the backward pass: the same call, counted already
        if torch._C._current_graph_task_id() == -1:
            if self._next is self._seen:
                self._next = _Pass()
            for parameter in parts.values():
                self._next.calls[parameter] = self._next.calls.get(parameter, 0) + 1
        if not output.requires_grad:
            return
        kept = []
        if "weight" in parts:
            value = (args[0] if args else next(iter(kwargs.values()))).detach()  # all take one
            if isinstance(layer, (nn.Linear, *CONVOLUTIONS)):
                value = value.to(output.dtype)  # as autocast has done
            kept.append(value)
        # the tensor, and not its node alone: up to torch 2.11 a node is emptied with its tensor
        keeper = _Keep.apply(next(iter(parts.values())), *kept)  # type: ignore[no-untyped-call]
        call = _Call(name, layer, parts, self._next, [keeper])
        output.register_hook(partial(self._after_backward, call))  # type: ignore[no-untyped-call]

    def _after_backward(self, call: _Call, gradient: Tensor) -> None:
        if self._hooks is None:
            return
        if not call.kept:
            raise RuntimeError(
                f"a second backward pass through the same call of {call.name!r}: gradient_norms "
                "can follow only one; add the losses up, or call the model again"
            )
        if self._seen not in (None, call.parent):
            raise RuntimeError(
                f"gradients of another forward pass arrive at {call.name!r}: ask for the norms of "
                "the pass before, of(draw), first"
            )
        if gradient.ndim < least_dimensions(call.layer):
            raise ValueError(
                f"the output of {call.name!r} has shape {tuple(gradient.shape)}, without a batch "
                "dimension: gradient_norms cannot separate the examples"
            )
        first, size = self._first if self._seen else (call.name, len(gradient))
        if len(gradient) != size:
            raise ValueError(
                f"the output of {call.name!r} has first dimension {len(gradient)}, that of "
                f"{first!r} has {size}: the batch must come first in both (and positions go to "
                "an Embedding once for each example)"
            )
        keeper = call.kept.pop()
        saved = keeper.grad_fn.saved_tensors  # a checkpointed layer runs again here
        self._seen, self._first = call.parent, (first, size)
        value = saved[0] if saved else gradient
        alone = []
        for part, parameter in call.parts.items():
            use = Use(call.name, call.layer, part, value, gradient)
            if call.parent.calls[parameter] == 1:
                alone.append([use])
            else:
                self._waiting.setdefault(parameter, []).append(use)
        with torch.no_grad():
            self._add(alone)

    def _add(self, parameters: Collection[list[Use]]) -> None:
        if parameters:
            more = squared_norms(parameters)
            kept = self._squares
            self._squares = more if kept is None else kept + more.to(kept.device)
