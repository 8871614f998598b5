"""Samplers by name: what a `sampler` argument of an estimator or a loader may be."""

from collections.abc import Callable
from typing import Any

from tombola.samplers.base import Sampler
from tombola.samplers.group_vrb import GroupVRB
from tombola.samplers.shuffle import Shuffle
from tombola.samplers.static import Static
from tombola.samplers.uniform import Uniform
from tombola.samplers.vrb import VRB

__all__ = ["make_sampler"]

MEMORY = 5  # epochs that VRB remembers where losses go to zero


def make_sampler(
    choice: Any,
    n: int,
    seed: int,
    groups: Any,
    *,
    forget: bool = False,
    what: str = "rows",
    whose: str = "X",
) -> Sampler:
    """Return the sampler that a `sampler` argument asks for.

    Parameters
    ----------
    choice : str, Sampler or callable
        A name; a sampler over n items, of which a fresh one with the same parameters (and seed)
        is made, so that the one given stays as it is; or a function (n, seed, groups) that
        returns one.
    n, seed : int
    groups : ndarray of shape (n,) or None
        Class labels.
    forget : bool, default=False
        Whether the losses will go to zero, as with SAGA: then VRB should forget old ones, and
        nobody shuffle.
    what, whose : str, default="rows", "X"
        What is drawn and where it is, for the error message.

    Examples
    --------
    >>> make_sampler("auto", 4, 0, ["cat", "dog", "cat", "cat"])
    GroupVRB(groups=<4 values>, labels=<2 values>, seed=0, shuffle=True)
    """
    if isinstance(choice, Sampler):
        sampler = type(choice)(**choice.parameters)
    elif isinstance(choice, str):
        if choice == "auto":
            choice = "vrb" if groups is None else "group-vrb"
        if choice in ("group-vrb", "balanced") and groups is None:
            raise ValueError(f"sampler={choice!r} needs class labels, and there are none")
        makers: dict[str, Callable[[], Sampler]] = {
            "vrb": lambda: VRB(
                n, memory=MEMORY * n if forget else None, shuffle=not forget, seed=seed
            ),
            "group-vrb": lambda: GroupVRB(groups, shuffle=not forget, seed=seed),
            "shuffle": lambda: Shuffle(n, seed=seed),
            "uniform": lambda: Uniform(n, seed=seed),
            "balanced": lambda: Static.balanced(groups, seed=seed),
        }
        if choice not in makers:
            raise ValueError(f"sampler={choice!r} is no sampler; there are {['auto', *makers]}")
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
