"""Draw the rare class as often as the common one, then the hard examples more often.

Needs `pip install tombola[torch]`. `tombola.torch.WeightedSampler` takes the place of PyTorch's
WeightedRandomSampler; here its weights change during the epoch, and a second run resumes from a
state that was saved in the middle of one. Weighted draws change what is minimised; for unbiased
estimates of the plain mean, use `tombola.torch.ImportanceLoader`.
"""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from tombola.torch import WeightedSampler

N, BATCH, EPOCHS = 4000, 50, 3


def main():
    torch.manual_seed(0)
    labels = (torch.arange(N) % 50 == 0).long()  # one in fifty is rare
    x = torch.randn(N, 10) + labels[:, None]
    dataset = TensorDataset(x, labels, torch.arange(N))
    balanced = 1.0 / torch.bincount(labels)[labels]
    sampler = WeightedSampler(balanced, generator=torch.Generator().manual_seed(1))
    loader = DataLoader(dataset, BATCH, sampler=sampler)
    model = torch.nn.Linear(10, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(EPOCHS):
        rare = 0
        for step, (x, y, items) in enumerate(loader):
            losses = cross_entropy(model(x), y, reduction="none")
            losses.mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            sampler.update(items, balanced[items] * (0.5 + losses.detach()))
            rare += int(y.sum())
            if epoch == EPOCHS - 1 and step == len(loader) // 2:
                state, rest = sampler.state_dict(), len(loader) - step - 1
        print(
            f"epoch {epoch}: {rare / N:.0%} of the draws are rare, {labels.float().mean():.0%} are"
        )
    resumed = WeightedSampler(torch.ones(N), generator=torch.Generator())
    resumed.load_state_dict(state)
    batches = len(list(DataLoader(dataset, BATCH, sampler=resumed)))
    print(f"resumed in epoch {resumed.epoch - 1}: {batches} of {rest} batches are left")


if __name__ == "__main__":
    main()
