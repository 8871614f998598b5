"""A sampler on a device, behind the interface of `tombola.testing.check_sampler`."""

import numpy as np
import torch

from tombola.draws import Draw
from tombola.torch import TensorDraw
from tombola.torch.tensors import from_tensors, to_tensors


class Player:
    """Arrays in place of tensors, and errors at once."""

    feedback = "drawn"

    def __init__(self, sampler):
        self.sampler = sampler
        self.n = sampler.n

    def draw(self, size=1):
        return self.sampler.draw(size).ticket

    def update(self, draw, losses):
        if not isinstance(draw, Draw):
            raise TypeError("not a draw")
        losses = torch.as_tensor(np.asarray(losses)).to(self.sampler.device)
        if losses.numel() == 0:
            losses = losses.double()
        self.sampler.update(TensorDraw(draw, draw.round), losses)
        self.sampler.check()

    def probabilities(self):
        return self.sampler.probabilities().cpu().numpy()

    @property
    def gauge(self):
        return self.sampler.gauge

    def reset(self):
        self.sampler.reset()

    def state_dict(self):
        return from_tensors(self.sampler.state_dict())

    def load_state_dict(self, state):
        self.sampler.load_state_dict(to_tensors(state))
