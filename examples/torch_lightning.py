"""Lightning: the Trainer takes the loader unchanged; `training_step` receives batch and draw.

    python examples/torch_lightning.py
    python examples/torch_lightning.py --devices 2        # two processes

Needs `pip install tombola[torch] lightning`. Lightning replaces the samplers of DataLoaders, but
an ImportanceLoader is not a DataLoader and stays unchanged. A DataLoader for validation works as
usual.
"""

import argparse

import lightning
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import tombola.torch

GLOBAL_BATCH = 64


def data(n=4000):
    """Return points of two classes, one in fifty of the second."""
    y = (torch.arange(n) % 50 == 0).long()
    x = torch.randn(n, 20, generator=torch.Generator().manual_seed(0)) + 0.5 * y[:, None]
    return TensorDataset(x, y)


class Classifier(lightning.LightningModule):
    """A small network that learns from the items that matter."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)
        )
        self.loader = self.kept = None

    def train_dataloader(self):
        """Make the loader on the first call: before `fit`, the process group does not exist."""
        if self.loader is None:
            dataset = data()
            self.loader = tombola.torch.ImportanceLoader(
                dataset, GLOBAL_BATCH // self.trainer.world_size, groups=dataset.tensors[1]
            )
        if self.kept is not None:
            self.loader.load_state_dict(self.kept)
            self.kept = None
        return self.loader

    def training_step(self, batch, batch_index):
        """Return the unbiased loss; Lightning has moved data and draw to the device."""
        (x, y), draw = batch
        losses = cross_entropy(self.network(x), y, reduction="none")
        self.loader.update(draw, losses)
        loss = draw.mean(losses)
        self.log("loss", loss, batch_size=len(draw))
        return loss

    def configure_optimizers(self):
        """Return the optimiser."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    def on_save_checkpoint(self, checkpoint):
        """Save the loader; Lightning also saves it, but only loads it in the middle of an epoch."""
        if self.loader is not None:  # it does not exist before `fit`
            checkpoint["tombola"] = self.loader.state_dict()

    def on_load_checkpoint(self, checkpoint):
        """Keep the state until the loader is made; without a state, the loader starts afresh."""
        self.kept = checkpoint.get("tombola")


def train(epochs, devices=1, checkpoint=None, **options):
    """Train, from a checkpoint if one is given; return the trainer and its model."""
    trainer = lightning.Trainer(
        max_epochs=epochs,
        devices=devices,
        strategy="ddp" if devices > 1 else "auto",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    model = Classifier()
    trainer.fit(model, ckpt_path=checkpoint)
    return trainer, model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--devices", type=int, default=1)
    options = parser.parse_args()
    trainer, model = train(options.epochs, options.devices, enable_checkpointing=False)
    print(f"process {trainer.global_rank}: {model.loader.sampler.gauge}")


if __name__ == "__main__":
    main()
