"""Does adaptive sampling pay on these data, by how much, and how is it used?

    from tombola.advice import advise
    print(advise(X, y, task="classification"))

It trains for a few epochs, and on the way computes the loss of *every* item (gradient norms, as
samplers are fed with): that tells what other distributions would have been worth. Then it races
shuffled epochs against `VRB`, `GroupVRB` and the default of our estimators, over a few seeds and in
seconds. The race decides; what was possible only explains.
"""

from tombola.advice.advise import advise
from tombola.advice.base import Advice, Group, Item, Method, Possible, Race, Verdict
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
