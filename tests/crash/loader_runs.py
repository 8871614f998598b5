"""Loaders and samplers for PyTorch, saved with the model and the optimiser by `torch.save`."""

from crash.killing import Run
from tombola.state.files import replaced_file

N, BATCH, EPOCHS = 120, 8, 4


def data():
    import torch

    x = torch.linspace(-1.0, 1.0, N * 3, dtype=torch.float64).reshape(N, 3).sin()
    return x, (x[:, 0] > 0.2 * x[:, 1]).long()


def save(path, state):
    import torch

    with replaced_file(path) as file:
        torch.save(state, file)


def train(make, folder):
    """Train a small model with a loader, from the last save to the last epoch."""
    import torch
    from torch.nn import functional

    path, loader = folder / "run.pt", make()
    torch.manual_seed(3)
    model = torch.nn.Linear(3, 2, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    parts = {"model": model, "optimizer": optimizer, "loader": loader}
    batches = 0
    if path.exists():
        state = torch.load(path, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(state[name])
        batches = state["batches"]
    for _ in range(loader.epoch, EPOCHS):
        for (x, y), draw in loader:
            losses = functional.cross_entropy(model(x), y, reduction="none")
            draw.mean(losses).backward()
            optimizer.step()
            optimizer.zero_grad()
            if batches % 5:  # some are not answered
                loader.update(draw, losses)
            batches += 1
            saved = {name: part.state_dict() for name, part in parts.items()}
            save(path, {**saved, "batches": batches})


def weigh(folder):
    """Draw epochs by weights that change, with a generator."""
    import torch

    from tombola.torch import WeightedSampler

    path, generator = folder / "run.pt", torch.Generator().manual_seed(5)
    weights = 1.0 + torch.arange(N) % 7
    sampler = WeightedSampler(weights, N // 2, replacement=False, generator=generator)
    drawn = []
    if path.exists():
        state = torch.load(path, weights_only=True)
        sampler.load_state_dict(state["sampler"])
        drawn = state["drawn"]
    for _ in range(sampler.epoch, 2):
        for item in sampler:
            drawn.append(int(item))
            save(path, {"sampler": sampler.state_dict(), "drawn": drawn})


def replay(folder):
    """Draw transitions by priorities that change, in a ring."""
    import torch

    from tombola.torch.replay import PrioritizedSampler

    path = folder / "run.pt"
    sampler, storage = PrioritizedSampler(N, alpha=0.6, beta=0.4), range(N)
    torch.manual_seed(7)
    drawn = []
    if path.exists():
        state = torch.load(path, weights_only=True)
        sampler.load_state_dict(state["sampler"])
        torch.set_rng_state(state["random"])
        drawn = state["drawn"]
    else:
        sampler.extend(torch.arange(N))
    while len(drawn) < 60:
        items, _ = sampler.sample(storage, BATCH)
        items = torch.as_tensor(items)
        drawn.append(items.tolist())
        sampler.update_priority(items, 1.0 / (1.0 + items.double() + len(drawn)))
        random = torch.get_rng_state()
        save(path, {"sampler": sampler.state_dict(), "random": random, "drawn": drawn})


def runs():
    import torch
    from torch.utils.data import TensorDataset

    from tombola.torch import DeviceLoader, ImportanceLoader

    torch.set_num_threads(1)

    def host(**options):
        return lambda: ImportanceLoader(TensorDataset(*data()), BATCH, seed=5, **options)

    def training(make):
        return lambda folder: train(make, folder)

    labels = data()[1]
    made = {
        "ImportanceLoader": host(lag=4),
        "ImportanceLoader, groups": host(lag=1, groups=labels),
        "ImportanceLoader, shards": host(lag=2, distributed="sharded", shards=2),
        "ImportanceLoader, shuffle": host(sampler="shuffle", drop_last=True),
        "DeviceLoader, on the host": lambda: DeviceLoader(data(), BATCH, seed=5),
    }
    workers = training(host(lag=5, num_workers=2))
    return [
        *(Run(name, training(make)) for name, make in made.items()),
        Run("ImportanceLoader, two workers", workers, share=0.5),
        Run("WeightedSampler", weigh),
        Run("PrioritizedSampler", replay),
    ]
