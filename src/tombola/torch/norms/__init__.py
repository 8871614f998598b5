"""The norm of each example's own gradient, taken in the backward pass that trains the model."""

from tombola.torch.norms.hooks import GradientNorms, gradient_norms
from tombola.torch.norms.last_layer import last_layer_norms

__all__ = ["GradientNorms", "gradient_norms", "last_layer_norms"]
