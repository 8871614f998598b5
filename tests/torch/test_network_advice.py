"""Advice about a network: second moments against autograd, what is fed, and what is refused."""

import functools
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import TensorDataset

import tombola.advice
from tombola.advice import NetworkMethod, Signal
from tombola.advice.network_verdict import decide

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_advice.py"
each = functools.partial(cross_entropy, reduction="none")


@pytest.fixture(autouse=True)
def one_thread():
    """Small batches on several threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def data(n=120):
    y = (torch.arange(n) % 20 == 0).long()
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0)) + 2.0 * y[:, None]
    return TensorDataset(x, y)


def advise(model=None, dataset=None, loss=each, **options):
    dataset = data() if dataset is None else dataset
    model = torch.nn.Linear(3, 2) if model is None else model
    options = {"steps": 10, "seeds": 1, "batch_size": 8, **options}
    return tombola.advice.network(model, dataset, loss, **options)


def test_what_is_possible_is_exact_at_a_model_that_stands_still():
    torch.manual_seed(1)
    model, dataset = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(),
                                         torch.nn.Linear(4, 2)), data()  # fmt: skip
    still = functools.partial(torch.optim.SGD, lr=0.0)
    advice = advise(model, dataset, groups=dataset.tensors[1], optimizer=still)
    norms, last, losses = [], [], []
    for x, y in zip(*dataset.tensors, strict=True):
        outputs = model(x[None])
        loss = cross_entropy(outputs, y[None])
        gradients = torch.autograd.grad(loss, [outputs, *model.parameters()])
        last.append(float(gradients[0].norm()))
        norms.append(math.sqrt(sum(float((g**2).sum()) for g in gradients[1:])))
        losses.append(loss.item())
    norms, y = np.array(norms), dataset.tensors[1].numpy()
    n, uniform = len(norms), len(norms) * (norms**2).sum()

    def moment(p):
        return (norms**2 / p).sum() / uniform

    found = {signal.name: signal.second_moment for signal in advice.possible}
    assert found["gradient norms"] == pytest.approx(moment(norms / norms.sum()), rel=1e-4)
    for name, signal in (("losses", losses), ("last-layer norms", last)):
        p = 0.9 * np.array(signal) / sum(signal) + 0.1 / n
        assert found[name] == pytest.approx(moment(p), rel=1e-4)
        assert found[name] >= found["gradient norms"]
    shares = np.linspace(0, 1, 10_001)[1:-1]
    sides = [np.where(y == 1, q / y.sum(), (1 - q) / (1 - y).sum()) for q in shares[::10]]
    assert found["the best of each group, all alike in it"] == pytest.approx(
        min(moment(p) for p in sides), rel=1e-3
    )


def test_it_repeats_and_leaves_model_and_generator_alone():
    torch.manual_seed(2)
    model = torch.nn.Linear(3, 2)
    before, state = [p.clone() for p in model.parameters()], torch.get_rng_state()
    first, again = advise(model), advise(model)
    assert first.possible == again.possible
    assert [m.steps for m in first.methods] == [m.steps for m in again.methods]
    assert [m.second_moment for m in first.methods] == [m.second_moment for m in again.methods]
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())
    assert first.labels_help is None
    assert {m.sampler for m in first.methods} == {"shuffle", "vrb"}
    assert first.methods[0].second_moment == pytest.approx(1.0)
    for m in first.methods:
        assert 0 < m.ideal <= m.second_moment * (1 + 1e-9)
        assert 0 < m.draw_ms < m.step_ms


def decided(vrb, group, ideal=0.1, feed="losses"):
    methods = [NetworkMethod("shuffle", "", 1.0, 0.1, [100.0], 1.0, 0.1, 1.0)]
    for name in ("losses", "last-layer norms", "gradient norms"):
        ratios = (vrb, group) if name == feed else (math.inf, math.inf)
        methods += [
            NetworkMethod(sampler, name, 0.3, 0.1, [100.0 * ratio], 1.0, 0.1, ratio)
            for sampler, ratio in zip(("vrb", "group-vrb"), ratios, strict=True)
        ]
    return decide([Signal("gradient norms", ideal)], methods, 100, 100, 8, 100, 1, True)


@pytest.mark.parametrize(
    ("vrb", "group", "stay", "labels"),
    [
        (0.5, 0.5, False, False),
        (0.79, 0.70, False, False),
        (0.81, 0.7, True, False),  # level with each other, and too close to shuffling
        (0.9, 0.5, False, True),
        (math.inf, 0.5, False, True),
        (math.inf, math.inf, True, False),
        (2.0, 0.9, True, True),
    ],
)
def test_it_pays_only_beyond_the_margin(vrb, group, stay, labels):
    for feed in ("losses", "gradient norms"):
        advice = decided(vrb, group, feed=feed)
        assert (advice.stay, advice.labels_help) == (stay, labels)
        assert advice.feed == (None if stay else feed)
        assert bool(advice.code) == (not stay)
        assert advice.headline in str(advice)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": cross_entropy}, "reduction='none'"),
        ({"groups": [1, 2]}, r"groups must have shape \(120,\)"),
        ({"steps": 3}, "steps must be at least 10"),
    ],
)
def test_bad_input_is_named(options, words):
    with pytest.raises(ValueError, match=words):
        advise(**options)


def test_regressions_too():
    x = torch.randn(60, 3)
    dataset = TensorDataset(x, x.sum(dim=1, keepdim=True))

    def loss(outputs, targets):
        return mse_loss(outputs, targets, reduction="none").mean(dim=1)

    advice = advise(torch.nn.Linear(3, 1), dataset, loss)
    assert len(advice.methods) == 4


def test_the_example_runs(capsys):
    spec = importlib.util.spec_from_file_location("torch_advice", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    advice = module.main(steps=20, seeds=1)
    assert advice.headline in capsys.readouterr().out
    assert {m.sampler for m in advice.methods} == {"shuffle", "vrb", "group-vrb"}
    ideal = advice.possible[-1]
    assert ideal.name == "gradient norms"
    assert ideal.second_moment < 0.8
