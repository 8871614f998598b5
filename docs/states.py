"""Write docs/states.md from the declarations in the code: `python docs/states.py`."""

from pathlib import Path

from tombola import draws, gauge, models, random
from tombola.dask import checkpoint as dask_checkpoint
from tombola.index import weight_index
from tombola.samplers import (
    algorithm_1,
    base,
    cyclic,
    default_batch,
    epoch_vrb,
    ftrl,
    group_rule,
    latest,
    shuffle,
    static,
    uniform,
)
from tombola.samplers.rivals import (
    adaptive_weighted,
    avare,
    info_batch,
    k_vib,
    mabs,
    mirror_descent,
    osmd,
    safe,
    srg,
    stale,
    vrm,
)
from tombola.solvers import result
from tombola.solvers.clusters import mini_batch
from tombola.solvers.coordinates import coordinate
from tombola.solvers.descent import dense, lazy, scaled
from tombola.solvers.dual import run as dual_run
from tombola.solvers.newton import run as newton_run
from tombola.state.describe import describe
from tombola.torch.device import group_vrb as device_group_vrb
from tombola.torch.device import index as device_index
from tombola.torch.device import vrb as device_vrb
from tombola.torch.loader import checkpoints as loader_checkpoints
from tombola.torch.loader import device as device_loader
from tombola.torch.replay import priorities
from tombola.torch.weighted import state as weighted

__all__ = ["STATES", "written"]

PAGE = Path(__file__).with_suffix(".md")

HEAD = """# What states hold

Every field of a state, with the full name that errors give it, its type, its valid range and its
meaning. `python docs/states.py` writes this page from the declarations in the code.

A state that is loaded is checked in full before anything changes: a field that is missing, unknown,
of another type or out of its range is refused with an error that names it. The range of an array is
that of its elements; a name in a range is another field of the state, or the size of one. What can
be computed from the parameters of the constructor, or from other fields, is not saved.
"""

STATES = {
    "All samplers": {
        "`state_dict()`": base.SamplerState,
        "`tally`": gauge.Tally,
    },
    "`parts` of each sampler": {
        "`VRB(n)`": default_batch.Staged,
        "`VRB(n, bound=...)`": algorithm_1.Printed,
        "`GroupVRB`": group_rule.GroupState,
        "`EpochVRB`": epoch_vrb.EpochState,
        "`InfoBatch`": info_batch.InfoBatchState,
        "`KVib`": k_vib.KVibState,
        "`VRM`": vrm.VRMState,
        "`Stale`": stale.StaleState,
        "`Avare`": avare.AvareState,
        "`SRG`": srg.SRGState,
        "`Safe`": safe.SafeState,
        "`OSMD`": osmd.OSMDState,
        "`MABS`": mabs.MABSState,
        "`MirrorDescent`": mirror_descent.MirrorDescentState,
        "`AdaptiveWeighted`": adaptive_weighted.AdaptiveWeightedState,
        "`FTRL`": ftrl.FTRLState,
        "`Latest`": latest.LatestState,
        "`Uniform`": uniform.UniformState,
        "`Shuffle`": shuffle.ShuffleState,
        "`Static`": static.StaticState,
        "`Cyclic`": cyclic.CyclicState,
    },
    "Draws, streams and indexes": {
        "`Draw`": draws.SavedDraw,
        "`Stream`": random.StreamState,
        "`WeightIndex`": weight_index.SavedIndex,
    },
    "Results of solvers": {
        "`Result`": result.Result,
        "SGD with l1, a radius or an average; AdaGrad, SAGA, SVRG on dense rows": dense.DenseRun,
        "The same on sparse rows, with l1": lazy.LazyRun,
        "SGD without l1": scaled.ScaledRun,
        "SAGA and SVRG on sparse rows, without l1": scaled.DriftRun,
        "SDCA": dual_run.DualRun,
        "Newton": newton_run.NewtonRun,
        "CoordinateDescent and BlockCoordinateDescent": coordinate.CoordinateRun,
        "MiniBatchKMeans": mini_batch.KMeansRun,
    },
    "PyTorch": {
        "`ImportanceLoader`": loader_checkpoints.LoaderState,
        "`DeviceLoader`": device_loader.DeviceLoaderState,
        "`WeightedSampler`": weighted.WeightedState,
        "`PrioritizedSampler`": priorities.PriorityState,
        "`WeightIndex` on a device": device_index.IndexState,
        "`VRB` on a device": device_vrb.VRBBoardState,
        "`GroupVRB` on a device": device_group_vrb.GroupBoardState,
    },
    "Files": {
        "Models of `tombola train`": models.ModelState,
        "Checkpoints of fits on Dask": dask_checkpoint.FitState,
    },
}


def table(kind):
    """The fields of a class, as a table in Markdown."""
    lines = ["| field | type | range | meaning |", "|---|---|---|---|"]
    for row in describe(kind):
        if row.range == "not saved":
            continue
        meaning = row.meaning.replace("|", r"\|").replace("*", r"\*")
        lines.append(f"| `{row.name}` | {row.type} | {row.range or '-'} | {meaning} |")
    return "\n".join(lines)


def written():
    """The text of the page."""
    parts = [HEAD]
    for section, states in STATES.items():
        parts.append(f"## {section}\n")
        parts += [f"### {title}\n\n{table(kind)}\n" for title, kind in states.items()]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(written())
