"""Which model to use on these data, scikit-learn's or ours, and do adaptive draws pay?

    from tombola.advice import advise
    print(advise(X, y, task="classification"))

It fits the models that people would use to their end, with the same penalty, and scores them on
rows that were held out. Next to it, shuffled epochs are raced against `VRB`, `GroupVRB` and the
defaults of our solvers, which says whether adaptive draws pay.

`network` asks the same about a PyTorch model, `timesteps` about the timesteps of a diffusion model.
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("tombola.advice needs scikit-learn: pip install tombola[sklearn]") from error

from tombola.advice.advice import Advice
from tombola.advice.advise import advise
from tombola.advice.network import network
from tombola.advice.network_parts import NetworkAdvice, NetworkMethod, Signal
from tombola.advice.parts import Group, Item, Method, Model, Possible, Race, Verdict
from tombola.advice.timesteps import TimestepAdvice, timesteps
from tombola.advice.verdict import decide

__all__ = [
    "Advice",
    "Group",
    "Item",
    "Method",
    "Model",
    "NetworkAdvice",
    "NetworkMethod",
    "Possible",
    "Race",
    "Signal",
    "TimestepAdvice",
    "Verdict",
    "advise",
    "decide",
    "network",
    "timesteps",
]
