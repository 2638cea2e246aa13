"""Optimizers with a few parameters, and steps of theirs along known gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.optim import Optimizer


def ones(dtype: torch.dtype = torch.float64) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.ones(3, dtype=dtype))


def parameters(optimizer: Optimizer) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def step(optimizer: Optimizer, gradient: float = 1.0) -> None:
    for p in parameters(optimizer):
        p.grad = torch.full_like(p, gradient)
    optimizer.step()


def after_a_step(make: Callable[..., Optimizer]) -> tuple[nn.Module, Optimizer]:
    model = nn.Linear(3, 2)
    optimizer = make(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return model, optimizer
