"""Timesteps: unbiased, the same on all ranks, resumed to the bit; and three training loops."""

from abc import ABC, abstractmethod

import numpy as np
import pytest
import torch
from crowd import two_processes
from device_case import cuda_tests
from test_resume import digest
from torch import distributed as dist
from torch.nn.functional import cross_entropy, mse_loss, one_hot

import tombola
from budget import chi_square_excess
from tombola.torch import TimestepSampler

T = 50
WEIGHT = 1000.0 / torch.arange(1, T + 1) ** 2


def losses_of(t):
    """Steep in t, as under the weights of the variational bound."""
    return WEIGHT[t] * (1 + t % 3)


def train(sampler, steps=40, size=32):
    """Feed a sampler; return what it drew."""
    drawn = []
    for _ in range(steps):
        t, weights = sampler.sample(size)
        sampler.update_with_local_losses(t, losses_of(t))
        drawn.append((t, weights))
    return drawn


def assert_same(first, second):
    """Two runs drew the same timesteps with the same weights."""
    for ours, theirs in zip(first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


# ---- estimates


def weight_of_each(sample):
    """The weight that comes with each timestep, and how often it is drawn."""
    weights, counts = torch.full((T,), torch.nan), torch.zeros(T)
    for t, weight in (sample(1000) for _ in range(200)):
        weights[t] = weight
        counts += t.bincount(minlength=T)
    return weights.double(), counts


def biased(weights, chances):
    """Whether estimates with these weights are biased: the expectation, by enumeration."""
    losses = losses_of(torch.arange(T)).double()
    return not torch.isclose((chances * weights * losses).sum(), losses.mean(), rtol=1e-6)


@pytest.mark.parametrize("steps", [0, 40])
def test_estimates_are_unbiased_by_enumeration(steps):
    sampler = TimestepSampler(T, shuffle=False)
    train(sampler, steps)
    sampler.sample(1)  # probabilities are those of the latest draw
    chances = sampler.probabilities()
    weights, counts = weight_of_each(sampler.sample)
    assert chi_square_excess(counts.numpy(), chances.numpy()) < 1
    assert not biased(weights, chances)
    if steps:
        assert chances[0] > 5 * chances[-1]  # there is something to be wrong about
        assert chi_square_excess(counts.numpy(), np.ones(T)) > 1
        assert biased(torch.ones(T), chances)
        train(sampler, 1, size=1)
        assert biased(1 / (T * sampler.probabilities()), chances)  # looked up too late


def test_a_sample_is_a_draw_of_vrb():
    sampler, vrb = TimestepSampler(T, seed=3), tombola.VRB(T, seed=3)
    for t, weights in train(sampler):
        draw = vrb.draw(len(t))
        vrb.update(draw, losses_of(t).double().numpy())
        assert t.tolist() == draw.indices.tolist()
        assert weights.tolist() == draw.importances.astype(np.float32).tolist()
    assert (t.dtype, weights.dtype) == (torch.int64, torch.float32)


def offset_excess(t):
    """Pearson's statistic for offsets within bins that are not uniform, over its critical value."""
    return chi_square_excess(np.bincount((t.double() * T % 1 * 8).long(), minlength=8), np.ones(8))


def test_continuous_times_are_uniform_within_their_bins(monkeypatch):
    torch.manual_seed(0)
    sampler, whole = TimestepSampler(T, continuous=True), TimestepSampler(T)
    t, weights = sampler.sample(4000)
    bins, same_weights = whole.sample(4000)
    assert (t.dtype, t.shape) == (torch.float32, bins.shape)
    assert torch.equal((t.double() * T + 1e-5).long(), ((bins + t * T % 1) + 1e-5).long())
    assert torch.equal(weights, same_weights)
    assert offset_excess(t) < 1
    assert offset_excess((bins + 0.5) / T) > 1  # the middle of each bin
    assert offset_excess((bins + torch.rand(4000) * 0.8) / T) > 1  # not all of it
    sampler.update_with_local_losses(t, losses_of(bins))
    whole.update_with_local_losses(bins, losses_of(bins))
    assert torch.equal(sampler.probabilities(), whole.probabilities())
    monkeypatch.setattr(torch, "rand", lambda *a, **k: torch.full(*a, 1 - 2.0**-53, **k))
    assert float(sampler.sample(4000)[0].max()) < 1


# ---- states and errors


@pytest.mark.parametrize("through_a_file", [False, True])
def test_a_run_resumes_to_the_bit(tmp_path, through_a_file):
    sampler, resumed = TimestepSampler(T, seed=1), TimestepSampler(T, seed=1)
    train(sampler)
    resumed.sample(7)  # belongs to another run, and is dropped
    if through_a_file:
        tombola.save(sampler, tmp_path / "sampler")
        tombola.load(tmp_path / "sampler", into=resumed)
    else:
        torch.save(sampler.state_dict(), tmp_path / "state")
        resumed.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    with pytest.raises(RuntimeError, match="no draw waits"):
        resumed.update_with_local_losses(torch.zeros(7), torch.ones(7))
    assert_same(train(sampler), train(resumed))
    with pytest.raises(tombola.checkpoint.CheckpointError):
        TimestepSampler(T + 1, seed=1).load_state_dict(sampler.state_dict())
    sampler.reset()
    assert_same(train(sampler), train(TimestepSampler(T, seed=1)))


WRONG = {
    "a timestep out of range": (lambda t, _: t.index_fill(0, torch.tensor([2]), T), None),
    "a t of another draw": (lambda _, earlier: earlier, None),
    "another size": (lambda t, _: t[:5], None),
    "NaN": (None, lambda losses: losses.index_fill(0, torch.tensor([3]), torch.nan)),
    "negative": (None, lambda losses: -losses),
    "a loss too few": (None, lambda losses: losses[1:]),
    "one number": (None, lambda losses: losses.mean()),
    "a list": (None, lambda losses: losses.tolist()),
}
MESSAGES = {
    "a timestep out of range": rf"t\[2\] is {T}, not from 0 to {T - 1}",
    "a t of another draw": "not what the latest sample returned: pass it unchanged, before the",
    "another size": "not what the latest sample returned",
    "NaN": r"losses\[3\] is nan.*finite and not negative",
    "negative": r"losses\[0\] is -.*finite and not negative",
    "a loss too few": "one entry for each of the 8 items",
    "one number": "reduction='none'",
    "a list": "must be a tensor, got list",
}


@pytest.mark.parametrize("fault", WRONG)
def test_errors_say_what_is_wrong_and_lose_nothing(fault):
    sampler, good = TimestepSampler(T), TimestepSampler(T)
    earlier, _ = sampler.sample(8)
    t, _ = sampler.sample(8)
    for _ in range(2):
        same, _ = good.sample(8)
    wrong_t, wrong_losses = WRONG[fault]
    with pytest.raises((ValueError, IndexError, TypeError), match=MESSAGES[fault]):
        sampler.update_with_local_losses(
            t if wrong_t is None else wrong_t(t, earlier),
            losses_of(t) if wrong_losses is None else wrong_losses(losses_of(t)),
        )
    sampler.update_with_local_losses(t, losses_of(t))  # the draw is still there
    good.update_with_local_losses(same, losses_of(same))
    assert_same(train(sampler), train(good))


def test_losses_count_once():
    sampler = TimestepSampler(T)
    with pytest.raises(RuntimeError, match="once after each sample"):
        sampler.update_with_local_losses(torch.zeros(8), torch.ones(8))
    t, _ = sampler.sample(8)
    sampler.update_with_local_losses(t, losses_of(t))
    with pytest.raises(RuntimeError, match="once after each sample"):
        sampler.update_with_local_losses(t, losses_of(t))
    continuous = TimestepSampler(T, continuous=True)
    t, _ = continuous.sample(8)
    with pytest.raises(IndexError, match=r"t\[0\] is 1.5, not in \[0, 1\)"):
        continuous.update_with_local_losses(torch.full((8,), 1.5), torch.ones(8))
    with pytest.raises(TypeError, match="t must be a tensor"):
        continuous.update_with_local_losses(t.tolist(), torch.ones(8))
    with pytest.raises(ValueError, match="batch_size"):
        sampler.sample(0)


# ---- several processes


def live(rank, folder):
    """What each of two processes does."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    sampler, errors = TimestepSampler(T, seed=2), []
    drawn = train(sampler, size=16)
    t, _ = sampler.sample(16)
    for bad in (0, 1):  # a fault of one rank is an error of all, and nothing is lost
        losses = losses_of(t) * (torch.nan if rank == bad else 1)
        try:
            sampler.update_with_local_losses(t, losses)
        except ValueError as error:
            errors.append(str(error))
    sampler.update_with_local_losses(t, losses_of(t))
    state = sampler.state_dict()
    late, _ = sampler.sample(16 + rank)
    try:
        sampler.update_with_local_losses(late, losses_of(late))
    except RuntimeError as error:
        errors.append(str(error))
    sampler.load_state_dict(state)
    drawn += train(sampler, size=16)
    try:
        TimestepSampler(T, seed=rank).sample(16)
    except ValueError as error:
        errors.append(str(error))
    results = {"drawn": drawn, "errors": errors, "state": sampler.state_dict()}
    torch.save(results, f"{folder}/results-{rank}")
    dist.destroy_process_group()


def test_two_ranks_draw_what_one_process_draws(tmp_path):
    codes, results = two_processes(live, tmp_path)
    assert codes == [0, 0]
    sampler = TimestepSampler(T, seed=2)
    alone = train(sampler)
    train(sampler, 1)  # the batch with the faults
    alone += train(sampler)
    ranks = [result["drawn"] for result in results]
    joined = [tuple(map(torch.cat, zip(*parts, strict=True))) for parts in zip(*ranks, strict=True)]
    assert_same(joined, alone)
    assert not torch.equal(ranks[0][0][0], ranks[1][0][0])  # each has its own part
    for rank, result in enumerate(results):
        nan, other, sizes, seeds = result["errors"]
        own, others = "losses[0] is nan", f"rank {1 - rank} has raised an error"
        assert (own in nan, own in other) == (rank == 0, rank == 1)
        assert (others in nan, others in other) == (rank == 1, rank == 0)
        assert "have drawn [16, 17] timesteps" in sizes
        assert "same seed: rank 0 has 0, rank 1 has 1" in seeds
        assert digest(result["state"]) == digest(sampler.state_dict())


def test_processes_that_are_not_connected_are_an_error(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="init_process_group first"):
        TimestepSampler(T).sample(8)


# ---- on a GPU


@cuda_tests
def test_a_step_on_a_gpu_waits_for_nothing_and_fits_into_a_graph():
    sampler, weight = TimestepSampler(T, device="cuda"), WEIGHT.cuda()
    drawn = torch.zeros(T, device="cuda")

    def step():
        t, weights = sampler.sample(64, "cuda")
        drawn.scatter_add_(0, t, weights)
        sampler.update_with_local_losses(t, weight[t])

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(100):
        graph.replay()
    sampler.check()
    assert sampler.rounds == 104
    assert float(drawn.sum()) == pytest.approx(104 * 64, rel=0.2)
    assert int(sampler.probabilities().argmax()) == 0
    copy = TimestepSampler(T, device="cuda")
    copy.load_state_dict(sampler.state_dict())
    for mine, theirs in zip(sampler.sample(64), copy.sample(64), strict=True):
        assert torch.equal(mine, theirs)
    t, _ = sampler.sample(8)
    with pytest.raises(ValueError, match="not what the latest sample returned"):
        sampler.update_with_local_losses(t + 1 - 2 * (t == T - 1).long(), weight[t])
    sampler.update_with_local_losses(t, -weight[t])
    with pytest.raises(ValueError, match="finite and not negative"):
        sampler.check()


# ---- recipes: the lines that change are marked with their number


ALPHA_BAR = torch.cumprod(1 - torch.linspace(1e-4, 0.1, T), 0)


class Network(torch.nn.Module):
    """Predicts noise, a velocity or words from x and t."""

    def __init__(self, inputs=2, outputs=2):
        super().__init__()
        self.layer = torch.nn.Linear(inputs + 1, outputs)

    def forward(self, x, t):
        return self.layer(torch.cat([x, t[:, None].float() / T], 1))


class ScheduleSampler(ABC):
    """As in guided_diffusion.resample; `LossAwareSampler` adds the method with the losses."""

    @abstractmethod
    def weights(self):
        """The weight of each timestep."""


class LossAwareSampler(ScheduleSampler):
    """What the training loop of guided-diffusion asks for by `isinstance`."""


class Diffusion:
    """The parts of guided-diffusion's GaussianDiffusion that its training loop uses."""

    num_timesteps = T

    def training_losses(self, model, x, t):
        a, noise = ALPHA_BAR[t][:, None], torch.randn_like(x)
        error = model(a.sqrt() * x + (1 - a).sqrt() * noise, t) - noise
        return {"loss": WEIGHT[t] * error.square().mean(1)}


def guided_diffusion(model, x, optimizer, steps):
    """A guided-diffusion loop: TrainLoop.forward_backward, with microbatches."""
    diffusion = Diffusion()
    LossAwareSampler.register(TimestepSampler)  # 1
    schedule_sampler = TimestepSampler(diffusion.num_timesteps)  # 2
    for _ in range(steps):
        for micro in x.split(32):
            t, weights = schedule_sampler.sample(micro.shape[0], micro.device)
            losses = diffusion.training_losses(model, micro, t)
            if isinstance(schedule_sampler, LossAwareSampler):
                schedule_sampler.update_with_local_losses(t, losses["loss"].detach())
            (losses["loss"] * weights).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return schedule_sampler


def diffusers(model, x, optimizer, steps, prediction):
    """A loop as in diffusers' training scripts, with any weighting."""
    sampler = TimestepSampler(T, continuous=prediction == "flow")  # 1
    for _ in range(steps):
        noise = torch.randn_like(x)
        t, importances = sampler.sample(len(x), x.device)  # 2, for torch.randint
        if prediction == "flow":
            s = t[:, None]
            pred, target, weight = model((1 - s) * x + s * noise, T * t), noise - x, 1 / (t + 0.01)
        else:
            a, weight = ALPHA_BAR[t][:, None], WEIGHT[t]
            pred = model(a.sqrt() * x + (1 - a).sqrt() * noise, t)
            target = noise if prediction == "noise" else a.sqrt() * noise - (1 - a).sqrt() * x
        losses = weight * mse_loss(pred, target, reduction="none").mean(1)
        loss = (importances * losses).mean()  # 3, for losses.mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        sampler.update_with_local_losses(t, losses)  # 4
    return sampler


def masked_language_model(model, words, optimizer, steps, mask=4):
    """A masked diffusion language model as MDLM: a share t is masked, the weight is 1 / t."""
    sampler = TimestepSampler(T, continuous=True)  # 1
    for _ in range(steps):
        t, importances = sampler.sample(len(words))  # 2, for torch.rand
        share = t.clamp(min=1e-3)
        masked = torch.rand(words.shape) < share[:, None]
        x = one_hot(words.masked_fill(masked, mask), mask + 1).flatten(1).float()
        logits = model(x, T * t).unflatten(1, (words.shape[1], -1))
        entropy = cross_entropy(logits.transpose(1, 2), words, reduction="none")
        losses = (entropy * masked).mean(1) / share
        (importances * losses).mean().backward()  # 3, for losses.mean()
        optimizer.step()
        optimizer.zero_grad()
        sampler.update_with_local_losses(t, losses)  # 4
    return sampler


def points():
    """Data on a line: 64 points."""
    return torch.linspace(-1, 1, 64)[:, None] * torch.tensor([1.0, -0.5])


def sentences():
    """64 words of four letters each, and a model for them with a mask as the fifth letter."""
    return torch.arange(4).repeat(64, 1), Network(4 * 5, 4 * 4)


RECIPES = {
    "guided-diffusion": (guided_diffusion, {}),
    "noise": (diffusers, {"prediction": "noise"}),
    "v": (diffusers, {"prediction": "v"}),
    "flow": (diffusers, {"prediction": "flow"}),
    "masked": (masked_language_model, {}),
}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_train_and_adapt(name):
    torch.manual_seed(0)
    recipe, more = RECIPES[name]
    x, model = sentences() if recipe is masked_language_model else (points(), Network())
    before = [part.clone() for part in model.parameters()]
    sampler = recipe(model, x, torch.optim.Adam(model.parameters(), 1e-2), 150, **more)
    assert all(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert sampler.rounds == 150 * (2 if name == "guided-diffusion" else 1)
    assert sampler.gauge.count == 150 * len(x)
    assert sampler.gauge.second_moment_ratio < 1.05
    if name != "masked":  # its losses are as large at all timesteps
        assert sampler.mode == "adaptive"
        assert sampler.probabilities()[: T // 5].sum() > 0.3  # where weights are large
