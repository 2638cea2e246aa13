"""Torch optimizers in mid-run, continued by memgrad's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from optimizer_steps import ones, parameters, step
from optimizer_table import random
from torch import nn

from memgrad.optim import MemAdam, MemSGD, decay_groups, from_torch

Make = Callable[[Any], torch.optim.Optimizer]

CONTINUED: dict[str, Make] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.1),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "SGD dampening": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.4, weight_decay=0.1),
    "SGD nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, nesterov=True),
    "SGD maximize": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.8, maximize=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.8, 0.99), eps=1e-4),
    "AdamW beta 0": lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.0, 0.99)),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.05, momentum_decay=0.01),
    "NAdam decoupled": lambda p: torch.optim.NAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, eps=1e-3, weight_decay=0.1),
}


def steps(optimizer: torch.optim.Optimizer, x: torch.nn.Parameter, first: int, last: int) -> None:
    for k in range(first, last):
        x.grad = random(7, seed=k, dtype=x.dtype) + x.detach()
        optimizer.step()


# torch does not dampen the first gradient, which no memory does: such a run is continued after its first step.
CASES = [(name, taken) for name in CONTINUED for taken in (0, 1, 5, 40) if taken or name != "SGD dampening"]


@pytest.mark.parametrize(("name", "taken"), CASES)
def test_a_torch_optimizer_is_continued_to_rounding(name: str, taken: int) -> None:
    x = torch.nn.Parameter(random(7))
    theirs = CONTINUED[name]([x])
    steps(theirs, x, 0, taken)
    y = torch.nn.Parameter(x.detach().clone())
    twin = CONTINUED[name]([y])
    twin.load_state_dict(theirs.state_dict())
    ours = from_torch(theirs)
    steps(ours, x, taken, taken + 20)
    steps(twin, y, taken, taken + 20)
    within = 1e-6 if name.startswith("NAdam") else 1e-11  # torch keeps the product of NAdam's momenta in float32
    torch.testing.assert_close(x, y, rtol=within, atol=within)


def test_dampening_is_refused_where_a_parameter_has_yet_to_begin() -> None:
    begun, late, frozen = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
    frozen.requires_grad_(False)
    theirs = torch.optim.SGD([("begun", begun), ("late", late), ("frozen", frozen)], momentum=0.9, dampening=0.4)
    begun.grad = torch.ones(2)
    theirs.step()
    with pytest.raises(ValueError, match=r"dampening=0.4 for parameter 'late'.*Take a step with SGD first"):
        from_torch(theirs)
    late.grad = torch.ones(2)
    theirs.step()
    assert set(from_torch(theirs).state) == {begun, late}


def test_groups_names_and_schedules_are_kept() -> None:
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    theirs = torch.optim.AdamW([{"params": [("a", a)], "lr": 0.1}, {"params": [("b", b)], "weight_decay": 0.0}], lr=0.2)
    torch.optim.lr_scheduler.LambdaLR(theirs, lambda k: 0.5)
    ours = from_torch(theirs)
    assert [group["lr"] for group in ours.param_groups] == [0.05, 0.1]
    assert [group["initial_lr"] for group in ours.param_groups] == [0.1, 0.2]
    assert [group["param_names"] for group in ours.param_groups] == [["a"], ["b"]]
    assert [group["weight_decay"] for group in ours.param_groups] == [0.01, 0.0]


def test_the_memory_may_be_changed_after_the_switch() -> None:
    x = torch.nn.Parameter(random(7))
    theirs = torch.optim.AdamW([x], lr=0.01)
    steps(theirs, x, 0, 10)
    ours = from_torch(theirs)
    assert isinstance(ours, MemAdam)
    ours.param_groups[0]["memory"] = "inst + (1+k)^0.25*poly:8"
    ours.param_groups[0]["second_memory"] = "poly:8"
    steps(ours, x, 10, 30)
    assert ours.state[x]["step"] == 30
    assert torch.isfinite(x).all()


def test_the_torch_optimizer_is_left_as_it_is() -> None:
    x = torch.nn.Parameter(random(7))
    theirs = torch.optim.SGD([x], lr=0.1, momentum=0.9)
    steps(theirs, x, 0, 3)
    before = theirs.state[x]["momentum_buffer"].clone()
    ours = from_torch(theirs, steps=3)
    assert isinstance(ours, MemSGD)
    steps(ours, x, 3, 6)
    assert torch.equal(theirs.state[x]["momentum_buffer"], before)


@pytest.mark.parametrize(("given", "counted"), [(None, 380), (0, 380), (1, 1), (381, 381), (1000, 1000)])
def test_sgd_is_at_the_step_that_is_given_or_where_its_start_is_forgotten(given: int | None, counted: int) -> None:
    """0.9^380 = e^-40.04 is below the rounding of float64, and 0.9^379 = e^-39.93 the last above e^-40."""
    x = torch.nn.Parameter(random(7))
    theirs = torch.optim.SGD([x], lr=0.1, momentum=0.9)
    steps(theirs, x, 0, 1)
    assert from_torch(theirs, steps=given).state[x]["step"] == counted


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: torch.optim.Adam(p, amsgrad=True), "amsgrad"),
        (lambda p: torch.optim.Adagrad(p, lr_decay=0.1), "lr_decay"),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=1.0), "momentum"),
    ],
)
def test_what_no_memory_has_is_refused(make: Make, words: str) -> None:
    with pytest.raises(ValueError, match=f"cannot continue .*{words}"):
        from_torch(make([torch.nn.Parameter(torch.ones(1))]))


def test_other_optimizers_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="SGD, Adam, AdamW, NAdam, Adagrad, got RMSprop"):
        from_torch(torch.optim.RMSprop([torch.nn.Parameter(torch.ones(1))]))
    with pytest.raises(ValueError, match="steps=-1"):
        from_torch(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1), steps=-1)


def test_decay_groups_leave_biases_and_norms_out() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3))
    optimizer = MemAdam(decay_groups(model.named_parameters(), "independent=0.5/t"), lr=0.1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, p in model.named_parameters():
        assert torch.equal(p.data, before[name] * (0.5 if name == "0.weight" else 1.0)), name
    groups = decay_groups(model.named_parameters(), 0.1, decays=lambda name, _: name.endswith("bias"))
    assert [name for name, _ in groups[0]["params"]] == ["0.bias", "1.bias"]
    with pytest.raises(TypeError, match="named parameters"):
        decay_groups(model.parameters(), 0.1)  # type: ignore[arg-type]


def test_ten_times_the_learning_rate_makes_an_average_of_a_momentum() -> None:
    x, y = (nn.Parameter(torch.zeros(2, dtype=torch.float64)) for _ in range(2))
    ours, theirs = MemSGD([x], lr=1.0, memory="exp:0.9"), torch.optim.SGD([y], lr=0.1, momentum=0.9)
    moved = []
    for _ in range(400):
        before = x.clone(), y.clone()
        x.grad, y.grad = torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
        ours.step(), theirs.step()
        moved.append(((x - before[0])[0].item(), (y - before[1])[0].item()))
    assert moved[-1][0] == pytest.approx(moved[-1][1], rel=1e-12)


Optimizer = torch.optim.Optimizer


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.Adagrad])
def test_steps_are_refused_for_optimizers_that_count_their_own(kind: type[Optimizer]) -> None:
    with pytest.raises(ValueError, match=f"for SGD only; {kind.__name__} counts its own, got steps=10"):
        from_torch(kind([ones()]), steps=10)


@pytest.mark.parametrize("given", [None, 7])
def test_sgd_whose_momentum_was_set_to_0_is_continued_without_its_buffer(given: int | None) -> None:
    sgd = torch.optim.SGD([ones()], lr=0.25, momentum=0.5)
    step(sgd)
    sgd.param_groups[0]["momentum"] = 0.0
    ours = from_torch(sgd, steps=given)
    step(ours, 2.0)
    assert parameters(ours)[0].tolist() == [1 - 0.25 - 0.5] * 3
    assert ours.state[parameters(ours)[0]] == {"step": (given or 0) + 1}
