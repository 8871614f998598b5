"""The recipes for plain DDP, Lightning, Accelerate and Hugging Face's Trainer, and their page.

Each is an example that is run here as it stands. That it trains is not enough: the distribution
must have moved, and within the epoch, since a framework that draws an epoch in advance, or by a
sampler of its own, trains as well. Then what happens to those who do it the naive way.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from tombola.torch import ImportanceLoader, ImportanceSampler, Numbered

# What frameworks warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
ADAPTED = 0.25  # share of the rare class, 0.02 of the items and at first 0.08 of the draws
DATA = TensorDataset(torch.arange(640.0), torch.arange(640) % 2)


def example(name):
    """Import an example."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn_share(loader):
    """The share of all draws so far that were of the rare class, each fiftieth item."""
    counts = dict(loader.most_drawn(loader.n))
    return sum(counts[item] for item in range(0, loader.n, 50)) / sum(counts.values())


def assert_it_adapted_within_the_first_epoch(loader):
    """An epoch that is drawn in advance has 9% of the rare class, see below; shuffled, 2%."""
    assert loader.epoch == 1
    assert drawn_share(loader) > ADAPTED
    assert loader.sampler.probabilities()[::50].sum() > ADAPTED
    assert loader.sampler.gauge.count == loader.n - last_two(loader)
    assert loader.sampler.gauge.second_moment_ratio < 0.5
    assert loader.sampler.mode == "adaptive"


def last_two(loader):
    """The items of the last two batches, whose losses are not due at a lag of one."""
    size = loader.batch_size
    return size + (loader.n % size or size)


