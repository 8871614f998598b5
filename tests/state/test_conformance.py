"""Everything that has a state keeps all the promises of `tombola.testing.check_state`.

A new class with a state belongs here: it then needs no tests of its own for resuming, copies, and
states that are damaged or of something else, only for what its state means.
"""

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import tombola
from players import SAMPLERS, N, use
from states import leaves
from tombola import Draw, Stream, WeightIndex, checkpoint
from tombola.solvers import Result
from tombola.state import CheckpointError
from tombola.testing import check_state, check_state_resume
from tombola.testing.judging import same

sys.path.append(str(Path(__file__).parent.parent / "solvers"))  # for `test_damaged.RUNS`
SLOW = pytest.mark.slow


def play_sampler(sampler):
    """A draw that is checked by `use`, and what can be observed."""
    with np.errstate(all="ignore"):
        drawn = sampler.draw(7)
        if isinstance(sampler, tombola.Safe):
            sampler.update(drawn, np.ones(7), moved=0.1)
        use(sampler)
        return [drawn.indices, drawn.probabilities, sampler.probabilities(), repr(sampler.gauge)]


VARIANTS = {
    "Uniform, long seed": lambda: tombola.Uniform(7, seed=2**100),
    "VRB, doubling": lambda: tombola.VRB(7, bound=4.0, schedule="doubling", memory=70),
    "VRB, gradient norms": lambda: tombola.VRB(7, quantity="gradient norm"),
    "GroupVRB, texts": lambda: tombola.GroupVRB(["x", "yes"] * 10),
    "Static, mixing": lambda: tombola.Static([0.5, 0.0, 2.0], mixing=0.2),
    "Static, partially biased": lambda: tombola.Static.partially_biased([1, 1, 2]),
    "MABS, bound for each": lambda: tombola.MABS(3, horizon=40, bound=[1.0, 2.0, 3.0]),
    "MABS, step": lambda: tombola.MABS(3, step=3.0),
    "FTRL, bound for each": lambda: tombola.FTRL(3, [1.0, 2.0, 3.0]),
    "SRG, always": lambda: tombola.SRG(3, refresh="always", mixing=0.25),
    "Safe, curvature": lambda: tombola.Safe(
        30, smoothness=np.arange(30.0), curvature=np.arange(1.0, 31)
    ),
    "EpochVRB, more": lambda: tombola.EpochVRB(7, share=1.5),
    "Latest, plan": lambda: tombola.Latest(30, plan=4),
    "Latest, some": lambda: tombola.Latest(30, among=np.arange(5, 30)),
}


@pytest.mark.kernels
@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers(name):
    check_state(lambda: SAMPLERS[name](1), play_sampler)


@pytest.mark.parametrize("name", VARIANTS)
def test_samplers_with_other_parameters_resume(name):
    check_state_resume(VARIANTS[name], play_sampler)


@pytest.mark.parametrize("name", [*SAMPLERS, *VARIANTS])
def test_copies_and_pickles_of_samplers_continue(name):
    sampler = VARIANTS[name]() if name in VARIANTS else SAMPLERS[name](1)
    play_sampler(sampler)
    twins = [copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))]
    played = play_sampler(sampler)
    for twin in twins:
        assert same(play_sampler(twin), played)
        assert same(twin.state_dict(), sampler.state_dict())


def play_index(index):
    draw = index.draw(20 if index.total else 0)
    items = draw.indices
    index.set(items, items + 1)
    index.add(items, items % 2)
    index.extend([3])
    index.verify()
    return [items, draw.probabilities, draw.round]


INDEXES = [[], [0, 0, 0], [1, 0, 5, 2**40], [7], [0.0, 0.0], [0.1, 0.0, 2e9, 5e-324], [1e308, 1.0]]


@pytest.mark.kernels
@pytest.mark.parametrize("weights", INDEXES)
def test_indexes(weights):
    check_state(lambda: WeightIndex(weights, seed=3), play_index)
    index = WeightIndex(weights, seed=3)
    play_index(index)
    twins = [copy.deepcopy(index), pickle.loads(pickle.dumps(index))]
    played = play_index(index)
    for twin in twins:
        assert same(play_index(twin), played)


def test_streams():
    check_state(lambda: Stream(3, (1, 2)), lambda stream: stream.words(5))


class Held:
    """A draw, which never changes, held by something that does."""

    def __init__(self):
        self.draw = Draw([1, 0, 1], [0.5, 0.25, 0.5], n=3, tags=[0, 2, 1], round=4)

    def state_dict(self):
        return self.draw.state_dict()

    def load_state_dict(self, state):
        self.draw = Draw.from_state_dict(state)

    def play(self):
        self.draw = self.draw[[0, 2, 1]]
        draw = self.draw
        Draw(draw.indices, draw.probabilities, draw.n, draw.round, draw.tags, draw.nominal)
        return [self.draw.indices, self.draw.importances, self.draw.tags, self.draw.round]


def test_draws():
    check_state(Held, Held.play)


# --- solvers ------------------------------------------------------------------------------------


