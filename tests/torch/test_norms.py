"""Norms against the plain definition: one gradient for each example, by vmap, in float64."""

import copy
import gc

import numpy as np
import pytest

pytest.importorskip("torch.nn", reason="needs torch")

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import TensorDataset

import tombola
from tombola.torch import ImportanceLoader, gradient_norms, last_layer_norms
from tombola.torch.norms.rules import ROOM

BATCH = 6
CLOSE = {"rtol": 1e-5, "atol": 0.0}


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def uneven(n=BATCH):
    """A draw of n items, with importances from 1/4 to 4."""
    probabilities = 2.0 ** np.linspace(-2, 2, n) / (10 * n)
    return tombola.Draw(np.arange(n), probabilities, n=10 * n)


def weighted_mean(draw, losses):
    return (torch.tensor(draw.importances, dtype=torch.float32) * losses).mean()


def curved(outputs, targets):
    """A loss of each example, whatever the shape of the outputs."""
    return (outputs.flatten(1) - targets.flatten(1)).square().sum(1)


def crossed(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


def by_vmap(model, x, y, losses_of, names=None):
    """Each example's gradient norm over the trainable parameters, in float64."""
    model = copy.deepcopy(model).double()
    x, y = (t.double() if t.is_floating_point() else t for t in (x, y))
    parameters = dict(model.named_parameters())
    free = {
        name: p.detach()
        for name, p in parameters.items()
        if p.requires_grad and (names is None or name in names)
    }
    fixed = {name: p.detach() for name, p in parameters.items() if name not in free}

    def loss(free, x, y):
        return losses_of(functional_call(model, {**fixed, **free}, x[None]), y[None])[0]

    gradients = vmap(grad(loss), in_dims=(None, 0, 0))(free, x, y)
    return sum(g.flatten(1).square().sum(1) for g in gradients.values()).sqrt().float()


def by_hooks(model, x, y, losses_of, scale=1.0):
    draw = uneven(len(x))
    with gradient_norms(model) as norms:
        (scale * weighted_mean(draw, losses_of(model(x), y))).backward()
    return norms.of(draw, scale=scale)


def assert_right(model, x, y, losses_of=curved, names=None):
    expected = by_vmap(model, x, y, losses_of, names)
    found = by_hooks(model, x, y, losses_of)
    assert found.dtype == torch.float32
    assert found.shape == (len(x),)
    assert not found.requires_grad
    assert expected.min() > 0
    assert expected.max() / expected.min() > 1.01  # else a norm of the wrong example would pass
    torch.testing.assert_close(found, expected, **CLOSE)


def images(channels=4, *sides):
    return torch.randn(BATCH, channels, *sides)


TOKENS = torch.tensor(
    [[1, 2, 2, 0], [3, 3, 3, 3], [0, 1, 2, 3], [4, 4, 0, 0], [1, 5, 1, 5], [6, 0, 6, 6]]
)
EVEN = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")

LAYERS = {
    "Linear": (lambda: nn.Linear(5, 7), lambda: torch.randn(BATCH, 5)),
    "Linear without bias": (lambda: nn.Linear(5, 7, bias=False), lambda: torch.randn(BATCH, 5)),
    "Linear, few positions": (lambda: nn.Linear(20, 30), lambda: torch.randn(BATCH, 3, 20)),
    "Linear, many positions": (lambda: nn.Linear(3, 4), lambda: torch.randn(BATCH, 25, 3)),
    "Linear, two dimensions of positions": (
        lambda: nn.Linear(20, 30),
        lambda: torch.randn(BATCH, 3, 2, 20),
    ),
    "Conv1d": (lambda: nn.Conv1d(4, 6, 3), lambda: images(4, 9)),
    "Conv2d": (lambda: nn.Conv2d(4, 6, 3), lambda: images(4, 6, 7)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, (1, 2, 3)), lambda: images(2, 3, 4, 5)),
    "Conv2d without bias": (lambda: nn.Conv2d(4, 6, 3, bias=False), lambda: images(4, 6, 7)),
    "Conv2d, one position": (lambda: nn.Conv2d(4, 6, 3), lambda: images(4, 3, 3)),
    "Conv2d, few positions": (lambda: nn.Conv2d(16, 40, 3), lambda: images(16, 4, 4)),
    "Conv2d, stride": (lambda: nn.Conv2d(4, 6, 3, stride=(2, 3)), lambda: images(4, 8, 9)),
    "Conv2d, padding": (lambda: nn.Conv2d(4, 6, 3, padding=(2, 1)), lambda: images(4, 6, 7)),
    "Conv2d, dilation": (lambda: nn.Conv2d(4, 6, 3, dilation=(2, 1)), lambda: images(4, 6, 7)),
    "Conv2d, all of them": (
        lambda: nn.Conv2d(4, 6, (3, 2), stride=2, padding=(2, 1), dilation=(1, 2), groups=2),
        lambda: images(4, 7, 8),
    ),
    "Conv2d, groups": (lambda: nn.Conv2d(4, 6, 3, groups=2), lambda: images(4, 6, 7)),
    "Conv2d, groups, few positions": (
        lambda: nn.Conv2d(32, 40, 3, groups=2),
        lambda: images(32, 4, 4),
    ),
    "Conv2d, one channel a group": (lambda: nn.Conv2d(4, 8, 3, groups=4), lambda: images(4, 6, 7)),
    "Conv2d, same": (lambda: nn.Conv2d(4, 6, (3, 4), padding="same"), lambda: images(4, 6, 7)),
    "Conv2d, same, dilation": (
        lambda: nn.Conv2d(4, 6, (2, 3), padding="same", dilation=(3, 2)),
        lambda: images(4, 6, 7),
    ),
    "Conv2d, valid": (lambda: nn.Conv2d(4, 6, 3, padding="valid"), lambda: images(4, 6, 7)),
    "Conv2d, reflected": (
        lambda: nn.Conv2d(4, 6, 3, padding=(2, 1), padding_mode="reflect"),
        lambda: images(4, 6, 7),
    ),
    "Conv1d, circular": (
        lambda: nn.Conv1d(4, 6, 4, padding="same", padding_mode="circular"),
        lambda: images(4, 9),
    ),
    "Embedding": (lambda: nn.Embedding(7, 5), lambda: TOKENS),
    "Embedding, one token": (lambda: nn.Embedding(7, 5), lambda: TOKENS[:, 1]),
    "Embedding, padding": (lambda: nn.Embedding(7, 5, padding_idx=0), lambda: TOKENS),
    "LayerNorm": (lambda: nn.LayerNorm(5), lambda: torch.randn(BATCH, 5)),
    "LayerNorm, positions": (lambda: nn.LayerNorm((2, 5)), lambda: torch.randn(BATCH, 3, 2, 5)),
    "RMSNorm": (lambda: nn.RMSNorm(5, eps=0.1), lambda: torch.randn(BATCH, 3, 5)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4, eps=0.1), lambda: images(4, 6, 7)),
    "GroupNorm, no positions": (lambda: nn.GroupNorm(2, 4), lambda: torch.randn(BATCH, 4)),
}


