"""Watch the layers of a model by hooks, which take norms in the backward pass that trains it."""

import warnings
import weakref
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tombola.torch.norms.rules import (
    CONVOLUTIONS,
    SUPPORTED,
    Use,
    is_supported,
    least_dimensions,
    squared_norms,
)

__all__ = ["GradientNorms", "gradient_norms"]


def gradient_norms(model: nn.Module) -> "GradientNorms":
    """Watch a backward pass; afterwards `of(draw)` has each example's own gradient norm.

    The norm is that of the gradient of the example's own loss, without its importance, over all
    trainable parameters of Linear, Conv1d, Conv2d, Conv3d, Embedding, LayerNorm, RMSNorm and
    GroupNorm layers. The gradients of the parameters are not touched.

    Layers with other trainable parameters are left out of the norm and named in a warning, once
    per model. BatchNorm has no gradient of a single example: it mixes the examples of a batch. The
    norms of the layers below it then measure how the loss of the whole batch depends on an example.

    Assumptions: the first dimension of every layer's output is the batch (an Embedding that is
    looked up once for all examples is detected unless it has as many positions as the batch has
    examples); a weight is used by calling its layer (``F.linear(x, layer.weight)`` is not seen);
    and all forward passes up to the next `of` are of the same examples. A layer may then be called
    several times and share its weight with others. Compiled layers are refused.

    The cost (``benchmarks/torch_norms.py``) is a small overhead per layer, which matters in short
    steps, and for convolutions about that of the gradient of their weights. Feedback may be left
    out, so norms may be taken, for example, at every tenth step.

    Parameters
    ----------
    model : torch.nn.Module
        Its layers are watched inside the ``with`` block, and only there: both the forward and the
        backward pass belong inside.

    Returns
    -------
    GradientNorms
        A context manager; it may be entered again at each step.

    Examples
    --------
    >>> import torch, tombola
    >>> model, x = torch.nn.Linear(3, 1), torch.eye(3)
    >>> draw = tombola.Draw([0, 1, 2], [0.5, 0.25, 0.25], n=3)
    >>> with gradient_norms(model) as norms:
    ...     losses = 4 * model(x).squeeze(1)
    ...     (torch.tensor(draw.importances) * losses).mean().backward()
    >>> norms.of(draw)                       # of 4 (x, 1), without importances
    tensor([5.6569, 5.6569, 5.6569])

    With gradient accumulation or a `GradScaler`, pass the other factors of the loss as `scale`::

        with tombola.torch.gradient_norms(model) as norms:
            for (x, y), draw in micro_batches:
                losses = F.cross_entropy(model(x), y, reduction="none")
                scaler.scale(draw.mean(losses) / 4).backward()
                own = norms.of(draw, scale=scaler.get_scale() / 4)
                loader.update(draw, own, skip_nonfinite=True)    # the scale may overflow
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    layers, others, mixing = {}, [], []
    inside: set[nn.Module] = set()  # of MultiheadAttention, which does not call its layers
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            inside.update(module.modules())
        if "_orig_mod" in module._modules or module._compiled_call_impl is not None:
            raise ValueError(
                f"{_shown(name, module)} is compiled: its layers run without hooks, so that "
                "gradient_norms sees nothing of them; use it before torch.compile"
            )
        if isinstance(module, _BatchNorm) and (module.training or not module.track_running_stats):
            mixing.append(_shown(name, module))
        elif module not in inside and is_supported(module):
            layers[name or "the model"] = module
        elif any(p is not None and p.requires_grad for p in module._parameters.values()):
            others.append(_shown(name, module))
    if others or mixing:
        _warn_once(model, others, mixing)
    if not layers:
        raise ValueError(
            f"model ({type(model).__name__}) has no layer that gradient_norms knows: "
            f"{', '.join(kind.__name__ for kind in SUPPORTED)}"
        )
    return GradientNorms(layers)


def _shown(name: str, module: nn.Module) -> str:
    return f"{name or 'the model'} ({type(module).__name__})"


_warned: "weakref.WeakKeyDictionary[nn.Module, str]" = weakref.WeakKeyDictionary()


def _warn_once(model: nn.Module, others: list[str], mixing: list[str]) -> None:
    text = ""
    if others:
        text += f"gradient_norms has no rule for {', '.join(others)}: left out of the norms. "
    if mixing:
        text += (
            f"{', '.join(mixing)}: left out of the norms, since BatchNorm mixes the examples of a "
            "batch; the norms of the layers below measure how the loss of the whole batch depends "
            "on an example. "
        )
    if _warned.get(model) != text:
        _warned[model] = text
        warnings.warn(text.strip(), stacklevel=3)


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
    """A context manager: enter it, run forward and backward, then call `of(draw)`."""

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
            The other factors of the loss: one over the number of accumulation steps, times the
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
