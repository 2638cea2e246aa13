"""A step needs the parameters, the gradients and its state, and nothing else of their size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from memgrad import HeavyBall, MemAdam, MemSGD

SIZE = 1 << 16


def trained(optimizer: type[torch.optim.Optimizer], **options: Any) -> tuple[torch.nn.Parameter, torch.optim.Optimizer]:
    x = torch.nn.Parameter(torch.ones(SIZE))
    made = optimizer([x], **options)
    x.grad = torch.ones(SIZE)
    made.step()
    return x, made


def allocated_in_a_step(optimizer: torch.optim.Optimizer) -> int:
    """Bytes that a step asks for, all added up, so at least its peak."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        optimizer.step()
    return sum(max(event.self_cpu_memory_usage, 0) for event in watched.events())


@pytest.mark.parametrize(
    ("optimizer", "options", "buffers"),
    [
        (MemSGD, {}, 1),
        (MemSGD, {"memory": "inst"}, 0),
        (HeavyBall, {}, 1),
        (MemAdam, {}, 2),
        (MemSGD, {"fused": False}, 1),
        (MemSGD, {"foreach": True}, 1),
    ],
)
def test_a_step_holds_its_buffers_and_allocates_nothing_of_their_size(
    optimizer: type[torch.optim.Optimizer], options: dict[str, Any], buffers: int
) -> None:
    x, made = trained(optimizer, **options)
    held = [value for value in made.state[x].values() if isinstance(value, torch.Tensor)]
    assert sum(value.numel() for value in held) == buffers * SIZE
    assert allocated_in_a_step(made) < SIZE  # a hundredth of a buffer's 4 * SIZE bytes would do; scalars are small


def test_an_allocation_of_a_parameters_size_is_noticed() -> None:
    """MemAdam without the fused kernel needs the root of its average, one parameter at a time."""
    _, made = trained(MemAdam, fused=False)
    assert allocated_in_a_step(made) >= 4 * SIZE
