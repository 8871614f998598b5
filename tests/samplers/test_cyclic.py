"""`Cyclic`: the items in their order."""

import numpy as np

import tombola
from tombola import Cyclic


def test_cyclic_goes_round_and_continues():
    sampler = Cyclic(3)
    draw = sampler.draw(4)
    assert draw.indices.tolist() == [0, 1, 2, 0]
    assert draw.importances.tolist() == [1.0] * 4
    sampler.update(draw, np.ones(4))
    state = sampler.state_dict()
    other = Cyclic(3)
    other.load_state_dict(state)
    assert other.draw(2).indices.tolist() == [1, 2]
    assert sampler.probabilities().tolist() == [1 / 3] * 3
    sampler.reset()
    assert sampler.draw(1).indices.tolist() == [0]


def test_a_file_restores_it_by_name(tmp_path):
    sampler = Cyclic(3)
    sampler.draw(4)
    tombola.save(sampler, tmp_path / "sampler")
    assert tombola.load(tmp_path / "sampler").draw(2).indices.tolist() == [1, 2]