def randomised(model):
    """Move weights away from ones and zeros, which hide mistakes."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@EVEN
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_alone(name):
    make, inputs = LAYERS[name]
    layer, x = randomised(make()), inputs()
    assert_right(layer, x, 3 * torch.randn_like(layer(x)))


@EVEN
@pytest.mark.parametrize("name", LAYERS)
def test_parts_of_the_batch_one_after_another_give_the_same(name, monkeypatch):
    make, inputs = LAYERS[name]
    layer, x = randomised(make()), inputs()
    y = 3 * torch.randn_like(layer(x))
    at_once = by_hooks(layer, x, y, curved)
    monkeypatch.setitem(ROOM, "cpu", 1)
    torch.testing.assert_close(by_hooks(layer, x, y, curved), at_once, **CLOSE)


class Attention(nn.Module):
    """A transformer's block, of layers that are called."""

    def __init__(self, width):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.three, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = self.three(self.before(x)).chunk(3, dim=-1)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v))
        return x + self.feed(self.between(x))


class Reader(nn.Module):
    """Tokens with positions, two blocks, the mean over positions, classes."""

    def __init__(self, width=8, reentrant=None):
        super().__init__()
        self.tokens, self.places = nn.Embedding(7, width, padding_idx=0), nn.Embedding(4, width)
        self.blocks = nn.ModuleList([Attention(width), Attention(width)])
        self.head = nn.Linear(width, 3)
        self.reentrant = reentrant

    def forward(self, x):
        h = self.tokens(x) + self.places(torch.arange(x.shape[1]).expand(x.shape))
        for block in self.blocks:
            if self.reentrant is None:
                h = block(h)
            else:
                h = checkpoint(block, h, use_reentrant=self.reentrant)
        return self.head(h.mean(1))


def mlp():
    return nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.ReLU(inplace=True),
        nn.Flatten(), nn.Linear(32, 3),
    )  # fmt: skip


def bag():
    return nn.Sequential(nn.Embedding(7, 5), Average(), nn.Linear(5, 3))


