"""How sure the statistical tests are.

Every statistical test runs with a fixed seed, so it gives the same verdict on every run of
the same code. ALPHA is the chance that a correct implementation fails one of them when its
draws change for a good reason. With fewer than 100 such tests in the suite, the chance that
any of them raises a false alarm then stays below one in ten million.

Each test also runs at least one wrong sampler and demands that it is rejected.
"""

import numpy as np

ALPHA = 1e-9


def chi_square_excess(counts, weights):
    """Pearson's statistic over the value that it passes with probability ALPHA: above 1 fails.

    The critical value is the bound of Laurent & Massart (2000) for k degrees of freedom,
    P(X >= k + 2 sqrt(k x) + 2 x) <= exp(-x).
    """
    weights = np.asarray(weights, dtype=float)
    counts = np.asarray(counts)
    if counts[weights == 0].any():
        return np.inf
    counts, weights = counts[weights > 0], weights[weights > 0]
    expected = counts.sum() * weights / weights.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum())
    k, x = len(weights) - 1, np.log(1 / ALPHA)
    return statistic / (k + 2 * np.sqrt(k * x) + 2 * x)
