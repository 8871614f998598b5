"""Loggers are functions (name, value, step); adapters call what their tools document."""

import warnings

import pytest
import torch
from torch.utils.data import TensorDataset

from tombola.torch import ImportanceLoader, loggers

NAMES = [
    "second_moment_ratio",
    "ratio_low",
    "ratio_high",
    "ratio_worst",
    "adaptive",
    "time_share",
    "lag",
    "most_drawn_share",
]


def trained():
    x = torch.arange(200.0)
    loader = ImportanceLoader(TensorDataset(x), 20, lag=0)
    for _ in range(10):
        for (x,), draw in loader:
            loader.update(draw, x**2)
    return loader


def test_what_is_logged():
    loader, told = trained(), {}
    loader.log(lambda name, value, step: told.update({name: (value, step)}), 17)
    assert list(told) == [f"tombola/{name}" for name in NAMES]
    assert all(type(value) is float and step == 17 for value, step in told.values())
    values = {name.removeprefix("tombola/"): value for name, (value, _) in told.items()}
    gauge = loader.sampler.gauge
    assert values["second_moment_ratio"] == gauge.second_moment_ratio
    assert (values["ratio_low"], values["ratio_high"]) == gauge.interval()
    assert values["ratio_worst"] == gauge.worst()
    assert (values["adaptive"], values["lag"]) == (1.0, 0.0)
    top = sum(count for _, count in loader.most_drawn(2))  # a hundredth of the items
    assert values["most_drawn_share"] == top / 2000


def test_before_any_feedback_there_is_no_ratio():
    told = []
    loader = ImportanceLoader(TensorDataset(torch.arange(200.0)), 20)
    loader.log(lambda name, value, step: told.append(name), 0)
    assert "tombola/second_moment_ratio" not in told
    assert "tombola/lag" in told


def test_tensorboard(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        tensorboard = pytest.importorskip("torch.utils.tensorboard")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    with tensorboard.SummaryWriter(tmp_path) as writer:
        trained().log(loggers.tensorboard(writer), 17)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert sorted(events.Tags()["scalars"]) == sorted(f"tombola/{name}" for name in NAMES)
    assert events.Scalars("tombola/lag")[0].step == 17


def test_weights_and_biases_and_mlflow():
    """Stand-ins with the signatures that these document."""

    class Run:
        def __init__(self):
            self.kept = {}

        def log(self, data, step=None, commit=None):
            self.kept.setdefault(step, {}).update(data)

    class Module:
        def __init__(self):
            self.kept = []

        def log_metric(self, key, value, step=None, synchronous=None):
            self.kept.append((key, float(value), step))

    run, module = Run(), Module()
    trained().log(loggers.wandb(run), 17)
    assert sorted(run.kept[17]) == sorted(f"tombola/{name}" for name in NAMES)
    trained().log(loggers.mlflow(module), 3)
    assert [key for key, _, step in module.kept if step == 3] == [f"tombola/{n}" for n in NAMES]