class Average(nn.Module):
    def forward(self, x):
        return x.mean(1)


CLASSES = torch.arange(BATCH) % 3
MODELS = {
    "MLP": (mlp, lambda: torch.randn(BATCH, 9)),
    "CNN": (cnn, lambda: images(1, 10, 10)),
    "transformer": (Reader, lambda: TOKENS),
    "bag of words": (bag, lambda: TOKENS),
}


@pytest.mark.parametrize("name", MODELS)
def test_nested_layers(name):
    make, inputs = MODELS[name]
    assert_right(make(), inputs(), CLASSES, crossed)


@pytest.mark.parametrize("name", MODELS)
def test_the_gradients_stay_as_they_are_bit_for_bit(name):
    make, inputs = MODELS[name]
    model, x = make(), inputs()
    weighted_mean(uneven(), crossed(model(x), CLASSES)).backward()
    without = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    by_hooks(model, x, CLASSES, crossed)
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), without, strict=True))


# --- importances and other factors ------------------------------------------------------------


def test_the_importances_are_divided_out():
    model, x = mlp(), torch.randn(BATCH, 9)
    draw, plain = uneven(), by_vmap(model, x, CLASSES, crossed)
    assert draw.importances.max() / draw.importances.min() > 10
    torch.testing.assert_close(by_hooks(model, x, CLASSES, crossed), plain, **CLOSE)


def test_importances_alone_will_do_as_an_array_or_a_tensor():
    model, x, draw = mlp(), torch.randn(BATCH, 9), uneven()
    for importances in (draw.importances, torch.tensor(draw.importances)):
        with gradient_norms(model) as norms:
            weighted_mean(draw, crossed(model(x), CLASSES)).backward()
        expected = by_vmap(model, x, CLASSES, crossed)
        torch.testing.assert_close(norms.of(importances), expected, **CLOSE)


def test_the_draws_of_a_loader():
    model, x = mlp(), torch.randn(10 * BATCH, 9)
    loader = ImportanceLoader(TensorDataset(x, torch.arange(len(x)) % 3), batch_size=BATCH, lag=0)
    adaptive = 0
    for _ in range(3):
        for (inputs, targets), draw in loader:
            with gradient_norms(model) as norms:
                draw.mean(crossed(model(inputs), targets)).backward()
            found = norms.of(draw)
            torch.testing.assert_close(found, by_vmap(model, inputs, targets, crossed), **CLOSE)
            loader.update(draw, found)
            adaptive += len(draw.importances.unique()) > 1
    assert adaptive > 0


@pytest.mark.parametrize("scale", [0.25, 65536.0, torch.tensor(4096.0)])
def test_a_scale_of_the_loss_is_divided_out(scale):
    model, x = mlp(), torch.randn(BATCH, 9)
    expected = by_vmap(model, x, CLASSES, crossed)
    torch.testing.assert_close(by_hooks(model, x, CLASSES, crossed, scale), expected, **CLOSE)


def test_accumulation_inside_one_block():
    model, xs, draws = mlp(), torch.randn(3, BATCH, 9), uneven(3 * BATCH).split(3)
    expected = [by_vmap(model, x, CLASSES, crossed) for x in xs]
    with gradient_norms(model) as norms:
        for x, draw, wanted in zip(xs, draws, expected, strict=True):
            (weighted_mean(draw, crossed(model(x), CLASSES)) / 3).backward()
            torch.testing.assert_close(norms.of(draw, scale=1 / 3), wanted, **CLOSE)


def test_all_forward_passes_of_an_accumulation_may_come_first():
    model, xs, draw = mlp(), torch.randn(2, BATCH, 9), uneven()
    expected = [by_vmap(model, x, CLASSES, crossed) for x in xs]
    with gradient_norms(model) as norms:
        losses = [weighted_mean(draw, crossed(model(x), CLASSES)) for x in xs]
        for loss, wanted in zip(losses, expected, strict=True):
            loss.backward()
            torch.testing.assert_close(norms.of(draw), wanted, **CLOSE)


def test_passes_without_asking_in_between_are_refused():
    model, x, draw = mlp(), torch.randn(BATCH, 9), uneven()
    with gradient_norms(model) as norms:
        weighted_mean(draw, crossed(model(x), CLASSES)).backward()
        loss = weighted_mean(draw, crossed(model(x), CLASSES))
        with pytest.raises(RuntimeError, match=r"'4'.*of\(draw\)"):
            loss.backward()
    assert norms.of(draw).shape == (BATCH,)


