"""A default fit compiles nothing, or little: in a new environment it waits for no compiler."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("sklearn")

WATCH = """
import numpy as np, scipy.sparse as sp
from numba.core import event
from tombola.compiling.caching import KernelCache
names = []
class Listener(event.Listener):
    def on_start(self, event):
        names.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
load = KernelCache._load_overload
def noted(cache, *arguments):  # one that is found in the cache was compiled before
    names.append("cached")
    return load(cache, *arguments)
KernelCache._load_overload = noted
"""
LINEAR = """
from tombola.estimators import LinearClassifier, LinearRegressor
X = np.random.default_rng(0).normal(size=(30000, 12))
y = X[:, 0] + np.random.default_rng(1).normal(size=30000)
for rows, target in ((X, y), (X.astype(np.float32), y), (sp.csr_matrix(X), y), (X[:90], y[:90])):
    LinearRegressor().fit(rows, target)
    LinearRegressor("huber", epsilon=0.5).fit(rows, target)
    LinearClassifier().fit(rows, target > 1)
    LinearClassifier("squared_hinge").fit(rows, target > 1)
    LinearClassifier(multi_class="softmax").fit(rows, np.digitize(target, [-1.0, 1.0]))
assert not names, names
"""
CLUSTERS = """
from tombola.estimators import MiniBatchKMeans
X = np.random.default_rng(0).normal(size=(3000, 12))
for rows in (X, sp.csr_matrix(X)):
    MiniBatchKMeans().fit(rows).partial_fit(rows).predict(rows)
inner = {"assign_one", "dense_squared", "dense_add", "sparse_add", "ol_max.<locals>.impl", "cached"}
methods = {name for name in names if name.startswith(("Dense.", "Sparse."))}
assert set(names) - inner - methods == {"assign_block", "assign_rows"}, names
"""


def test_default_fits():
    subprocess.run([sys.executable, "-c", WATCH + LINEAR], check=True)


def test_mini_batches_compile_one_kernel_for_dense_rows_and_one_for_sparse(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", WATCH + CLUSTERS], check=True, env=environment)
