"""Ask what adaptive draws are worth for a network, before changing its training loop.

Needs `pip install tombola[torch,sklearn]`. The data are scikit-learn's digits with one eight among
50 others. A race says which draws are the best here, fed with what and at which rate, and whether
they pay; in less than a minute.
"""

import functools

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import tombola.advice

ODDS, OTHERS = 50, 1200


def data(seed=0):
    """Return digits with one eight per 50 others."""
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x / 16, dtype=torch.float32), torch.tensor(y == 8).long()
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(y)))
    others, eights = (order[y[order] == label] for label in (0, 1))
    kept = torch.cat([others[:OTHERS], eights[: OTHERS // ODDS]])
    return TensorDataset(x[kept], y[kept])


def main(steps=None, seeds=3):
    torch.manual_seed(0)
    dataset = data()
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    loss = functools.partial(cross_entropy, reduction="none")
    advice = tombola.advice.network(
        model,
        dataset,
        loss,
        groups=dataset.tensors[1],
        optimizer=functools.partial(torch.optim.SGD, lr=0.3),
        batch_size=16,
        steps=steps,
        seeds=seeds,
    )
    print(advice)
    return advice


if __name__ == "__main__":
    main()
