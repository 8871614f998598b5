"""The norm of each example's own gradient, taken in the backward pass that trains the model.

The gradient of a Linear weight is, for one example, a sum of outer products g_t x_t^T over its
positions t (tokens, pixels; one where there are none), of what came back and what went in. A
convolution is the same with patches for x, an Embedding with unit vectors for g. So, without
forming the gradient,

    |sum_t g_t x_t^T|^2  =  sum_{s,t} (g_s . g_t) (x_s . x_t)

or else the gradient itself, whichever takes fewer operations. The second use of a weight only adds
positions.
"""

import math
import warnings
import weakref
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["GradientNorms", "gradient_norms", "last_layer_norms"]

# Numbers that may lie around while one parameter is worked on: a cache's worth, or a share of
# the memory of a device that wants large pieces of work.
ROOM = {"cpu": 2**20, "else": 2**26}

IGNORED = -100  # the class that cross_entropy ignores by default

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMALISATIONS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)
_CHANNELS_FIRST = (*_CONVOLUTIONS, nn.GroupNorm)
_SUPPORTED = (nn.Linear, nn.Embedding, *_CONVOLUTIONS, *_NORMALISATIONS)


def gradient_norms(model: nn.Module) -> "GradientNorms":
    """Watch a backward pass; afterwards `of(draw)` has each example's own gradient norm.

    The norm is that of the gradient of the example's own loss, without its importance, over all
    trainable parameters of Linear, Conv1d, Conv2d, Conv3d, Embedding, LayerNorm, RMSNorm and
    GroupNorm layers. The gradients of the parameters are not touched.

    Layers with other trainable parameters are left out of the norm, and named in a warning, once
    for a model. BatchNorm has no gradient of one example: it mixes the examples of a batch, and
    then the norms of the layers below it are of what the whole batch's loss owes to an example.

    What is assumed: the first dimension of every layer's output is the batch (as many shared
    positions as examples, looked up once for all, cannot be told from one); a weight is used
    by calling its layer (``F.linear(x, layer.weight)`` goes unseen); and forward passes up to the
    next `of` are of the same examples. Then a layer may be called several times and share its
    weight with others. Compiled layers are refused.

    What it costs (``benchmarks/torch_norms.py``) is a little for each layer, which a short step
    feels, and for convolutions about as much again as the gradient of their weights. Feedback may
    be left out, so norms may be taken at every tenth step, say.

    Parameters
    ----------
    model : torch.nn.Module
        Its layers are watched inside the ``with`` block, and only there: both the forward and the
        backward pass belong inside.

    Returns
    -------
    GradientNorms
        To be entered; again at each step, if it is kept.

    Examples
    --------
    >>> import torch, tombola
    >>> model, x = torch.nn.Linear(3, 1), torch.eye(3)
    >>> draw = tombola.Draw([0, 1, 2], [0.5, 0.25, 0.25], n=3)
    >>> with gradient_norms(model) as norms:
    ...     losses = 4 * model(x).squeeze(1)
    ...     (torch.tensor(draw.importances) * losses).mean().backward()
    >>> norms.of(draw)                       # of 4 (x, 1): the importances are gone
    tensor([5.6569, 5.6569, 5.6569])

    With gradient accumulation or a `GradScaler`, say what else the loss was multiplied by::

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
        elif module not in inside and _is_supported(module):
            layers[name or "the model"] = module
        elif any(p is not None and p.requires_grad for p in module._parameters.values()):
            others.append(_shown(name, module))
    if others or mixing:
        _warn_once(model, others, mixing)
    if not layers:
        raise ValueError(
            f"model ({type(model).__name__}) has no layer that gradient_norms knows: "
            f"{', '.join(kind.__name__ for kind in _SUPPORTED)}"
        )
    return GradientNorms(layers)


def _shown(name: str, module: nn.Module) -> str:
    return f"{name or 'the model'} ({type(module).__name__})"


def _is_supported(module: nn.Module) -> bool:
    """Whether it is a layer that we know, in what it computes and in its own parameters."""
    names = module._parameters.keys()
    if not names or not names <= {"weight", "bias"}:
        return False
    if isinstance(module, nn.Embedding) and module.scale_grad_by_freq:
        return False
    return any(type(module).forward is kind.forward for kind in _SUPPORTED)


_warned: "weakref.WeakKeyDictionary[nn.Module, str]" = weakref.WeakKeyDictionary()


def _warn_once(model: nn.Module, others: list[str], mixing: list[str]) -> None:
    text = ""
    if others:
        text += f"gradient_norms has no rule for {', '.join(others)}: left out of the norms. "
    if mixing:
        text += (
            f"{', '.join(mixing)}: left out of the norms, since BatchNorm mixes the examples of a "
            "batch; the norms of the layers below are of what the whole batch's loss owes to an "
            "example. "
        )
    if _warned.get(model) != text:
        _warned[model] = text
        warnings.warn(text.strip(), stacklevel=3)


class _Pass:
    """The forward passes over one batch: how often each parameter was called for."""

    def __init__(self) -> None:
        self.calls: dict[nn.Parameter, int] = {}


class _Call(NamedTuple):
    """One call of a layer, on its way to the backward pass."""

    name: str
    layer: nn.Module
    parts: dict[str, nn.Parameter]  # those to be trained, by "weight" or "bias"
    parent: _Pass
    kept: list[Any]  # a tensor whose autograd node holds the input; empty once it was used


class _Use(NamedTuple):
    """What one call gives to the gradient of one parameter."""

    name: str
    layer: nn.Module
    part: str  # "weight" or "bias"
    input: Tensor
    gradient: Tensor  # of the layer's output


class _Keep(torch.autograd.Function):
    """Keep a tensor as autograd does: guarded against changes, recomputed if checkpointed."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return parameter.new_empty(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("nothing comes after it")


