"""Samplers by name: the meaning of every `sampler` argument in the library."""

from collections.abc import Callable, Mapping
from typing import Any

from tombola.samplers.base import Sampler
from tombola.samplers.epoch_vrb import EpochVRB
from tombola.samplers.group_vrb import GroupVRB
from tombola.samplers.shuffle import Shuffle
from tombola.samplers.static import Static
from tombola.samplers.uniform import Uniform
from tombola.samplers.vrb import VRB

__all__ = ["GROUPED", "NAMES", "UNGROUPED", "make_sampler"]

NAMES = ("auto", "vrb", "group-vrb", "epoch-vrb", "shuffle", "uniform", "balanced")
GROUPED = ("group-vrb", "balanced")  # these need groups
UNGROUPED = tuple(name for name in NAMES if name not in GROUPED)
MEMORY = 5  # epochs: the memory of VRB if losses converge to zero


def make_sampler(
    choice: Any,
    n: int,
    seed: int,
    groups: Any = None,
    *,
    own: Callable[[], Sampler] | None = None,
    forget: bool = False,
    extra: Mapping[str, Callable[[], Sampler]] | None = None,
    what: str = "rows",
    whose: str = "X",
) -> Sampler:
    """Return the sampler that a `sampler` argument specifies.

    ============= ================================================================================
    "vrb"         `VRB`
    "group-vrb"   `GroupVRB` over the groups
    "epoch-vrb"   `EpochVRB`, shuffled epochs whose items are chosen
    "shuffle"     `Shuffle`, shuffled epochs
    "uniform"     `Uniform`, independent uniform draws
    "balanced"    `Static.balanced`, all groups equally often
    "auto"        the solver's own sampler if it has one, else "group-vrb" with groups and "vrb"
                  without
    ============= ================================================================================

    Parameters
    ----------
    choice : str, Sampler or callable
        A name; a sampler over n items, which is not modified (a new one is made with its
        parameters and seed); or a function (n, seed, groups) that returns a sampler.
    n, seed : int
    groups : array-like of shape (n,), optional
        The group of each item, usually its class.
    own : callable, optional
        Makes the solver's own sampler, for "auto": `SAGA` and `SVRG` draw by curvature,
        `MiniBatchKMeans` by distance.
    forget : bool, default=False
        Whether losses converge to zero, as in `SAGA` and `SVRG`: `VRB` then forgets old losses,
        and neither `VRB` nor `GroupVRB` falls back to shuffled epochs.
    extra : mapping of str to callable, optional
        Additional names, with a function that makes the sampler of each.
    what, whose : str, default="rows", "X"
        What the items are called, and where they come from, for the error message.

    Returns
    -------
    Sampler

    Examples
    --------
    >>> make_sampler("auto", 4, 0, ["cat", "dog", "cat", "cat"])
    GroupVRB(groups=<4 values>, labels=<2 values>, shuffle=True, seed=0)
    >>> make_sampler("vrb", 4, 0, ["cat", "dog", "cat", "cat"])
    VRB(n=4, shuffle=True, seed=0)
    """
    if isinstance(choice, Sampler):
        sampler = type(choice)(**choice.parameters)
    elif isinstance(choice, str):
        memory = MEMORY * n if forget else None
        makers: dict[str, Callable[[], Sampler]] = {
            "vrb": lambda: VRB(n, memory=memory, shuffle=not forget, seed=seed),
            "group-vrb": lambda: GroupVRB(groups, shuffle=not forget, seed=seed),
            "epoch-vrb": lambda: EpochVRB(n, seed=seed),
            "shuffle": lambda: Shuffle(n, seed=seed),
            "uniform": lambda: Uniform(n, seed=seed),
            "balanced": lambda: Static.balanced(groups, seed=seed),
            **(extra or {}),
        }
        makers["auto"] = own or makers["vrb" if groups is None else "group-vrb"]
        if choice not in makers:
            known = [*NAMES, *(extra or {})]
            raise ValueError(f"sampler={choice!r} is not a sampler; the names are {known}")
        if choice in GROUPED and groups is None:
            raise ValueError(f"sampler={choice!r} needs class labels, but there are none")
        sampler = makers[choice]()
    elif callable(choice):
        sampler = choice(n, seed, groups)
        if not isinstance(sampler, Sampler):
            raise TypeError(
                f"sampler={choice!r} must return a tombola sampler, "
                f"it returned a {type(sampler).__name__}"
            )
    else:
        raise TypeError(
            "sampler must be a name, a tombola sampler or a function (n, seed, groups) that "
            f"returns one, got a {type(choice).__name__}"
        )
    if sampler.n != n:
        raise ValueError(f"the sampler is over {sampler.n} items, {whose} has {n} {what}")
    return sampler
