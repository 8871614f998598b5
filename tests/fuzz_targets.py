"""What a campaign of damaged states attacks: every thing that loads a state.

A target has an honest state, and an attempt on a damaged one, which returns "refused" (with a
`CheckpointError`), "diverged" (with a `DivergenceError`: numbers too large to go on with) or
"harmless". Whatever else it raises is a fault.
"""

import abc
import contextlib
import functools
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import tombola
from fuzz import at_an_end, damaged, damaged_bytes, damaged_members, deep
from players import SAMPLERS, Harm, N, played, require, use
from states import ends_of
from tombola import checkpoint
from tombola.checkpoint import CheckpointError
from tombola.validation import is_exactly

sys.path.append(str(Path(__file__).parent / "solvers"))  # for `test_damaged.RUNS`

FAULTS = ("error", "harm", "crashed", "hung", "memory")


class Target(abc.ABC):
    """Something that loads a state: `make` a new one, load into it, and `use` it."""

    kind = ""
    inside: tuple[str, ...] = ()  # where most of the damage is done
    share = 1.0  # of a campaign

    def __init__(self, name):
        self.name = f"{self.kind}: {name}"

    @abc.abstractmethod
    def honest(self):
        """Return an honest state: nested dicts and lists of arrays and numbers, or bytes."""

    @functools.cached_property
    def ends(self):
        """The ends of the ranges that the code declares, by dotted names below `inside`."""
        return {}

    def damage(self, state, rng):
        """Return a damaged copy, and what was done."""
        inside = self.inside if rng.integers(3) else ()
        if self.ends and rng.integers(4) == 0:
            state, what = at_an_end(state, rng, self.inside, self.ends)
        else:
            state, what = damaged(state, rng, inside)
        while state and rng.integers(4) == 0:
            state, more = damaged(state, rng, inside if rng.integers(2) else ())
            what += f"; {more}"
        return state, what

    def place(self, state):
        """Put a state where `attempt` finds it; return whether that is possible."""
        return True

    @abc.abstractmethod
    def attempt(self, state):
        """Load a state and use what it was loaded into."""


class InMemory(Target):
    """`load_state_dict` of something new."""

    def __init__(self, name, make, old, use=use, tensors=False):
        super().__init__(name)
        self.make, self.old, self.use, self.tensors = make, old, use, tensors

    @functools.cached_property
    def _honest(self):
        return from_tensors(self.old().state_dict())

    def honest(self):
        return self._honest

    def attempt(self, state):
        thing = self.make()
        if self.tensors:
            with deep():
                state = with_tensors(state)
        try:
            thing.load_state_dict(state)
        except CheckpointError:
            return "refused"
        self.use(thing)
        return "harmless"


class OfSampler(InMemory):
    kind, inside = "sampler", ("parts",)

    def __init__(self, name):
        super().__init__(name, lambda: SAMPLERS[name](1), lambda: played(name))

    @functools.cached_property
    def ends(self):
        return ends_of(self.make().state)


class OfTorch(InMemory):
    kind = "torch"


# ---- files


class OfFile(Target):
    """A file: its "fields" damaged, the bytes of its "members", or its "bytes".

    With the first two, all checksums are computed anew.
    """

    how = "fields"

    def __init__(self, name, how="fields"):
        super().__init__(name if how == "fields" else f"{name}, {how}")
        self.how = how

    @functools.cached_property
    def path(self):
        folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.clean = lambda: shutil.rmtree(folder, ignore_errors=True)
        return folder / "file"

    @abc.abstractmethod
    def save(self):
        """Write the honest file."""

    @abc.abstractmethod
    def load(self):
        """Load the file and use what is in it."""

    @functools.cached_property
    def _honest(self):
        self.save()
        return checkpoint.read(self.path) if self.how == "fields" else self.path.read_bytes()

    def honest(self):
        return self._honest

    def damage(self, state, rng):
        if self.how == "fields":
            return super().damage(state, rng)
        return damaged_members(state, rng) if self.how == "members" else damaged_bytes(state, rng)

    def place(self, state):
        if self.how != "fields":
            self.path.write_bytes(state)
            return True
        try:
            checkpoint.write(self.path, state)
        except TypeError:  # an odd thing that no file can hold
            return False
        return True

    def attempt(self, state):
        try:
            return self.load() or "harmless"
        except CheckpointError:
            return "refused"


