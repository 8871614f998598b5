"""Does adaptive sampling pay on these data, how much, and how is it used?

    from tombola.advice import advise
    print(advise(X, y, task="classification"))

It trains for a few epochs and, on the way, computes the loss of *every* item (the gradient norms
that samplers are fed with), which gives the second moment of any other distribution. Then it races
shuffled epochs against `VRB`, `GroupVRB` and the defaults of the estimators, over a few seeds. The
race decides; the second moments explain.
"""

from tombola.advice.advice import Advice
from tombola.advice.advise import advise
from tombola.advice.parts import Group, Item, Method, Possible, Race, Verdict
from tombola.advice.verdict import decide

__all__ = [
    "Advice",
    "Group",
    "Item",
    "Method",
    "Possible",
    "Race",
    "Verdict",
    "advise",
    "decide",
]
