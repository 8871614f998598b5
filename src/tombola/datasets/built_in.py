"""Small data sets that come with scikit-learn."""

import numpy as np

from tombola.datasets.base import Dataset, checksum_of_arrays

__all__ = ["BUILT_IN", "load"]

# Task and description, by the name in scikit-learn.
BUILT_IN = {
    "breast_cancer": ("classification", "569 x 30: malignant tumours (37%)"),
    "diabetes": ("regression", "442 x 10: disease progression after one year"),
    "digits": ("classification", "1,797 x 64: digits of 8 x 8 pixels, ten classes"),
    "iris": ("classification", "150 x 4: three species of iris"),
    "wine": ("classification", "178 x 13: wines from three growers"),
}


def load(name: str) -> Dataset:
    """Return one of scikit-learn's data sets.

    Examples
    --------
    >>> load("iris")
    Dataset('iris', 150 x 4, dense, classification)
    """
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    X, y = np.ascontiguousarray(bunch.data, dtype=np.float64), bunch.target
    if hasattr(bunch, "target_names") and bunch.target_names.dtype.kind == "U":
        y = bunch.target_names[y]  # names instead of numbers
    return Dataset(
        name=name,
        X=X,
        y=y,
        task=BUILT_IN[name][0],
        source=f"scikit-learn's load_{name}",
        checksum=checksum_of_arrays(X, y),
        columns=tuple(map(str, bunch.feature_names)),
    )
