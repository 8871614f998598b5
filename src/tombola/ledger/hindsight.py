"""The best fixed distribution in hindsight."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["best_fixed"]


def best_fixed(squares: ArrayLike, p_min: float = 0.0) -> NDArray[np.float64]:
    """Return the distribution that minimises sum_i a_i / p(i), subject to p(i) >= p_min.

        p(i) = max(p_min, sqrt(a_i) / s),   with s such that p sums to 1

    Sorting finds s in O(n log n).

    Parameters
    ----------
    squares : array-like of float, shape (n,)
        a: the sums of squared losses.
    p_min : float from 0 to 1/n, default=0.0
        The smallest probability allowed.

    Returns
    -------
    ndarray of float64, shape (n,)

    Examples
    --------
    >>> best_fixed([1.0, 9.0, 0.0])
    array([0.25, 0.75, 0.  ])
    >>> best_fixed([1.0, 9.0, 0.0], p_min=0.2)
    array([0.2, 0.6, 0.2])

    References
    ----------
    Borsos, Krause, Levy (2018), proof of Lemma 6: s is the root of its alpha.
    """
    roots = np.sqrt(np.asarray(squares, dtype=np.float64))
    n = len(roots)
    if not 0 <= p_min <= (1 + 1e-12) / n:
        raise ValueError(f"p_min must be from 0 to 1/n = {1 / n}, got {p_min}")
    falling = np.sort(roots)[::-1]
    # with the k largest above p_min: s = (their sum of roots) / (1 - (n - k) p_min)
    scales = np.cumsum(falling) / (1.0 - (n - np.arange(1, n + 1)) * p_min)
    above = np.flatnonzero(falling > scales * p_min)
    if not len(above):
        return np.full(n, 1.0 / n)  # all zero, or p_min is 1/n
    return np.asarray(np.maximum(p_min, roots / scales[above[-1]]))
