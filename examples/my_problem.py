"""A problem of my own: a small network separates two interleaved spirals.

    memgrad tune examples/my_problem.py:problem --epochs 20

compare_fairly.py uses it too.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from memgrad.problems import Problem


def spirals(points: int = 1000) -> tuple[Tensor, Tensor]:
    """Points on two spirals with a little noise, and which spiral each is on."""
    draw = torch.Generator().manual_seed(0)
    radius = torch.rand(points, generator=draw).sqrt()
    spiral = torch.arange(points) % 2
    angle = 2 * math.pi * radius + math.pi * spiral
    place = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return place + 0.02 * torch.randn(points, 2, generator=draw), spiral


def problem() -> Problem:
    """The problem that experiments load by the name my_problem.py:problem."""
    return Problem(
        "spirals",
        spirals(),
        lambda: nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2)),
        nn.functional.cross_entropy,
        metrics={"accuracy": lambda outputs, targets: (outputs.argmax(-1) == targets).float()},
        batch_size=50,
        stack_width=16,  # small networks are trained faster together
    )
