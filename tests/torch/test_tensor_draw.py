"""A draw as tensors: estimates, dtypes, places, and errors that say what to do."""

import itertools
import pickle

import numpy as np
import pytest
import torch

import tombola
from tombola.torch import TensorDraw

HALF = [torch.float16, torch.bfloat16]


def a_draw(number=3):
    return TensorDraw(tombola.Draw([2, 0, 2, 1], [0.5, 0.25, 0.5, 0.25], n=3), number)


def test_importances_are_float32_and_indices_int64():
    draw = a_draw()
    assert draw.importances.dtype == torch.float32
    assert draw.indices.dtype == torch.int64
    assert draw.importances.tolist() == pytest.approx([2 / 3, 4 / 3, 2 / 3, 4 / 3])
    assert (len(draw), draw.number) == (4, 3)


def test_the_mean_over_all_draws_of_two_is_the_mean_over_all_items():
    probabilities, losses = [0.125, 0.25, 0.625], torch.tensor([3.0, 1.0, 8.0], dtype=torch.float64)
    total = 0.0
    for pair in itertools.product(range(3), repeat=2):
        chance = np.prod([probabilities[item] for item in pair])
        ticket = tombola.Draw(pair, [probabilities[item] for item in pair], n=3)
        total += chance * TensorDraw(ticket, 0).mean(losses[list(pair)])
    assert float(total) == pytest.approx(4.0, abs=1e-14)


def test_the_gradient_is_importance_over_batch_size():
    losses = torch.ones(4, requires_grad=True)
    a_draw().mean(losses).backward()
    assert torch.allclose(losses.grad, a_draw().importances / 4)


def test_sum_is_n_times_mean():
    losses = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert a_draw().sum(losses) == 3 * a_draw().mean(losses)


@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64])
def test_the_dtype_of_the_losses_stays(dtype):
    losses = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=dtype, requires_grad=True)
    for estimate in (a_draw().mean(losses), a_draw().sum(losses)):
        assert estimate.dtype == dtype
    a_draw().mean(losses).backward()
    assert losses.grad.dtype == dtype


def test_half_precision_is_summed_in_float32():
    ticket = tombola.Draw(np.arange(4096), np.full(4096, 1 / 4096), n=4096)
    mean = TensorDraw(ticket, 0).mean(torch.full((4096,), 40.0, dtype=torch.float16))
    assert float(mean) == 40.0  # the sum, 163,840, is beyond float16


def test_a_sum_in_half_precision_is_rounded_once():
    ticket = tombola.Draw([1, 2], [0.5, 0.5], n=10**5)
    losses = torch.full((2,), 1e-3, dtype=torch.float16)
    exact = float(losses[0]) * 2  # the mean alone would be below what float16 holds well
    assert float(TensorDraw(ticket, 0).sum(losses)) == float(torch.tensor(exact).half())
    wide = tombola.Draw([1, 2], [1e-5, 1e-5], n=10**5)
    assert float(TensorDraw(wide, 0).sum(torch.full((2,), 0.5).bfloat16())) == 49920.0


def test_a_part_of_a_draw_from_several_shards_is_for_feedback_only():
    shares = np.array([0.5, 0.5, 0.5, 0.5])
    draw = TensorDraw(a_draw().ticket, 0, shares, shards=2)
    draw.mean(torch.ones(4))
    for part in (draw[:2], draw[:2].to("cpu"), draw[:3][:2]):
        assert part.indices.tolist() == [2, 0]
        for estimate in (part.mean, part.sum):
            with pytest.raises(ValueError, match="from 2 shards is for feedback only"):
                estimate(torch.ones(2))
    TensorDraw(a_draw().ticket, 0, shares)[:2].mean(torch.ones(2))  # of one shard it is unbiased


def test_float64_losses_get_float64_importances():
    ticket = tombola.Draw([0], [1 / 3], n=1)
    mean = TensorDraw(ticket, 0).mean(torch.ones(1, dtype=torch.float64))
    assert float(mean) == 1 / (1 / 3)


def test_autocast_does_not_change_the_dtype():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert a_draw().mean(torch.ones(4)).dtype == torch.float32


def test_values_of_any_shape():
    values = torch.arange(8.0).reshape(4, 2)
    mean = a_draw().mean(values)
    assert mean.tolist() == [float(a_draw().mean(values[:, k])) for k in range(2)]


def test_to_moves_both_and_leaves_the_draw():
    draw = a_draw()
    moved = draw.to("meta", non_blocking=True)
    assert moved.indices.device.type == moved.importances.device.type == "meta"
    assert draw.indices.device.type == "cpu"
    assert moved.ticket is draw.ticket
    assert draw.to("cpu").mean(torch.ones(4)) == draw.mean(torch.ones(4))


def test_weights_follow_the_losses_and_are_moved_once():
    draw = a_draw()
    draw.mean(torch.ones(4))
    kept = draw._weights
    draw.mean(torch.ones(4))
    assert draw._weights is kept
    assert draw.mean(torch.ones(4, device="meta")).device.type == "meta"


def test_parts():
    draw, losses = a_draw(), torch.tensor([1.0, 2.0, 3.0, 4.0])
    mask = torch.tensor([True, False, True, False])
    for part in (draw[mask], draw[[0, 2]], draw[::2]):
        assert part.indices.tolist() == [2, 2]
        assert part.number == 3
        assert float(part.mean(losses[mask])) == pytest.approx(4 / 3)
    assert len(draw[1]) == 1


def test_pickled_and_back():
    copy = pickle.loads(pickle.dumps(a_draw()))
    assert copy.ticket == a_draw().ticket
    assert copy.importances.tolist() == a_draw().importances.tolist()


def test_a_loss_that_was_reduced_is_refused():
    with pytest.raises(ValueError, match=r"single number.*each of the 4 items.*reduction='none'"):
        a_draw().mean(torch.tensor(1.0))


def test_wrong_lengths_and_types_are_refused():
    with pytest.raises(ValueError, match=r"each of the 4 items drawn, got shape \(3,\)"):
        a_draw().mean(torch.ones(3))
    with pytest.raises(TypeError, match="losses must be a tensor, got a list"):
        a_draw().mean([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="empty draw"):
        a_draw()[:0].mean(torch.ones(0))
