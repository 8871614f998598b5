"""What a PyTorch model gains from adaptive draws, what to feed, and whether labels help."""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.advice.network_text import lines_of
from tombola.validation import whole

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["NetworkAdvice", "NetworkMethod", "Signal", "network"]

FEEDS = ("losses", "last-layer norms", "gradient norms")  # from cheap to dear
MOMENTS = 10  # of a run at which all items of the probe are evaluated
PART = 500  # items of the probe that are evaluated at once
FLOOR = 0.1  # share of uniform draws under the distributions that are called possible
ALIKE = 0.8  # there is little to gain: the ideal second moment, over uniform's, is above this
PAYS = 1.25  # it pays where shuffling takes this many times as long
HELPS = 1.25  # labels help, or a dearer feed does, where without it takes this many times as long


@dataclass
class Signal:
    """What draws by a quantity would have, in the second half of a run with shuffled epochs.

    Attributes
    ----------
    name : str
        The quantity that draws are in proportion to.
    second_moment : float
        Of gradient estimates, over that of uniform draws: below 1 is better. No draws can be
        better than those by gradient norms.
    """

    name: str
    second_moment: float


@dataclass
class NetworkMethod:
    """What a way to draw has reached; lists have one number for each seed.

    Attributes
    ----------
    sampler : {"shuffle", "vrb", "group-vrb"}
    feed : str
        What the sampler learns from; empty for shuffling.
    second_moment : float
        Of gradient estimates, over that of uniform draws, exact over the probe, in the second half
        of the run.
    ideal : float
        The least that any draws could have there.
    steps : list of float
        To the loss that shuffling ends with; infinite if not reached.
    step_ms, draw_ms : float
        Median milliseconds of a step, all included, and of its draw and update alone.
    time_ratio : float
        Median steps times the cost of one, over those of shuffling: below 1 is better.
    """

    sampler: str
    feed: str
    second_moment: float
    ideal: float
    steps: list[float]
    step_ms: float
    draw_ms: float
    time_ratio: float


@dataclass
class NetworkAdvice:
    """What `network` has measured, and what follows; `print` it, or use `as_dict`.

    Attributes
    ----------
    stay : bool
        Whether to stay with shuffled epochs.
    feed : str or None
        What to feed the sampler with; None if `stay`.
    labels_help : bool or None
        Whether groups make it sooner; None where none were given.
    headline : str
    reasons : list of str
    possible : list of Signal
    methods : list of NetworkMethod
        The first is shuffling.
    items, probe, batch_size, steps, seeds : int
        Items in all and in the probe, and of what the runs were.
    code : str
        The loop that follows the advice; empty if `stay`.
    """

    stay: bool
    feed: str | None
    labels_help: bool | None
    headline: str
    reasons: list[str]
    possible: list[Signal]
    methods: list[NetworkMethod]
    items: int
    probe: int
    batch_size: int
    steps: int
    seeds: int
    code: str

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(lines_of(self))


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
    probed = _fetch(dataset, items, place)
    trial = _Trial(model, dataset, loss, names, make, batch_size, steps, items, probed, place)

    kinds = [("shuffle", "")]
    kinds += [(s, f) for f in FEEDS for s in (("vrb",) if names is None else ("vrb", "group-vrb"))]
    runs: dict[tuple[str, str], list[_Run]] = {kind: [] for kind in kinds}
    for done, (turn, kind) in enumerate((t, k) for t in range(seeds) for k in kinds):
        runs[kind].append(trial.run(*kind, seed + turn))
        if progress is not None:
            progress(done + 1, seeds * len(kinds))
    shuffled = [look for run in runs["shuffle", ""] for look in run.later()]
    possible = _possible(shuffled, names, items)
    methods = _methods(runs)
    return _decide(possible, methods, n, probe, batch_size, steps, seeds, names is not None)


class _Look(NamedTuple):
    """The items of the probe at a moment of a run."""

    step: int
    losses: NDArray[np.float64]
    last: NDArray[np.float64]  # last-layer norms
    norms: NDArray[np.float64]  # gradient norms
    times: NDArray[np.float64]  # n p, of each item

    def of(self, feed: str) -> NDArray[np.float64]:
        """Return the quantity of that name."""
        return (self.losses, self.last, self.norms)[FEEDS.index(feed)]