class Run:
    """A run that is saved as a `Result`, and continues from one."""

    def __init__(self, solver, problem, sampler):
        self.solver, self.problem, self.sampler = solver, problem(), sampler
        self.result = self.minimized(30)

    def minimized(self, rounds, **options):
        with np.errstate(all="ignore"):
            result = self.solver.minimize(
                self.problem, sampler=self.sampler(), rounds=rounds, **options
            )
        result.seconds = result.trace.seconds[:] = 0.0  # of a clock
        return result

    def state_dict(self):
        return self.result.state_dict()

    def load_state_dict(self, state):
        result = Result.from_state_dict(state)
        result = self.minimized(result.rounds, resume=result)
        self.minimized(0, carry=state["state"]["carried"])
        if max(np.abs(x).max(initial=0) for x in leaves(result.state["parts"]).values()) > 1e100:
            raise CheckpointError("sound, but it soon ends in a DivergenceError")
        self.result = result

    def play(self):
        self.result = self.minimized(self.result.rounds + 20, resume=self.result)
        return [self.result.solution, self.result.item_gradients]


RUNS = [
    "dense", "dense, stored slopes", "scaled", "lazy", "lazy, stored slopes", "drift",
    "coordinates", "k-means", "dual", "dual, not smooth", "Newton",
]  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_results(name):
    from test_damaged import RUNS

    check_state(lambda: Run(*RUNS[name]), Run.play)


# --- PyTorch ------------------------------------------------------------------------------------


class Iterated:
    """A loader or sampler with the iteration that is under way; a state that is loaded ends it."""

    def __init__(self, thing):
        self.thing, self.iteration = thing, iter(())

    def state_dict(self):
        return self.thing.state_dict()

    def load_state_dict(self, state):
        self.thing.load_state_dict(state)
        self.iteration = iter(())

    def handed_out(self, count):
        """Yield what it hands out; not quite an epoch."""
        for _ in range(count):
            for _ in range(2):
                if (out := next(self.iteration, None)) is not None:
                    yield out
                    break
                self.iteration = iter(self.thing)


def play_loader(run):
    seen = []
    for (items,), draw in run.handed_out(4):
        seen.append([items, draw.number, draw.importances])
        assert items.equal(draw.indices)
        if draw.number % 3:
            run.thing.update(draw, 1.0 + items % 3)
    return [seen, run.thing.epoch, run.thing.most_drawn()]


def play_ahead(run):
    """Batches are drawn ahead, as workers do; what is resumed hands them out."""
    seen = play_loader(run)
    for _ in range(2):
        if run.thing.state_dict()["position"]["left"] > 0:
            run.thing._batches.draw_next(run.thing._batches.current)
    run.load_state_dict(run.state_dict())
    return seen


def play_weighted(run):
    seen = list(run.handed_out(4))
    run.thing.update([seen[0], 2], [5.0, 0.5])
    return [seen, run.thing.epoch, run.thing.weights]


def play_replay(sampler):
    import torch

    sampler._rng = torch.Generator().manual_seed(3)  # which is not in its state
    sampler.extend([3, 4, 7])
    index, info = sampler.sample(range(12), 6)
    sampler.update_priority(index, index.double() / 3)
    return [index, info["priority_weight"], sampler.default_priority]


def play_device_index(index):
    """Of either class: on the CPU the state is that of the host's index."""
    drawn = index.draw(5).indices
    index.set(drawn, drawn + 1)
    index.verify()
    return [drawn, index.weights]


def a_loader(kind, **options):
    import torch

    import tombola.torch

    data = torch.utils.data.TensorDataset(torch.arange(12))
    return Iterated(getattr(tombola.torch, kind)(data, 5, seed=5, **options))


def a_weighted_sampler(replacement):
    import torch

    from tombola.torch import WeightedSampler

    generator = torch.Generator().manual_seed(1)
    return Iterated(WeightedSampler(np.arange(12.0), 7, replacement, generator))


def a_device(kind, *parameters):
    import tombola.torch

    return getattr(tombola.torch, kind)(*parameters, device="cpu")


def a_replay(**options):
    from tombola.torch.replay import PrioritizedSampler

    return PrioritizedSampler(12, 0.6, 0.4, **options)


def srg(n, seed, groups):
    return tombola.SRG(n, seed=seed)


TORCH = {
    "loader": (lambda: a_loader("ImportanceLoader", lag=2, sampler=srg), play_ahead),
    "loader, sharded": (
        lambda: a_loader("ImportanceLoader", lag=1, distributed="sharded", shards=2),
        play_loader,
    ),
    "loader, chosen epochs": (lambda: a_loader("ImportanceLoader", share=0.5), play_loader),
    "device loader": (lambda: a_loader("DeviceLoader"), play_loader),
    "weighted sampler": (lambda: a_weighted_sampler(True), play_weighted),
    "without replacement": (lambda: a_weighted_sampler(False), play_weighted),
    "replay": (a_replay, play_replay),
    "replay, within": (lambda: a_replay(max_priority_within_buffer=True), play_replay),
    "device VRB": (lambda: a_device("VRB", N), play_sampler),
    "device groups": (lambda: a_device("GroupVRB", np.arange(N) % 3), play_sampler),
    "device index": (lambda: a_device("WeightIndex", np.arange(12)), play_device_index),
    "device index, real": (lambda: a_device("WeightIndex", np.arange(12) / 7), play_device_index),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[SLOW] if "chosen" in name else []) for name in TORCH],
)
def test_torch(name):
    pytest.importorskip("torch")
    check_state(*TORCH[name])


def test_a_file_of_what_needs_data_says_so(tmp_path):
    pytest.importorskip("torch")
    for name, (make, play) in TORCH.items():
        if name.startswith("device ") and name != "device loader":
            continue  # on the CPU, its state is the host's, which needs nothing
        thing = make()
        play(thing)
        tombola.save(thing, tmp_path / "state")
        with pytest.raises(CheckpointError, match="make one and pass it as into="):
            checkpoint.load(tmp_path / "state")