def test_a_grad_scaler():
    model, x, draw = mlp(), torch.randn(BATCH, 9), uneven()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with gradient_norms(model) as norms:
        scaler.scale(weighted_mean(draw, crossed(model(x), CLASSES))).backward()
    expected = by_vmap(model, x, CLASSES, crossed)
    torch.testing.assert_close(norms.of(draw, scale=scaler.get_scale()), expected, **CLOSE)


def test_a_scale_that_overflows_is_left_out_of_the_feedback():
    x, y = 20 * torch.randn(256, 20), torch.arange(256) % 2
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    loader = ImportanceLoader(TensorDataset(x, y), 32, lag=0)
    for (inputs, targets), draw in loader:
        with gradient_norms(model) as norms:
            with torch.autocast("cpu", dtype=torch.float16):
                losses = crossed(model(inputs), targets)
            scaler.scale(draw.mean(losses)).backward()
        loader.update(draw, norms.of(draw, scale=scaler.get_scale()), skip_nonfinite=True)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert loader.skipped > 0
    assert loader.sampler.gauge.count + loader.skipped == 7 * 32  # the last is not due


# --- autocast -----------------------------------------------------------------------------------


def one_by_one(model, x, y, dtype):
    """Each example in a batch of its own under autocast; the scale keeps float16 from underflow."""
    found = []
    for k in range(len(x)):
        model.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = crossed(model(x[k : k + 1]).float(), y[k : k + 1])[0]
        (128 * loss).backward()
        found.append(sum(p.grad.square().sum() for p in model.parameters()).sqrt() / 128)
    return torch.stack(found)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["MLP", "CNN", "transformer"])
def test_autocast(name, dtype):
    make, inputs = MODELS[name]
    model, x, draw = make(), inputs(), uneven()
    expected = one_by_one(model, x, CLASSES, dtype)
    with gradient_norms(model) as norms, torch.autocast("cpu", dtype=dtype):
        losses = crossed(model(x).float(), CLASSES)
        (128 * weighted_mean(draw, losses)).backward()  # inside: it must not reach our own sums
    # activations and gradients are rounded: 2^-8 of each number in bfloat16, 2^-11 in float16;
    # a norm averages over many, and a batch is summed in another order than one example
    tolerance = {torch.bfloat16: 2.0**-6, torch.float16: 2.0**-9}[dtype]
    torch.testing.assert_close(norms.of(draw, scale=128), expected, rtol=tolerance, atol=0.0)


def test_squares_that_half_precision_cannot_hold():
    model, x, draw = nn.Linear(20, 30), torch.randn(BATCH, 3, 20), uneven()
    for scale in (1e-5, 1e4):  # gradients that float16 holds, and whose squares it does not
        with gradient_norms(model) as norms, torch.autocast("cpu", dtype=torch.float16):
            outputs = model(x)
            weighted_mean(draw, scale * outputs.flatten(1).sum(1)).backward()
        found = norms.of(draw)
        expected = by_vmap(model, x, CLASSES, lambda z, _: scale * z.flatten(1).sum(1))  # noqa: B023
        torch.testing.assert_close(found, expected, rtol=2.0**-6, atol=0.0)


def test_under_autocast_an_input_may_be_changed_in_place_as_without_us():
    model, x, draw = nn.Linear(5, 5), torch.randn(BATCH, 5), uneven()
    with gradient_norms(model) as norms, torch.autocast("cpu", dtype=torch.bfloat16):
        h = x.clone()
        h += model(h)
        weighted_mean(draw, h.sum(1)).backward()
    expected = by_vmap(model, x, CLASSES, lambda z, _: z.sum(1))
    torch.testing.assert_close(norms.of(draw), expected, rtol=2.0**-7, atol=0.0)


# --- activation checkpointing -------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(reentrant):
    model = Reader()
    expected = by_vmap(model, TOKENS, CLASSES, crossed)
    model.reentrant = reentrant
    torch.testing.assert_close(by_hooks(model, TOKENS, CLASSES, crossed), expected, **CLOSE)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_block_used_twice(reentrant):
    model = Reader()
    model.blocks = nn.ModuleList([model.blocks[0]] * 2)
    expected = by_vmap(model, TOKENS, CLASSES, crossed)
    model.reentrant = reentrant
    torch.testing.assert_close(by_hooks(model, TOKENS, CLASSES, crossed), expected, **CLOSE)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_activations_are_not_kept(reentrant):
    alive = []

    def block(x):
        h = inner[0](x).tanh()
        alive.append(StorageWeakRef(h.untyped_storage()))
        return inner[1](h)

    inner, first = nn.ModuleList([nn.Linear(9, 8), nn.Linear(8, 3)]), nn.Linear(9, 9)
    model = nn.ModuleList([first, inner])
    with gradient_norms(model):
        outputs = checkpoint(block, first(torch.randn(BATCH, 9)), use_reentrant=reentrant)
        gc.collect()
        assert len(alive) == 1
        assert alive[0].expired()
        outputs.sum().backward()
    assert len(alive) == 2


