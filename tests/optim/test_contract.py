"""The contract, part 1: every optimizer behaves as torch's do. Rows: optimizer_table.py.

Its other parts: test_contract_options.py, _tensors.py, _checkpoints.py and _compile.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_table import (
    REFUSED,
    ROWS,
    Row,
    every_row,
    every_row_and_mode,
    given_gradients,
    random,
    same,
    some_gradients,
    some_params,
    train,
    trained,
    values,
)
from torch import Tensor
from torch.nn import Parameter
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR

import memgrad.optim
from memgrad import HeavyBall


def test_every_public_optimizer_has_a_row_and_a_list_of_what_it_refuses() -> None:
    exported = {getattr(memgrad.optim, name) for name in memgrad.optim.__all__}
    optimizers = {x for x in exported if isinstance(x, type) and issubclass(x, torch.optim.Optimizer)}
    assert {row.optimizer for row in ROWS} == optimizers == set(REFUSED)


# --- one rule, however it is computed --------------------------------------------------------------------------------

L2 = {"weight_decay": 0.1, "decoupled_weight_decay": False}
DECOUPLED = {"weight_decay": 0.1, "decoupled_weight_decay": True}
WEIGHT_DECAYS: dict[str, dict[str, Any]] = {"plain": {}, "l2": L2, "decoupled": DECOUPLED}
REFERENCES = [
    pytest.param(row, mode, decay, id=f"{row}-{name}-{decay}")
    for row in ROWS
    for name, mode in row.modes.items()
    for decay, options in WEIGHT_DECAYS.items()
    if all(map(row.takes, options)) or (row.takes("weight_decay") and decay == "decoupled")
]


@cache
def expected_values(name: str, decay: str, dtype: torch.dtype, steps: int) -> Any:
    """The last iterates by the reference. Its rules know no weight decay, which is added here."""
    row = next(row for row in ROWS if row.name == name)
    params, lr, factor = some_params(dtype=dtype), 0.05, WEIGHT_DECAYS[decay].get("weight_decay", 0.0)
    gradients = some_gradients(params, steps)
    last = []
    for i, p in enumerate(params):
        oracle, x = given_gradients(gradients, i), p.detach().double().numpy()
        if decay == "l2":
            x = row.iterates(lambda x, k, g=oracle: g(x, k) + factor * x, x, lr=lr, steps=steps)[-1]
        else:
            # These gradients do not depend on x, so neither do the steps; decoupled decay shrinks x before each.
            for step in np.diff(row.iterates(oracle, x, lr=lr, steps=steps), axis=0):
                x = x * (1 - lr * factor) + step
        last.append(torch.as_tensor(x))
    return values(last)


# Rounding: 30 steps add 30 errors of an eps each to iterates of size 1 to 5, and the steps have some of their own.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 3e-5)], ids=str)
@pytest.mark.parametrize(("row", "mode", "decay"), REFERENCES)
def test_fused_and_foreach_and_single_steps_are_those_of_the_reference(
    row: Row, mode: dict[str, Any], decay: str, dtype: torch.dtype, tolerance: float
) -> None:
    options = {name: value for name, value in WEIGHT_DECAYS[decay].items() if row.takes(name)}
    params, steps = some_params(dtype=dtype), 30
    train(row.make(params, lr=0.05, **mode, **options), params, some_gradients(params, steps))
    expected = expected_values(row.name, decay, dtype, steps)
    assert np.allclose(values(params), expected, rtol=tolerance, atol=tolerance)


@every_row
def test_parameters_of_several_precisions_in_one_group_do_not_mix(row: Row) -> None:
    together = [p for dtype in (torch.float32, torch.float64, torch.bfloat16) for p in some_params(dtype=dtype)]
    gradients = some_gradients(together, 5)
    train(row.make(together), together, gradients)
    for i, dtype in ((0, torch.float32), (1, torch.float64), (2, torch.bfloat16)):
        alone = some_params(dtype=dtype)
        part = slice(i * len(alone), (i + 1) * len(alone))
        train(row.make(alone), alone, [step[part] for step in gradients])
        assert same(alone, together[part])


# --- closures, groups, missing gradients -----------------------------------------------------------------------------


@every_row
def test_step_calls_the_closure_once_with_gradients_enabled_and_returns_its_loss(row: Row) -> None:
    x, y = Parameter(torch.ones(3)), Parameter(torch.ones(3))
    with_closure, without = row.make([x]), row.make([y])
    calls = []

    def closure() -> Tensor:
        calls.append(torch.is_grad_enabled())
        with_closure.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        return loss

    for k in range(3):
        without.zero_grad()
        loss = (y**2).sum()
        loss.backward()
        without.step()
        with torch.no_grad():
            assert with_closure.step(closure).item() == loss.item()
        assert calls == [True] * (k + 1)
    assert same([x], [y])
    assert without.step() is None


@every_row
def test_each_group_has_its_own_options(row: Row) -> None:
    first, second = some_params(seed=0), some_params(seed=10)
    together = row.make([{"params": first}, {"params": second, "lr": 0.01, **row.other}], lr=0.1)
    gradients = some_gradients([*first, *second], 5)
    train(together, [*first, *second], gradients)
    n = len(first)
    for params, options, part in (
        (some_params(seed=0), {"lr": 0.1}, slice(n)),
        (some_params(seed=10), {"lr": 0.01, **row.other}, slice(n, None)),
    ):
        train(row.make(params, **options), params, [step[part] for step in gradients])
        assert same(params, [*first, *second][part])


@every_row_and_mode
def test_a_group_added_in_mid_training_starts_at_step_0(row: Row, mode: dict[str, Any]) -> None:
    old, new = some_params(seed=0), some_params(seed=10)
    optimizer = row.make(old, **mode)
    gradients = some_gradients([*old, *new], 8)
    train(optimizer, old, [step[: len(old)] for step in gradients[:4]])
    optimizer.add_param_group({"params": new})
    train(optimizer, [*old, *new], gradients[4:])
    fresh = some_params(seed=10)
    train(row.make(fresh, **mode), fresh, [step[len(old) :] for step in gradients[4:]])
    assert same(fresh, new)


@every_row_and_mode
def test_a_step_without_a_gradient_does_not_count(row: Row, mode: dict[str, Any]) -> None:
    params, dense = some_params(), some_params()
    gradients = some_gradients(params, 9)
    some = [[None if (k + i) % 3 == 0 else g for i, g in enumerate(step)] for k, step in enumerate(gradients)]
    train(row.make(params, **mode), params, some)
    for i, p in enumerate(dense):
        train(row.make([p], **mode), [p], [[step[i]] for step in some if step[i] is not None])
    assert same(params, dense)


@every_row
def test_a_step_without_any_gradient_does_nothing(row: Row) -> None:
    params = some_params()
    optimizer = row.make(params)
    optimizer.step()
    assert same(params, some_params())
    assert not optimizer.state


# --- learning rates --------------------------------------------------------------------------------------------------

SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "StepLR": lambda optimizer: StepLR(optimizer, step_size=2, gamma=0.5),
    "OneCycleLR": lambda optimizer: OneCycleLR(optimizer, max_lr=0.5, total_steps=12, cycle_momentum=False),
    "ReduceLROnPlateau": lambda optimizer: ReduceLROnPlateau(optimizer, patience=1, factor=0.3),
}


def advance(scheduler: Any) -> None:
    if isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step(1.0)  # a loss that never falls
    else:
        scheduler.step()


@pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])
@pytest.mark.parametrize("name", SCHEDULERS)
@every_row
def test_schedulers_set_the_learning_rate_of_each_step(row: Row, name: str, tensor: bool) -> None:
    start: Any = torch.tensor(0.1, dtype=torch.float64) if tensor else 0.1
    params, by_hand = some_params(), some_params()
    gradients = some_gradients(params, 10)
    plain = torch.optim.SGD([Parameter(torch.zeros(1))], lr=0.1)
    optimizer, expected = row.make(params, lr=start), row.make(by_hand, lr=0.1)
    schedule, rates = SCHEDULERS[name](optimizer), SCHEDULERS[name](plain)
    for step in gradients:
        expected.param_groups[0]["lr"] = float(plain.param_groups[0]["lr"])
        train(expected, by_hand, [step])
        train(optimizer, params, [step])
        plain.step()
        advance(rates)
        advance(schedule)
    assert plain.param_groups[0]["lr"] != 0.1
    # One rounding of the rate itself, by the scheduler's in-place arithmetic.
    assert np.allclose(values(params), values(by_hand), rtol=1e-12, atol=1e-12)


def test_one_cycle_schedules_a_constant_momentum_as_it_does_for_sgd() -> None:
    ours, theirs = some_params(), some_params()
    gradients = some_gradients(ours, 10)
    for params, optimizer in (
        (ours, HeavyBall(ours, lr=0.1, momentum=0.9, fused=False)),
        (theirs, torch.optim.SGD(theirs, lr=0.1, momentum=0.9, foreach=False)),
    ):
        schedule = OneCycleLR(optimizer, max_lr=0.5, total_steps=12)
        for step in gradients:
            train(optimizer, params, [step])
            schedule.step()
    assert same(ours, theirs)


def test_one_cycle_does_not_pretend_to_schedule_a_momentum_that_follows_from_a_viscosity() -> None:
    """It writes a momentum into the groups, which must be refused before a run is wasted on it."""
    params = some_params()
    optimizer = HeavyBall(params, lr=0.1, viscosity=3.0)

    def begin() -> None:
        OneCycleLR(optimizer, max_lr=0.5, total_steps=12)
        train(optimizer, params, some_gradients(params, 1))

    with pytest.raises(ValueError, match="momentum"):
        begin()


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
@pytest.mark.parametrize("capturable", [False, True], ids=["", "capturable"])
@every_row_and_mode
def test_a_tensor_with_one_element_is_a_learning_rate(
    row: Row, mode: dict[str, Any], capturable: bool, shape: tuple[int, ...]
) -> None:
    params, plain = some_params(), some_params()
    gradients = some_gradients(params, 4)
    rate = torch.full(shape, 0.07, dtype=torch.float64)
    decay = {"weight_decay": 0.1} if row.takes("weight_decay") else {}
    train(row.make(params, lr=rate, capturable=capturable, **mode, **decay), params, gradients)
    train(row.make(plain, lr=0.07, **mode, **decay), plain, gradients)
    assert np.allclose(values(params), values(plain), rtol=1e-13, atol=1e-13)
    assert rate.eq(0.07).all()


# --- hooks, zero_grad, maximize, gradients left alone ----------------------------------------------------------------


@every_row
def test_step_hooks_are_called_around_each_step(row: Row) -> None:
    params = some_params()
    optimizer = row.make(params)
    seen: list[tuple[str, bool]] = []
    start = [p.detach().clone() for p in params]
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: seen.append(("before", same(params, start))))
    optimizer.register_step_post_hook(lambda opt, args, kwargs: seen.append(("after", same(params, start))))
    train(optimizer, params, some_gradients(params, 1))
    assert seen == [("before", True), ("after", False)]


@every_row
def test_zero_grad_forgets_the_gradients_and_nothing_else(row: Row) -> None:
    params, optimizer = trained(row)
    before, state = [p.detach().clone() for p in params], str(optimizer.state_dict())
    optimizer.zero_grad(set_to_none=False)
    assert all(p.grad is not None and p.grad.eq(0).all() for p in params)
    optimizer.zero_grad()
    assert all(p.grad is None for p in params)
    assert same(params, before)
    assert str(optimizer.state_dict()) == state


@every_row_and_mode
def test_maximizing_descends_the_negated_gradients(row: Row, mode: dict[str, Any]) -> None:
    up, down = some_params(), some_params()
    gradients = some_gradients(up, 5)
    decay = {"weight_decay": 0.1} if row.takes("weight_decay") else {}
    train(row.make(up, maximize=True, **mode, **decay), up, gradients)
    train(row.make(down, **mode, **decay), down, [[-g for g in step] for step in gradients])
    assert same(up, down)


@pytest.mark.parametrize("maximize", [False, True], ids=["minimize", "maximize"])
@every_row_and_mode
def test_gradients_are_never_modified(row: Row, mode: dict[str, Any], maximize: bool) -> None:
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.complex64)
    params = [p for dtype in dtypes for p in some_params(dtype=dtype)]
    decay = {"weight_decay": 0.1} if row.takes("weight_decay") else {}
    optimizer = row.make(params, maximize=maximize, **mode, **decay)
    gradients = some_gradients(params, 1)[0]
    for p, g in zip(params, gradients, strict=True):
        p.grad = g
    kept = [(p.grad, g._version, g.clone()) for p, g in zip(params, gradients, strict=True)]
    for _ in range(3):
        optimizer.step()
    for p, (grad, version, copy) in zip(params, kept, strict=True):
        assert p.grad is grad
        assert grad._version == version
        assert torch.equal(grad, copy)


# --- differentiable, capturable, GradScaler --------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.1], ids=["plain", "weight decay"])
@every_row
def test_gradients_flow_through_the_steps_to_the_learning_rate_and_the_start(row: Row, decay: float) -> None:
    curvature = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    options = {"weight_decay": decay} if row.takes("weight_decay") else {}

    def loss_after(rate: Any, start: Tensor) -> Tensor:
        x = start.clone()
        optimizer = row.make([x], lr=rate, differentiable=True, **options)
        for _ in range(4):
            at = x.clone()  # x changes in place
            x.grad = curvature * at + torch.sin(at)
            optimizer.step()
        return (x**2).sum()

    rate = torch.tensor(0.05, dtype=torch.float64, requires_grad=True)
    start = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64, requires_grad=True)
    slopes = torch.autograd.grad(loss_after(rate, start), [rate, start])
    (with_a_float,) = torch.autograd.grad(loss_after(0.05, start), [start])
    # Central differences: an error of h^2 = 1e-10 in the formula and of eps/h = 2e-11 in the rounding.
    h = 1e-5
    with torch.no_grad():
        by_rate = (loss_after(rate + h, start) - loss_after(rate - h, start)) / (2 * h)
        moves = h * torch.eye(3, dtype=torch.float64)
        by_start = torch.stack([(loss_after(rate, start + e) - loss_after(rate, start - e)) / (2 * h) for e in moves])
    assert torch.allclose(slopes[0], by_rate, rtol=1e-6, atol=1e-8)
    assert torch.allclose(slopes[1], by_start, rtol=1e-6, atol=1e-8)
    assert torch.allclose(with_a_float, by_start, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@every_row
def test_capturable_steps_are_the_same_with_a_counter_on_the_device(row: Row, foreach: bool) -> None:
    params, plain = some_params(), some_params()
    gradients = some_gradients(params, 20)
    optimizer = row.make(params, capturable=True, foreach=foreach)
    train(optimizer, params, gradients)
    train(row.make(plain), plain, gradients)
    assert np.allclose(values(params), values(plain), rtol=1e-13, atol=1e-13)
    assert all(isinstance(optimizer.state[p]["step"], Tensor) and optimizer.state[p]["step"] == 20 for p in params)


@every_row
def test_the_counter_may_move_to_the_device_and_back_in_mid_training(row: Row) -> None:
    params, plain = some_params(), some_params()
    gradients = some_gradients(params, 9)
    optimizer = row.make(params, capturable=True)
    for k, step in enumerate(gradients):
        optimizer.param_groups[0]["capturable"] = k % 2 == 0
        train(optimizer, params, [step])
    train(row.make(plain), plain, gradients)
    assert all(optimizer.state[p]["step"] == 9 for p in params)
    assert np.allclose(values(params), values(plain), rtol=1e-13, atol=1e-13)


@every_row
def test_grad_scaler_unscales_and_skips_steps_with_infinities(row: Row) -> None:
    x, y = Parameter(random(20, dtype=torch.float32)), Parameter(random(20, dtype=torch.float32))
    scaled, plain = row.make([x]), row.make([y])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for k in range(6):
        overflows = k == 3
        scaled.zero_grad()
        scaler.scale((x**4).sum() * (math.inf if overflows else 1.0)).backward()
        before, count = x.detach().clone(), scaled.state[x].get("step")
        scaler.step(scaled)
        scaler.update()
        if overflows:
            assert same([x], [before])
            assert scaled.state[x]["step"] == count == 3
        else:
            plain.zero_grad()
            (y**4).sum().backward()
            plain.step()
    assert same([x], [y])  # scales that are powers of 2 do not round
