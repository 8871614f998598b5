"""
A lasso path
============

Fifty lassos, from the penalty that lets in no column down to a thousandth of it. Each starts
where the last one ended, works on few columns at a time, and ends with a certified duality gap.
"""

# %%
# 200 rows of 1,000 columns, ten of which count.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import lasso_path as plain_path

from tombola.estimators import LassoCV, lasso_path

random = np.random.default_rng(0)
X = random.normal(size=(200, 1000))
true = np.zeros(1000)
true[:10] = np.linspace(-3, 3, 10)
y = X @ true + random.normal(size=200)
X, y = X - X.mean(axis=0), y - y.mean()

alphas, coefficients, gaps = lasso_path(X, y, alphas=50, tol=1e-6)

# %%
# Coloured lines are the ten columns that count, grey ones the others. The certificate of each lasso
# is at most a millionth of the mean squared target.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
left.plot(alphas, coefficients[10:].T, color="0.8", lw=0.7)
left.plot(alphas, coefficients[:10].T)
left.set(xscale="log", xlabel="alpha", ylabel="coefficient", title="the path")
left.invert_xaxis()
right.plot(alphas, np.count_nonzero(coefficients, axis=0))
right.axhline(10, color="0.6", ls=":")
right.set(xscale="log", xlabel="alpha", title="columns in use")
right.invert_xaxis()
plt.show()
print(f"largest gap over the mean of y^2: {gaps.max() / np.mean(y**2):.1e}")

# %%
# The same path by scikit-learn, to the same tolerance. (Times of one run on a shared machine; the
# :doc:`benchmarks </numbers>` have those that count.)
found = {}
for name, path in (("tombola", lasso_path), ("scikit-learn", plain_path)):
    begun = time.perf_counter()
    _, found[name], _ = path(X, y, alphas=alphas, tol=1e-6)
    print(f"{name}: {time.perf_counter() - begun:.2f} s")
print(f"largest difference: {abs(found['tombola'] - found['scikit-learn']).max():.1e}")

# %%
# Which alpha? Cross-validation says:
model = LassoCV().fit(X, y)
print(f"alpha {model.alpha_:.3f}, {np.count_nonzero(model.coef_)} columns")