def test_activations_are_given_back_in_the_backward_pass():
    model, alive = mlp(), []

    def watch(layer, x, h):
        alive.append(StorageWeakRef(h.untyped_storage()))

    model[3].register_forward_hook(watch)
    with gradient_norms(model):
        outputs = model(torch.randn(BATCH, 9))
        assert not alive[0].expired()
        outputs.sum().backward()
        gc.collect()
        assert outputs.grad_fn is not None  # the graph is still there, what it kept is not
        assert alive[0].expired()


def test_positions_that_cancel_leave_zero_and_no_nan():
    model, draw = nn.Linear(40, 30), uneven()
    x = torch.randn(BATCH, 1, 40).expand(-1, 4, -1)  # the same thing at four positions ...
    slopes = torch.tensor([1.0, 0.7, -0.9, -0.8])[:, None] * torch.randn(BATCH, 1, 30)
    with gradient_norms(model) as norms:
        weighted_mean(draw, (model(x) * slopes).flatten(1).sum(1)).backward()  # ... adds up to 0
    found, size = norms.of(draw), x.flatten(1).norm(dim=1) * slopes.flatten(1).norm(dim=1)
    assert (found < 1e-3 * size).all()  # the root of float32's rounding, 2^-24, is 2^-12


# --- weights used more than once ---------------------------------------------------------------


class Twice(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(self.layer(x).tanh())


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (nn.Linear(5, 5), torch.randn(BATCH, 5)),
        (nn.Linear(5, 5), torch.randn(BATCH, 3, 5)),
        (nn.Linear(20, 20), torch.randn(BATCH, 3, 20)),
        (nn.Conv2d(4, 4, 3, padding=1, groups=2), torch.randn(BATCH, 4, 5, 5)),
        (nn.LayerNorm(5), torch.randn(BATCH, 3, 5)),
        (nn.GroupNorm(2, 4), torch.randn(BATCH, 4, 5)),
    ],
    ids=["Linear", "Linear of three", "Linear, wide", "Conv2d", "LayerNorm", "GroupNorm"],
)
def test_a_layer_called_twice(layer, x):
    assert_right(Twice(randomised(layer)), x, 3 * torch.randn(x.shape))


class Tied(nn.Module):
    """A language model whose output layer has the weight of its Embedding."""

    def __init__(self):
        super().__init__()
        self.tokens, self.more = nn.Embedding(7, 5, padding_idx=0), nn.Embedding(7, 5)
        self.middle, self.head = nn.Linear(5, 5), nn.Linear(5, 7)
        self.head.weight = self.more.weight = self.tokens.weight

    def forward(self, x):
        h = self.middle(self.tokens(x) * self.more(x)).tanh()
        return self.head(h)


def test_an_output_layer_tied_to_an_embedding():
    model = Tied()
    assert_right(model, TOKENS, torch.randn(BATCH, 4, 7))


def test_a_tied_weight_in_parts_of_the_batch(monkeypatch):
    monkeypatch.setitem(ROOM, "cpu", 1)
    test_an_output_layer_tied_to_an_embedding()


def test_a_bias_shared_between_layers():
    model = mlp()
    model[2].bias = nn.Parameter(torch.randn(8))
    model.append(nn.Linear(3, 8))
    model[5].bias = model[2].bias
    assert_right(model, torch.randn(BATCH, 9), torch.randn(BATCH, 8))


def test_a_weight_shared_with_other_groups_is_refused():
    whole, halves = nn.Conv1d(2, 4, 1), nn.Conv1d(4, 4, 1, groups=2)
    halves.weight = whole.weight
    model, x, draw = nn.Sequential(whole, halves), torch.randn(BATCH, 2, 3), uneven()
    with gradient_norms(model) as norms:
        weighted_mean(draw, model(x).flatten(1).sum(1)).backward()
    with pytest.raises(ValueError, match="'1', '0' share a weight"):
        norms.of(draw)


