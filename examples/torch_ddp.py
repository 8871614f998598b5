"""Plain DistributedDataParallel: the processes draw a global batch and take one part each.

    torchrun --nproc-per-node 2 examples/torch_ddp.py
    python examples/torch_ddp.py                          # the same loop in one process

With `--checkpoint FILE` the run is saved every 100 steps. If the file exists, the run continues
from it exactly as if it had not been interrupted. The number of processes may change; gradients are
then rounded differently.
"""

import argparse
import hashlib
import os
from pathlib import Path

import numpy as np
import torch

# DDP would import this later, and its default arguments would then keep the process group alive:
# gloo's threads would outlive destroy_process_group() and could abort the interpreter at exit.
import torch.distributed.nn.functional
from torch import distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

import tombola.torch

GLOBAL_BATCH, EVERY = 64, 100


def data(n=4000):
    """Return points of two classes, one in fifty of the second."""
    y = (torch.arange(n) % 50 == 0).long()
    x = torch.randn(n, 20, generator=torch.Generator().manual_seed(0)) + 0.5 * y[:, None]
    return TensorDataset(x, y)


def train(steps, checkpoint=None):
    """Train up to a given step, from the checkpoint if it exists; return model and loader."""
    world = dist.get_world_size() if dist.is_initialized() else 1
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    dataset = data()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    # create it after init_process_group, with the batch size per process
    loader = tombola.torch.ImportanceLoader(
        dataset, batch_size=GLOBAL_BATCH // world, groups=dataset.tensors[1]
    )
    step = 0
    if checkpoint is not None and Path(checkpoint).exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        step = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])  # on every process
    trained = DistributedDataParallel(model) if world > 1 else model
    while step < steps:
        for (x, y), draw in loader:
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            losses = cross_entropy(trained(x), y, reduction="none")
            draw.mean(losses).backward()  # mean over this part; DDP averages over the processes
            optimizer.step()
            optimizer.zero_grad()
            loader.update(draw, losses)  # losses of this part; shared with all processes
            step += 1
            if checkpoint is not None and (step % EVERY == 0 or step == steps):
                save(checkpoint, step=step, model=model, optimizer=optimizer, loader=loader)
            if step == steps:
                break
    return model, loader


def save(path, step, **parts):
    """Save the run; all processes must call this, one of them writes."""
    state = {name: part.state_dict() for name, part in parts.items()}
    if not dist.is_initialized() or dist.get_rank() == 0:
        torch.save({"step": step, **state}, f"{path}.part")
        os.replace(f"{path}.part", path)


def state_hash(loader):
    """Return a hash of the state of the sampler."""
    digest, parts = hashlib.sha256(), [loader.sampler.state_dict()["parts"]]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += [part[name] for name in sorted(part)]
        else:
            digest.update(np.asarray(part).tobytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--checkpoint", help="file to save to, and to continue from")
    options = parser.parse_args()
    if "RANK" in os.environ:  # torchrun sets it
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    _, loader = train(options.steps, options.checkpoint)
    hashes = [state_hash(loader)]
    if dist.is_initialized():
        hashes *= dist.get_world_size()
        dist.all_gather_object(hashes, state_hash(loader))
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(loader.sampler.gauge)
        equal = "the same" if len(set(hashes)) == 1 else "NOT THE SAME"
        print(f"sampler state on {len(hashes)} processes: {equal}, {hashes[0][:16]}")
    if dist.is_initialized():
        dist.barrier()  # no process may close its connections while another still reads
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
