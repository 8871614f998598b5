"""The kinds of layers whose gradient norms are known."""

from torch import nn

__all__ = [
    "CHANNELS_FIRST",
    "CONVOLUTIONS",
    "NORMALISATIONS",
    "SUPPORTED",
    "is_supported",
    "least_dimensions",
]

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMALISATIONS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)
CHANNELS_FIRST = (*CONVOLUTIONS, nn.GroupNorm)
SUPPORTED = (nn.Linear, nn.Embedding, *CONVOLUTIONS, *NORMALISATIONS)


def is_supported(module: nn.Module) -> bool:
    """Return whether a layer computes what a known kind does, with no other parameters."""
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
