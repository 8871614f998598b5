"""What `advise` measures: the parts of an `Advice`."""

from dataclasses import dataclass

__all__ = ["Group", "Item", "Method", "Model", "Possible", "Race", "Verdict"]


@dataclass
class Model:
    """A model that was fitted to its end, scikit-learn's or ours.

    Attributes
    ----------
    name : str
        Library and class, and the solver where there are several.
    label : str
        The call that makes it.
    library : {"scikit-learn", "tombola"}
    family : str
        The objective; only those of one family are compared by it.
    passes : int
        Iterations of the solver, as it counts them: the same in every run with the same seed.
    seconds : float
        Of processor time on one thread, for the fit: passes times the measured cost of one.
    repeats : int
        The fits that were timed; `seconds` is the least of them.
    objective : float
        On the rows that were fitted.
    left : float
        The distance to the lowest objective of the family, over the decrease from the best constant
        prediction to it (for clustering, over the lowest one; the median over seeds).
    score : float
        On the rows that were held out.
    converged : bool
        Whether it ended by itself, before its limit on passes.
    arrived : bool
        Whether `left` is small enough for a comparison of times.
    """

    name: str
    label: str
    library: str
    family: str
    passes: int
    seconds: float
    repeats: int
    objective: float
    left: float
    score: float
    converged: bool
    arrived: bool


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
    """The result of a way to draw in the race of draws; lists have one number for each seed.

    Attributes
    ----------
    label, solver : str
    kind : {"baseline", "adaptive", "default", "plain"}
        Shuffled epochs; draws that adapt; the defaults of the estimator; the default solver with
        shuffled epochs.
    ratio : float or None
        The second moment over that of uniform draws, exact, along the method's own path; None for
        SDCA, which has no estimates.
    cost : float
        Seconds of processor time for a draw, with step, update and set-up: of each seed the least,
        and the median of these.
    draws : list of float
        To the goal; infinite where it was not reached.
    draws_ratio, time_ratio : list of float
        Draws, and draws times cost, over those of the baseline: below 1 is better; infinite where
        the goal was not reached.
    reached : list of float
        The decrease of the objective at the end, over the largest decrease of the baseline.
    """

    label: str
    solver: str
    kind: str
    ratio: float | None
    cost: float
    draws: list[float]
    draws_ratio: list[float]
    time_ratio: list[float]
    reached: list[float]


@dataclass
class Verdict:
    """What to do, and why.

    Attributes
    ----------
    use : {"scikit-learn", "tombola", "undecided"}
        The library of the model to use; "undecided" has no model and no code.
    method : str or None
        The name of the model to use.
    pays : bool or None
        Whether adaptive draws take less time than shuffled epochs with the same solver; None where
        that was not measured.
    headline : str
    reasons : list of str
        Sentences.
    """

    use: str
    method: str | None
    pays: bool | None
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
    rows: int
    epochs: list[float]
    objective: dict[str, list[list[float]]]
    goals: list[float]  # one for each seed