class GradientNorms:
    """What `gradient_norms` returns: enter it, run forward and backward, ask `of(draw)`."""

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        self._layers = layers
        self._hooks: list[Any] | None = None  # to be removed on leaving
        self._forget()

    def _forget(self) -> None:
        self._next = _Pass()  # what forward passes belong to
        self._seen: _Pass | None = None  # whose gradients have been coming
        self._first: tuple[str, int] = "", 0  # the layer that came first, and its batch
        self._squares: Tensor | None = None
        self._waiting: dict[nn.Parameter, list[_Use]] = {}  # parameters used more than once

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
        """Return the norms, and forget them: the next backward pass begins anew.

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
                "no gradient has come by: call the model and backward() inside the with block, "
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
            lengths = self._squares.clamp_min(0.0).sqrt()  # rounding may have gone below zero
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
            if isinstance(layer, (nn.Linear, *_CONVOLUTIONS)):
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
        if gradient.ndim < _least_dimensions(call.layer):
            raise ValueError(
                f"the output of {call.name!r} has shape {tuple(gradient.shape)}, without a batch "
                "dimension: gradient_norms cannot tell the examples apart"
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
            use = _Use(call.name, call.layer, part, value, gradient)
            if call.parent.calls[parameter] == 1:
                alone.append([use])
            else:
                self._waiting.setdefault(parameter, []).append(use)
        with torch.no_grad():
            self._add(alone)

    def _add(self, parameters: Collection[list[_Use]]) -> None:
        if parameters:
            more = _squares(parameters)
            kept = self._squares
            self._squares = more if kept is None else kept + more.to(kept.device)


def _least_dimensions(layer: nn.Module) -> int:
    """Return how many dimensions a layer's output has at least, with a batch."""
    if isinstance(layer, _CONVOLUTIONS):
        return 2 + len(layer.kernel_size)
    if isinstance(layer, (nn.LayerNorm, nn.RMSNorm)):
        return 1 + len(layer.normalized_shape)
    return 2


