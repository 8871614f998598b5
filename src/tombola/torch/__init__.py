"""PyTorch: batches of the examples that matter, in five lines of a training loop.

>>> import torch
>>> from torch.nn import functional as F
>>> from torch.utils.data import TensorDataset
>>> x, y = torch.randn(500, 4), torch.arange(500) % 3
>>> model = torch.nn.Linear(4, 3)
>>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
>>> loader = ImportanceLoader(TensorDataset(x, y), batch_size=50, groups=y)
>>> for (x, y), draw in loader:
...     losses = F.cross_entropy(model(x), y, reduction="none")
...     draw.mean(losses).backward()              # unbiased, differentiable
...     optimizer.step(); optimizer.zero_grad()
...     loader.update(draw, losses)               # or per-example gradient norms
"""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("tombola.torch needs PyTorch: pip install tombola[torch]") from error

from tombola.torch import loggers
from tombola.torch.device import VRB, DeviceDraw, GroupVRB, IndexDraw, WeightIndex
from tombola.torch.loader import DeviceLoader, ImportanceLoader, ImportanceSampler, Numbered
from tombola.torch.norms import GradientNorms, gradient_norms, last_layer_norms
from tombola.torch.tensor_draw import TensorDraw
from tombola.torch.timesteps import TimestepSampler
from tombola.torch.weighted import WeightedSampler

__all__ = [
    "VRB",
    "DeviceDraw",
    "DeviceLoader",
    "GradientNorms",
    "GroupVRB",
    "ImportanceLoader",
    "ImportanceSampler",
    "IndexDraw",
    "Numbered",
    "TensorDraw",
    "TimestepSampler",
    "WeightIndex",
    "WeightedSampler",
    "gradient_norms",
    "last_layer_norms",
    "loggers",
]
