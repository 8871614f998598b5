"""The closed form of columns that coast, against the loop that it stands for."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from tombola.solvers.closed_form import coast

pytestmark = pytest.mark.kernels

EPS = 2.0**-52

sizes = st.one_of(
    st.just(0.0),
    st.floats(-2.0, 2.0),
    st.floats(-1e100, 1e100),
    st.floats(-1e-100, 1e-100),
    st.sampled_from([1.0, -1.0, 0.25, 5e-324, -5e-324, 1e-300, 1e300]),
)
# 1 / (1 + rate l2): 1 without l2, next to 1 with a small one
shrinks = st.one_of(
    st.just(1.0),
    st.floats(0.0, 16.0).map(lambda k: 1.0 / (1.0 + 10.0**-k)),
    st.floats(1e-300, 1.0),
)


def tolerance(rounds, largest, drift, threshold):
    """Each round of the loop rounds four times, numbers of this size; the closed form as much.

    shrink^steps has a relative error of a few steps' EPS, too.
    """
    return (8 * rounds + 20) * EPS * (largest + abs(drift) + threshold)


@given(sizes, st.integers(0, 200), sizes, sizes.map(abs), shrinks)
@example(1.0, 200, 0.01, 0.0, 1.0)  # crosses zero after 100 rounds
@example(1.0, 200, 0.01, 0.02, 1.0)  # comes to rest at zero
@example(0.0, 200, 0.02, 0.01, 0.5)  # leaves zero
@example(0.0, 3, 0.01, 0.01, 0.5)  # just does not
@example(-1.0, 150, -0.01, 0.0, 1.0 / (1.0 + 1e-9))
@example(1e-9, 100, -1.0, 0.0, 1.0 / (1.0 + 1e-12))
@example(1.0, 200, 5e-324, 0.0, 0.4)
def test_coasting_equals_the_loop(v, rounds, drift, threshold, shrink):
    slow, largest = naive.coast(v, rounds, drift, threshold, shrink)
    fast = coast(v, rounds, drift, threshold, shrink)
    assert abs(fast - slow) <= tolerance(rounds, largest, drift, threshold) + 1e-320


@given(sizes, st.integers(0, 10**7), st.integers(0, 10**7), sizes, sizes.map(abs), shrinks)
def test_two_parts_are_one_coast(v, first, second, drift, threshold, shrink):
    """More rounds than a loop could do; a sum of rounding errors would show."""
    whole = coast(v, first + second, drift, threshold, shrink)
    parts = coast(coast(v, first, drift, threshold, shrink), second, drift, threshold, shrink)
    moved = (first + second) * (abs(drift) + threshold)  # the most that it can have moved
    assert math.isfinite(whole)
    # the power of shrink, of up to 2e7 steps, is good to 64 EPS; all is relative to the way
    assert abs(whole - parts) <= 256 * EPS * (abs(v) + moved) + 1e-320


@given(sizes, sizes, sizes.map(abs), st.floats(1e-3, 0.999))
def test_a_long_coast_ends_at_the_minimum(v, drift, threshold, shrink):
    """Where drift w + threshold |w| + (1/shrink - 1) w^2 / 2 is least."""
    end = coast(v, 10**7, drift, threshold, shrink)
    least = -math.copysign(max(abs(drift) - threshold, 0.0), drift) * shrink / (1 - shrink)
    assert abs(end - least) <= 1e-12 * (abs(drift) + threshold) / (1 - shrink) + 1e-320


def test_an_off_by_one_would_be_seen():
    """One round too few is beyond the tolerance, in each of the ways that a column can go."""
    for v, drift, threshold, shrink in [
        (1.0, 0.01, 0.0, 1.0), (1.0, 0.0, 1e-3, 0.9), (0.0, 1.0, 0.5, 0.99), (1.0, 0.0, 0.0, 0.9)
    ]:  # fmt: skip
        slow, largest = naive.coast(v, 20, drift, threshold, shrink)
        wrong = coast(v, 19, drift, threshold, shrink)
        assert abs(wrong - slow) > 1e6 * tolerance(20, largest, drift, threshold)
