"""The samplers: one algorithm per file, those of other authors in `rivals`."""

from tombola.samplers.base import Sampler
from tombola.samplers.cyclic import Cyclic
from tombola.samplers.epoch_vrb import EpochVRB
from tombola.samplers.ftrl import FTRL
from tombola.samplers.group_vrb import GroupVRB
from tombola.samplers.latest import Latest
from tombola.samplers.rivals.adaptive_weighted import AdaptiveWeighted
from tombola.samplers.rivals.avare import Avare
from tombola.samplers.rivals.info_batch import InfoBatch
from tombola.samplers.rivals.k_vib import KVib
from tombola.samplers.rivals.mabs import MABS
from tombola.samplers.rivals.mirror_descent import MirrorDescent
from tombola.samplers.rivals.osmd import OSMD
from tombola.samplers.rivals.safe import Safe
from tombola.samplers.rivals.srg import SRG
from tombola.samplers.rivals.stale import Stale
from tombola.samplers.rivals.vrm import VRM
from tombola.samplers.shuffle import Shuffle
from tombola.samplers.static import Static
from tombola.samplers.uniform import Uniform
from tombola.samplers.vrb import VRB

__all__ = [
    "FTRL",
    "MABS",
    "OSMD",
    "SRG",
    "VRB",
    "VRM",
    "AdaptiveWeighted",
    "Avare",
    "Cyclic",
    "EpochVRB",
    "GroupVRB",
    "InfoBatch",
    "KVib",
    "Latest",
    "MirrorDescent",
    "Safe",
    "Sampler",
    "Shuffle",
    "Stale",
    "Static",
    "Uniform",
]
