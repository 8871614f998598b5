import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from tombola.compiling import bit_length, multiply_wide, prefetch

pytestmark = pytest.mark.kernels
word = st.integers(0, 2**64 - 1)


@njit
def compiled_multiply_wide(a, b):
    return multiply_wide(a, b)


@njit
def compiled_bit_length(a):
    return bit_length(a)


@njit
def compiled_prefetch(array, i):
    prefetch(array, i)
    return array[i]


@given(word, word)
def test_multiply_wide_is_the_whole_product(a, b):
    high, low = compiled_multiply_wide(np.uint64(a), np.uint64(b))
    assert int(high) * 2**64 + int(low) == a * b


@given(st.integers(0, 2**63 - 1))
def test_bit_length_is_that_of_python(a):
    assert compiled_bit_length(np.int64(a)) == a.bit_length()


@pytest.mark.parametrize("a", [0, 1, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1])
def test_bit_length_at_the_edges(a):
    assert compiled_bit_length(np.int64(a)) == a.bit_length()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_prefetch_changes_nothing(dtype):
    array = np.arange(10, dtype=dtype)
    assert compiled_prefetch(array, 7) == 7
    assert (array == np.arange(10)).all()
