"""The kinds of layers with a rule, and for each the squared gradient norm of each example.

The gradient of a Linear weight is, for one example, a sum of outer products g_t x_t^T over its
positions t (tokens, pixels; otherwise a single one), of the gradient of the output and the
input. A convolution is the same with patches for x, an Embedding with unit vectors for g. So,
without forming the gradient,

    |sum_t g_t x_t^T|^2  =  sum_{s,t} (g_s . g_t) (x_s . x_t)

or else the gradient itself, whichever takes fewer operations. A second use of a weight adds
positions.
"""

import math
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = [
    "CONVOLUTIONS", "ROOM", "SUPPORTED", "Use", "is_supported", "least_dimensions",
    "squared_lengths", "squared_norms", "widened",
]  # fmt: skip

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMALISATIONS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)
CHANNELS_FIRST = (*CONVOLUTIONS, nn.GroupNorm)
SUPPORTED = (nn.Linear, nn.Embedding, *CONVOLUTIONS, *NORMALISATIONS)

# The number of values that the work on one parameter may hold at a time: a cache's worth on a
# CPU, a share of the memory on a device that wants large pieces of work.
ROOM = {"cpu": 2**20, "else": 2**26}


def is_supported(module: nn.Module) -> bool:
    """Return whether a layer computes the same as a known kind, with no other parameters."""
    names = module._parameters.keys()
    if not names or not names <= {"weight", "bias"}:
        return False
    if isinstance(module, nn.Embedding) and module.scale_grad_by_freq:
        return False
    return any(type(module).forward is kind.forward for kind in SUPPORTED)


def least_dimensions(layer: nn.Module) -> int:
    """Return the least number of dimensions of a layer's output that has a batch dimension."""
    if isinstance(layer, CONVOLUTIONS):
        return 2 + len(layer.kernel_size)
    if isinstance(layer, (nn.LayerNorm, nn.RMSNorm)):
        return 1 + len(layer.normalized_shape)
    return 2


class Use(NamedTuple):
    """The contribution of one call to the gradient of one parameter."""

    name: str
    layer: nn.Module
    part: str  # "weight" or "bias"
    input: Tensor
    gradient: Tensor  # of the layer's output


def squared_norms(parameters: Collection[list[Use]]) -> Tensor:
    """Return the squared gradient norm of each example over parameters, given by their uses."""
    total: Tensor | None = None
    for uses in parameters:
        kind = uses[0].gradient.device.type
        plain: AbstractContextManager[Any] = nullcontext()
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            plain = torch.autocast(kind, enabled=False)  # squares need more than 8 bits
        with plain:
            if uses[0].part == "weight" and not isinstance(uses[0].layer, NORMALISATIONS):
                batch, size = len(uses[0].gradient), _numbers_an_example(uses)
                step = max(1, ROOM.get(kind, ROOM["else"]) // max(1, size))
                slices = [slice(k, k + step) for k in range(0, batch, step)]
                squares = _joined([_squares_of_matrices(uses, part) for part in slices], 0)
            else:
                vectors = _vectors(uses[0])
                for use in uses[1:]:
                    vectors = vectors + _vectors(use)
                squares = squared_lengths(vectors)
        total = squares if total is None else total + squares.to(total.device)
    assert total is not None
    return total


def squared_lengths(values: Tensor) -> Tensor:
    """Return the squared norm of each entry along the first dimension."""
    lengths: Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return lengths.square()


def widened(values: Tensor) -> Tensor:
    """Return values in at least float32."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _vectors(use: Use) -> Tensor:
    """Return each example's gradient of a bias, or of the weight of a normalisation: (B, size)."""
    layer, gradient = use.layer, widened(use.gradient)
    if use.part == "weight":
        x = widened(use.input)
        if isinstance(layer, nn.LayerNorm):
            x = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
        elif isinstance(layer, nn.RMSNorm):
            x = functional.rms_norm(x, layer.normalized_shape, eps=layer.eps)
        elif isinstance(layer, nn.GroupNorm):
            x = functional.group_norm(x, layer.num_groups, eps=layer.eps)
        gradient = gradient * x
    size = getattr(layer, use.part).numel()
    if isinstance(layer, CHANNELS_FIRST):
        return gradient.reshape(len(gradient), size, -1).sum(2)
    return gradient.reshape(len(gradient), -1, size).sum(1)


def _numbers_an_example(uses: list[Use]) -> int:
    """Return roughly how many values the work on one example holds."""
    numbers = looked_up = 0
    for use in uses:
        batch, layer = len(use.gradient), use.layer
        outputs = use.gradient.numel() // batch
        numbers += outputs
        if isinstance(layer, nn.Embedding):
            looked_up += outputs // layer.embedding_dim
        elif isinstance(layer, CONVOLUTIONS):
            positions = outputs // layer.out_channels
            numbers += positions * layer.in_channels * math.prod(layer.kernel_size)
        else:
            numbers += use.input.numel() // batch
    return numbers + looked_up**2  # the cheaper of the other products takes no more


def _squares_of_matrices(uses: list[Use], part: slice) -> Tensor:
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
        return squared_lengths(left) * squared_lengths(right)
    if positions * (p + q) < p * q:
        return (left.mT @ left).mul_(right.mT @ right).sum((1, 2))
    return squared_lengths(left @ right.mT)


def _sides(use: Use, part: slice) -> tuple[Tensor, Tensor]:
    """Return the gradients of the outputs, (N, p, T), and their factors, (N, q, T).

    N counts the examples, and the groups of a convolution in each.
    """
    layer, x, gradient = use.layer, widened(use.input[part]), widened(use.gradient[part])
    batch = len(x)
    if isinstance(layer, nn.Linear):
        left = gradient.reshape(batch, -1, layer.out_features)
        return left.mT, x.reshape(batch, -1, layer.in_features).mT
    assert isinstance(layer, CONVOLUTIONS)
    left = gradient.reshape(batch * layer.groups, layer.out_channels // layer.groups, -1)
    right = _patches(layer, x, gradient.shape[2:])
    return left, right.reshape(batch * layer.groups, -1, left.shape[2])


def _patches(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, outputs: torch.Size) -> Tensor:
    """Return the inputs of each output position of a convolution: (B, C, *kernel, *outputs)."""
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


def _looked_up(use: Use, part: slice) -> tuple[Tensor, Tensor]:
    """Return which rows of an Embedding were used, (B, T), and their gradients, (B, T, d)."""
    layer, x, gradient = use.layer, use.input[part], widened(use.gradient[part])
    assert isinstance(layer, nn.Embedding)
    rows = x.reshape(len(x), -1)
    vectors = gradient.reshape(*rows.shape, layer.embedding_dim)
    if layer.padding_idx is not None:
        vectors = vectors.masked_fill((rows == layer.padding_idx).unsqueeze(2), 0.0)
    return rows, vectors