def test_two_forward_passes_of_the_same_examples_add_up():
    model, x, draw = mlp(), torch.randn(BATCH, 9), uneven()

    def both(model, x):
        return model(x) + model(2 * x)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return both(self.model, x)

    with gradient_norms(model) as norms:
        weighted_mean(draw, crossed(both(model, x), CLASSES)).backward()
    expected = by_vmap(Both(), x, CLASSES, crossed)
    torch.testing.assert_close(norms.of(draw), expected, **CLOSE)


# --- what does not count ------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "2.weight", "4.bias"])
def test_frozen_parameters_do_not_count(frozen):
    model = mlp()
    model.get_parameter(frozen).requires_grad_(False)
    assert_right(model, torch.randn(BATCH, 9), CLASSES, crossed)


def test_a_parameter_frozen_after_the_hooks_were_made_does_not_count():
    model, x, draw = mlp(), torch.randn(BATCH, 9), uneven()
    norms = gradient_norms(model)
    model[0].requires_grad_(False)
    for _ in range(2):  # the same object, entered again
        with norms:
            weighted_mean(draw, crossed(model(x), CLASSES)).backward()
        expected = by_vmap(model, x, CLASSES, crossed)
        torch.testing.assert_close(norms.of(draw), expected, **CLOSE)
        model[0].requires_grad_(True)


@pytest.mark.parametrize("when", ["before", "between", "after"])
@pytest.mark.parametrize("without_gradient", [True, False])
def test_other_forward_passes_do_not_disturb(when, without_gradient):
    model, x, draw = mlp(), torch.randn(BATCH, 9), uneven()

    def look():
        model.eval()
        with torch.set_grad_enabled(not without_gradient):
            model(torch.randn(3, 9))
        model.train()

    with gradient_norms(model) as norms:
        look() if when == "before" else None
        loss = weighted_mean(draw, crossed(model(x), CLASSES))
        look() if when == "between" else None
        loss.backward()
        look() if when == "after" else None
    expected = by_vmap(model, x, CLASSES, crossed)
    torch.testing.assert_close(norms.of(draw), expected, **CLOSE)


def test_layers_without_a_rule_are_named_once_and_left_out():
    model = nn.Sequential(
        nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.Flatten(), nn.Bilinear(1, 1, 1), nn.Linear(12, 3)
    )
    model[3].forward = lambda x: x
    with pytest.warns(UserWarning, match=r"3 \(Bilinear\): left out.*1 \(BatchNorm1d\): left out"):
        gradient_norms(model)
    gradient_norms(model)  # a warning would be an error here
    model.eval()  # then the statistics are fixed, and the examples apart
    with pytest.warns(UserWarning, match=r"no rule for 1 \(BatchNorm1d\), 3 \(Bilinear\)"):
        assert_right(
            model, torch.randn(BATCH, 2, 5), CLASSES, crossed,
            names={"0.weight", "0.bias", "4.weight", "4.bias"},
        )  # fmt: skip


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.scale = nn.Linear(5, 3), nn.Parameter(torch.ones(3))

    def forward(self, x):
        return self.first(x) * self.scale


class Scaled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def with_another_parameter(layer):
    layer.scale = nn.Parameter(torch.ones(3))
    return layer


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (Scaled(3, 3), r"1 \(Scaled\)"),
        (with_another_parameter(nn.Linear(3, 3)), r"1 \(Linear\)"),
        (nn.LSTM(3, 3), r"1 \(LSTM\)"),
        (nn.ConvTranspose2d(3, 3, 2), r"1 \(ConvTranspose2d\)"),
        (nn.Embedding(5, 3, scale_grad_by_freq=True), r"1 \(Embedding\)"),
        (
            nn.MultiheadAttention(4, 2),
            r"1 \(MultiheadAttention\), 1.out_proj \(NonDynamicallyQuantizableLinear\)",
        ),
        (nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), r"1.*\(_?Parametriz"),
        (Own(), r"1 \(Own\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_rule_is_named(layer, named):
    with pytest.warns(UserWarning, match=f"no rule for {named}.*left out"):
        gradient_norms(nn.Sequential(nn.Linear(5, 3), layer))


def test_nothing_is_said_of_what_is_frozen_or_has_no_parameters():
    model = nn.Sequential(nn.Linear(5, 3), nn.LSTM(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    model[1].requires_grad_(False)
    model[2].requires_grad_(False).eval()
    gradient_norms(model)


def test_a_model_without_a_known_layer_is_refused():
    with (
        pytest.warns(UserWarning, match=r"the model \(LSTM\)"),
        pytest.raises(ValueError, match=r"model \(LSTM\) has no layer"),
    ):
        gradient_norms(nn.LSTM(3, 3))


def test_compiled_layers_are_refused():
    inside, whole = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 3)), nn.Linear(5, 3)
    inside[1].compile(backend="eager")
    with pytest.raises(ValueError, match=r"1 \(Linear\) is compiled"):
        gradient_norms(inside)
    with pytest.raises(ValueError, match=r"the model \(OptimizedModule\) is compiled"):
        gradient_norms(torch.compile(whole, backend="eager"))


# --- devices ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_nothing_waits_for_a_value(name):
    make, inputs = MODELS[name]
    model, x, draw = make(), inputs(), uneven()
    with torch.device("meta"):  # tensors without values: reading one is an error
        model, x = model.to("meta"), x.to("meta")
        with gradient_norms(model) as norms:
            (torch.empty(BATCH) * crossed(model(x), torch.empty(BATCH, 3))).mean().backward()
    found = norms.of(draw)
    assert found.shape == (BATCH,)
    assert found.device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", MODELS)
def test_on_a_cuda_device_without_synchronising(name):
    make, inputs = MODELS[name]
    model, x = make(), inputs()
    expected = by_vmap(model, x, CLASSES, crossed)
    device = {"device": "cuda"}
    model, x, y = model.to(**device), x.to(**device), CLASSES.to(**device)
    importances = torch.tensor(uneven().importances, dtype=torch.float32).to(**device)
    with torch.device("cuda"):
        for warm in (False, True):  # the first pass sets up libraries
            torch.cuda.set_sync_debug_mode("error" if warm else "default")
            with gradient_norms(model) as norms:
                (importances * crossed(model(x), y)).mean().backward()
            found = norms.of(importances)
    torch.cuda.set_sync_debug_mode("default")
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=0.0)  # cuDNN has its own sums


