"""A problem of one's own: tell two spirals apart."""

import torch
from torch import Tensor, nn

from memgrad.problems import Problem
from memgrad.problems.metrics import accuracy


def spirals(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points of two spirals in the plane, with a little noise, and which spiral each is on."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 2
    r = torch.rand(n, generator=generator).sqrt()
    angle = 6 * r + torch.pi * label
    points = torch.stack([r * angle.cos(), r * angle.sin()], 1)
    return points + 0.02 * torch.randn(n, 2, generator=generator), label


def problem() -> Problem:
    """What `memgrad check spirals.py` asks for."""
    return Problem(
        "spirals",
        train=spirals(1000, seed=0),
        test=spirals(200, seed=1),
        make_model=lambda: nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)),
        loss=nn.functional.cross_entropy,
        metrics={"accuracy": accuracy},
        batch_size=16,
        stack_width=64,
    )
