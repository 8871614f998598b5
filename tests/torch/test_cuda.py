"""Losses on a CUDA device: never waited for before they are due. Skipped where there is none."""

import time

import numpy as np
import pytest
import torch
from torch import distributed as dist
from torch.utils.data import TensorDataset

from tombola.torch import ImportanceLoader
from tombola.torch.communication import gather_over

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # it forks
]

N = 200
DATA = TensorDataset(torch.arange(N, dtype=torch.float32))


def play(device, dtype=torch.float32, workers=0):
    loader = ImportanceLoader(DATA, 16, seed=5, lag=3, num_workers=workers)
    drawn = []
    for _ in range(3):
        for (x,), draw in loader:
            drawn.append(draw.indices.tolist())
            losses = (1 + x.to(device)).to(dtype)
            estimate = draw.mean(losses)
            assert (estimate.device.type, estimate.dtype) == (device, dtype)
            loader.update(draw, losses)
    return drawn


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_draws_do_not_depend_on_where_losses_are(dtype):
    assert play("cuda", dtype) == play("cpu", dtype)
    assert play("cuda", dtype, workers=1) == play("cpu", dtype)


def test_neither_the_mean_nor_the_update_waits():
    """The device sleeps for a tenth of a second; both return long before it is done."""
    loader = ImportanceLoader(DATA, 16)
    batches = iter(loader)
    losses = torch.rand(16, device="cuda")
    for _ in range(3):  # the first ones set things up
        _, draw = next(batches)
        draw.mean(losses)
        loader.update(draw, losses)
    _, draw = next(batches)
    torch.cuda.synchronize()
    asleep = torch.cuda.Event(enable_timing=False)
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(200_000_000)
        asleep.record()
        draw.mean(losses)
        loader.update(draw, losses + 1)
        assert not asleep.query()
        next(batches)  # with a lag of 1, this batch does not need them yet
        assert not asleep.query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    next(batches)
    assert asleep.query()


def test_what_is_fed_may_be_overwritten_at_once():
    loader = ImportanceLoader(DATA, 16, lag=0)
    batches = iter(loader)
    _, draw = next(batches)
    losses = torch.full((16,), 2.0, device="cuda")
    torch.cuda._sleep(20_000_000)
    loader.update(draw, losses)
    losses.fill_(float("nan"))
    next(batches)
    assert loader.sampler.gauge.count == 16


def test_bad_losses_are_named_when_they_are_due():
    loader = ImportanceLoader(DATA, 16)
    batches = iter(loader)
    _, draw = next(batches)
    losses = torch.ones(16, device="cuda")
    losses[2] = float("inf")
    loader.update(draw, losses)
    next(batches)
    with pytest.raises(
        ValueError, match=rf"losses\[2\] of batch 0 is inf \(item {draw.indices[2]}"
    ):
        next(batches)


def test_a_checkpoint_waits_for_what_is_on_its_way():
    loader = ImportanceLoader(DATA, 16)
    _, draw = next(iter(loader))
    torch.cuda._sleep(20_000_000)
    loader.update(draw, torch.full((16,), 3.0, device="cuda"))
    (given,) = loader.state_dict()["given"]
    assert given["losses"].tolist() == [3.0] * 16


def test_draws_move_to_the_device():
    _, draw = next(iter(ImportanceLoader(DATA, 16)))
    moved = draw.to("cuda", non_blocking=True)
    assert moved.indices.is_cuda
    assert moved.importances.is_cuda
    assert torch.equal(moved.importances.cpu(), draw.importances)


def test_pinned_batches(recwarn):
    for (x,), draw in ImportanceLoader(DATA, 16, num_workers=1, pin_memory=True):
        assert x.is_pinned()
        assert x.tolist() == draw.indices.tolist()


def test_nccl_gathers_integers(tmp_path):
    dist.init_process_group("nccl", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        message = np.array([2**24 + 1, 2**62 + 1, -1])
        assert gather_over(dist.group.WORLD)(message).tolist() == [message.tolist()]
        assert len(ImportanceLoader(DATA, 16, distributed="sharded")) == 13
    finally:
        dist.destroy_process_group()


def test_time_is_not_part_of_any_result():
    """Slow steps, quick steps: the same draws."""

    def run(pause):
        loader, drawn = ImportanceLoader(DATA, 16), []
        for (x,), draw in loader:
            drawn.append(draw.indices.tolist())
            time.sleep(pause)
            loader.update(draw, 1 + x.cuda())
        return drawn

    assert run(0.0) == run(0.01)