# --- mistakes -----------------------------------------------------------------------------------


def test_the_hooks_are_gone_afterwards_also_after_an_error():
    model = mlp()
    with gradient_norms(model):
        assert all(len(model[k]._forward_hooks) == 1 for k in (0, 2, 4))
    assert all(not layer._forward_hooks for layer in model)
    with pytest.raises(KeyError), gradient_norms(model):
        raise KeyError
    assert all(not layer._forward_hooks for layer in model)


def test_a_backward_pass_outside_the_block_is_not_seen():
    model, draw = mlp(), uneven()
    with gradient_norms(model) as norms:
        loss = model(torch.randn(BATCH, 9)).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="inside the with block"):
        norms.of(draw)


def test_norms_are_handed_out_once():
    model, draw = mlp(), uneven()
    with gradient_norms(model) as norms:
        model(torch.randn(BATCH, 9)).sum().backward()
    norms.of(draw)
    with pytest.raises(RuntimeError, match="no gradient has arrived"):
        norms.of(draw)


def test_entering_twice_is_refused():
    with gradient_norms(mlp()) as norms, pytest.raises(RuntimeError, match="entered already"):
        norms.__enter__()


def test_a_second_backward_pass_through_the_same_call_is_refused():
    model = mlp()
    with gradient_norms(model):
        loss = model(torch.randn(BATCH, 9)).sum()
        loss.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="second backward pass through the same call of '4'"):
            loss.backward()


def test_another_batch_first_is_refused():
    model, draw = nn.Sequential(nn.Linear(5, 3)), uneven()
    with gradient_norms(model) as norms:
        model(torch.randn(4, BATCH, 5)).sum().backward()  # time first
    with pytest.raises(ValueError, match=r"shape \(6,\).*'0' has first dimension 4"):
        norms.of(draw)


def test_positions_that_all_examples_share_are_refused():
    model = nn.ModuleDict({"tokens": nn.Embedding(7, 5), "places": nn.Embedding(4, 5)})
    with gradient_norms(model):
        h = model["tokens"](TOKENS) + model["places"](torch.arange(4))
        with pytest.raises(ValueError, match=r"has first dimension 6.*'places' has 4"):
            h.sum().backward()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Linear(5, 3), (5,)),
        (nn.Conv2d(4, 6, 3), (4, 5, 5)),
        (nn.LayerNorm((3, 5)), (3, 5)),
    ],
    ids=str,
)
def test_an_example_without_a_batch_is_refused(layer, shape):
    with gradient_norms(layer), pytest.raises(ValueError, match="without a batch dimension"):
        layer(torch.randn(shape)).sum().backward()


def test_the_input_may_be_given_by_name():
    model, x, draw = nn.Linear(9, 3), torch.randn(BATCH, 9), uneven()
    with gradient_norms(model) as norms:
        weighted_mean(draw, crossed(model(input=x), CLASSES)).backward()
    torch.testing.assert_close(norms.of(draw), by_vmap(model, x, CLASSES, crossed), **CLOSE)


