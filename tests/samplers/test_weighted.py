"""Samplers of one's own: the example of the documentation, and what numba keeps on disk."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tombola
from tombola import OSMD, VRB, Draw, MirrorDescent
from tombola.index.layout import first_fault
from tombola.samplers import weighted
from tombola.testing import check_sampler

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_sampler.py"
PAGE = ROOT / "docs" / "write_your_own_sampler.md"


def blocks():
    """The pieces of Python in the page."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_the_page_shows_the_example():
    assert blocks()[0] == EXAMPLE.read_text()


def test_the_example_has_at_most_60_lines():
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_the_example_runs():
    output = subprocess.run(
        [sys.executable, str(EXAMPLE)], check=True, capture_output=True, text=True, timeout=300
    )
    assert output.stdout.startswith("keeps every promise; Gauge(")


def test_the_plain_sampler_of_the_page_passes(tmp_path):
    namespace = {}
    exec(blocks()[1], namespace)
    check_sampler(lambda n, seed: namespace["GradientBandit"](n, seed=seed))


OWN = """
import numpy as np
from tombola import Draw
from softening import SOFTENING
from tombola.samplers.weighted import Rule, Scored, WeightedSampler
from tombola.state import cell


class OwnState(Scored):
    def absorb(self, item, probability, loss):
        self.scores[item] = loss

    def value(self, item):
        return self.scores[item] + SOFTENING


class Own(WeightedSampler):
    def __init__(self, n, *, seed=0):
        super().__init__(n, seed)
        self._begin(OwnState, rule=cell(Rule()), scores=np.zeros(n))


def ratio():
    sampler = Own(2)
    sampler.update(Draw([0], [0.5], 2), [1.0])
    return sampler.probabilities()[0] / sampler.probabilities()[1]
"""


def run(code, folder):
    """Run a process that has its own folder of compiled code, with this package."""
    paths = [str(folder), str(Path(tombola.__file__).parents[1])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "NUMBA_CACHE_DIR": str(folder / "compiled"),
    }
    command = [sys.executable, "-c", code]
    output = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=300, env=environment
    )
    return float(output.stdout)


def test_changed_or_absent_states_do_not_disturb_the_compiled_code(tmp_path):
    """A constant of another file counts at once; without the class all others still work."""
    (tmp_path / "own_state.py").write_text(OWN)
    for softening in (1.0, 0.5):
        (tmp_path / "softening.py").write_text(f"SOFTENING = {softening}")
        ratio = run("import own_state; print(own_state.ratio())", tmp_path)
        assert ratio == pytest.approx((1 + softening) / softening, rel=1e-9)
    (tmp_path / "own_state.py").unlink()
    assert run("from tombola import Shuffle; print(Shuffle(5).n)", tmp_path) == 5


@pytest.mark.parametrize("parameters", [{}, {"bound": 1.0, "mixing": 0.1}, {"bound": 1.0}])
def test_more_items_than_are_rebuilt_at_once(parameters):
    """Huge losses with more than 2^20 items: weights are cut, and re-scaled by the sweep."""
    n = weighted.SMALL + 1
    sampler = VRB(n, seed=3, **parameters)
    index = sampler.state.index
    items = np.arange(0, n, 7)
    for exponent in (0, 40, 80, 40):
        draw = Draw(items, np.full(items.size, 1 / n), n)
        sampler.update(draw, np.linspace(0.5, 1.0, items.size) * 2.0**exponent)
        assert first_fault(index) == -1
        assert index.weights.sum() < 2**62
        assert index.weights.min() >= 1
        drawn = sampler.draw(1000)
        assert np.isfinite(drawn.importances).all()
        assert sampler.probabilities().sum() == pytest.approx(1, rel=1e-6)


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("total", "kept"), [(2**10 - 1, False), (2**10, True), (2**60, True), (2**60 + 2**10, False)]
)
def test_weights_are_rebuilt_out_of_range_only(total, kept):
    """One item of value 1, whose weight is the scale."""
    sampler = OSMD(1, bound=1.0, step=1.0)
    sampler.state.sweep[0].scale = total
    sampler.update(Draw([0], [1.0], 1), [0.0])
    assert (sampler.state.index.weights[0] == total) == kept
    assert (sampler.state.sweep[0].scale == total) == kept


@pytest.mark.kernels
@pytest.mark.parametrize("real", [2.0**61, 1e18 * 2.0**61])
def test_a_weight_leaves_the_total_within_twice_its_range(real):
    sampler = VRB(3, bound=1.0, mixing=0.5)
    index = sampler.state.index
    sampler.state.sweep[0].scale = 1.0
    weighted.put(sampler.state, 1, real)
    assert index.weights[1] == 2**61 - index.weights[0] - index.weights[2]
    assert first_fault(index) == -1


@pytest.mark.kernels
def test_all_weights_together_leave_the_total_within_its_limit():
    """Values so large that no scale is small enough for them."""
    sampler = MirrorDescent(5, bound=1.0)
    sampler.state.scores[:] = 2.0**1015
    weighted.rebuild(sampler.state)
    assert first_fault(sampler.state.index) == -1
    assert sampler.state.index.weights.min() >= 1


@pytest.mark.kernels
def test_a_sweep_ends_after_its_last_item():
    """Two items for each loss; no further item is refreshed once none is pending."""
    sampler = VRB(9, bound=1.0, mixing=0.1)
    sampler.state.scores[:] = np.arange(9.0)  # weights that are out of date
    index, sweep = sampler.state.index, sampler.state.sweep[0]
    before = index.weights.copy()
    sweep.pending = 3
    for pending, cursor in ((1, 2), (0, 3), (0, 3)):
        sampler.update(Draw([8], [1 / 9], 9), [0.0])
        assert (sweep.pending, sweep.cursor) == (pending, cursor)
        assert np.flatnonzero(index.weights != before).tolist() == [*range(1, cursor), 8]
        assert first_fault(index) == -1
