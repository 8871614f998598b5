"""What runs where the training runs: exact draws without waiting for the host."""

from tombola.torch.device.index import IndexDraw, WeightIndex

__all__ = ["IndexDraw", "WeightIndex"]
