"""Average precision, entropy and the possible gain."""

import numpy as np
import pytest
from experiments.kmeans import entropy, possible
from experiments.one_vs_all import average_precisions
from sklearn.metrics import average_precision_score


def eleven_points(scores, positive):
    """Compute it point by point, like the development kit of VOC 2007."""
    order = np.argsort(-scores, kind="stable")
    found, precision, recall = 0, [], []
    for rank, item in enumerate(order, 1):
        found += positive[item]
        precision.append(found / rank)
        recall.append(found / positive.sum())
    total = 0.0
    for tenth in range(11):
        total += max(
            (p for p, r in zip(precision, recall, strict=True) if 10 * r >= tenth), default=0
        )
    return total / 11


@pytest.mark.parametrize("seed", range(20))
def test_average_precision_agrees_with_the_definition_and_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    positive = rng.random(int(rng.integers(3, 60))) < 0.3
    positive[0] = True
    scores = rng.normal(size=len(positive)) + positive
    points, area = average_precisions(scores, positive)
    assert points == pytest.approx(eleven_points(scores, positive), abs=1e-12)
    assert area == pytest.approx(average_precision_score(positive, scores), abs=1e-12)


def test_possible_gain():
    losses = np.array([1.0, 1.0, 1.0, 0.0])
    assert entropy(losses) == pytest.approx(np.log(3) / np.log(4))
    best = losses / losses.sum()
    second = (losses[:3] ** 2 / best[:3]).sum() / 16
    uniform = (losses**2 * 4).sum() / 16
    assert possible(losses) == pytest.approx(second / uniform)
