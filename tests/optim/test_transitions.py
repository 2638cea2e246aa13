"""What happens when something changes in the middle of a run: memories, counts, checkpoints, derived options."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from memgrad import QHM, ADana, AdEMAMix, MemAdam, MemSGD
from memgrad.memory import FromDecays
from memgrad.optim import from_torch


def scalar(value: float = 0.0) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor([value], dtype=torch.float64))


def run(optimizer: torch.optim.Optimizer, x: torch.nn.Parameter, n: int, gradient: float = 1.0) -> float:
    """Take steps along a constant gradient; returns the length of the last one."""
    before = x.item()
    for _ in range(n):
        before = x.item()
        x.grad = torch.full_like(x, gradient)
        optimizer.step()
    return before - x.item()


@pytest.mark.parametrize(("rule", "options"), [(MemSGD, {}), (MemAdam, {"second_memory": "poly:1"})])
def test_a_memory_that_replaces_inst_starts_from_the_gradient_of_that_step(rule: type, options: dict[str, str]) -> None:
    x = scalar()
    optimizer = rule([x], lr=0.1, memory="inst", **options)
    run(optimizer, x, 10)
    optimizer.param_groups[0]["memory"] = "poly:2"
    run(optimizer, x, 1, -1.0)
    assert optimizer.state[x]["average"].item() == -1.0


def test_a_memory_may_replace_adagrads_none() -> None:
    x = scalar(1.0)
    adagrad = torch.optim.Adagrad([x], lr=0.1)
    run(adagrad, x, 100)
    optimizer = from_torch(adagrad)
    optimizer.param_groups[0]["memory"] = "exp:0.9"
    assert run(optimizer, x, 1) == pytest.approx(0.1 / math.sqrt(101))


def test_sgd_without_momentum_is_at_the_step_that_is_given() -> None:
    x = scalar()
    sgd = torch.optim.SGD([x], lr=1.0)
    run(sgd, x, 5)
    optimizer = from_torch(sgd, steps=1000)
    optimizer.param_groups[0]["memory"] = "(1+k)^0.5*inst"
    assert run(optimizer, x, 1) == pytest.approx(math.sqrt(1001))


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_with_momentum_is_at_the_step_that_is_given_and_goes_on_exactly(nesterov: bool) -> None:
    x, y = scalar(), scalar()
    theirs, twin = (torch.optim.SGD([p], lr=1.0, momentum=0.9, nesterov=nesterov) for p in (x, y))
    for p, optimizer in ((x, theirs), (y, twin)):
        run(optimizer, p, 5)
    ours = from_torch(theirs, steps=5)
    assert [run(ours, x, 1, v) for v in (2.0, -1.0, 3.0)] == pytest.approx(
        [run(twin, y, 1, v) for v in (2.0, -1.0, 3.0)], rel=1e-13
    )
    z = scalar()
    sgd = torch.optim.SGD([z], lr=1.0, momentum=0.9)
    run(sgd, z, 5)
    plain = from_torch(sgd, steps=5)
    plain.param_groups[0]["memory"] = "poly:2"
    assert run(plain, z, 1) == pytest.approx(1.0)  # an average of ones


def test_the_learning_rate_in_a_tensor_is_not_shared_with_the_torch_optimizer() -> None:
    x = scalar()
    adam = torch.optim.Adam([x], lr=torch.tensor(0.1))
    ours = from_torch(adam)
    ours.param_groups[0]["lr"].mul_(0.5)
    assert adam.param_groups[0]["lr"].item() == pytest.approx(0.1)


def test_saving_does_not_discard_a_memory_that_was_just_written() -> None:
    x = scalar()
    optimizer = MemSGD([x], lr=1.0, memory=FromDecays(lambda k: 0.5 * (k > 0)))
    run(optimizer, x, 1)
    new = FromDecays(lambda k: 0.9 * (k > 0))
    optimizer.param_groups[0]["memory"] = new
    assert optimizer.state_dict()["param_groups"][0]["memory"] == str(new)
    assert optimizer.param_groups[0]["memory"] is new
    with pytest.raises(ValueError, match="two memories with the text form"):
        run(optimizer, x, 1)


@pytest.mark.parametrize("again", ["loaded", "copied"])
def test_a_derived_option_that_is_written_over_is_refused_also_after_loading(again: str) -> None:
    x = scalar()
    optimizer = QHM([x], lr=0.1)
    run(optimizer, x, 1)
    if again == "loaded":
        optimizer.load_state_dict(optimizer.state_dict())
    else:
        optimizer = copy.deepcopy(optimizer)
        [x] = optimizer.param_groups[0]["params"]
    optimizer.param_groups[0]["memory"] = "poly:2"
    with pytest.raises(ValueError, match="QHM derives memory from nu, beta"):
        run(optimizer, x, 1)


@pytest.mark.parametrize("capturable", [False, True])
def test_a_decay_that_takes_away_more_than_the_weights_is_refused_at_the_first_step(capturable: bool) -> None:
    x = torch.nn.Parameter(torch.ones(3))
    optimizer = ADana([x], lr=0.1, omega=4.0, capturable=capturable)
    x.grad = torch.ones(3)
    with pytest.raises(ValueError, match="Warm up the learning rate"):
        optimizer.step()
    assert torch.equal(x, torch.ones(3))


def test_a_checkpoint_between_a_new_memory_and_the_next_step_can_be_loaded_and_continues() -> None:
    x, y = scalar(), scalar()
    first, twin = (MemAdam([p], lr=0.1) for p in (x, y))
    for p, optimizer in ((x, first), (y, twin)):
        run(optimizer, p, 3)
        optimizer.param_groups[0]["memory"] = "exp:0.9 + 5*exp:0.9999"
    second = MemAdam([x], lr=0.1)
    second.load_state_dict(first.state_dict())
    assert [run(second, x, 1, v) for v in (2.0, -1.0)] == [run(twin, y, 1, v) for v in (2.0, -1.0)]


def test_a_checkpoint_after_a_new_alpha_can_be_loaded() -> None:
    x = scalar()
    optimizer = AdEMAMix([x], lr=0.1, alpha=0.0)
    run(optimizer, x, 2)
    optimizer.param_groups[0]["alpha"] = 5.0
    saved = optimizer.state_dict()
    other = AdEMAMix([x], lr=0.1)
    other.load_state_dict(saved)
    assert math.isfinite(run(other, x, 1))


def test_a_checkpoint_with_an_average_of_inst_as_it_was_kept_before_can_be_loaded() -> None:
    x = scalar()
    optimizer = MemAdam([x], lr=0.1, memory="inst")
    run(optimizer, x, 2)
    saved = optimizer.state_dict()
    saved["state"][0]["average"] = saved["state"][0].pop("newest")
    optimizer.load_state_dict(saved)
    assert run(optimizer, x, 1) == pytest.approx(0.1)
    assert set(optimizer.state[x]) == {"step", "square_average", "newest"}


@pytest.mark.parametrize("rule", [MemSGD, MemAdam])
def test_a_state_with_buffers_of_another_kind_must_have_the_averages(rule: type) -> None:
    """Averages that a new memory begins may be missing, but not where a foreign tensor stands in their place."""
    x = scalar()
    optimizer = rule([x], lr=0.1, memory="poly:2")
    run(optimizer, x, 3)
    checkpoint = optimizer.state_dict()
    begins = copy.deepcopy(checkpoint)
    del begins["state"][0]["average"]
    rule([scalar()], lr=0.1, memory="poly:2").load_state_dict(begins)
    foreign = copy.deepcopy(checkpoint)
    foreign["state"][0]["momentum_buffer"] = foreign["state"][0].pop("average")
    with pytest.raises(ValueError, match=f"not one of {rule.__name__}: the state of .* lacks average"):
        rule([scalar()], lr=0.1, memory="poly:2").load_state_dict(foreign)
