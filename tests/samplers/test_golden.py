"""Draws that must never change by accident: the same on every machine and in every version.

Whatever decides a draw of the index and of these samplers uses integers and + - * / sqrt only. A
change of these hashes is a change of everybody's draws: it belongs into the changelog.
"""

import hashlib

import numpy as np
import pytest

from tombola import VRB, EpochVRB, GroupVRB, InfoBatch, Shuffle, Stream, WeightIndex
from tombola.index.drawing import draw_many

N = 300
LOSSES = (1.0 + np.arange(N) ** 2 % 97) / 50.0


def played(sampler):
    digest = hashlib.sha256()
    for k in range(200):
        draw = sampler.draw(1 + k % 40)
        digest.update(draw.indices.tobytes())
        digest.update(draw.probabilities.tobytes())
        sampler.update(draw, LOSSES[draw.indices])
    return digest.hexdigest()[:16]


def test_words_and_index():
    index = WeightIndex(np.arange(1, 1001) ** 3)
    items = np.empty(5000, dtype=np.int64)
    draw_many(index._index, Stream(3, (1, 2)).state, items, np.empty(5000), 12345)
    assert hashlib.sha256(items.tobytes()).hexdigest()[:16] == "efac4d8f6fc31317"


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [
        (VRB(N, seed=1), "5f58ece8b7df4b11"),
        (VRB(N, bound=4.0, mixing=0.1, seed=1), "40e746e7844369b2"),
        (VRB(N, bound=4.0, horizon=10**6, seed=1), "f9923d6930afbec8"),
        (VRB(N, bound=4.0, seed=1), "234b4808ec0f22b8"),
        (VRB(N, bound=4.0, schedule="doubling", seed=1), "1695db9a9ce67456"),
        (GroupVRB(np.arange(N) % 7, seed=1), "dd926a62215f9630"),
        (Shuffle(N, seed=1), "86e21f6f24b089d5"),
        (EpochVRB(N, share=0.7, seed=1), "039af36f5ea0d51c"),
        (EpochVRB(N, share=1.5, seed=1), "a855a8c414e9bbd6"),
        (InfoBatch(N, 20, seed=1), "0b227c3b6fb72ef5"),
    ],
    ids=str,
)
def test_draws(sampler, expected):
    assert played(sampler) == expected