def _squares(parameters: Collection[list[_Use]]) -> Tensor:
    """Return the squared gradient norm of each example over parameters, given by their uses."""
    total: Tensor | None = None
    for uses in parameters:
        kind = uses[0].gradient.device.type
        plain: AbstractContextManager[Any] = nullcontext()
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            plain = torch.autocast(kind, enabled=False)  # squares want more than 8 bits
        with plain:
            if uses[0].part == "weight" and not isinstance(uses[0].layer, _NORMALISATIONS):
                batch, size = len(uses[0].gradient), _numbers_an_example(uses)
                step = max(1, ROOM.get(kind, ROOM["else"]) // max(1, size))
                slices = [slice(k, k + step) for k in range(0, batch, step)]
                squares = _joined([_squares_of_matrices(uses, part) for part in slices], 0)
            else:
                vectors = _vectors(uses[0])
                for use in uses[1:]:
                    vectors = vectors + _vectors(use)
                squares = _squared_lengths(vectors)
        total = squares if total is None else total + squares.to(total.device)
    assert total is not None
    return total


def _squared_lengths(values: Tensor) -> Tensor:
    """Return the squared norm of each entry along the first dimension."""
    lengths: Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return lengths.square()


def _wide(values: Tensor) -> Tensor:
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _vectors(use: _Use) -> Tensor:
    """Return each example's gradient of a bias, or of the weight of a normalisation: (B, size)."""
    layer, gradient = use.layer, _wide(use.gradient)
    if use.part == "weight":
        x = _wide(use.input)
        if isinstance(layer, nn.LayerNorm):
            x = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
        elif isinstance(layer, nn.RMSNorm):
            x = functional.rms_norm(x, layer.normalized_shape, eps=layer.eps)
        elif isinstance(layer, nn.GroupNorm):
            x = functional.group_norm(x, layer.num_groups, eps=layer.eps)
        gradient = gradient * x
    size = getattr(layer, use.part).numel()
    if isinstance(layer, _CHANNELS_FIRST):
        return gradient.reshape(len(gradient), size, -1).sum(2)
    return gradient.reshape(len(gradient), -1, size).sum(1)


def _numbers_an_example(uses: list[_Use]) -> int:
    """Return how many numbers the work on one example takes, about."""
    numbers = looked_up = 0
    for use in uses:
        batch, layer = len(use.gradient), use.layer
        outputs = use.gradient.numel() // batch
        numbers += outputs
        if isinstance(layer, nn.Embedding):
            looked_up += outputs // layer.embedding_dim
        elif isinstance(layer, _CONVOLUTIONS):
            positions = outputs // layer.out_channels
            numbers += positions * layer.in_channels * math.prod(layer.kernel_size)
        else:
            numbers += use.input.numel() // batch
    return numbers + looked_up**2  # other products, of the cheaper kind, are not more than that


def _squares_of_matrices(uses: list[_Use], part: slice) -> Tensor:
    """Return |sum of outer products over all positions of all uses|^2, for some examples."""
    looked_up = [_looked_up(use, part) for use in uses if isinstance(use.layer, nn.Embedding)]
    sides = [_sides(use, part) for use in uses if not isinstance(use.layer, nn.Embedding)]
    if len({(left.shape[1], right.shape[1]) for left, right in sides}) > 1:
        names = ", ".join(repr(use.name) for use in uses)
        raise ValueError(f"{names} share a weight, but not the number of groups")
    if sides:
        left, right = _joined([s[0] for s in sides], 2), _joined([s[1] for s in sides], 2)
        dense = _squares_of_products(left, right)
        groups = getattr(uses[0].layer, "groups", 1)
        dense = dense.reshape(-1, groups).sum(1) if groups > 1 else dense
    if not looked_up:
        return dense
    rows = _joined([pair[0] for pair in looked_up], 1)
    vectors = _joined([pair[1] for pair in looked_up], 1)
    same = rows[:, :, None] == rows[:, None, :]
    sparse = (vectors @ vectors.mT).mul_(same).sum((1, 2))
    if not sides:
        return sparse
    # a tied output layer: twice the products of the two kinds
    chosen = left.gather(1, rows[:, :, None].expand(-1, -1, left.shape[2]))
    return dense + sparse + 2 * (chosen * (vectors @ right)).sum((1, 2))


def _joined(tensors: list[Tensor], dimension: int) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dimension)


def _squares_of_products(left: Tensor, right: Tensor) -> Tensor:
    """Return |left right^T|^2 for (N, p, T) and (N, q, T), the cheaper way."""
    p, q, positions = left.shape[1], right.shape[1], left.shape[2]
    if positions == 1:
        return _squared_lengths(left) * _squared_lengths(right)
    if positions * (p + q) < p * q:
        return (left.mT @ left).mul_(right.mT @ right).sum((1, 2))
    return _squared_lengths(left @ right.mT)


