"""Curves over repetitions."""

import numpy as np

from tombola.ledger import mean_estimate
from tombola.report.rows import arrival, band, collect, speed


def test_curves_are_collected_by_repetition_in_the_order_of_marks():
    rows = [{"run": r, "t": t, "v": 10.0 * r + t} for r in (1, 0) for t in (3, 1)]
    marks, curves = collect(rows, "t", "v", ["run"])
    assert marks.tolist() == [1, 3]
    assert curves[1,].tolist() == [11, 13]
    mean, low, high = band(curves)
    assert mean.tolist() == [6, 8]
    assert (low[0], high[0]) == mean_estimate([1, 11])[1:]


def test_arrival_is_the_first_mark_that_is_as_good():
    marks, curve = np.array([1.0, 2.0, 4.0]), np.array([5.0, 3.0, 4.0])
    assert arrival(marks, curve, 3.0, upwards=False) == 2
    assert arrival(marks, curve, 4.5, upwards=True) == 1
    assert arrival(marks, curve, 2.9, upwards=False) == np.inf


def test_speed_compares_mean_curves_and_resamples_by_start():
    marks = np.array([1.0, 2.0, 10.0])
    theirs = {(s, k): np.array([9.0, 8.0, 5.0]) for s in range(4) for k in range(2)}
    ours = {key: np.array([9.0, 5.0, 1.0]) for key in theirs}
    came, ratio = speed(marks, ours, theirs, upwards=False)
    assert came == 2
    assert tuple(ratio) == (5.0, 5.0, 5.0)
    ours = {key: np.array([9.0, 1.0 if key[0] else 30.0, 1.0]) for key in theirs}  # one bad start
    came, ratio = speed(marks, ours, theirs, upwards=False)
    assert came == 10
    assert (ratio.low, ratio.high) == (1.0, 5.0)


def test_a_curve_that_never_arrives_has_speed_zero():
    marks = np.array([1.0, 2.0])
    theirs = {(0,): np.array([3.0, 1.0]), (1,): np.array([3.0, 1.0])}
    ours = {key: np.array([3.0, 2.0]) for key in theirs}
    came, ratio = speed(marks, ours, theirs, upwards=False)
    assert came == np.inf
    assert tuple(ratio) == (0.0, 0.0, 0.0)
