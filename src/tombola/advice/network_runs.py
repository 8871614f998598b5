"""Runs of a network: copies of a model, trained with other draws, and looked at on the way."""

import copy
import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEEDS", "MOMENTS", "Look", "Run", "Trial", "fetch"]

FEEDS = ("losses", "last-layer norms", "gradient norms")  # from cheap to dear
MOMENTS = 10  # of a run at which all items of the probe are evaluated
PART = 500  # items of the probe that are evaluated at once


class Look(NamedTuple):
    """The items of the probe at a moment of a run."""

    step: int
    losses: NDArray[np.float64]
    last: NDArray[np.float64]  # last-layer norms
    norms: NDArray[np.float64]  # gradient norms
    times: NDArray[np.float64]  # n p, of each item

    def of(self, feed: str) -> NDArray[np.float64]:
        """Return the quantity of that name."""
        return (self.losses, self.last, self.norms)[FEEDS.index(feed)]


class Run(NamedTuple):
    """A run: what was seen on the way, and seconds of each step and of its draw."""

    looks: list[Look]
    step: list[float]
    draw: list[float]

    def later(self) -> list[Look]:
        """Return what was seen in the second half of the run."""
        return self.looks[1 + MOMENTS // 2 :]


class Trial(NamedTuple):
    """What all runs share."""

    model: Any
    dataset: Any
    loss: Any
    groups: Any
    optimizer: Any
    batch_size: int
    steps: int
    items: NDArray[np.int64]  # of the probe
    probe: list[tuple[Any, Any]]
    device: Any

    def run(self, sampler: str, feed: str, seed: int) -> Run:
        """Train a copy of the model, drawing by this sampler, fed with this quantity."""
        import torch

        from tombola.torch import ImportanceLoader, gradient_norms

        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = copy.deepcopy(self.model).to(self.device).train()
            optimizer = self.optimizer(model.parameters())
            loader = ImportanceLoader(
                self.dataset, self.batch_size, sampler, groups=self.groups, seed=seed,
                quantity="loss" if feed in ("", "losses") else "gradient norm",
            )  # fmt: skip
            watch = gradient_norms(model) if feed == "gradient norms" else None
            moments = {round(k * self.steps / MOMENTS) for k in range(1, MOMENTS + 1)}
            found = Run([self._look(model, loader, 0)], [], [])
            batches = iter(loader)
            for step in range(1, self.steps + 1):
                began = time.perf_counter()
                batch = next(batches, None)
                if batch is None:
                    batches = iter(loader)
                    batch = next(batches)
                (inputs, targets), draw = batch
                drawn = time.perf_counter()
                fed = self._step(model, inputs, targets, draw, feed, watch)
                optimizer.step()
                optimizer.zero_grad()
                stepped = time.perf_counter()
                if fed is not None:
                    loader.update(draw, fed, skip_nonfinite=True)
                ended = time.perf_counter()
                found.step.append(ended - began)
                found.draw.append(ended - stepped + drawn - began)
                if step in moments:
                    found.looks.append(self._look(model, loader, step))
            return found

    def _step(self, model: Any, inputs: Any, targets: Any, draw: Any, feed: str, watch: Any) -> Any:
        """Run forward and backward; return what the sampler is fed with."""
        import torch

        inputs, targets = inputs.to(self.device), targets.to(self.device)
        if watch is not None:
            with watch as norms:
                draw.mean(self._losses(model(inputs), targets)).backward()
            return norms.of(draw)
        outputs = model(inputs)
        if feed == "last-layer norms":
            outputs.retain_grad()
        losses = self._losses(outputs, targets)
        draw.mean(losses).backward()
        if feed == "last-layer norms":
            weights = torch.as_tensor(draw.importances).to(outputs.device, outputs.dtype)
            return outputs.grad.flatten(1).norm(dim=1) * (len(draw) / weights)
        return losses if feed == "losses" else None

    def _losses(self, outputs: Any, targets: Any) -> Any:
        losses = self.loss(outputs, targets)
        if losses.shape != targets.shape[:1]:
            raise ValueError(
                f"loss must return one number for each example, shape {tuple(targets.shape[:1])}, "
                f"got {tuple(losses.shape)}: for a loss of torch, give it reduction='none'"
            )
        return losses

    def _look(self, model: Any, loader: Any, step: int) -> Look:
        """Evaluate all items of the probe; the model stays as it is."""
        import torch

        from tombola.torch import gradient_norms

        model = copy.deepcopy(model).eval()
        parts: list[tuple[Any, ...]] = []
        for inputs, targets in self.probe:
            ones = torch.ones(len(targets))
            with gradient_norms(model) as watch:
                outputs = model(inputs)
                outputs.retain_grad()
                losses = self._losses(outputs, targets)
                losses.mean().backward()
            last = outputs.grad.flatten(1).norm(dim=1) * len(targets)
            parts.append((losses.detach(), last, watch.of(ones)))
        columns = [torch.cat(part).cpu().double().numpy() for part in zip(*parts, strict=True)]
        chances = torch.as_tensor(loader.sampler.probabilities()).cpu().double().numpy()
        losses, last, norms = columns
        return Look(step, losses, last, norms, len(chances) * chances[self.items])


def fetch(dataset: Any, items: NDArray[np.int64], device: Any) -> list[tuple[Any, Any]]:
    """Return inputs and targets of items, in parts."""
    from torch.utils.data import default_collate

    found = []
    for part in np.array_split(items, -(-len(items) // PART)):
        inputs, targets = default_collate([dataset[int(item)] for item in part])
        found.append((inputs.to(device), targets.to(device)))
    return found
