"""Hugging Face's Trainer: override two methods, and save the loader with each checkpoint.

    python examples/torch_trainer.py
    torchrun --nproc-per-node 2 examples/torch_trainer.py

Needs `pip install tombola[torch] transformers accelerate`. Nothing is downloaded: the example
defines a small model.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import tombola.torch

GLOBAL_BATCH = 64


class Points(Dataset):
    """Points of two classes, one in fifty of the second, as the dicts that a Trainer expects."""

    def __init__(self, n=4000):
        self.labels = (torch.arange(n) % 50 == 0).long()
        noise = torch.randn(n, 20, generator=torch.Generator().manual_seed(0))
        self.x = noise + 0.5 * self.labels[:, None]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, item):
        return {"x": self.x[item], "labels": self.labels[item]}


class Classifier(torch.nn.Module):
    """A small network that returns its loss, as evaluation requires."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2)
        )

    def forward(self, x, labels=None):
        """Return the logits, and the mean loss if labels are given."""
        logits = self.network(x)
        loss = None if labels is None else cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


class ImportanceTrainer(Trainer):
    """A Trainer that learns from the items that matter."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.loader = self.resumed_from = None
        self.add_callback(KeepLoader(self))

    def train(self, resume_from_checkpoint=None, **options):
        """Train; remember the folder that the run is resumed from, for the loader's state."""
        folder = resume_from_checkpoint
        self.resumed_from = get_last_checkpoint(self.args.output_dir) if folder is True else folder
        return super().train(resume_from_checkpoint, **options)

    def get_train_dataloader(self):
        """Return the loader without preparing it: it finds the other processes itself."""
        # `remove_unused_columns` does not apply: the dataset must only have what the model takes
        self.loader = tombola.torch.ImportanceLoader(
            self.train_dataset,
            self.args.per_device_train_batch_size,
            groups=self.train_dataset.labels,
            seed=self.args.seed,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
        )
        return self.loader

    def compute_loss(self, model, inputs, return_outputs=False, **options):
        """Return the unbiased loss of a training batch; evaluation has no draws."""
        if not isinstance(inputs, tuple):
            return super().compute_loss(model, inputs, return_outputs, **options)
        batch, draw = inputs
        labels = batch.pop("labels")
        outputs = model(**batch)
        losses = cross_entropy(outputs["logits"], labels, reduction="none")
        self.loader.update(draw, losses)
        loss = draw.mean(losses)
        return (loss, outputs) if return_outputs else loss


class KeepLoader(TrainerCallback):
    """Saves the loader into each checkpoint; needs ``ignore_data_skip=True`` to resume."""

    def __init__(self, trainer):
        self.trainer = trainer

    def on_save(self, args, state, control, **others):
        """Save the loader: all processes must call this, one writes."""
        kept = self.trainer.loader.state_dict()
        if state.is_world_process_zero:
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            torch.save(kept, folder / "loader.pt")  # beside the model

    def on_train_begin(self, args, state, control, **others):
        """Load the loader on all processes, if the run is resumed."""
        if self.trainer.resumed_from:
            kept = torch.load(Path(self.trainer.resumed_from, "loader.pt"), weights_only=True)
            self.trainer.loader.load_state_dict(kept)


def train(folder, epochs, resume=None, **options):
    """Train, from a checkpoint if one is given; return the trainer."""
    arguments = TrainingArguments(
        folder,
        num_train_epochs=epochs,
        learning_rate=0.01,
        ignore_data_skip=True,  # the state of the loader determines where to continue
        use_cpu=not torch.cuda.is_available(),
        ddp_find_unused_parameters=False,
        report_to=[],
        disable_tqdm=True,
        **options,
    )
    arguments.per_device_train_batch_size = GLOBAL_BATCH // arguments.world_size
    points = Points()
    trainer = ImportanceTrainer(Classifier(), arguments, train_dataset=points, eval_dataset=points)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trainer = train(folder, options.epochs, save_strategy="no")
        if trainer.is_world_process_zero():
            print(trainer.loader.sampler.gauge)


if __name__ == "__main__":
    main()
