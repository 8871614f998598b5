"""The loader: batches of the examples that matter, with the feedback that decides which those are.

`base` has the interface of all loaders. In `loader`, batches are drawn on the host and loaded by a
`DataLoader`; in `device`, they are drawn and gathered on the device that holds the data. On the
host, `drawing` says what each process draws and learns, `feedback` holds losses until they count
and shares them between processes, and `checkpoints` saves and resumes all of it.
"""

from tombola.torch.loader.dataset import Numbered
from tombola.torch.loader.device import DeviceLoader
from tombola.torch.loader.loader import ImportanceLoader, ImportanceSampler

__all__ = ["DeviceLoader", "ImportanceLoader", "ImportanceSampler", "Numbered"]
