"""The contract, part 2: options are checked by name, memories among them. Rows: optimizer_table.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from optimizer_table import (
    REFUSED,
    ROWS,
    Row,
    each_mode_of,
    every_row,
    same,
    some_gradients,
    some_params,
    train,
    trained,
)
from torch.nn import Parameter

from memgrad import ADana, HeavyBall, MemAdam, MemSGD, Nesterov, PolyAdam, Polynomial
from memgrad.optim.base import MemoryOptimizer


@every_row
def test_a_misspelt_option_is_refused(row: Row) -> None:
    with pytest.raises(TypeError, match="maximise"):
        row.make(some_params(), maximise=True)
    with pytest.raises(ValueError, match=r"no option 'maximise'; did you mean 'maximize'"):
        row.make([{"params": some_params(), "maximise": True}])
    _, optimizer = trained(row)
    with pytest.raises(ValueError, match="no option 'lrs'; did you mean 'lr'"):
        optimizer.add_param_group({"params": some_params(), "lrs": 0.1})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(
    ("optimizer", "option"),
    [
        (MemSGD, "momentum"),
        (MemSGD, "dampening"),
        (MemSGD, "nesterov"),
        (MemAdam, "betas"),
        (MemAdam, "amsgrad"),
        (PolyAdam, "p"),
        (PolyAdam, "beta"),
        (HeavyBall, "nesterov"),
        (ADana, "weight_decay"),  # it has omega
    ],
)
def test_a_group_with_an_option_of_another_optimizer_or_of_the_constructor_is_refused(
    optimizer: Any, option: str
) -> None:
    """Whoever swaps one line keeps the groups of the old optimizer: their options must not be dropped silently."""
    with pytest.raises(ValueError, match=rf"\b{option}\b"):
        optimizer([{"params": some_params(), option: 0.5}])


@every_row
def test_a_group_may_carry_the_tags_of_its_user(row: Row) -> None:
    optimizer = row.make([{"params": some_params(), "name": "head", "initial_lr": 0.1}])
    assert optimizer.param_groups[0]["name"] == "head"


REFUSALS = [
    pytest.param(optimizer, option, value, words, id=f"{optimizer.__name__}-{option}={value}")
    for optimizer, options in REFUSED.items()
    for option, (wrong, words) in options.items()
    for value in wrong
]


@pytest.mark.parametrize(("optimizer", "option", "value", "words"), REFUSALS)
def test_a_hyper_parameter_that_makes_no_sense_is_refused_by_name(
    optimizer: type[MemoryOptimizer], option: str, value: Any, words: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        optimizer(some_params(), **{option: value})
    made = optimizer(some_params())
    if option in made.param_groups[0] and not (option == "viscosity" and value is None):
        with pytest.raises((TypeError, ValueError), match=words):
            made.add_param_group({"params": some_params(), option: value})
        assert len(made.param_groups) == 1


@pytest.mark.parametrize("optimizer", [HeavyBall, Nesterov])
def test_momentum_and_viscosity_exclude_each_other(optimizer: type[HeavyBall]) -> None:
    with pytest.raises(ValueError, match="one of momentum and viscosity"):
        optimizer(some_params(), momentum=0.9, viscosity=3.0)


@every_row
def test_paths_that_exclude_each_other_are_refused_together(row: Row) -> None:
    if row.takes("fused"):
        with pytest.raises(ValueError, match="one of foreach=True and fused=True"):
            row.make(some_params(), foreach=True, fused=True)
        with pytest.raises(ValueError, match="differentiable=True"):
            row.make(some_params(), differentiable=True, fused=True)
    with pytest.raises(ValueError, match="differentiable=True"):
        row.make(some_params(), differentiable=True, foreach=True)


# --- memories as options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in ROWS if row.takes("memory")], ids=str)
def test_a_memory_may_be_given_as_text_or_as_an_object(row: Row) -> None:
    as_text, as_object = some_params(), some_params()
    gradients = some_gradients(as_text, 5)
    train(row.optimizer(as_text, memory="poly:3"), as_text, gradients)
    train(row.optimizer(as_object, memory=Polynomial(3)), as_object, gradients)
    assert same(as_text, as_object)


@pytest.mark.parametrize("memory", ["poly:1", Polynomial(1)], ids=["text", "object"])
@each_mode_of(row for row in ROWS if row.optimizer is MemSGD and row.options["memory"] != "inst")
def test_a_memory_changed_in_mid_training_acts_from_the_next_step_on(
    row: Row, mode: dict[str, Any], memory: Any
) -> None:
    x = Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = row.make([x], lr=1.0, **mode)
    train(optimizer, [x], [[torch.tensor([g], dtype=torch.float64)] for g in (3.0, 3.0, 3.0)])
    optimizer.param_groups[0]["memory"] = memory
    before = x.item()
    train(optimizer, [x], [[torch.tensor([7.0], dtype=torch.float64)]])
    assert x.item() - before == pytest.approx(-4.0, rel=1e-14)  # b_3 = 3/4 of the old average 3, 1/4 of 7


@pytest.mark.parametrize("path", ["inst -> poly:2", "poly:2 -> inst -> poly:2"])
def test_a_memory_that_follows_none_still_averages(path: str) -> None:
    """Whatever has been forgotten, weights that sum to 1 step by -lr g for a constant gradient."""
    x = Parameter(torch.zeros(1, dtype=torch.float64))
    first, *others = path.split(" -> ")
    optimizer = MemSGD([x], lr=1.0, memory=first)
    steps = 0
    for memory in (first, *others):
        optimizer.param_groups[0]["memory"] = memory
        for _ in range(3):
            train(optimizer, [x], [[torch.ones(1, dtype=torch.float64)]])
            steps += 1
            assert x.item() == pytest.approx(-steps, rel=1e-14)
