"""The samplers: one algorithm per file."""

from tombola.samplers.adaptive_weighted import AdaptiveWeighted
from tombola.samplers.avare import Avare
from tombola.samplers.base import Sampler
from tombola.samplers.epoch_vrb import EpochVRB
from tombola.samplers.ftrl import FTRL
from tombola.samplers.group_vrb import GroupVRB
from tombola.samplers.info_batch import InfoBatch
from tombola.samplers.k_vib import KVib
from tombola.samplers.mabs import MABS
from tombola.samplers.mirror_descent import MirrorDescent
from tombola.samplers.osmd import OSMD
from tombola.samplers.safe import Safe
from tombola.samplers.shuffle import Shuffle
from tombola.samplers.srg import SRG
from tombola.samplers.stale import Stale
from tombola.samplers.static import Static
from tombola.samplers.uniform import Uniform
from tombola.samplers.vrb import VRB
from tombola.samplers.vrm import VRM

__all__ = [
    "FTRL",
    "MABS",
    "OSMD",
    "SRG",
    "VRB",
    "VRM",
    "AdaptiveWeighted",
    "Avare",
    "EpochVRB",
    "GroupVRB",
    "InfoBatch",
    "KVib",
    "MirrorDescent",
    "Safe",
    "Sampler",
    "Shuffle",
    "Stale",
    "Static",
    "Uniform",
]
