"""Samplers and an index on the device of the training: exact draws without host syncs."""

from tombola.torch.device.device_draw import DeviceDraw, IndexDraw
from tombola.torch.device.group_vrb import GroupVRB
from tombola.torch.device.index import WeightIndex
from tombola.torch.device.vrb import VRB

__all__ = ["VRB", "DeviceDraw", "GroupVRB", "IndexDraw", "WeightIndex"]
