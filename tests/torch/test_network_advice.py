"""Advice about a network: second moments against autograd, what is raced, and what is refused."""

import functools
import importlib.util
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import TensorDataset

import tombola.advice
from tombola.advice import Pair, decide
from tombola.advice.network import contradicts
from tombola.advice.render import MOST

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
    options = {"steps": 24, "seeds": 2, "batch_size": 8, "groups": None, **options}
    return tombola.advice.network(model, dataset, loss, **options)


def test_what_is_possible_is_exact_at_a_model_that_stands_still():
    torch.manual_seed(1)
    model, dataset = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(),
                                         torch.nn.Linear(4, 2)), data()  # fmt: skip
    labels = dataset.tensors[1]
    still = functools.partial(torch.optim.SGD, lr=0.0)
    advice = advise(model, dataset, groups=labels, optimizer=still, validation=dataset)
    norms, last, losses = [], [], []
    for x, y in zip(*dataset.tensors, strict=True):
        outputs = model(x[None])
        loss = cross_entropy(outputs, y[None])
        gradients = torch.autograd.grad(loss, [outputs, *model.parameters()])
        last.append(float(gradients[0].norm()))
        norms.append(math.sqrt(sum(float((g**2).sum()) for g in gradients[1:])))
        losses.append(loss.item())
    norms, y = np.array(norms), labels.numpy()
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
    assert found["the best for each group, equal within it"] == pytest.approx(
        min(moment(p) for p in sides), rel=1e-3
    )
    assert advice.stay  # nothing moves, so nothing is faster
    assert all(pair.steps_ratio == pytest.approx(1.0) for pair in advice.pairs)


def test_it_repeats_and_leaves_model_and_generator_alone():
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2))
    before, state = [p.clone() for p in model.parameters()], torch.get_rng_state()
    first, again = advise(model), advise(model)
    assert first.possible == again.possible
    # times have a part in whether there are more than two seeds
    for a, b in zip(first.curves, again.curves, strict=False):
        assert (a.name, a.rate, a.seed, a.looks) == (b.name, b.rate, b.seed, b.looks)
    for a, b in zip(first.pairs, again.pairs, strict=False):
        assert (a.seed, a.steps_ratio, a.loss) == (b.seed, b.steps_ratio, b.loss)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())
    assert {c.name for c in first.curves} == {
        "shuffle", "vrb fed with losses", "vrb fed with last-layer norms",
        "epoch-vrb fed with losses",
    }  # fmt: skip


def test_every_figure_printed_follows_from_the_rows_printed_beside_it(tmp_path):
    advice = advise(groups="auto", seeds=3)
    lines = str(advice).split("\n")
    assert len(lines) <= MOST
    top = next(k for k, line in enumerate(lines) if line.startswith("  seed  times as long"))
    shown = lines[top + 1 : top + 1 + len(advice.pairs)]
    rows = [[float(word) for word in line.split()] for line in shown]
    assert 3 <= len(rows) <= 9
    for _, ratio, steps, mine, shuffled, *_ in rows:
        assert ratio == pytest.approx(steps * mine / shuffled, rel=2e-3)
    again = decide([row[1] for row in rows])
    said = re.search(r"([\d.]+) \[([\d.]+), ([\d.]+)\]", advice.headline)
    assert [float(word) for word in said.groups()] == pytest.approx(
        [again.ratio, again.low, again.high], rel=5e-3, abs=0.006
    )
    losses = re.search(r"loss ([\d.]+), ([\d.]+) with", " ".join(lines))
    assert [float(word) for word in losses.groups()] == pytest.approx(
        [np.mean([row[5] for row in rows]), np.mean([row[6] for row in rows])], rel=1e-3
    )
    advice.save(tmp_path / "advice.html")
    text = (tmp_path / "advice.html").read_text(encoding="utf-8")
    assert all(f"{pair.time_ratio:.4g}" in text for pair in advice.pairs)
    assert text.count("<svg") == 1


def pairs(*differences):
    return [Pair(k, 0.5, 1.0, 1.0, 0.5, 1.0, 1.0, it, 0.0) for k, it in enumerate(differences)]


@pytest.mark.parametrize(
    ("pays", "differences", "contrary"),
    [
        (True, (-0.10, -0.11, -0.12), True),
        (True, (-0.10, 0.11, -0.12), False),  # the score does not know
        (True, (0.10, 0.11, 0.12), False),
        (False, (0.10, 0.11, 0.12), True),
        (False, (0.0, 0.0, 0.0), False),
        (None, (0.10, 0.11, 0.12), False),
    ],
)
def test_a_score_that_says_the_contrary_is_heard(pays, differences, contrary):
    assert contradicts(pays, pairs(*differences)) is contrary


def test_scores_are_shown_and_fewer_steps_than_an_epoch_decide_nothing():
    def accuracy(outputs, targets):
        return float((outputs.argmax(dim=1) == targets).float().mean())

    advice = advise(score=accuracy, batch_size=2)
    assert advice.steps < advice.items / 2
    assert advice.verdict.pays is None
    assert "an epoch 48" in advice.headline
    assert all(0 <= pair.score <= 1 for pair in advice.pairs)
    assert "score" in str(advice)


@pytest.mark.filterwarnings("ignore:gradient_norms has no rule")
def test_it_ends_within_its_budget():
    class Slow(torch.nn.Linear):
        def forward(self, x):
            time.sleep(0.01)
            return super().forward(x)

    advise(seeds=2)  # compiles
    began = time.perf_counter()
    advice = advise(Slow(3, 2), steps=None, budget=3.0)
    assert time.perf_counter() - began < 6.0  # the looks of its last runs, and what is possible
    assert advice.steps < 480
    assert str(advice)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": cross_entropy}, "reduction='none'"),
        ({"groups": [1, 2]}, r"groups must have shape \(120,\)"),
        ({"steps": 3}, "steps must be at least 24"),
        ({"seeds": 1}, "seeds must be at least 2"),
        ({"budget": 0.0}, "budget must be positive"),
        ({"rates": (1.0, 0.0)}, "rates must be positive"),
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

    assert len(advise(torch.nn.Linear(3, 1), dataset, loss).pairs) >= 2


def test_the_example_finds_that_groups_are_faster_to_the_same_losses(capsys):
    """Digits with rare eights, by steps: what they cost depends on the machine."""
    spec = importlib.util.spec_from_file_location("torch_advice", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    advice = module.main(steps=480, seeds=2)
    assert advice.headline.split(":")[0] in " ".join(capsys.readouterr().out.split())
    assert advice.sampler == "group-vrb"
    assert all(pair.steps_ratio < 0.9 for pair in advice.pairs)
    assert all(pair.loss < pair.shuffle_loss for pair in advice.pairs)
    assert advice.possible[-1].second_moment < 0.8
