"""The closed form of repeated proximal steps, against the loop that it replaces."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import naive
from tombola.solvers.proximal import repeated_prox

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


def tolerance(rounds, largest, step, threshold):
    """Each round of the loop makes four rounding errors of this size; the closed form as many.

    shrink^steps has a relative error of a few steps' EPS, too.
    """
    return (8 * rounds + 20) * EPS * (largest + abs(step) + threshold)


@given(sizes, st.integers(0, 200), sizes, sizes.map(abs), shrinks)
@example(1.0, 200, 0.01, 0.0, 1.0)  # crosses zero after 100 rounds
@example(1.0, 200, 0.01, 0.02, 1.0)  # reaches zero and stays there
@example(0.0, 200, 0.02, 0.01, 0.5)  # leaves zero
@example(0.0, 3, 0.01, 0.01, 0.5)  # stays at zero, just
@example(-1.0, 150, -0.01, 0.0, 1.0 / (1.0 + 1e-9))
@example(1e-9, 100, -1.0, 0.0, 1.0 / (1.0 + 1e-12))
@example(1.0, 200, 5e-324, 0.0, 0.4)
def test_the_closed_form_equals_the_loop(v, rounds, step, threshold, shrink):
    slow, largest = naive.repeated_prox(v, rounds, step, threshold, shrink)
    fast = repeated_prox(v, rounds, step, threshold, shrink)
    assert abs(fast - slow) <= tolerance(rounds, largest, step, threshold) + 1e-320


@given(sizes, st.integers(0, 10**7), st.integers(0, 10**7), sizes, sizes.map(abs), shrinks)
def test_two_parts_are_one_whole(v, first, second, step, threshold, shrink):
    """For more rounds than a loop could take; accumulated rounding errors would show."""
    whole = repeated_prox(v, first + second, step, threshold, shrink)
    parts = repeated_prox(
        repeated_prox(v, first, step, threshold, shrink), second, step, threshold, shrink
    )
    moved = (first + second) * (abs(step) + threshold)  # the most that it can have moved
    assert math.isfinite(whole)
    # the power of shrink, of up to 2e7 steps, is exact to 64 EPS, relative to the distance covered
    assert abs(whole - parts) <= 256 * EPS * (abs(v) + moved) + 1e-320


@given(sizes, sizes, sizes.map(abs), st.floats(1e-3, 0.999))
def test_many_steps_end_at_the_minimum(v, step, threshold, shrink):
    """Where step w + threshold |w| + (1/shrink - 1) w^2 / 2 is least."""
    end = repeated_prox(v, 10**7, step, threshold, shrink)
    least = -math.copysign(max(abs(step) - threshold, 0.0), step) * shrink / (1 - shrink)
    assert abs(end - least) <= 1e-12 * (abs(step) + threshold) / (1 - shrink) + 1e-320


def test_an_off_by_one_would_be_seen():
    """One round too few exceeds the tolerance, in each case that a column can be in."""
    for v, step, threshold, shrink in [
        (1.0, 0.01, 0.0, 1.0), (1.0, 0.0, 1e-3, 0.9), (0.0, 1.0, 0.5, 0.99), (1.0, 0.0, 0.0, 0.9)
    ]:  # fmt: skip
        slow, largest = naive.repeated_prox(v, 20, step, threshold, shrink)
        wrong = repeated_prox(v, 19, step, threshold, shrink)
        assert abs(wrong - slow) > 1e6 * tolerance(20, largest, step, threshold)