def test_the_input_of_rms_norm_has_another_name():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.RMSNorm(9)

        def forward(self, x):
            return self.norm(x=x)

    model, x, y, draw = Named(), torch.randn(BATCH, 9), torch.randn(BATCH, 9), uneven()
    with gradient_norms(model) as norms:
        weighted_mean(draw, curved(model(x), y)).backward()
    torch.testing.assert_close(norms.of(draw), by_vmap(model, x, y, curved), **CLOSE)


def test_a_model_in_double_precision_gives_float32():
    model, x, draw = mlp().double(), torch.randn(BATCH, 9), uneven()
    with gradient_norms(model) as norms:
        weighted_mean(draw, crossed(model(x.double()), CLASSES)).backward()
    found = norms.of(draw)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, by_vmap(model, x, CLASSES, crossed), **CLOSE)


# --- the last layer -----------------------------------------------------------------------------

LOSSES = {
    "cross_entropy": (lambda z, y: crossed(z, y), lambda: CLASSES, {}),
    "cross_entropy, smoothed": (
        lambda z, y: functional.cross_entropy(z, y, reduction="none", label_smoothing=0.2),
        lambda: CLASSES,
        {"label_smoothing": 0.2},
    ),
    "cross_entropy, probabilities": (
        lambda z, y: functional.cross_entropy(z, y, reduction="none", label_smoothing=0.1),
        lambda: torch.rand(BATCH, 3).softmax(1),
        {"label_smoothing": 0.1},
    ),
    "binary_cross_entropy_with_logits": (
        lambda z, y: functional.binary_cross_entropy_with_logits(z, y, reduction="none").sum(1),
        lambda: torch.rand(BATCH, 3),
        {"loss": "binary_cross_entropy_with_logits"},
    ),
    "mse_loss": (
        lambda z, y: functional.mse_loss(z, y, reduction="none").sum(1),
        lambda: torch.randn(BATCH, 3),
        {"loss": "mse_loss"},
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_last_layer(name):
    losses_of, targets, options = LOSSES[name]
    y, logits = targets(), torch.randn(BATCH, 3, requires_grad=True)
    (slopes,) = torch.autograd.grad(losses_of(logits, y).sum(), logits)
    found = last_layer_norms(logits, y, **options)
    assert not found.requires_grad
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, slopes.norm(dim=1), **CLOSE)


def test_the_last_layer_in_half_precision_is_worked_out_in_float32():
    logits = torch.randn(BATCH, 3, dtype=torch.bfloat16)
    found = last_layer_norms(logits, CLASSES)
    torch.testing.assert_close(found, last_layer_norms(logits.float(), CLASSES), rtol=0.0, atol=0.0)
    assert found.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_probabilities_of_another_dtype_than_the_logits(dtype):
    logits, targets = torch.randn(BATCH, 3), torch.rand(BATCH, 3).softmax(1).to(dtype)
    found = last_layer_norms(logits, targets, label_smoothing=0.1)
    expected = last_layer_norms(logits, targets.float(), label_smoothing=0.1)
    torch.testing.assert_close(found, expected, **CLOSE)


def test_classes_that_cross_entropy_ignores_have_norm_zero():
    logits, targets = torch.randn(BATCH, 3, requires_grad=True), CLASSES.clone()
    targets[1] = -100
    (slopes,) = torch.autograd.grad(crossed(logits, targets).sum(), logits)
    found = last_layer_norms(logits, targets)
    assert found[1] == 0
    torch.testing.assert_close(found, slopes.norm(dim=1), **CLOSE)


@pytest.mark.parametrize(
    ("logits", "targets", "options", "message"),
    [
        ((BATCH, 3), CLASSES, {"loss": "hinge"}, "loss must be .* got 'hinge'"),
        ((BATCH, 3), CLASSES, {"loss": "mse_loss", "label_smoothing": 0.1}, "label_smoothing is"),
        ((BATCH, 3, 2), CLASSES, {}, r"logits must have shape \(batch, classes\), got \(6, 3, 2\)"),
        ((BATCH, 3), CLASSES[:2], {}, r"targets of shape \(2,\) do not fit"),
        ((BATCH, 3), CLASSES, {"loss": "mse_loss"}, r"targets of shape \(6,\) do not fit"),
    ],
)
def test_the_last_layer_refuses_what_does_not_fit(logits, targets, options, message):
    with pytest.raises(ValueError, match=message):
        last_layer_norms(torch.randn(logits), targets, **options)


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got str"):
        gradient_norms("model")
