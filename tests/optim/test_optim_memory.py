"""A step needs the parameters, the gradients and its state, and nothing else of their size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from optimizer_steps import ones, parameters, step
from torch.profiler import ProfilerActivity, profile

from memgrad import HeavyBall, MemAdam, MemSGD
from memgrad.memory import Polynomial
from memgrad.optim import ADana, PolyAdam

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


Optimizer = torch.optim.Optimizer


def two_groups() -> MemSGD:
    return MemSGD([{"params": [ones()]}, {"params": [ones()], "memory": "exp:0.9"}], lr=1e-3)


# What a group's option is at step k, and the length of a step along a constant gradient, in learning rates: averages
# of ones are 1, and ADana with kappa = 1 adds the gradient to its average.
SCHEDULES = {
    "the second memory of PolyAdam": (lambda: PolyAdam([ones()], 1e-3, eps=0.0), "p", lambda k: 2 + k / 100, 1),
    "the second memory of MemAdam": (
        lambda: MemAdam([ones()], 1e-3, eps=0.0),
        "second_memory",
        lambda k: f"poly:{2 + k / 100}",
        1,
    ),
    "the last of two groups": (two_groups, "memory", lambda k: Polynomial(2 + k / 100), 1),
    "both memories of ADana": (
        lambda: ADana([ones()], 1e-3, kappa=1.0, eps=0.0),
        "delta",
        lambda k: 8 + k / 100,
        2,
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_memories_may_be_scheduled_for_many_steps(name: str) -> None:
    make, option, value, length = SCHEDULES[name]
    optimizer = make()
    for k in range(230):
        optimizer.param_groups[-1][option] = value(k)
        step(optimizer)
    for p in parameters(optimizer):
        # 230 roundings of numbers near 1 in double precision
        torch.testing.assert_close(p.detach(), torch.full_like(p, 1 - 0.23 * length), rtol=0, atol=1e-12)
    assert len(optimizer._memories) < 130  # old ones are forgotten
