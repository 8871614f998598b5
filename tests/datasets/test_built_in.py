import numpy as np
import pytest

from tombola.datasets import DataError, catalogue, load
from tombola.datasets.built_in import BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_sets_are_what_the_catalogue_says(name):
    data = load(name)
    task, what = BUILT_IN[name]
    n, d = data.X.shape
    assert what.startswith(f"{n:,} x {d}:")
    assert data.task == task
    assert len(data.columns) == d
    assert np.isfinite(data.X).all()
    assert data.checksum == load(name).checksum
    assert len(data.checksum) == 64
    assert data.X_test is None


def test_labels_are_names_if_the_set_has_them():
    assert set(load("iris").y) == {"setosa", "versicolor", "virginica"}
    assert set(load("digits").y) == set(range(10))


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(DataError, match="no data set 'digts': did you mean 'digits'"):
        load("digts")


def test_names_are_unique():
    names = [entry.name for entry in catalogue()]
    assert len(names) == len(set(names))


def test_a_name_is_a_string():
    with pytest.raises(TypeError, match="name must be a string, got 3"):
        load(3)