class _Run(NamedTuple):
    """A run: what was seen on the way, and seconds of each step and of its draw."""

    looks: list[_Look]
    step: list[float]
    draw: list[float]

    def later(self) -> list[_Look]:
        """Return what was seen in the second half of the run."""
        return self.looks[1 + MOMENTS // 2 :]


class _Trial(NamedTuple):
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

    def run(self, sampler: str, feed: str, seed: int) -> _Run:
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
            found = _Run([self._look(model, loader, 0)], [], [])
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

    def _look(self, model: Any, loader: Any, step: int) -> _Look:
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
        return _Look(step, losses, last, norms, len(chances) * chances[self.items])


def _fetch(dataset: Any, items: NDArray[np.int64], device: Any) -> list[tuple[Any, Any]]:
    """Return inputs and targets of items, in parts."""
    from torch.utils.data import default_collate

    found = []
    for part in np.array_split(items, -(-len(items) // PART)):
        inputs, targets = default_collate([dataset[int(item)] for item in part])
        found.append((inputs.to(device), targets.to(device)))
    return found


def _possible(looks: list[_Look], groups: Any, items: NDArray[np.int64]) -> list[Signal]:
    """Return the second moments of draws in proportion to each quantity, over uniform's."""
    uniform = sum(float((look.norms**2).sum()) for look in looks)
    if not uniform > 0:
        return [Signal(feed, 1.0) for feed in FEEDS]
    found = []
    if groups is not None:
        _, numbers = np.unique(groups[items], return_inverse=True)
        sizes = np.bincount(numbers)
        best = 0.0
        for look in looks:  # p(i) = q_c / n_c costs least at q_c ~ sqrt(n_c S_c)
            squares = np.bincount(numbers, weights=look.norms**2)
            best += float(np.sqrt(sizes * squares).sum()) ** 2 / len(items)
        found.append(Signal("the best of each group, all alike in it", best / uniform))
    for feed in FEEDS:
        cost = 0.0
        for look in looks:
            signal = look.of(feed)
            total = float(signal.sum())
            times = np.ones(len(items))
            if total > 0:
                floor = 0.0 if feed == "gradient norms" else FLOOR
                times = (1.0 - floor) * signal * (len(items) / total) + floor
            with np.errstate(divide="ignore", invalid="ignore"):
                cost += float(np.where(look.norms > 0, look.norms**2 / times, 0.0).sum())
        found.append(Signal(feed, cost / uniform))
    return found


def _methods(runs: dict[tuple[str, str], list[_Run]]) -> list[NetworkMethod]:
    """Return what each way to draw has reached."""
    goals = [run.looks[-1].losses.mean() for run in runs["shuffle", ""]]
    found: list[NetworkMethod] = []
    for (sampler, feed), mine in runs.items():
        ours = ideal = uniform = 0.0
        for look in (look for run in mine for look in run.later()):
            ours += float((look.norms**2 / look.times).sum())
            ideal += float(look.norms.sum()) ** 2 / len(look.norms)
            uniform += float((look.norms**2).sum())
        steps = [_arrival(run.looks, goal) for run, goal in zip(mine, goals, strict=True)]
        step_ms = 1000.0 * float(np.median([s for run in mine for s in run.step]))
        draw_ms = 1000.0 * float(np.median([s for run in mine for s in run.draw]))
        unit = found[0] if found else None
        ratio = 1.0
        if unit is not None:
            share = [a / b for a, b in zip(steps, unit.steps, strict=True)]
            ratio = sorted(share)[len(share) // 2] * step_ms / unit.step_ms
        if not uniform > 0:
            ours = ideal = uniform = 1.0
        found.append(
            NetworkMethod(
                sampler, feed, ours / uniform, ideal / uniform, steps, step_ms, draw_ms, ratio
            )
        )
    return found


def _arrival(looks: list[_Look], goal: float) -> float:
    """Return the steps to a mean loss over the probe, linear between moments."""
    before = looks[0]
    for look in looks[1:]:
        low, high = float(look.losses.mean()), float(before.losses.mean())
        if low <= goal:
            share = (high - goal) / (high - low) if high > low else 1.0
            return before.step + min(max(share, 0.0), 1.0) * (look.step - before.step)
        before = look
    return math.inf


def _decide(
    possible: list[Signal],
    methods: list[NetworkMethod],
    n: int,
    probe: int,
    batch_size: int,
    steps: int,
    seeds: int,
    grouped: bool,
) -> NetworkAdvice:
    """Return the advice: the cheapest feed that no dearer one beats clearly, or shuffling."""
    ideal = possible[-1].second_moment
    rest = methods[1:]
    best = rest[0]
    for other in rest[1:]:
        if best.time_ratio > HELPS * other.time_ratio or not math.isfinite(best.time_ratio):
            best = other if math.isfinite(other.time_ratio) else best
    labels = None
    if grouped:
        alone, shared = (
            next(m for m in rest if (m.sampler, m.feed) == (sampler, best.feed))
            for sampler in ("vrb", "group-vrb")
        )
        labels = alone.time_ratio > HELPS * shared.time_ratio
    pays = best.time_ratio * PAYS <= 1.0
    reasons = [
        f"{best.sampler} fed with {best.feed} has reached {best.second_moment:.2g} of the second "
        f"moment of uniform draws, where {best.ideal:.2g} would be ideal."
    ]
    if math.isfinite(best.time_ratio):
        reasons.append(
            f"To the loss that shuffling ends with, it takes {best.time_ratio:.2g} times as long: "
            f"a step takes {best.step_ms:.2g} ms against {methods[0].step_ms:.2g} ms, of which "
            f"{best.draw_ms:.2g} ms are draw and update."
        )
    else:
        reasons.append("The loss that shuffling ends with was not reached in as many steps.")
    if ideal > ALIKE:
        reasons.append("There is little to gain here, whatever the sampler is fed with.")
    if labels is not None:
        word = "help" if labels else "do not help"
        reasons.append(
            f"Labels {word}: fed with {best.feed}, it takes {shared.time_ratio:.2g} times as long "
            f"as shuffling with them, {alone.time_ratio:.2g} times without."
        )
    headline = "Stay with shuffled epochs."
    if pays:
        headline = f"Draw by {best.sampler}, fed with {best.feed}."
    return NetworkAdvice(
        stay=not pays,
        feed=best.feed if pays else None,
        labels_help=labels,
        headline=headline,
        reasons=reasons,
        possible=possible,
        methods=methods,
        items=n,
        probe=probe,
        batch_size=batch_size,
        steps=steps,
        seeds=seeds,
        code=_code(best, batch_size) if pays else "",
    )


def _code(method: NetworkMethod, batch_size: int) -> str:
    """Return the loop that feeds a sampler so."""
    groups = ", groups=groups" if method.sampler == "group-vrb" else ""
    quantity = "" if method.feed == "losses" else ', quantity="gradient norm"'
    lines = [
        f'loader = tombola.torch.ImportanceLoader(dataset, {batch_size}, "{method.sampler}"{groups}'
        f"{quantity})",
        "for (inputs, targets), draw in loader:",
    ]
    if method.feed == "gradient norms":
        lines += [
            "    with tombola.torch.gradient_norms(model) as norms:",
            "        draw.mean(loss(model(inputs), targets)).backward()",
            "    fed = norms.of(draw)",
        ]
    elif method.feed == "last-layer norms":
        lines += [
            "    outputs = model(inputs)",
            "    draw.mean(loss(outputs, targets)).backward()",
            "    fed = tombola.torch.last_layer_norms(outputs, targets)  # of cross_entropy",
        ]
    else:
        lines += [
            "    fed = loss(model(inputs), targets)",
            "    draw.mean(fed).backward()",
        ]
    return "\n".join([*lines, "    optimizer.step()", "    optimizer.zero_grad()",
                      "    loader.update(draw, fed)"])  # fmt: skip
