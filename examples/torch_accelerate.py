"""Accelerate: pass model and optimiser to `prepare`, but not the loader.

    python examples/torch_accelerate.py
    torchrun --nproc-per-node 2 examples/torch_accelerate.py     # or accelerate launch, on GPUs

Needs `pip install tombola[torch] accelerate`. The loader finds the other processes itself. With
`--checkpoint FOLDER` the run is saved after each epoch, and a later run continues from there.
"""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import tombola.torch

GLOBAL_BATCH = 64


def data(n=4000):
    """Return points of two classes, one in fifty of the second."""
    y = (torch.arange(n) % 50 == 0).long()
    x = torch.randn(n, 20, generator=torch.Generator().manual_seed(0)) + 0.5 * y[:, None]
    return TensorDataset(x, y)


def train(accelerator, epochs, checkpoint=None):
    """Train up to a given epoch, from the checkpoint if it exists; return the loader."""
    dataset = data()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, optimizer = accelerator.prepare(model, optimizer)
    loader = tombola.torch.ImportanceLoader(
        dataset, GLOBAL_BATCH // accelerator.num_processes, groups=dataset.tensors[1]
    )
    accelerator.register_for_checkpointing(loader)
    if checkpoint is not None and Path(checkpoint).exists():
        accelerator.load_state(checkpoint)
    for _ in range(loader.epoch, epochs):
        for (x, y), draw in loader:
            x, y = (
                x.to(accelerator.device),
                y.to(accelerator.device),
            )  # a prepared loader would do this
            losses = cross_entropy(model(x), y, reduction="none")
            accelerator.backward(draw.mean(losses))
            optimizer.step()
            optimizer.zero_grad()
            loader.update(draw, losses)
        if checkpoint is not None:
            accelerator.save_state(checkpoint)
    return loader


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--checkpoint", help="folder to save to, and to continue from")
    options = parser.parse_args()
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    loader = train(accelerator, options.epochs, options.checkpoint)
    accelerator.print(f"{accelerator.num_processes} processes: {loader.sampler.gauge}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