class SamplerFile(OfFile):
    kind, inside = "file", ("parts",)

    def __init__(self, name, how="fields"):
        super().__init__(name, how)
        self.sampler = name

    def save(self):
        played(self.sampler).save(self.path)

    def load(self):
        use(tombola.load(self.path))


class DrawFile(OfFile):
    kind = "file"

    def save(self):
        tombola.save(played("VRB").draw(9), self.path)

    def load(self):
        draw = tombola.load(self.path)
        if not isinstance(draw, tombola.Draw):
            return
        require(((draw.indices >= 0) & (draw.indices < draw.n)).all(), "an item that is not there")
        require((draw.probabilities > 0).all(), "a probability of 0")
        return


class ResultFile(OfFile):
    kind, inside, share = "result", ("state", "parts"), 0.5

    def __init__(self, name, how="fields"):
        super().__init__(name, how)
        self.run = name

    @functools.cached_property
    def parts(self):
        from test_damaged import RUNS

        solver, problem, sampler = RUNS[self.run]
        return solver, problem(), sampler

    def save(self):
        solver, problem, sampler = self.parts
        solver.minimize(problem, sampler=sampler(), rounds=30, trace=3).save(self.path)

    @functools.cached_property
    def ends(self):
        solver, problem, sampler = self.parts
        return ends_of(solver._new_run(problem, None, sampler())) if self.how == "fields" else {}

    def load(self):
        from tombola.solvers import DivergenceError, Result

        solver, problem, sampler = self.parts
        result = Result.load(self.path)
        more = result.rounds + 20 if result.rounds < 10**6 else result.rounds
        own = sampler() if result.sampler is None else None
        try:
            again = solver.minimize(problem, sampler=own, rounds=more, resume=result)
        except DivergenceError:
            return "diverged"
        require(np.isfinite(again.solution).all(), "a solution that is not finite")
        with contextlib.suppress(ValueError, TypeError, DivergenceError):  # of bad arguments
            start, carry = result.solution, result.state["carried"]
            again = solver.minimize(problem, sampler=sampler(), rounds=3, start=start, carry=carry)
            require(np.isfinite(again.solution).all(), "a carried solution that is not finite")
        return None


