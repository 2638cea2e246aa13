"""The contract, part 2: options are checked by name, memories among them. Rows: optimizer_table.py."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_steps import after_a_step, ones, parameters, step
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
from torch import nn
from torch.nn import Parameter
from torch.optim.lr_scheduler import OneCycleLR

from memgrad import ADana, AdEMAMix, AggMo, HeavyBall, MemAdam, MemSGD, Nesterov, PolyAdam, Polynomial
from memgrad.optim import from_torch
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
        (MemAdam, "p"),
        (PolyAdam, "betas"),
        (HeavyBall, "nesterov"),
        (ADana, "weight_decay"),  # it has omega
    ],
)
def test_a_group_with_an_option_of_another_optimizer_is_refused(optimizer: Any, option: str) -> None:
    """Users who swap one line keep the groups of the old optimizer: their options must not be dropped silently."""
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"foreach": True, "fused": True}, "one of foreach=True and fused=True"),
        ({"differentiable": True, "fused": True}, "differentiable=True"),
        ({"differentiable": True, "foreach": True}, "differentiable=True"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " and ".join(value),
)
@every_row
def test_paths_that_exclude_each_other_are_refused_together(row: Row, options: dict[str, bool], words: str) -> None:
    if all(map(row.takes, options)):
        with pytest.raises(ValueError, match=words):
            row.make(some_params(), **options)
    with pytest.raises(ValueError, match=words):
        row.make([{"params": some_params(), **options}])
    first, second = options
    if row.takes(first):
        optimizer = row.make(some_params(), **{first: True})
        with pytest.raises(ValueError, match=words):  # one is the default, the other the group's
            optimizer.add_param_group({"params": some_params(), second: True})
        assert len(optimizer.param_groups) == 1


def test_a_group_alone_may_be_differentiable() -> None:
    plain, meta = some_params([(3,)]), some_params([(3,)])[0].detach().clone().requires_grad_()
    x = meta.clone()
    x.retain_grad()  # torch asks for it where the default is not differentiable
    optimizer = MemSGD([{"params": plain}, {"params": [x], "differentiable": True}], lr=0.1)
    plain[0].grad, x.grad = torch.ones_like(plain[0]), 2 * x.clone()
    optimizer.step()
    (slope,) = torch.autograd.grad(x.sum(), meta)
    assert torch.allclose(slope, torch.full_like(slope, 1 - 0.1 * 2), rtol=1e-14)
    assert plain[0].is_leaf
    assert optimizer.state[plain[0]]["average"].grad_fn is None


# --- options of constructors in groups -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "default", "own", "kept"),
    [
        (HeavyBall, {}, {"viscosity": 3.0}, {"viscosity": 3.0, "momentum": None}),
        (HeavyBall, {"viscosity": 3.0}, {"momentum": 0.5}, {"viscosity": None, "momentum": 0.5}),
        (HeavyBall, {"momentum": 0.9}, {"viscosity": 3.0, "momentum": None}, {"viscosity": 3.0, "momentum": None}),
        (Nesterov, {"momentum": 0.8}, {"viscosity": 3.0}, {"viscosity": 3.0, "momentum": None}),
        (Nesterov, {"viscosity": 3.0}, {"momentum": 0.5}, {"viscosity": None, "momentum": 0.5}),
        (PolyAdam, {}, {"p": 2.5}, {"second_memory": "poly:2.5", "memory": "exp:0.9"}),
        (PolyAdam, {"p": 2.5}, {"beta": 0.5}, {"second_memory": "poly:2.5", "memory": "exp:0.5"}),
        (PolyAdam, {}, {"p": 1, "beta": 0.0}, {"second_memory": "poly:1", "memory": "inst"}),
        (
            ADana,
            {},
            {"delta": 3.0, "kappa": 0.5, "omega": 4.0, "through_lr": True},
            {
                "delta": 3.0,
                "kappa": 0.5,
                "omega": 4.0,
                "memory": "inst + (1+k)^0.5*poly:3",
                "weight_decay": "decay=4/t",
            },
        ),
        (MemAdam, {}, {"memory": "log", "eps": 0.1}, {"memory": "log", "eps": 0.1, "second_memory": "poly:4"}),
    ],
)
@pytest.mark.parametrize("later", [False, True], ids=["at once", "added"])
def test_options_of_a_constructor_work_in_a_group(
    optimizer: type[MemoryOptimizer], default: dict[str, Any], own: dict[str, Any], kept: dict[str, Any], later: bool
) -> None:
    first, second = some_params(seed=0), some_params(seed=10)
    groups = [{"params": first}, {"params": second, **own}]
    together = optimizer(groups[:1] if later else groups, lr=0.1, **default)
    if later:
        together.add_param_group(groups[1])
    gradients = some_gradients([*first, *second], 5)
    train(together, [*first, *second], gradients)
    assert {name: together.param_groups[1][name] for name in kept} == kept
    assert not {"p", "beta"} & together.param_groups[1].keys()
    alone = (some_params(seed=0), some_params(seed=10))
    named = {name: value for name, value in own.items() if value is not None}
    # What the group says replaces the default of the other kind.
    others = {name: value for name, value in default.items() if optimizer is PolyAdam and name not in own}
    for params, options, part in (
        (alone[0], default, slice(len(first))),
        (alone[1], {**others, **named}, slice(len(first), None)),
    ):
        train(optimizer(params, lr=0.1, **options), params, [step[part] for step in gradients])
        assert same(params, [*first, *second][part])


@pytest.mark.parametrize(
    ("optimizer", "options", "words"),
    [
        (HeavyBall, {"momentum": 0.9, "viscosity": 3.0}, "one of momentum and viscosity"),
        (HeavyBall, {"viscosity": -1.0}, "viscosity"),
        (Nesterov, {"momentum": 1.0}, "momentum"),
        (PolyAdam, {"p": 0.0}, r"\bp\b"),
        (PolyAdam, {"beta": 1.0}, "beta"),
        (PolyAdam, {"p": 2.0, "second_memory": "poly:3"}, "one of p and second_memory"),
        (PolyAdam, {"beta": 0.5, "memory": "log"}, "one of beta and memory"),
    ],
)
def test_options_of_a_constructor_are_checked_in_a_group(optimizer: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        optimizer([{"params": some_params(), **options}])
    made = optimizer(some_params())
    with pytest.raises((TypeError, ValueError), match=words):
        made.add_param_group({"params": some_params(), **options})
    assert len(made.param_groups) == 1


def test_a_degree_written_into_a_group_later_acts_from_the_next_step_on() -> None:
    ours, theirs = some_params(), some_params()
    optimizer, expected = PolyAdam(ours, p=2.0), MemAdam(theirs, memory="exp:0.9", second_memory="poly:2")
    gradients = some_gradients(ours, 6)
    train(optimizer, ours, gradients[:3])
    train(expected, theirs, gradients[:3])
    optimizer.param_groups[0].update(p=5.0, beta=0.5)
    expected.param_groups[0].update(second_memory="poly:5", memory="exp:0.5")
    train(optimizer, ours, gradients[3:])
    train(expected, theirs, gradients[3:])
    assert same(ours, theirs)


def test_a_momentum_that_a_scheduler_writes_beside_a_viscosity_is_refused() -> None:
    a, b = some_params([(3,)], seed=0), some_params([(3,)], seed=1)
    optimizer = HeavyBall([{"params": a, "viscosity": 3.0}, {"params": b}], lr=0.1)
    OneCycleLR(optimizer, max_lr=0.5, total_steps=12)
    with pytest.raises(ValueError, match="one of momentum and viscosity"):
        train(optimizer, [*a, *b], some_gradients([*a, *b], 1))
    assert same([*a, *b], [*some_params([(3,)], seed=0), *some_params([(3,)], seed=1)])


SWITCHES = ("maximize", "capturable", "differentiable", "decoupled_weight_decay", "foreach", "fused")


@pytest.mark.parametrize("value", ["yes", "no", 1, 0, 0.5, [], torch.tensor(True)], ids=repr)
@pytest.mark.parametrize("option", SWITCHES)
@every_row
def test_a_switch_is_on_or_off_and_nothing_else(row: Row, option: str, value: Any) -> None:
    if not row.takes(option):
        return
    with pytest.raises(TypeError, match=f"{option} to be True"):
        row.make(some_params(), **{option: value})
    with pytest.raises(TypeError, match=f"{option} to be True"):
        row.make([{"params": some_params(), option: value}])


def test_a_switch_of_numpy_is_a_switch() -> None:
    optimizer = MemSGD(some_params(), maximize=np.bool_(True))
    assert optimizer.param_groups[0]["maximize"] is True


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


@pytest.mark.parametrize("mode", ["default", "foreach", "single", "capturable"])
@pytest.mark.parametrize("options", [{}, {"maximize": True}, {"weight_decay": 0.1}], ids=str)
@pytest.mark.parametrize("path", ["inst -> poly:2", "poly:2 -> inst -> poly:2"])
def test_k_counts_every_step_also_those_without_a_memory(path: str, mode: str, options: dict[str, Any]) -> None:
    """A memory that follows none at step k begins with the gradient of that step, and goes on with b_{k+1}."""
    x = Parameter(torch.zeros(1, dtype=torch.float64))
    kind = {"default": {}, "foreach": {"foreach": True}, "single": {"fused": False}, "capturable": {"capturable": True}}
    first, *others = path.split(" -> ")
    optimizer = MemSGD([x], lr=1.0, memory=first, **kind[mode], **options)
    gradients = iter(torch.arange(1.0, 20.0, dtype=torch.float64))
    k, average, at, began = 0, 0.0, 0.0, 0
    for memory in (first, *others):
        optimizer.param_groups[0]["memory"] = memory
        began = k
        for g in [next(gradients) for _ in range(3)]:
            x.grad = g.reshape(1).clone()
            g = (-g.item() if options.get("maximize") else g.item()) + options.get("weight_decay", 0.0) * at
            b = 0.0 if memory == "inst" or k == began else k / (k + 2)
            average = b * average + (1 - b) * g
            at -= average
            k += 1
            optimizer.step()
            assert x.item() == pytest.approx(at, rel=1e-13)
            assert optimizer.state[x]["step"] == k
            assert ("average" in optimizer.state[x]) == (memory != "inst")


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


def test_an_option_that_equals_an_accepted_one_is_still_refused_for_its_type() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    ADana([x], lr=0.1, delta=1.0)
    with pytest.raises(TypeError, match="delta=True"):
        ADana([x], lr=0.1, delta=True)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: MemSGD(p, momentum=0.9), TypeError, "'momentum'. Here memory='exp:0.9' .* at ten times the lr"),
        (
            lambda p: MemAdam(p, betas=(0.9, 0.99)),
            TypeError,
            "'betas'. Here memory='exp:0.9', second_memory='exp:0.999'",
        ),
        (lambda p: PolyAdam(p, betas=(0.9, 0.99)), TypeError, "'betas'. Did you mean 'beta'"),
        (lambda p: ADana(p, weight_decay=0.1), TypeError, r"'weight_decay'. Here the weight decay is omega/\(k\+1\)"),
        (lambda p: MemSGD(p, memmory="poly:2"), TypeError, "'memmory'. Did you mean 'memory'"),
        (lambda p: MemSGD(p, colour="red"), TypeError, "MemSGD got an unexpected keyword argument 'colour'.$"),
        (lambda p: ADana([{"params": p, "weight_decay": 0.0}]), ValueError, r"Here the weight decay is omega/\(k\+1\)"),
        (lambda p: MemSGD([{"params": p, "learning_rate": 0.1}]), ValueError, "Here the learning rate is lr"),
        (lambda p: MemSGD([{"params": p, "wd": 0.1}]), ValueError, "Here the weight decay is weight_decay"),
        (lambda p: AggMo(p, betas=0.9), TypeError, "several numbers 0 <= beta < 1, such as .*, got betas=0.9"),
    ],
)
def test_options_of_others_are_refused_with_what_they_are_here(
    make: Callable[..., Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make([nn.Parameter(torch.zeros(2))])


def test_own_arguments_of_a_subclass_are_its_own() -> None:
    class Mine(MemSGD):
        def __init__(self, params: Any, *, colour: str, **more: Any) -> None:
            super().__init__(params, **more)
            self.colour = colour

    assert Mine([torch.zeros(1)], colour="red", lr=0.3).param_groups[0]["lr"] == 0.3
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        Mine([torch.zeros(1)], colour="red", size=3)


@pytest.mark.parametrize("make", [HeavyBall, Nesterov, AdEMAMix])
def test_one_cycle_works_as_is_said_where_there_is_a_momentum(make: Callable[..., Any]) -> None:
    _, optimizer = after_a_step(lambda params: make(params, lr=0.1))
    scheduler = OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    optimizer.step()
    scheduler.step()
    for other in (MemSGD, MemAdam):
        with pytest.raises(ValueError, match="cycle_momentum"):
            OneCycleLR(after_a_step(lambda params, other=other: other(params))[1], max_lr=1.0, total_steps=10)


def test_a_viscosity_in_mid_run_says_what_to_set() -> None:
    _, optimizer = after_a_step(lambda params: HeavyBall(params, lr=0.1))
    optimizer.param_groups[0]["viscosity"] = 3.0
    with pytest.raises(ValueError, match=r"got momentum=0\.9, viscosity=3\.0; set the other to None"):
        optimizer.step()


Optimizer = torch.optim.Optimizer


def test_one_cycle_does_not_pretend_to_schedule_the_momenta_of_aggmo() -> None:
    with pytest.raises(ValueError, match="momentum"):
        OneCycleLR(AggMo([ones()]), max_lr=0.5, total_steps=12)


def test_one_cycle_leaves_the_momenta_of_aggmo_where_it_only_schedules_the_learning_rate() -> None:
    optimizer = AggMo([ones()], betas=(0.0, 0.5))
    OneCycleLR(optimizer, max_lr=0.5, total_steps=12, cycle_momentum=False)
    assert optimizer.param_groups[0]["betas"] == (0.0, 0.5)


@pytest.mark.parametrize(
    "again", [lambda o: o, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["itself", "copied", "pickled"]
)
def test_a_group_added_to_aggmo_has_the_betas_of_its_constructor(again: Callable[[AggMo], AggMo]) -> None:
    optimizer = again(AggMo([{"params": [ones()], "betas": (0.25,)}], betas=(0.0, 0.5)))
    optimizer.add_param_group({"params": [ones()]})
    assert [group["betas"] for group in optimizer.param_groups] == [(0.25,), (0.0, 0.5)]
    assert optimizer.param_groups[1]["memory"] == "0.5*inst + 0.5*sum*exp:0.5"


@pytest.mark.parametrize("nesterov", [False, True])
def test_a_momentum_of_numpy_is_a_number(nesterov: bool) -> None:
    sgd = torch.optim.SGD([ones()], lr=0.25, momentum=np.float64(0.5), nesterov=nesterov)  # type: ignore[arg-type]
    step(sgd)
    twin = copy.deepcopy(sgd)
    ours = from_torch(sgd)
    for gradient in (2.0, -1.0):
        step(ours, gradient)
        step(twin, gradient)
    # The average is the buffer times 1 - beta, which its gain undoes: some roundings of doubles
    torch.testing.assert_close(parameters(ours)[0], parameters(twin)[0], rtol=1e-13, atol=1e-13)
