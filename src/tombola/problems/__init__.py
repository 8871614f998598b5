"""What is optimised: a mean of losses over items, with their gradients and norms."""

from tombola.problems.epsilon_insensitive import EpsilonInsensitive
from tombola.problems.hinge import Hinge
from tombola.problems.huber import Huber
from tombola.problems.kmeans import KMeans
from tombola.problems.least_squares import LeastSquares
from tombola.problems.linear import LinearProblem, TwoClasses
from tombola.problems.logistic import Logistic
from tombola.problems.softmax import Softmax
from tombola.problems.squared_hinge import SquaredHinge

__all__ = [
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "KMeans",
    "LeastSquares",
    "LinearProblem",
    "Logistic",
    "Softmax",
    "SquaredHinge",
    "TwoClasses",
]
