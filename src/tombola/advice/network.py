"""What a PyTorch model gains from adaptive draws, what to feed, and whether labels help."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tombola.advice.network_parts import NetworkAdvice
from tombola.advice.network_runs import FEEDS, MOMENTS, Run, Trial, fetch
from tombola.advice.network_verdict import decide, methods, possible
from tombola.validation import whole

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["network"]


def network(
    model: "nn.Module",
    dataset: Any,
    loss: "Callable[[Tensor, Tensor], Tensor]",
    *,
    groups: Any = None,
    optimizer: Callable[[Any], Any] | None = None,
    batch_size: int = 32,
    steps: int = 300,
    probe: int = 2000,
    seeds: int = 3,
    seed: int = 0,
    device: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> NetworkAdvice:
    """Measure what adaptive draws are worth for a PyTorch model, in a few hundred steps.

    Copies of the model are trained with shuffled epochs, and with `VRB` and (where there are
    groups) `GroupVRB`, each fed with losses, with last-layer norms and with gradient norms. On the
    way, the gradient norms of a random probe of the items give the exact second moments of
    gradient estimates: of what is possible, and of what each sampler has reached. What decides is
    the time to the loss that shuffling ends with: steps, which repeat with the same seed, times the
    cost of one.

    Parameters
    ----------
    model : torch.nn.Module
        Left as it is.
    dataset : map-style dataset
        Of pairs (input, target).
    loss : callable
        ``loss(model(inputs), targets)`` returns the loss of each example, shape (batch,): such as
        ``functools.partial(torch.nn.functional.cross_entropy, reduction="none")``.
    groups : array-like of shape (n,), optional
        The group of each item, such as its label.
    optimizer : callable, optional
        Makes the optimizer from the parameters; by default ``SGD(lr=0.1)``.
    batch_size : int, default=32
    steps : int, default=300
        Of each run.
    probe : int, default=2000
        The items whose gradient norms are computed, at ten moments of a run.
    seeds : int, default=3
    seed : int, default=0
    device : torch.device or str, optional
        By default that of the model.
    progress : callable, optional
        Called with the number of runs done and in all.

    Returns
    -------
    NetworkAdvice

    Examples
    --------
    >>> import functools, torch
    >>> from torch.utils.data import TensorDataset
    >>> y = (torch.arange(400) % 40 == 0).long()
    >>> x = torch.randn(400, 4, generator=torch.Generator().manual_seed(0)) + y[:, None]
    >>> loss = functools.partial(torch.nn.functional.cross_entropy, reduction="none")
    >>> advice = network(torch.nn.Linear(4, 2), TensorDataset(x, y), loss, groups=y, steps=40)
    >>> [signal.name for signal in advice.possible][-1]
    'gradient norms'
    """
    import torch

    n = len(dataset)
    steps, seeds = whole("steps", steps, MOMENTS), whole("seeds", seeds, 1)
    batch_size = whole("batch_size", batch_size, 1)
    probe, seed = min(whole("probe", probe, 1), n), whole("seed", seed, 0)
    names = None if groups is None else np.asarray(groups)
    if names is not None and names.shape != (n,):
        raise ValueError(f"groups must have shape ({n},), one for each item, got {names.shape}")
    place = next(model.parameters()).device if device is None else torch.device(device)
    items = np.sort(np.random.default_rng(seed).permutation(n)[:probe])
    make = optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=0.1))
    probed = fetch(dataset, items, place)
    trial = Trial(model, dataset, loss, names, make, batch_size, steps, items, probed, place)

    kinds = [("shuffle", "")]
    kinds += [(s, f) for f in FEEDS for s in (("vrb",) if names is None else ("vrb", "group-vrb"))]
    runs: dict[tuple[str, str], list[Run]] = {kind: [] for kind in kinds}
    for done, (turn, kind) in enumerate((t, k) for t in range(seeds) for k in kinds):
        runs[kind].append(trial.run(*kind, seed + turn))
        if progress is not None:
            progress(done + 1, seeds * len(kinds))
    shuffled = [look for run in runs["shuffle", ""] for look in run.later()]
    return decide(
        possible(shuffled, names, items),
        methods(runs),
        n,
        probe,
        batch_size,
        steps,
        seeds,
        names is not None,
    )
