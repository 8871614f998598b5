"""Solvers: the loop of the paper's Figure 1, compiled."""

from tombola.solvers.base import DivergenceError, Solver
from tombola.solvers.clusters.mini_batch import MiniBatchKMeans
from tombola.solvers.coordinates.block import BlockCoordinateDescent
from tombola.solvers.coordinates.coordinate import CoordinateDescent
from tombola.solvers.descent.adagrad import AdaGrad
from tombola.solvers.descent.saga import SAGA
from tombola.solvers.descent.sgd import SGD
from tombola.solvers.descent.svrg import SVRG
from tombola.solvers.dual.sdca import SDCA
from tombola.solvers.lasso.working_sets import SparseResult, WorkingSets
from tombola.solvers.newton.newton import Newton
from tombola.solvers.result import Result, Trace

__all__ = [
    "SAGA",
    "SDCA",
    "SGD",
    "SVRG",
    "AdaGrad",
    "BlockCoordinateDescent",
    "CoordinateDescent",
    "DivergenceError",
    "MiniBatchKMeans",
    "Newton",
    "Result",
    "Solver",
    "SparseResult",
    "Trace",
    "WorkingSets",
]
