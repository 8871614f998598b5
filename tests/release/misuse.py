"""Mistakes that a type checker must report, one in each line marked ``# wrong``.

`make release-check` fails if mypy or pyright misses one: somewhere a type got lost.
"""

from tombola import VRB, WeightIndex
from tombola.estimators import LinearClassifier
from tombola.problems import LeastSquares
from tombola.solvers import AdaGrad
from tombola.torch import ImportanceLoader


def mistakes() -> None:
    """Never called."""
    sampler = VRB("many")  # wrong
    sampler.draw(size=2.5)  # wrong
    sampler.update([1, 2], [0.5, 0.5])  # wrong
    text: str = sampler.gauge.interval()  # wrong
    sampler.gauge.intervals(text)  # wrong
    WeightIndex([1, 2]).draw("3")  # wrong
    problem = LeastSquares([[1.0]], [1.0], alpha="strong")  # wrong
    AdaGrad(rate=0.1).minimize(problem, sampler="vrb", rounds=10)  # wrong
    LinearClassifier().fit([[1.0]])  # wrong
    ImportanceLoader([1, 2], batch_size="all")  # wrong
