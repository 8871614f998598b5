"""Do adaptive draws pay for a PyTorch model, fed with what, at which rate?"""

import copy
import functools
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tombola.advice.race import (
    LOOKS,
    RATES,
    Contender,
    Curve,
    Look,
    Pair,
    Raced,
    race,
    total_steps,
)
from tombola.advice.render import (
    Report,
    Section,
    curve_section,
    page,
    pair_section,
    race_figure,
    terminal,
)
from tombola.advice.verdict import Verdict, interval, judge
from tombola.datasets import split
from tombola.validation import number, whole

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["NetworkAdvice", "Signal", "network"]

FEEDS = ("losses", "last-layer norms", "gradient norms")  # from cheap to dear
EPOCHS = 3  # draws adapt over these, at least
FEWEST = 480  # steps of a run, where epochs are short
HELD_OUT = 0.2  # share of the items to judge by, where no others are given
PROBE = 2000  # items that losses are looked at on, at most
PART = 500  # of them, evaluated at once
FLOOR = 0.1  # share of uniform draws under the distributions that are called possible
ALIKE = 0.8  # there is little to gain: the ideal second moment, over uniform's, is above this
SHARE = 0.7  # of the items in an epoch of EpochVRB


@dataclass
class Signal:
    """What draws by a quantity would have, at the end of a run with shuffled epochs.

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
class NetworkAdvice:
    """What `network` has measured, and what follows; `print` it, or use `as_dict`.

    Attributes
    ----------
    verdict : Verdict
        On the best way to draw, against shuffled epochs; by validation loss.
    sampler, feed : str
        Of the best way to draw besides shuffled epochs, and what it learns from.
    rate, shuffle_rate : float
        The best rates of both, times that of the optimizer.
    headline : str
    reasons : list of str
    code : str
        The loop that follows the advice; empty if it says to stay with shuffled epochs.
    pairs : list of Pair
        What the verdict comes from: the best way to draw and shuffled epochs, seed by seed.
    curves : list of Curve
        All runs.
    possible : list of Signal
        What draws could gain, whatever the sampler.
    items, batch_size, steps : int
        Items that were trained on, of how many examples a step is, and steps of a whole run.
    seconds : float
        That it took.
    """

    verdict: Verdict
    sampler: str
    feed: str
    rate: float
    shuffle_rate: float
    headline: str
    reasons: list[str]
    code: str
    pairs: list[Pair]
    curves: list[Curve]
    possible: list[Signal]
    items: int
    batch_size: int
    steps: int
    seconds: float

    @property
    def stay(self) -> bool:
        """Whether to stay with shuffled epochs: adaptive draws do not pay, or it is too close."""
        return self.verdict.pays is not True

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, strings and numbers."""
        return asdict(self)

    def report(self) -> Report:
        """Return what it says, with all rows."""
        quantities = Section(
            "What is possible",
            ["draws in proportion to", "second moment"],
            [[each.name, f"{each.second_moment:.4g}"] for each in self.possible],
            "Second moment of gradient estimates over that of uniform draws, at the end of a run "
            "with shuffled epochs.",
        )
        pairs = pair_section(self.pairs, len(self.pairs))
        pairs.figure = functools.partial(race_figure, self.curves)
        sections = [pairs, curve_section(self.curves), quantities]
        rest = 'Everything that was measured: advice.save("advice.html"), or advice.as_dict().'
        return Report(self.headline, self.reasons, self.code, sections, rest=rest)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page with all rows and a figure of the curves."""
        page(self.report(), "Do adaptive draws pay for this network?").save(path)

    def __str__(self) -> str:
        return "\n".join(terminal(self.report()))


class Trial(NamedTuple):
    """What all runs share."""

    model: Any
    dataset: Any
    loss: Any
    groups: Any
    optimizer: Any
    batch_size: int
    validation: list[tuple[Any, Any]]
    score: Any
    device: Any

    def losses(self, outputs: Any, targets: Any) -> Any:
        """Return the loss of each example."""
        losses = self.loss(outputs, targets)
        if losses.shape != targets.shape[:1]:
            raise ValueError(
                f"loss must return one number for each example, shape {tuple(targets.shape[:1])}, "
                f"got {tuple(losses.shape)}: for a loss of torch, give it reduction='none'"
            )
        return losses


class Run:
    """A copy of the model that trains with one way to draw."""

    def __init__(self, trial: Trial, contender: Contender, rate: float, seed: int) -> None:
        from tombola.torch import ImportanceLoader

        self.trial, self.feed, self.seed = trial, contender.feed, seed
        self.model = copy.deepcopy(trial.model).to(trial.device).train()
        self.optimizer = trial.optimizer(self.model.parameters())
        for group in self.optimizer.param_groups:
            group["lr"] *= rate
        sampler = contender.sampler
        self.loader = ImportanceLoader(
            trial.dataset, trial.batch_size, sampler, seed=seed,
            groups=trial.groups if sampler == "group-vrb" else None,
            share=SHARE if sampler == "epoch-vrb" else None,
            quantity="gradient norm" if self.feed == "last-layer norms" else "loss",
        )  # fmt: skip
        self.batches = iter(self.loader)
        self.seconds: list[float] = []
        self.looks = [self._look(0)]

    def advance(self, steps: int) -> None:
        """Train until this many steps are done, and look."""
        import torch

        before = self.looks[-1].step
        with torch.random.fork_rng():
            torch.manual_seed(self.seed + before)
            began = time.perf_counter()
            for _ in range(steps - before):
                self._step()
            if self.trial.device.type == "cuda":
                torch.cuda.synchronize(self.trial.device)
            self.seconds.append((time.perf_counter() - began) / (steps - before))
            self.looks.append(self._look(steps))

    def _step(self) -> None:
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        (inputs, targets), draw = batch
        inputs, targets = inputs.to(self.trial.device), targets.to(self.trial.device)
        outputs = self.model(inputs)
        if self.feed == "last-layer norms":
            outputs.retain_grad()
        fed = losses = self.trial.losses(outputs, targets)
        draw.mean(losses).backward()  # type: ignore[no-untyped-call]
        if self.feed == "last-layer norms":
            import torch

            weights = torch.as_tensor(draw.importances).to(outputs.device, outputs.dtype)
            fed = outputs.grad.flatten(1).norm(dim=1) * (len(draw) / weights)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.feed:
            self.loader.update(draw, fed, skip_nonfinite=True)

    def _look(self, step: int) -> Look:
        """Evaluate the validation items; the model stays as it is."""
        import torch

        trial, score = self.trial, math.nan
        self.model.eval()
        with torch.no_grad():
            outputs = [self.model(inputs) for inputs, _ in trial.validation]
            losses = [
                trial.losses(mine, targets)
                for mine, (_, targets) in zip(outputs, trial.validation, strict=True)
            ]
            if trial.score is not None:
                score = float(
                    trial.score(torch.cat(outputs), torch.cat([t for _, t in trial.validation]))
                )
        self.model.train()
        return Look(step, float(torch.cat(losses).double().mean()), score)


def network(
    model: "nn.Module",
    dataset: Any,
    loss: "Callable[[Tensor, Tensor], Tensor]",
    *,
    groups: Any = "auto",
    validation: Any = None,
    score: "Callable[[Tensor, Tensor], float] | None" = None,
    optimizer: Callable[[Any], Any] | None = None,
    batch_size: int = 32,
    steps: int | None = None,
    seeds: int = 5,
    rates: tuple[float, ...] = RATES,
    budget: float = 60.0,
    seed: int = 0,
    device: Any = None,
    progress: Callable[[int, int], None] | None = None,
) -> NetworkAdvice:
    """Race adaptive draws against shuffled epochs on a PyTorch model, and say whether they pay.

    Copies of the model are trained with shuffled epochs, `VRB` and (if there are groups)
    `GroupVRB`, fed with losses and with last-layer norms, and with `EpochVRB`; each at several
    rates, all of them for a sixth of the steps. The better ones go on; the best one and shuffled
    epochs, each at its best rate, finish, with several seeds. For each seed that gives a ratio of
    times to the same validation losses: steps, which repeat with the same seed, times the cost of
    one. The verdict is a function of the interval of these ratios: see `decide`.

    All of it costs about as much as fifteen runs, or up to 35 while it
    is too close to call: of three epochs each.

    Parameters
    ----------
    model : torch.nn.Module
        Left as it is.
    dataset : map-style dataset
        Of pairs (input, target).
    loss : callable
        ``loss(model(inputs), targets)`` returns the loss of each example, shape (batch,): such as
        ``functools.partial(torch.nn.functional.cross_entropy, reduction="none")``.
    groups : array-like of shape (n,) or "auto", optional
        The group of each item; "auto" takes the labels that the dataset has, as in
        `tombola.torch.ImportanceLoader`; None for none.
    validation : map-style dataset, optional
        To judge by; by default a fifth of `dataset`, which is then not trained on.
    score : callable, optional
        ``score(outputs, targets)`` of all validation items, higher is better. Where it contradicts
        the losses, the verdict is "too close to call".
    optimizer : callable, optional
        Makes the optimizer from the parameters; by default ``SGD(lr=0.1)``.
    batch_size : int, default=32
    steps : int, optional
        Of a whole run: by default three epochs, or 480 if that is more; fewer if the budget is
        spent before. With fewer than one epoch, the verdict is "too close to call".
    seeds : int, default=5
        Of the last two ways to draw; up to three times as many while it is too close to call. The
        model starts from the same parameters with each of them.
    rates : sequence of float, default=(1/3, 1, 3)
        Times the rate of the optimizer.
    budget : float, default=60.0
        Seconds, after which it stops, with what it has. Time decides how many steps are made if
        not all of them fit, and, as a part of the verdict, whether further seeds are.
    seed : int, default=0
    device : torch.device or str, optional
        By default that of the model.
    progress : callable, optional
        Called with the number of looks done and in all; by default a bar on a terminal.

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
    >>> advice = network(torch.nn.Linear(4, 2), TensorDataset(x, y), loss, groups=y, steps=24)
    >>> 5 <= len(advice.pairs) == advice.verdict.runs <= 15
    True
    """
    import torch
    from torch.utils.data import Subset, TensorDataset

    from tombola.torch.loader.labels import resolve_groups

    began, n = time.perf_counter(), len(dataset)
    seeds, seed = whole("seeds", seeds, 2), whole("seed", seed, 0)
    batch_size = whole("batch_size", batch_size, 1)
    steps = None if steps is None else whole("steps", steps, LOOKS)
    budget = number("budget", budget)
    if not budget > 0:
        raise ValueError(f"budget must be positive, got {budget}")
    rates = tuple(number(f"rates[{k}]", rate) for k, rate in enumerate(rates))
    if not rates or min(rates) <= 0:
        raise ValueError(f"rates must be positive, got {list(rates)}")
    names = resolve_groups(groups, dataset, n)
    names = None if names is None else np.asarray(names)
    if names is not None and names.shape != (n,):
        raise ValueError(f"groups must have shape ({n},), one for each item, got {names.shape}")
    if validation is None:
        kept, held = split(n, HELD_OUT, seed, names)
        names = None if names is None else names[kept]
        validation = Subset(dataset, held.tolist())
        if isinstance(dataset, TensorDataset):
            dataset = TensorDataset(*(part[torch.as_tensor(kept)] for part in dataset.tensors))
        else:
            dataset = Subset(dataset, kept.tolist())
    place = next(model.parameters()).device if device is None else torch.device(device)
    items = np.sort(np.random.default_rng(seed).permutation(len(validation))[:PROBE])
    make = optimizer or functools.partial(torch.optim.SGD, lr=0.1)
    trial = Trial(
        model, dataset, loss, names, make, batch_size, fetch(validation, items, place), score, place
    )
    contenders = [Contender("shuffle"), *(Contender("vrb", feed) for feed in FEEDS[:2])]
    contenders.append(Contender("epoch-vrb", FEEDS[0]))
    if names is not None:
        contenders += [Contender("group-vrb", feed) for feed in FEEDS[:2]]
    epoch = -(-len(dataset) // batch_size)
    wanted = max(EPOCHS * epoch, FEWEST) if steps is None else steps
    steps = affordable(trial, contenders, len(rates), seeds, wanted, budget)
    raced = race(
        functools.partial(Run, trial), contenders, rates, steps=steps, seeds=seeds, seed=seed,
        budget=budget - (time.perf_counter() - began),
        progress=progress or (bar if sys.stderr.isatty() else None),
    )  # fmt: skip
    items = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:PROBE])
    signals = possible(raced.shuffled, items)
    took = time.perf_counter() - began
    return _advice(raced, signals, len(dataset), batch_size, epoch, took)


def affordable(
    trial: Trial, contenders: list[Contender], rates: int, seeds: int, steps: int, budget: float
) -> int:
    """Return how many steps of a run there is time for: `steps`, or fewer, by quarters.

    The cost of a step is that of the first few with the dearest feed.
    """
    trying = Run(trial, contenders[1], 1.0, 0)
    looks = []
    for count in (3, 6, 9, 12):  # the first ones are slower
        trying.advance(count)
        began = time.perf_counter()
        trying._look(count)
        looks.append(time.perf_counter() - began)
    step, runs = min(trying.seconds), total_steps(len(contenders), rates, seeds)
    steps = -(-steps // LOOKS) * LOOKS
    while steps > LOOKS and runs * (steps * step + LOOKS * min(looks)) > 0.6 * budget:
        steps = max(3 * steps // 4 // LOOKS, 1) * LOOKS
    return steps


def _advice(
    raced: Raced, signals: list[Signal], n: int, batch_size: int, epoch: int, took: float
) -> NetworkAdvice:
    """Return what follows from a race."""
    verdict, best, pairs = raced.verdict, raced.best, raced.pairs
    if contradicts(verdict.pays, pairs):
        verdict = replace(verdict, pays=None, veto="the score says the contrary")
    if raced.steps < epoch:
        few = f"a larger budget: a run has {raced.steps} steps, an epoch {epoch}"
        verdict = replace(verdict, pays=None, settle=few)
    headline = f"{best} {verdict}."
    if verdict.pays is not True:
        headline = f"Stay with shuffled epochs. {headline}"
    reasons = []
    if pairs:
        loss, other = (float(np.mean(v)) for v in zip(*((p.loss, p.shuffle_loss) for p in pairs),
                                                      strict=True))  # fmt: skip
        reasons.append(
            f"Validation loss {loss:.4g}, {other:.4g} with shuffled epochs; learning rate times "
            f"{raced.rate:.3g}, times {raced.shuffle_rate:.3g} with shuffled epochs."
        )
    reasons.append(
        f"{len(pairs)} seeds, {raced.steps} steps of {batch_size} examples each, {took:.0f} s."
    )
    if signals:
        ideal = signals[-1].second_moment
        reasons[-1] += f" Ideal draws would have {ideal:.2g} of the second moment of uniform ones"
        reasons[-1] += ": there is little to gain." if ideal > ALIKE else "."
    code = _code(best, batch_size, raced.rate) if verdict.pays else ""
    return NetworkAdvice(
        verdict=verdict, sampler=best.sampler, feed=best.feed, rate=raced.rate,
        shuffle_rate=raced.shuffle_rate, headline=headline, reasons=reasons, code=code, pairs=pairs,
        curves=raced.curves, possible=signals, items=n, batch_size=batch_size, steps=raced.steps,
        seconds=took,
    )  # fmt: skip


def contradicts(pays: bool | None, pairs: list[Pair]) -> bool:
    """Return whether a score says the contrary: its interval is on the other side of equal."""
    _, low, high = interval([p.shuffle_score - p.score for p in pairs])
    better = None if low <= 0.0 <= high else judge((low, high), 0.0)
    return pays is not None and better is not None and better != pays


def _code(best: Contender, batch_size: int, rate: float) -> str:
    """Return the loop that draws so."""
    extra = {"group-vrb": ", groups=groups", "epoch-vrb": f", share={SHARE}"}.get(best.sampler, "")
    if best.feed == "last-layer norms":
        extra += ', quantity="gradient norm"'
    lines = [
        f'loader = tombola.torch.ImportanceLoader(dataset, {batch_size}, "{best.sampler}"{extra})',
        f"for (inputs, targets), draw in loader:  # learning rate: {rate:.3g} times yours",
        "    outputs = model(inputs)",
    ]
    if best.feed == "last-layer norms":
        lines += [
            "    draw.mean(loss(outputs, targets)).backward()",
            "    fed = tombola.torch.last_layer_norms(outputs, targets)  # of cross_entropy",
        ]
    else:
        lines += ["    fed = loss(outputs, targets)", "    draw.mean(fed).backward()"]
    return "\n".join([*lines, "    optimizer.step(); optimizer.zero_grad()",
                      "    loader.update(draw, fed)"])  # fmt: skip


def possible(run: Run, items: NDArray[np.int64]) -> list[Signal]:
    """Return the second moments of draws in proportion to each quantity, over uniform's.

    The list is empty for compiled models, and for those without a layer that `gradient_norms`
    supports.
    """
    import torch

    from tombola.torch import gradient_norms

    model, trial = copy.deepcopy(run.model).eval(), run.trial
    parts: list[tuple[Any, ...]] = []
    try:
        gradient_norms(model)
    except ValueError:
        return []
    for inputs, targets in fetch(trial.dataset, items, trial.device):
        with gradient_norms(model) as watch:
            outputs = model(inputs)
            outputs.retain_grad()
            losses = trial.losses(outputs, targets)
            losses.mean().backward()
        last = outputs.grad.flatten(1).norm(dim=1) * len(targets)
        parts.append((losses.detach(), last, watch.of(torch.ones(len(targets)))))
    columns = [torch.cat(part).cpu().double().numpy() for part in zip(*parts, strict=True)]
    norms, n = columns[-1], len(items)
    uniform = float((norms**2).sum())
    if not (uniform > 0 and np.isfinite(uniform)):
        return [Signal(feed, 1.0) for feed in FEEDS]
    found = []
    if trial.groups is not None:  # p(i) = q_c / n_c costs least at q_c ~ sqrt(n_c S_c)
        _, numbers = np.unique(trial.groups[items], return_inverse=True)
        squares = np.bincount(numbers, weights=norms**2)
        best = float(np.sqrt(np.bincount(numbers) * squares).sum()) ** 2 / n
        found.append(Signal("the best for each group, equal within it", best / uniform))
    for feed, column in zip(FEEDS, columns, strict=True):
        floor, total = (0.0 if feed == FEEDS[-1] else FLOOR), float(column.sum())
        times = (1.0 - floor) * column * (n / total) + floor if total > 0 else np.ones(n)
        drawn = norms > 0
        found.append(Signal(feed, float((norms[drawn] ** 2 / times[drawn]).sum()) / uniform))
    return found


def fetch(dataset: Any, items: NDArray[np.int64], device: Any) -> list[tuple[Any, Any]]:
    """Return inputs and targets of items, in parts."""
    from torch.utils.data import default_collate

    found = []
    for part in np.array_split(items, -(-len(items) // PART)):
        inputs, targets = default_collate([dataset[int(item)] for item in part])
        found.append((inputs.to(device), targets.to(device)))
    return found


def bar(done: int, total: int) -> None:
    """Show progress on a terminal."""
    filled = 30 * done // total
    end = "\n" if done == total else ""
    print(f"\rracing [{'#' * filled:<30}] {100 * done // total:>3}%", end=end, file=sys.stderr)
