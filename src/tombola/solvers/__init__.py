"""Solvers: the loop of the paper's Figure 1, compiled."""

from tombola.solvers.adagrad import AdaGrad
from tombola.solvers.base import DivergenceError, Solver
from tombola.solvers.block import BlockCoordinateDescent
from tombola.solvers.coordinate import CoordinateDescent
from tombola.solvers.cyclic import Cyclic
from tombola.solvers.kmeans import MiniBatchKMeans
from tombola.solvers.latest import Latest
from tombola.solvers.newton import Newton
from tombola.solvers.result import Result, Trace
from tombola.solvers.saga import SAGA
from tombola.solvers.sdca import SDCA
from tombola.solvers.sgd import SGD
from tombola.solvers.svrg import SVRG
from tombola.solvers.working_sets import SparseResult, WorkingSets

__all__ = [
    "SAGA",
    "SDCA",
    "SGD",
    "SVRG",
    "AdaGrad",
    "BlockCoordinateDescent",
    "CoordinateDescent",
    "Cyclic",
    "DivergenceError",
    "Latest",
    "MiniBatchKMeans",
    "Newton",
    "Result",
    "Solver",
    "SparseResult",
    "Trace",
    "WorkingSets",
]
