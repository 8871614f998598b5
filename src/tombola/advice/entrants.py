"""The ways to draw that take part in the race of draws."""

from typing import Any, NamedTuple

from tombola.advice.data import Data
from tombola.samplers import GroupVRB, Sampler

__all__ = ["Entrant", "line_up"]


class Entrant(NamedTuple):
    """A way to draw that takes part."""

    label: str
    kind: str  # as in `Method`
    solver: str  # for people
    estimator: Any


class Default(NamedTuple):
    """What the default of the estimators is, for people."""

    name: str
    draws: str


DEFAULTS = {
    "newton": Default("Newton", "by curvature and slope"),
    "sdca": Default("SDCA", "by latest residuals"),
}


class GivenGroups:
    """The `sampler` argument for groups that are not the class labels."""

    def __init__(self, data: Data) -> None:
        self.data = data

    def __call__(self, n: int, seed: int, labels: Any) -> Sampler:
        """Return the sampler over the groups of the rows that are kept."""
        assert self.data.groups is not None
        return GroupVRB(self.data.groups[self.data.kept], seed=seed)


def line_up(data: Data) -> list[Entrant]:
    """Return the entrants, the baseline first.

    The solver is AdaGrad, or mini-batch k-means for clustering. For linear models the estimator's
    own defaults take part too, and the same solver with shuffled epochs.
    """
    clustering = data.task == "clustering"
    name, solver = ("k-means", {}) if clustering else ("AdaGrad", {"solver": "adagrad"})
    choices: dict[str, Any] = {"shuffle": "shuffle", "VRB": "vrb"}
    if data.contests[0].groups is not None:
        choices["GroupVRB"] = "group-vrb" if data.groups is None else GivenGroups(data)
    if clustering:
        choices["latest distances"] = "auto"
    entrants = [
        Entrant(
            label,
            "adaptive" if entered else "baseline",
            name,
            data.estimator(sampler=choice, **solver),
        )
        for entered, (label, choice) in enumerate(choices.items())
    ]
    if clustering or data.penalty.l1:
        return entrants
    default, plain = data.estimator(), data.estimator(sampler="shuffle")
    chosen = DEFAULTS[default.choose(data.contests[0].problem).name]
    return [
        *entrants,
        Entrant("default", "default", f"{chosen.name}, {chosen.draws}", default),
        Entrant(f"plain {chosen.name}", "plain", f"{chosen.name}, shuffled", plain),
    ]