def _sides(use: _Use, part: slice) -> tuple[Tensor, Tensor]:
    """Return the gradients of the outputs, (N, p, T), and what they multiply, (N, q, T).

    N counts the examples, and the groups of a convolution in each.
    """
    layer, x, gradient = use.layer, _wide(use.input[part]), _wide(use.gradient[part])
    batch = len(x)
    if isinstance(layer, nn.Linear):
        left = gradient.reshape(batch, -1, layer.out_features)
        return left.mT, x.reshape(batch, -1, layer.in_features).mT
    assert isinstance(layer, _CONVOLUTIONS)
    left = gradient.reshape(batch * layer.groups, layer.out_channels // layer.groups, -1)
    right = _patches(layer, x, gradient.shape[2:])
    return left, right.reshape(batch * layer.groups, -1, left.shape[2])


def _patches(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, outputs: torch.Size) -> Tensor:
    """Return what each output position of a convolution sees: (B, C, *kernel, *outputs)."""
    padding: list[int] = []
    for k in reversed(range(len(outputs))):  # pad begins with the last dimension
        if layer.padding == "same":
            total = layer.dilation[k] * (layer.kernel_size[k] - 1)
            padding += [total // 2, total - total // 2]
        else:
            padding += [0, 0] if layer.padding == "valid" else [int(layer.padding[k])] * 2
    if any(padding):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        x = functional.pad(x, padding, mode=mode)
    apart = [step * d for step, d in zip(x.stride()[2:], layer.dilation, strict=True)]
    along = [step * d for step, d in zip(x.stride()[2:], layer.stride, strict=True)]
    return x.as_strided(
        (*x.shape[:2], *layer.kernel_size, *outputs), (*x.stride()[:2], *apart, *along)
    )


def _looked_up(use: _Use, part: slice) -> tuple[Tensor, Tensor]:
    """Return which rows of an Embedding were used, (B, T), and their gradients, (B, T, d)."""
    layer, x, gradient = use.layer, use.input[part], _wide(use.gradient[part])
    assert isinstance(layer, nn.Embedding)
    rows = x.reshape(len(x), -1)
    vectors = gradient.reshape(*rows.shape, layer.embedding_dim)
    if layer.padding_idx is not None:
        vectors = vectors.masked_fill((rows == layer.padding_idx).unsqueeze(2), 0.0)
    return rows, vectors


def last_layer_norms(
    logits: Tensor,
    targets: Tensor,
    *,
    loss: str = "cross_entropy",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the norm of each example's gradient with respect to the outputs of the model.

    It costs next to nothing, and a bound on the gradient norm is proportional to it: the factor
    has to do with the model more than with the example. How closely the two agree depends: in the
    first epochs not at all, or hardly; later well (``benchmarks/torch_norms.py`` measures it).

    Parameters
    ----------
    logits : Tensor, shape (B, ...)
        What the model returned; for "cross_entropy" of shape (B, classes).
    targets : Tensor
        As for the loss: for "cross_entropy" class numbers of shape (B,), or probabilities of
        shape (B, classes); otherwise of the shape of `logits`. Class -100, which
        `cross_entropy` ignores, has norm 0.
    loss : {"cross_entropy", "binary_cross_entropy_with_logits", "mse_loss"}
        The name in `torch.nn.functional`. If it has several outputs an example, their losses are
        summed.
    label_smoothing : float, default=0.0
        As for `torch.nn.functional.cross_entropy`.

    Returns
    -------
    Tensor of float32, shape (B,)
        On the device of the logits, detached.

    Examples
    --------
    >>> import torch
    >>> last_layer_norms(torch.tensor([[0.0, 0.0], [0.0, 3.0]]), torch.tensor([1, 1]))
    tensor([0.7071, 0.0671])
    """
    if loss not in ("cross_entropy", "binary_cross_entropy_with_logits", "mse_loss"):
        raise ValueError(
            "loss must be 'cross_entropy', 'binary_cross_entropy_with_logits' or 'mse_loss', "
            f"got {loss!r}"
        )
    if label_smoothing and loss != "cross_entropy":
        raise ValueError(f"label_smoothing is for 'cross_entropy', got loss {loss!r}")
    z, targets = _wide(logits.detach()), targets.detach()
    numbers = loss == "cross_entropy" and not targets.is_floating_point()
    if loss == "cross_entropy" and z.ndim != 2:
        raise ValueError(f"logits must have shape (batch, classes), got {tuple(z.shape)}")
    if targets.shape != (z.shape[:1] if numbers else z.shape):
        raise ValueError(
            f"targets of shape {tuple(targets.shape)} do not fit logits of shape {tuple(z.shape)}"
        )
    if loss == "mse_loss":
        slopes = 2 * (z - targets)
    elif loss == "binary_cross_entropy_with_logits":
        slopes = z.sigmoid() - targets
    else:
        ignored = targets == IGNORED if numbers else None
        if ignored is not None:
            classes = targets.masked_fill(ignored, 0).to(torch.int64).unsqueeze(1)
            targets = torch.zeros_like(z).scatter_(1, classes, 1.0)
        chances = targets.to(z.dtype).lerp(torch.full_like(z, 1 / z.shape[1]), label_smoothing)
        slopes = z.softmax(1) - chances
        if ignored is not None:
            slopes = slopes.masked_fill(ignored.unsqueeze(1), 0.0)
    return _squared_lengths(slopes.reshape(len(z), -1)).sqrt().to(torch.float32)
