"""A step that is refused changes nothing: neither parameters nor averages nor counters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_steps import ones, parameters, step

from memgrad.memory import FromDecays, Gain, Memory, Mixture, Polynomial, Sampled
from memgrad.optim import MemAdam, MemSGD

Optimizer = torch.optim.Optimizer


PATHS = [{}, {"fused": False}, {"foreach": True}]


def snapshot(optimizer: Optimizer) -> tuple[list[Any], Any]:
    """The parameters and the state, as copies."""
    return [p.detach().clone() for p in parameters(optimizer)], copy.deepcopy(dict(optimizer.state_dict()["state"]))


def is_unchanged(optimizer: Optimizer, before: tuple[list[Any], Any]) -> bool:
    now = snapshot(optimizer)
    same_state = [now[1].keys() == before[1].keys()]
    for number, state in before[1].items():
        same_state.append(now[1].get(number, {}).keys() == state.keys())
        same_state += [bool(np.array_equal(now[1][number][name], value)) for name, value in state.items()]
    return all(map(torch.equal, now[0], before[0])) and all(same_state)


def refuse_a_sparse_gradient(optimizer: Optimizer) -> None:
    for p in parameters(optimizer):
        p.grad = torch.ones_like(p)
    last = parameters(optimizer)[-1]
    last.grad = torch.ones_like(last).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()


def refuse_a_misspelled_memory(optimizer: Optimizer) -> None:
    right = optimizer.param_groups[-1]["memory"]
    optimizer.param_groups[-1]["memory"] = "polly:2"
    with pytest.raises(ValueError, match="did you mean"):
        step(optimizer)
    optimizer.param_groups[-1]["memory"] = right


refusals = pytest.mark.parametrize("refuse", [refuse_a_sparse_gradient, refuse_a_misspelled_memory])


@refusals
def test_a_memory_begins_with_its_first_gradient_also_if_a_step_was_refused_before(
    refuse: Callable[[Optimizer], None],
) -> None:
    optimizer = MemSGD([{"params": [ones()]}, {"params": [ones()]}], lr=1.0, memory="inst")
    for _ in range(1000):
        step(optimizer)
    for group in optimizer.param_groups:
        group["memory"] = "poly:2"
    before = snapshot(optimizer)
    refuse(optimizer)
    assert is_unchanged(optimizer, before)
    step(optimizer)
    assert [p[0].item() for p in parameters(optimizer)] == [-1000.0, -1000.0]  # 1001 steps of length 1 from 1


@refusals
def test_an_average_is_not_dropped_by_a_refused_step_without_it(refuse: Callable[[Optimizer], None]) -> None:
    optimizer = MemSGD([{"params": [ones()]}, {"params": [ones()]}], lr=1.0, memory="poly:1")
    step(optimizer, 0.0)
    optimizer.param_groups[0]["memory"] = "inst"
    before = snapshot(optimizer)
    refuse(optimizer)
    assert is_unchanged(optimizer, before)
    optimizer.param_groups[0]["memory"] = "poly:1"
    step(optimizer, 1.0)
    assert [p[0].item() for p in parameters(optimizer)] == [0.5, 0.5]  # the mean of 0 and 1


def test_a_refused_first_step_leaves_no_state() -> None:
    optimizer = MemAdam([ones(), ones()])
    refuse_a_sparse_gradient(optimizer)
    assert len(optimizer.state) == 0


def failing_gain(k: Any) -> float:
    if k >= 3:
        raise RuntimeError("no gain after step 2")
    return 1.0


ENDING: dict[str, Callable[[], Memory | Mixture]] = {
    "FromDecays runs out": lambda: FromDecays([0.0, 0.5, 0.5]),
    "Sampled overflows": lambda: Sampled(lambda t: t**200, lambda t: 200 * t**199, 9.0, steps=3),  # 36^200 overflows
    "a gain of the user's raises": lambda: Gain.of(failing_gain) * Polynomial(2),
}


@pytest.mark.parametrize("options", PATHS, ids=str)
@pytest.mark.parametrize("ending", ENDING)
@pytest.mark.parametrize("rule", [MemSGD, MemAdam])
def test_a_memory_that_fails_in_a_step_leaves_all_groups_as_they_were(
    rule: type[MemSGD | MemAdam], ending: str, options: dict[str, bool]
) -> None:
    decaying = {"memory": ENDING[ending](), "weight_decay": 0.5, "decoupled_weight_decay": True}
    optimizer = rule([{"params": [ones()]}, {"params": [ones()], **decaying}], lr=0.1, **options)
    for _ in range(3):
        step(optimizer)
    before = snapshot(optimizer)
    with pytest.raises((ValueError, RuntimeError), match=r"FromDecays was given|overflows|no gain after"):
        step(optimizer)
    assert is_unchanged(optimizer, before)


def test_a_second_memory_that_fails_leaves_all_groups_as_they_were() -> None:
    optimizer = MemAdam([{"params": [ones()]}, {"params": [ones()], "second_memory": FromDecays([0.0])}], lr=0.1)
    step(optimizer)
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match="FromDecays was given"):
        step(optimizer)
    assert is_unchanged(optimizer, before)