def run(*command, processes=1, timeout=300, cwd=ROOT):
    """Run an example in processes of its own; return what it printed."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    ended = subprocess.run(
        [sys.executable, *(torchrun if processes > 1 else []), *map(str, command)],
        check=False, capture_output=True, text=True, timeout=timeout,
        cwd=cwd, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
    )  # fmt: skip
    assert ended.returncode == 0, f"exit status {ended.returncode}\n{ended.stderr}"
    return ended.stdout


def bare(lag=1):
    """A sampler, and a plain loader built with it."""
    sampler, numbered = ImportanceSampler(len(DATA), 16, lag=lag), Numbered(DATA)
    return sampler, DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate)


# --- plain DDP -------------------------------------------------------------------------------


def test_the_ddp_example_in_one_process():
    ddp = example("torch_ddp")
    _, loader = ddp.train(63)
    assert_it_adapted_within_the_first_epoch(loader)


def test_without_feedback_nothing_moves(monkeypatch):
    """Else the comparison would prove nothing."""
    monkeypatch.setattr(ImportanceLoader, "update", lambda self, draw, losses: None)
    _, loader = example("torch_ddp").train(63)
    assert drawn_share(loader) < 0.1
    assert loader.sampler.probabilities()[::50].sum() < 0.1


def test_the_ddp_example_resumed_in_the_middle_of_an_epoch(tmp_path):
    ddp = example("torch_ddp")
    model, loader = ddp.train(100)
    ddp.train(80, tmp_path / "checkpoint")
    model_again, loader_again = ddp.train(100, tmp_path / "checkpoint")
    assert ddp.state_hash(loader_again) == ddp.state_hash(loader)
    for one, other in zip(model.parameters(), model_again.parameters(), strict=True):
        assert torch.equal(one, other)


SAME = r"sampler state on (\d) processes: the same, (\w{16})"


WATCHED = """
import pathlib, runpy, sys

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
threads = pathlib.Path("/proc/self/task").glob("*/comm")
print("threads:", *[path.read_text().strip() for path in threads])
"""


@pytest.mark.slow
def test_the_ddp_example_under_torchrun(tmp_path):
    """No thread of gloo may be left: one that releases a tensor at exit aborts the interpreter."""
    watched = tmp_path / "watched.py"
    watched.write_text(WATCHED)
    printed = run(watched, "examples/torch_ddp.py", "--steps", "40", processes=2)
    assert re.search(SAME, printed)[1] == "2"
    assert "adaptive" in printed
    assert printed.count("threads:") == 2
    assert "gloo" not in printed


@pytest.mark.slow
def test_the_ddp_example_resumed_under_torchrun(tmp_path):
    file = tmp_path / "checkpoint"
    straight = run("examples/torch_ddp.py", "--steps", "150", processes=2)
    run("examples/torch_ddp.py", "--steps", "80", "--checkpoint", file, processes=2)
    resumed = run("examples/torch_ddp.py", "--steps", "150", "--checkpoint", file, processes=2)
    assert re.search(SAME, resumed)[2] == re.search(SAME, straight)[2]
    alone = run("examples/torch_ddp.py", "--steps", "200", "--checkpoint", file)
    assert re.search(SAME, alone)[1] == "1"
    assert f"{3 * 4000 + 11 * 64 - 2 * 64} losses" in alone  # three epochs, 11 steps; two not due


# --- Accelerate ------------------------------------------------------------------------------


def test_the_accelerate_example(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    recipe = example("torch_accelerate")
    loader = recipe.train(accelerate.Accelerator(cpu=True), 1, tmp_path / "kept")
    assert_it_adapted_within_the_first_epoch(loader)

    # resumed between epochs
    resumed = recipe.train(accelerate.Accelerator(cpu=True), 2, tmp_path / "kept")
    straight = recipe.train(accelerate.Accelerator(cpu=True), 2)
    assert resumed.most_drawn(resumed.n) == straight.most_drawn(straight.n)
    assert straight.epoch == 2

    # handed to prepare(), the loader comes back as it is
    loader = ImportanceLoader(DATA, 16)
    assert accelerate.Accelerator(cpu=True).prepare(loader) is loader
    with pytest.raises(AttributeError, match="leave the loader out of prepare"):
        accelerate.Accelerator(cpu=True).prepare_data_loader(loader)
    with pytest.raises(AttributeError, match="Resume by load_state_dict"):
        accelerate.skip_first_batches(loader, 3)


def test_the_bare_sampler_under_accelerate():
    """Its loader may go through prepare(), which draws one batch ahead, in one process only."""
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    sampler, loader = bare(lag=1)
    for (x, _), draw in sampler.batches(accelerator.prepare(loader)):
        assert x.tolist() == draw.indices.tolist()
        sampler.update(draw, x)
    assert sampler.sampler.gauge.count == 640 - 32
    sampler, loader = bare(lag=0)
    with pytest.raises(RuntimeError, match="Declare a larger lag"):
        list(sampler.batches(accelerator.prepare(loader)))
    for lag in (1, 1000):
        sampler, loader = bare(lag)
        with pytest.raises(RuntimeError, match=r"iterate over sampler.batches\(loader\)"):
            next(iter(accelerator.prepare(loader)))
        sampler, loader = bare(lag)
        halved = accelerate.data_loader.prepare_data_loader(
            loader, num_processes=2, process_index=0
        )
        with pytest.raises(TypeError, match="the loader draws by a BatchSamplerShard, not by"):
            next(sampler.batches(halved))


@pytest.mark.slow
def test_the_accelerate_example_in_two_processes():
    pytest.importorskip("accelerate")
    printed = run("examples/torch_accelerate.py", "--epochs", "2", processes=2)
    assert printed.startswith("2 processes: Gauge(")
    assert "7904 losses, adaptive" in printed


# --- Lightning -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_lightning_example(tmp_path):
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.callbacks import ModelCheckpoint

    recipe = example("torch_lightning")
    _, model = recipe.train(1, enable_checkpointing=False)
    assert_it_adapted_within_the_first_epoch(model.loader)

    # resumed in the middle of an epoch, after its last batch, and at its end
    straight, model = recipe.train(3, enable_checkpointing=False)
    drawn = model.loader.most_drawn(model.loader.n)
    steps = len(model.loader)
    for name, when in [
        ("middle", {"every_n_train_steps": steps + 20}),
        ("last", {"every_n_train_steps": steps}),
        ("end", {"every_n_epochs": 1}),
    ]:
        recipe.train(2, callbacks=[ModelCheckpoint(tmp_path / name, save_top_k=-1, **when)])
        for file in (tmp_path / name).iterdir():
            resumed, model = recipe.train(3, checkpoint=file, enable_checkpointing=False)
            assert resumed.global_step == straight.global_step
            assert model.loader.most_drawn(model.loader.n) == drawn

    # asked for again each epoch, the loader is the same and forgets nothing
    _, model = recipe.train(3, enable_checkpointing=False, reload_dataloaders_every_n_epochs=1)
    assert model.loader.most_drawn(model.loader.n) == drawn

    # the draw goes to the device with its batch
    batch, draw = next(iter(ImportanceLoader(DATA, 16)))
    moved = lightning.fabric.utilities.move_data_to_device((batch, draw), torch.device("meta"))
    assert moved[1].importances.device.type == "meta"

    # the naive way: a DataLoader with the bare sampler
    for lag in (1, 1000):
        model = recipe.Classifier()
        trainer = lightning.Trainer(
            max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False
        )
        with pytest.raises(RuntimeError, match="needs an ImportanceLoader"):
            trainer.fit(model, bare(lag)[1])


@pytest.mark.slow
def test_the_lightning_example_without_a_loader_or_its_state():
    """As with `Trainer.validate`, and with checkpoints of a run before tombola."""
    pytest.importorskip("lightning")
    model, checkpoint = example("torch_lightning").Classifier(), {}
    model.on_save_checkpoint(checkpoint)
    assert checkpoint == {}
    model.on_load_checkpoint(checkpoint)
    assert model.kept is None


@pytest.mark.slow
def test_the_lightning_example_in_two_processes():
    pytest.importorskip("lightning")
    printed = run("examples/torch_lightning.py", "--epochs", "2", "--devices", "2")
    gauges = dict(re.findall(r"process (\d): (Gauge\(.*\))", printed))
    assert set(gauges) == {"0", "1"}
    assert gauges["0"] == gauges["1"]
    assert "7904 losses, adaptive" in gauges["0"]


NAIVE = """
import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from tombola.torch import ImportanceLoader, ImportanceSampler, Numbered

