"""Which model to use on these data, scikit-learn's or ours, and do adaptive draws pay?

    from tombola.advice import advise
    print(advise(X, y, task="classification"))

It fits the models that people would use to convergence, with the same penalty, and scores them on
rows that were held out. Next to it, shuffled epochs are raced against `VRB` and `GroupVRB`, which
says whether adaptive draws pay.

`network` asks the same about a PyTorch model, `timesteps` about the timesteps of a diffusion model.
All verdicts are those of `decide`: a function of an interval and a threshold.
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("tombola.advice needs scikit-learn: pip install tombola[sklearn]") from error

from tombola.advice.advise import Advice, Group, Item, advise
from tombola.advice.draws import Possible
from tombola.advice.fits import Model
from tombola.advice.network import NetworkAdvice, Signal, network
from tombola.advice.race import Curve, Pair
from tombola.advice.timesteps import TimestepAdvice, timesteps
from tombola.advice.verdict import Verdict, decide

__all__ = [
    "Advice",
    "Curve",
    "Group",
    "Item",
    "Model",
    "NetworkAdvice",
    "Pair",
    "Possible",
    "Signal",
    "TimestepAdvice",
    "Verdict",
    "advise",
    "decide",
    "network",
    "timesteps",
]
