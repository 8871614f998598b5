"""The five-line loop on real data: it learns, and the distribution moves."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from tombola.torch import ImportanceLoader, gradient_norms


def digits(odds=50):
    """Eights against the rest, one among 51."""
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y == 8).long()
    rare = torch.nonzero(y == 1).flatten()[: int((y == 0).sum()) // odds]
    kept = torch.cat([torch.nonzero(y == 0).flatten(), rare])
    return x[kept], y[kept]


@pytest.mark.parametrize("labelled", [True, False])
def test_the_five_lines_learn_and_the_distribution_moves(labelled):
    x, y = digits()
    assert abs(float(y.double().mean()) - 1 / 51) < 0.001
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    groups = y if labelled else None
    loader = ImportanceLoader(TensorDataset(x, y), batch_size=32, sampler="vrb", groups=groups)

    before = cross_entropy(model(x), y).item()
    for _ in range(10):
        for (inputs, targets), draw in loader:
            losses = cross_entropy(model(inputs), targets, reduction="none")
            draw.mean(losses).backward()
            optimizer.step()
            optimizer.zero_grad()
            loader.update(draw, losses)
    with torch.no_grad():
        after = cross_entropy(model(x), y, reduction="none")
        scores = model(x) @ torch.tensor([-1.0, 1.0])

    assert before > 0.5
    assert float(after.mean()) < 0.06  # by the share of eights alone it would be 0.096
    above = (scores[y == 1][:, None] > scores[y == 0]).double().mean()
    assert above > 0.95  # an eight scores higher than the others
    share = loader.sampler.probabilities()[y.numpy() == 1].sum()
    assert share > 5 / 51  # eights were 1 in 51
    drawn = [item for item, _ in loader.most_drawn(20)]
    assert np.mean(y[drawn].numpy()) > 0.5
    assert loader.sampler.gauge.second_moment_ratio < 0.5
    assert loader.sampler.mode == "adaptive"


def test_gradient_norms_are_fed_in_the_same_loop():
    x, y = digits()
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 2)
    loader = ImportanceLoader(
        TensorDataset(x, y), batch_size=32, groups=y, quantity="gradient norm"
    )
    for (inputs, targets), draw in loader:
        with gradient_norms(model) as norms:
            losses = cross_entropy(model(inputs), targets, reduction="none")
            draw.mean(losses).backward()
        with torch.no_grad():  # of cross-entropy through one layer: |p - y| |(x, 1)|
            off = model(inputs).softmax(1) - torch.nn.functional.one_hot(targets, 2)
            sizes = (inputs.square().sum(1) + 1).sqrt()
        fed = norms.of(draw)
        assert torch.allclose(fed, off.norm(dim=1) * sizes, rtol=1e-4)
        loader.update(draw, fed)
    assert loader.sampler.gauge.quantity == "gradient norm"
    assert loader.sampler.gauge.count > 1000