data = TensorDataset(torch.rand(640, 3))


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, batch_index):
        return self.layer(batch[-1]).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        sampler, numbered = ImportanceSampler(len(data), 16), Numbered(data)
        return DataLoader(numbered, batch_sampler=sampler, collate_fn=numbered.collate)


loader = ImportanceLoader(data, 16) if sys.argv[1] == "made before fit" else None
lightning.Trainer(
    max_epochs=1, devices=2, strategy="ddp", accelerator="cpu", logger=False,
    enable_checkpointing=False, enable_progress_bar=False,
).fit(Module(), loader)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("bare", r"n is a DistributedSampler: a framework tries to draw in place of this sampler"),
        ("made before fit", r"Lightning: make the loader in train_dataloader"),
    ],
)
def test_the_naive_way_under_lightning_with_two_processes(kind, message, tmp_path):
    pytest.importorskip("lightning")
    script = tmp_path / "naive.py"
    script.write_text(NAIVE)
    with pytest.raises(AssertionError, match=message):
        run(script, kind)


# --- Hugging Face's Trainer ------------------------------------------------------------------


@pytest.mark.slow
def test_the_trainer_example(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    # it takes our tests/datasets, which pytest has put on the path, for Hugging Face's package
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    recipe = example("torch_trainer")
    trainer = recipe.train(tmp_path / "plain", 1, save_strategy="no")
    assert_it_adapted_within_the_first_epoch(trainer.loader)
    assert trainer.evaluate()["eval_loss"] < 0.15  # without draws, by the model itself

    # resumed in the middle of an epoch and at its end
    straight = recipe.train(tmp_path / "straight", 2, save_strategy="no")
    drawn = straight.loader.most_drawn(straight.loader.n)
    for when in ({"save_strategy": "steps", "save_steps": 50}, {"save_strategy": "epoch"}):
        folder = tmp_path / when["save_strategy"]
        recipe.train(folder, 2, **when)
        files = list(folder.iterdir())
        assert len(files) >= 2
        for file in files:
            resumed = recipe.train(folder, 2, resume=file, **when)
            assert resumed.state.global_step == straight.state.global_step
            assert resumed.loader.most_drawn(resumed.loader.n) == drawn

    # batches of two accumulation steps are taken before either is answered
    trainer = recipe.train(tmp_path, 2, save_strategy="no", gradient_accumulation_steps=2)
    assert drawn_share(trainer.loader) > ADAPTED

    # the naive ways
    arguments = transformers.TrainingArguments(
        tmp_path / "epoch", num_train_epochs=3, per_device_train_batch_size=64, use_cpu=True,
        save_strategy="epoch", report_to=[], disable_tqdm=True,
    )  # fmt: skip
    points = recipe.Points()
    skipping = recipe.ImportanceTrainer(recipe.Classifier(), arguments, train_dataset=points)
    skipping.remove_callback(recipe.KeepLoader)
    middle = next(tmp_path.glob("steps/checkpoint-50"))
    with pytest.raises(AttributeError, match="under ignore_data_skip=True"):
        skipping.train(resume_from_checkpoint=middle)

    class Sampling(transformers.Trainer):
        def _get_train_sampler(self, *dataset):
            return ImportanceSampler(len(points), 64, lag=1000)

    sampling = Sampling(recipe.Classifier(), arguments, train_dataset=points)
    with pytest.raises(RuntimeError, match="needs an ImportanceLoader"):
        sampling.train()
    plain = transformers.Trainer(recipe.Classifier(), arguments, train_dataset=Numbered(points))
    with pytest.raises(TypeError, match="something else has drawn them"):
        plain.train()


@pytest.mark.slow
def test_the_trainer_example_resumed_from_another_folder(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    recipe = example("torch_trainer")
    straight = recipe.train(tmp_path / "straight", 2, save_strategy="steps", save_steps=50, seed=3)
    assert straight.loader.sampler.parameters["seed"] == 3
    copy = shutil.copytree(tmp_path / "straight" / "checkpoint-50", tmp_path / "copies" / "best")
    resumed = recipe.train(tmp_path / "new", 2, resume=copy, save_strategy="no", seed=3)
    n = straight.loader.n
    assert resumed.loader.most_drawn(n) == straight.loader.most_drawn(n)
    last = recipe.train(tmp_path / "straight", 3, resume=True, save_strategy="no", seed=3)
    assert last.loader.epoch == 3


@pytest.mark.slow
def test_the_trainer_example_in_two_processes():
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    printed = run("examples/torch_trainer.py", "--epochs", "2", processes=2)
    assert len(re.findall("Gauge", printed)) == 1
    assert "7904 losses, adaptive" in printed


# --- weighted draws --------------------------------------------------------------------------

FETCHED = """
import os, pathlib, sys
from torch.utils.data._utils.fetch import _MapDatasetFetcher

fetched, fetch = [], _MapDatasetFetcher.fetch
_MapDatasetFetcher.fetch = lambda self, items: (fetched.extend(items), fetch(self, items))[1]
exec(compile(pathlib.Path(sys.argv[1]).read_text(), sys.argv[1], "exec"))
rank = os.environ.get("LOCAL_RANK", "0")
pathlib.Path(f"{sys.argv[1]}.{rank}").write_text(" ".join(map(str, fetched)))
"""


def arrived(program, folder, torchrun):
    """What a program has read from its data set in each of two processes."""
    (folder / "fetched.py").write_text(FETCHED)
    (folder / "program.py").write_text(program)
    run(folder / "fetched.py", folder / "program.py", processes=2 if torchrun else 1, cwd=folder)
    parts = [(folder / f"program.py.{rank}").read_text().split() for rank in range(2)]
    return [list(map(int, part)) for part in parts]


def weighted_program(heading):
    """The program below a heading of the page."""
    section = (ROOT / "docs" / "recipes.md").read_text().split(f"### {heading}\n")[1]
    return re.search(r"```\n(.*?)```", section, flags=re.DOTALL)[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "heading"),
    [
        ("lightning", "Lightning"),
        ("accelerate", "Accelerate"),
        ("transformers", "Hugging Face's Trainer"),
    ],
)
def test_all_weighted_draws_arrive_in_two_processes(framework, heading, tmp_path):
    pytest.importorskip(framework)
    parts = arrived(weighted_program(heading), tmp_path, torchrun=framework != "lightning")
    assert [len(part) for part in parts] == [50, 50]
    assert sorted(parts[0] + parts[1]) == list(range(100))


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", [False, True])
def test_weighted_draws_that_accelerate_would_drop_are_an_error(dispatch, tmp_path):
    pytest.importorskip("accelerate")
    program = weighted_program("Accelerate")
    naive = program.replace("    num_replicas=1,\n    rank=0,\n", "")
    assert naive != program
    if dispatch:  # one process draws for all
        configured = "cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=True)"
        naive = "from accelerate.utils import DataLoaderConfiguration\n" + naive.replace(
            "cpu=True", configured, 1
        )
    with pytest.raises(AssertionError, match=r"divides the draws .* pass it num_replicas=1, rank"):
        arrived(naive, tmp_path, torchrun=True)


# --- the page --------------------------------------------------------------------------------


def test_the_snippets_of_the_page_run(tmp_path, monkeypatch):
    """One after the other, as a reader would type them."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "pytorch.md").read_text()
    snippets = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(snippets) >= 5
    assert "draw.mean(losses).backward()" in snippets[0]
    names = {}
    for snippet in snippets:
        exec(snippet, names)
    assert names["loader"].sampler.gauge.count > 0


def test_the_page_names_files_that_are_there():
    text = (ROOT / "docs" / "pytorch.md").read_text()
    links = re.findall(r"\]\((\.\.?/[^)#]+)\)", text)
    assert len(links) >= 5
    for link in links:
        assert (ROOT / "docs" / link).exists()