class OfRun(OfFile):
    """A folder of `tombola train`, interrupted, with one file damaged, and --resume."""

    kind, inside, share = "run", ("result", "state", "parts"), 0.1
    arguments = ("train", "iris", "--epochs", "3", "--solver", "adagrad", "--sampler", "vrb")

    def __init__(self, name, file, how="fields", inside=None, arguments=None):
        super().__init__(name, how)
        self.file = file
        self.inside = self.inside if inside is None else inside
        self.arguments = self.arguments if arguments is None else arguments

    @functools.cached_property
    def path(self):
        folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.clean = lambda: shutil.rmtree(folder, ignore_errors=True)
        self.kept = folder / "kept"
        return folder / "run" / self.file

    @property
    def folder(self):
        return self.path.parents[len(Path(self.file).parts) - 1]

    def main(self, *more):
        return command(*self.arguments, "--out", str(self.folder), *more)

    def save(self):
        require(self.path is not None and self.main() == 0, "an honest run failed")
        record = self.folder / "run.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "finished": False}))
        self.folder.rename(self.kept)
        shutil.copytree(self.kept, self.folder)

    def renew(self):
        """Put the honest folder back."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder)

    def place(self, state):
        self.renew()
        return super().place(state)

    def load(self):
        return judged(self.main("--resume"))


def command(*arguments):
    """The exit status of a command, which prints nothing."""
    from tombola.cli.main import main

    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = main(list(arguments))
    require("not enough memory" not in said.getvalue(), said.getvalue())
    return code


def judged(code):
    require(code in (0, 2), f"exit status {code}")
    return "refused" if code == 2 else "harmless"


class OfRecord(OfRun):
    """run.json of an interrupted run, by its fields, and --resume."""

    inside = ()

    @functools.cached_property
    def _honest(self):
        self.save()
        return json.loads(self.path.read_text())

    def place(self, state):
        try:
            text = json.dumps(state)
        except TypeError:  # an odd thing that no file can hold
            return False
        self.renew()
        self.path.write_text(text)
        return True


class OfReport(OfRecord):
    """The record of a finished run, by its fields, or the bytes of its trace; and its page."""

    def save(self):
        require(self.path is not None and self.main() == 0, "an honest run failed")

    def renew(self):
        """Nothing changes a finished run."""

    @functools.cached_property
    def _honest(self):
        if self.how == "fields":
            return super()._honest
        self.save()
        return self.path.read_bytes()

    def place(self, state):
        if self.how == "fields":
            return super().place(state)
        self.path.write_bytes(state)
        return True

    def load(self):
        return judged(command("report", str(self.folder)))


class OfModel(OfFile):
    """The model of `tombola train`, and `tombola predict`."""

    kind, inside, share = "model", ("prepare",), 0.3

    def __init__(self, name, how="fields"):
        super().__init__(name, how)
        self.task = name

    def frame(self, n):
        """Rows for every kind of rule."""
        import pandas as pd

        rng = np.random.default_rng(n)
        size = rng.normal(size=n)
        columns = {
            "size": size,
            "kind": rng.choice(["cat", "dog", "owl"], size=n),
            "city": [f"c{k}" for k in rng.integers(0, 250, size=n)],
            "code": [f"x{k}" for k in range(n)],
            "own": [f"y{k}" for k in range(n)],
            "when": [f"2021-{m:02}-{d:02}" for d, m in rng.integers(1, 13, size=(n, 2))],
            "label": np.where(size > 0.5, "yes", np.where(size < -1, "never", "no")),
        }
        return pd.DataFrame(columns)

    def save(self):
        folder = self.path.parent
        train, self.new = folder / "train.csv", folder / "new.csv"
        self.frame(700).to_csv(train, index=False)
        self.frame(60).to_csv(self.new, index=False)
        more = {
            "classification": ["--target", "label"],
            "regression": ["--target", "size"],
            "clustering": ["--task", "clustering"],
        }[self.task]
        run, few = folder / "run", ["--epochs", "2", "--keep", "code"]
        code = command("train", str(train), *more, *few, "--out", str(run))
        require(code == 0, "an honest run failed")
        shutil.copy(run / "model.npz", self.path)

    def load(self):
        out = self.path.parent / "predictions.csv"
        out.unlink(missing_ok=True)
        outcome = judged(command("predict", str(self.path), str(self.new), "--out", str(out)))
        require(out.exists() == (outcome == "harmless"), "a file without predictions")
        return outcome


class OfDask(OfRun):
    """The checkpoint of a fit on Dask, interrupted, with one file damaged; the same fit again."""

    kind, inside, share = "dask", ("parts",), 0.2

    def __init__(self, name, file, how="fields", loss="log_loss"):
        super().__init__(name, file, how)
        self.loss = loss

    def main(self, rounds):
        import dask
        import dask.array as da

        from tombola.dask import LinearClassifier, linear_estimator
        from tombola.dask.refinement import Refinement

        # for more than one round
        linear_estimator.Refinement = functools.partial(Refinement, rows=6)
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 2))
        y = (X[:, 0] + rng.normal(size=60) > 0.5).astype(int)
        model = LinearClassifier(
            self.loss,
            alpha=1e-4,
            random_state=0,
            tol=1e-9,
            max_iter=rounds,
            checkpoint=self.folder,
        )
        with dask.config.set(scheduler="synchronous"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(da.from_array(X, chunks=(20, 2)), da.from_array(y, chunks=20))

    def save(self):
        require(self.path is not None and self.main(3).n_iter_ == 3, "an honest fit failed")
        self.folder.rename(self.kept)
        shutil.copytree(self.kept, self.folder)

    def load(self):
        try:
            model = self.main(6)
        except ArithmeticError:
            return "diverged"
        require(np.isfinite(model.coef_).all(), "a solution that is not finite")
        return "harmless"


# ---- PyTorch


def from_tensors(state):
    """The same state with numpy arrays."""
    if isinstance(state, dict):
        return {key: from_tensors(inner) for key, inner in state.items()}
    if isinstance(state, list):
        return [from_tensors(inner) for inner in state]
    return state.numpy().copy() if hasattr(state, "numpy") else state


def with_tensors(state):
    """The same state with tensors, where torch has such a type."""
    if isinstance(state, dict):
        return {key: with_tensors(inner) for key, inner in state.items()}
    if isinstance(state, list):
        return [with_tensors(inner) for inner in state]
    if isinstance(state, np.ndarray):
        import torch

        with contextlib.suppress(TypeError, ValueError):  # ValueError: of another byte order
            return torch.from_numpy(state)
    return state


def torch_targets():
    """Loaders, `WeightedSampler`, replay, and what is for a device, on the CPU."""
    import torch
    from torch.utils.data import TensorDataset

    from tombola.torch import VRB, GroupVRB, ImportanceLoader, WeightedSampler, WeightIndex
    from tombola.torch.replay import PrioritizedSampler

    data = TensorDataset(torch.arange(N))

    def new_loader(**more):
        return ImportanceLoader(data, 8, seed=5, lag=4, **more)

    def old_loader(**more):
        loader = new_loader(**more)
        for (items,), draw in loader:
            if draw.number % 5:
                loader.update(draw, 1.0 + items % 3)
            if draw.number == 3:
                break
        while len(loader._batches.current.waiting) < 2:  # as workers would
            loader._batches.draw_next(loader._batches.current)
        return loader

    def use_loader(loader):
        epoch = loader.epoch
        for seen, ((items,), draw) in enumerate(loader):
            require(seen < 100, "an epoch without end")
            require(0 <= int(items.min()) <= int(items.max()) < N, "an item that is not there")
            require(bool((draw.importances >= 0).all()), "an importance below 0")
            loader.update(draw, 1.0 + items % 3)
        require(loader.epoch == epoch + 1, "an epoch that does not count")
        if loader.epoch <= 2**62:  # the last one that a state may hold
            loader.load_state_dict(loader.state_dict())

    modes = {
        "loader": {},
        "loader, groups": {"groups": np.arange(N) % 3},
        "loader, tags": {"sampler": lambda n, seed, groups: tombola.SRG(n, seed=seed)},
        "loader, sharded": {"distributed": "sharded", "shards": 3},
    }
    for name, more in modes.items():
        yield OfTorch(
            name,
            lambda more=more: new_loader(**more),
            lambda more=more: old_loader(**more),
            use_loader,
            tensors=True,
        )

    def weighted(replacement):
        generator = torch.Generator().manual_seed(1)
        return WeightedSampler(
            torch.arange(1.0, N + 1), 20, replacement=replacement, generator=generator
        )

    def old_weighted(replacement):
        sampler = weighted(replacement)
        for k, item in enumerate(sampler):
            sampler.update([item], [0.5])
            if k == 7:
                break
        return sampler

    def use_weighted(sampler):
        for _ in range(2):
            items = []
            try:
                for item in sampler:
                    items.append(item)
                    require(len(items) <= 20, "an epoch without end")
            except ValueError as error:  # too few items of a weight above 0
                require("weight" in str(error), str(error))
            require(all(0 <= item < N for item in items), "an item that is not there")
        with contextlib.suppress(ValueError):
            sampler.update([0, N - 1], [1.0, 2.0])

    for replacement in (True, False):
        yield OfTorch(
            f"WeightedSampler, {'with' if replacement else 'without'} replacement",
            lambda r=replacement: weighted(r),
            lambda r=replacement: old_weighted(r),
            use_weighted,
            tensors=True,
        )

    def old_replay():
        sampler = PrioritizedSampler(N, 0.7, 0.5)
        sampler.extend(np.arange(30))
        sampler.update_priority(np.arange(20), np.linspace(0.1, 3.0, 20))
        return sampler

    def use_replay(sampler):
        try:
            items, info = sampler.sample(range(30), 200)
        except RuntimeError as error:  # nothing is in the buffer
            require("has a priority" in str(error), str(error))
            return
        require(0 <= int(items.min()) <= int(items.max()) < 30, "an item that is not there")
        require(bool((info["priority_weight"] >= 0).all()), "an importance below 0")
        sampler.update_priority(items, np.linspace(0.0, 2.0, 200))
        sampler.sample(range(30), 10)

    yield OfTorch(
        "PrioritizedSampler",
        lambda: PrioritizedSampler(N, 0.7, 0.5),
        old_replay,
        use_replay,
        tensors=True,
    )

    def trained(sampler):
        for _ in range(20):
            draw = sampler.draw(7)
            sampler.update(draw, 1.0 + draw.indices % 5)
        return sampler

    def use_device(sampler):
        use(sampler)
        sampler.check()

    groups = np.arange(N) % 3
    for name, make in {
        "VRB": lambda: VRB(N, device="cpu", seed=1),
        "GroupVRB": lambda: GroupVRB(groups, device="cpu", seed=1),
    }.items():
        yield OfTorch(
            f"{name} on the CPU",
            make,
            lambda make=make: trained(make()),
            use_device,
            tensors=True,
        )

    def new_index():
        return WeightIndex(torch.arange(1, N + 1), device="cpu", seed=1)

    def old_index():
        index = new_index()
        index.set(index.draw(9).indices, torch.arange(9))
        return index

    def use_index(index):
        if int(index.total) == 0:
            return
        items = index.draw(200).indices
        require(0 <= int(items.min()) <= int(items.max()) < N, "an item that is not there")
        index.set(items[:5], torch.arange(5))
        index.verify()
        index.check()

    yield OfTorch("WeightIndex on the CPU", new_index, old_index, use_index, tensors=True)


# ---- wrong ones: a campaign must notice


class Faulty(Target):
    """Loads whatever it is given, and does what its name says where the damage is in "here"."""

    kind = "faulty"

    def __init__(self, name):
        super().__init__(name)
        self.fault = name

    def honest(self):
        return {"here": 1, "there": 1}

    def damage(self, state, rng):
        return damaged(state, rng)

    def attempt(self, state):
        if is_exactly(state.get("here"), 1):
            return "harmless"
        if self.fault == "crashed":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.fault == "hung":
            time.sleep(1000)
        if self.fault == "memory":
            np.ones(2**23)
        if self.fault == "harm":
            raise Harm("it did harm")
        raise KeyError("here")


# ---- all of them

BLIND = ("bytes", "members")
BY_COLUMNS = ("train", "breast_cancer", "--l1-ratio", "1", "--alpha", "0.01")


def all_targets(only=()):
    """Every target, or those whose name contains one of some words."""
    if "faulty" in str(only):
        return [Faulty(name) for name in FAULTS if any(name in word for word in only)]
    os.environ.setdefault("TOMBOLA_QUIET", "1")
    from test_damaged import RUNS

    found = [OfSampler(name) for name in SAMPLERS]
    found += [SamplerFile(name) for name in ("VRB", "GroupVRB", "Static", "FTRL")]
    found += [DrawFile("Draw")]
    found += [SamplerFile(name, how) for name in ("VRB", "GroupVRB") for how in BLIND]
    found += [ResultFile(name) for name in RUNS]
    found += [ResultFile(name, how) for name in ("dual", "lazy") for how in BLIND]
    found += [OfRun("state of a fit", "state/0.npz")]
    found += [OfRun("state of a fit", "state/0.npz", how) for how in BLIND]
    found += [OfRun("fit", "state/0.npz", "fields", ())]
    found += [OfRun("state by columns", "state/0.npz", how, (), BY_COLUMNS)
              for how in ("fields", *BLIND)]  # fmt: skip
    found += [OfRun("record", "run.json", "bytes"), OfRecord("record", "run.json")]
    found += [OfReport("page", "run.json"), OfReport("page", "trace.csv", "bytes")]
    found += [OfModel(task) for task in ("classification", "regression", "clustering")]
    found += [OfModel("classification", how) for how in BLIND]
    if find_spec("dask"):
        found += [OfDask("driver", "fit.npz"), OfDask("driver, hinge", "fit.npz", loss="hinge")]
        found += [OfDask("driver", "fit.npz", how) for how in BLIND]
        found += [OfDask("duals", "duals-3-1.npz"), OfDask("duals", "duals-3-1.npz", "members")]
    others = {target.kind for target in found}
    if not only or any(word.split(":")[0] not in others for word in only):
        from fuzz_torch_targets import targets  # slow

        found += [*(known := list(torch_targets())), *targets(known)]
    return [target for target in found if not only or any(word in target.name for word in only)]
