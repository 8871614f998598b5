"""What `advise` measures: the parts of an `Advice`."""

from dataclasses import dataclass

__all__ = ["Group", "Item", "Method", "Possible", "Race", "Verdict"]


@dataclass
class Possible:
    """The second moments that other distributions would have had, along the path of shuffling.

    Each is relative to that of uniform draws: ideal <= best_fixed <= best_group <= 1.

    Attributes
    ----------
    name : str
        The name of the problem.
    ideal : float
        Draws in proportion to the current losses, at each moment.
    best_fixed : float
        The best distribution that never changes, in hindsight.
    best_group : float or None
        The best fixed one that draws all items of a group alike; None without groups.
    epochs, ideals : list of float
        The moments, and the ideal at each of them.
    """

    name: str
    ideal: float
    best_fixed: float
    best_group: float | None
    epochs: list[float]
    ideals: list[float]


@dataclass
class Method:
    """The result of one plan in the race; lists have one number for each seed.

    Attributes
    ----------
    label, solver : str
    kind : {"baseline", "adaptive", "default", "plain"}
        Shuffled epochs; draws that adapt; the defaults of the estimator; the default solver with
        shuffled epochs.
    ratio : float or None
        The second moment over that of uniform draws, exact, along the method's own path; None for
        SDCA, which has no estimates.
    overhead : float
        Seconds per draw (with step, update and set-up) over those of the baseline.
    predicted : float or None
        The speed-up if the number of steps fell with the second moment, as in AdaGrad's bound.
    draws, seconds : list of float
        To the goal; infinite where it was not reached.
    reached : list of float
        The decrease of the objective at the end, over the largest decrease of the baseline.
    fewer_draws, sooner : list of float
        The draws and seconds of the baseline over these: above 1 is better; 0 where the goal was
        not reached.
    """

    label: str
    solver: str
    kind: str
    ratio: float | None
    overhead: float
    predicted: float | None
    draws: list[float]
    seconds: list[float]
    reached: list[float]
    fewer_draws: list[float]
    sooner: list[float]


@dataclass
class Verdict:
    """What to do, and why.

    Attributes
    ----------
    pays : bool
        Whether adaptive draws reach the goal sooner than shuffled epochs with the same solver.
    use : {"adaptive", "default", "try", "shuffle"}
        What to do; "try" where seeds disagree, "shuffle" also where nothing can be said.
    method : str
        The label of the method to use, or to try.
    headline : str
    reasons : list of str
        Sentences.
    """

    pays: bool
    use: str
    method: str
    headline: str
    reasons: list[str]


@dataclass
class Item:
    """A row that matters: its number, its ideal probability, that over 1/n, and its label."""

    row: int
    probability: float
    times_uniform: float
    label: str | None


@dataclass
class Group:
    """A group of rows, and its share of the rows and of ideal draws."""

    group: str
    rows: int
    share_of_rows: float
    share_of_draws: float


@dataclass
class Race:
    """The curves of one problem: for each method, a row per seed and a column per evaluation."""

    name: str
    epochs: list[float]
    objective: dict[str, list[list[float]]]
    seconds: dict[str, list[list[float]]]
    goals: list[float]  # one for each seed
