"""DQN on CartPole: TorchRL's replay buffer, with tombola's prioritised sampler.

Needs `pip install tombola[torch] torchrl gymnasium`; says so and stops if they are not there. Only
two lines are tombola's: the import, and ``sampler=``. Importances are those of TorchRL, divided by
their maximum, and beta rises to 1; ``--unbiased`` takes 1 / (n p) instead.
"""

import argparse
import sys

import torch
from torch import nn

from tombola.torch.replay import PrioritizedSampler

try:
    import gymnasium
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
except (ImportError, OSError) as error:
    print(f"skipped: this example needs TorchRL and gymnasium ({error})")
    sys.exit(0)

CAPACITY, BATCH, GAMMA, RATE, WARM_UP, EVERY, COPY = 20_000, 128, 0.99, 5e-4, 1000, 2, 250


def network():
    return nn.Sequential(
        nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
    )


def learn(buffer, online, target, optimizer):
    """Replay a batch, and tell the buffer its errors."""
    batch = buffer.sample()
    with torch.no_grad():  # double DQN: one network chooses, the other values
        choice = online(batch["onward"]).argmax(1, keepdim=True)
        following = target(batch["onward"]).gather(1, choice).squeeze(1)
        goal = batch["reward"] + GAMMA * following * ~batch["terminated"]
    value = online(batch["observation"]).gather(1, batch["action"][:, None]).squeeze(1)
    losses = nn.functional.smooth_l1_loss(value, goal, reduction="none")
    (batch["priority_weight"] * losses).mean().backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10.0)
    optimizer.step()
    optimizer.zero_grad()
    batch["td_error"] = (goal - value).detach().abs()
    buffer.update_tensordict_priority(batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=30_000, help="of the environment")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unbiased", action="store_true", help="importances 1 / (n p)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(CAPACITY),
        sampler=PrioritizedSampler(CAPACITY, alpha=0.6, beta=0.4, normalize=not options.unbiased),
        priority_key="td_error",
        batch_size=BATCH,
    )
    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=RATE)
    game = gymnasium.make("CartPole-v1")
    seen, _ = game.reset(seed=options.seed)
    returns, total = [], 0.0
    for step in range(1, options.steps + 1):
        explore = max(0.05, 1.0 - step / 5000)
        observation = torch.from_numpy(seen)
        with torch.no_grad():
            action = int(online(observation).argmax())
        if torch.rand(()) < explore:
            action = int(torch.randint(2, ()))
        seen, reward, terminated, truncated, _ = game.step(action)
        transition = {
            "observation": observation,
            "action": torch.tensor(action),
            "reward": torch.tensor(reward, dtype=torch.float32),
            "onward": torch.from_numpy(seen),
            "terminated": torch.tensor(terminated),
        }
        buffer.extend(TensorDict(transition, []).unsqueeze(0))
        total += float(reward)
        if terminated or truncated:
            returns.append(total)
            seen, total = game.reset()[0], 0.0
        if step > WARM_UP and step % EVERY == 0:
            buffer.sampler.beta = 0.4 + 0.6 * step / options.steps
            learn(buffer, online, target, optimizer)
        if step % COPY == 0:
            target.load_state_dict(online.state_dict())
        if step % 2500 == 0:
            recent = returns[-10:]
            print(f"step {step:6}: return {sum(recent) / len(recent):5.0f}, mean of ten episodes")


if __name__ == "__main__":
    main()
