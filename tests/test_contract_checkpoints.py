"""The contract, part 4: copies, checkpoints, and memories that are made of code. Rows: optimizer_table.py."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_table import (
    Row,
    every_row,
    every_row_and_mode,
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

from memgrad import FromDecays, MemAdam, MemSGD, Polynomial, Sampled
from memgrad.optim.base import MemoryOptimizer

LAST = 12


def saved_and_loaded(state_dict: Any) -> Any:
    """What torch's defaults, `weights_only=True` among them, make of a checkpoint."""
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file)


def half_trained(row: Row, **options: Any) -> tuple[list[Parameter], MemoryOptimizer, list[list[Tensor]]]:
    """Parameters and optimizer after half of the steps, and the gradients of the other half."""
    dtype = options.pop("dtype", torch.float64)
    params = some_params(dtype=dtype)
    gradients = some_gradients(params, LAST)
    optimizer = row.make(params, **options)
    train(optimizer, params, gradients[: LAST // 2])
    return params, optimizer, gradients[LAST // 2 :]


def copies_of(params: list[Parameter]) -> list[Parameter]:
    return [Parameter(p.detach().clone()) for p in params]


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deep", "pickle"])
@every_row_and_mode
def test_a_copy_continues_bit_for_bit_and_leaves_the_original_alone(row: Row, mode: Any, duplicate: Any) -> None:
    params, optimizer, rest = half_trained(row, **mode)
    copied_params, copied = duplicate((params, optimizer))
    train(copied, copied_params, rest)
    assert not same(params, copied_params)
    train(optimizer, params, rest)
    assert same(params, copied_params)
    assert type(copied) is type(optimizer)
    with pytest.raises(ValueError, match="did you mean 'maximize'"):
        copied.add_param_group({"params": some_params(), "maximise": True})


# --- state_dict ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@every_row_and_mode
def test_a_loaded_checkpoint_continues_bit_for_bit(row: Row, mode: dict[str, Any], dtype: torch.dtype) -> None:
    params, optimizer, rest = half_trained(row, dtype=dtype, **mode)
    checkpoint = saved_and_loaded(optimizer.state_dict())
    resumed_params = copies_of(params)
    resumed = row.optimizer(resumed_params, lr=1.0)  # the options of the checkpoint win
    resumed.load_state_dict(checkpoint)
    train(resumed, resumed_params, rest)
    train(optimizer, params, rest)
    assert same(params, resumed_params)
    assert str(optimizer.state_dict()) == str(resumed.state_dict())


@every_row_and_mode
def test_a_checkpoint_continues_in_any_other_mode(row: Row, mode: dict[str, Any]) -> None:
    params, optimizer, rest = half_trained(row, **mode)
    checkpoint, start = saved_and_loaded(optimizer.state_dict()), copies_of(params)
    train(optimizer, params, rest)
    for name, other in row.modes.items():
        for capturable in (False, True):
            resumed_params = copies_of(start)
            resumed = row.make(resumed_params)
            resumed.load_state_dict(copy.deepcopy(checkpoint))
            for group in resumed.param_groups:
                group.update({"foreach": None, "fused": None, **other, "capturable": capturable})
            train(resumed, resumed_params, rest)
            close = np.allclose(values(params), values(resumed_params), rtol=1e-13, atol=1e-13)
            assert close, f"continued as {name}, capturable={capturable}"


@every_row
def test_a_capturable_checkpoint_continues_with_and_without_a_counter_on_the_device(row: Row) -> None:
    params, optimizer, rest = half_trained(row, capturable=True)
    checkpoint = saved_and_loaded(optimizer.state_dict())
    without = copy.deepcopy(checkpoint)
    for group in without["param_groups"]:
        group["capturable"] = False
    train(optimizer, params, rest)
    for state_dict, kind in ((checkpoint, Tensor), (without, int)):
        resumed_params = some_params()
        train(row.make(resumed_params, capturable=True), resumed_params, some_gradients(params, LAST)[: LAST // 2])
        resumed = row.make(resumed_params)
        resumed.load_state_dict(state_dict)
        train(resumed, resumed_params, rest)
        assert np.allclose(values(params), values(resumed_params), rtol=1e-13, atol=1e-13)
        steps = [resumed.state[p]["step"] for p in resumed_params]
        assert all(isinstance(k, kind) and k == LAST for k in steps)


@pytest.mark.parametrize(("dtype", "state_dtype"), [(torch.bfloat16, "float32"), (torch.float32, "bfloat16")], ids=str)
@every_row
def test_a_loaded_state_keeps_its_precision(row: Row, dtype: torch.dtype, state_dtype: str) -> None:
    options = {"state_dtype": getattr(torch, state_dtype), **row.modes["single"]}
    params, optimizer, rest = half_trained(row, dtype=dtype, **options)
    resumed_params = copies_of(params)
    resumed = row.make(resumed_params)
    resumed.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    for p, q in zip(params, resumed_params, strict=True):
        for name, value in optimizer.state[p].items():
            loaded = resumed.state[q][name]
            if name == "step":
                assert loaded == value
                continue
            assert loaded.dtype == value.dtype == getattr(torch, state_dtype)
            assert torch.equal(loaded, value)
            assert loaded.data_ptr() != value.data_ptr() or not value.numel()
    train(resumed, resumed_params, rest)
    train(optimizer, params, rest)
    assert same(params, resumed_params)


PLAIN = (str, int, float, bool, type(None), Tensor)


def types_in(data: Any) -> set[type]:
    if type(data) is dict:
        return types_in(list(data.keys())) | types_in(list(data.values()))
    if type(data) in (list, tuple):
        return set().union(*map(types_in, data))
    return {type(data)}


@every_row
def test_a_checkpoint_is_plain_data(row: Row) -> None:
    rate = np.float64(0.1)  # as a grid of numpy gives it
    params = some_params()
    optimizer = row.make(list(zip("abcdef", params, strict=True)), lr=rate, state_dtype=torch.float32, maximize=True)
    train(optimizer, params, some_gradients(params, 2))
    state_dict = optimizer.state_dict()
    assert types_in(state_dict) <= set(PLAIN)
    assert str(saved_and_loaded(state_dict)) == str(state_dict)


def test_a_checkpoint_is_plain_data_also_right_after_options_were_changed() -> None:
    params = some_params()
    optimizer = MemSGD(params, lr=0.1)
    train(optimizer, params, some_gradients(params, 2))
    optimizer.param_groups[0]["memory"] = Polynomial(3)
    optimizer.param_groups[0]["state_dtype"] = torch.float32
    state_dict = optimizer.state_dict()
    assert types_in(state_dict) <= set(PLAIN)
    assert saved_and_loaded(state_dict)["param_groups"][0]["memory"] == "poly:3"


def test_a_state_dtype_changed_in_mid_training_holds_for_parameters_that_begin_later() -> None:
    params = some_params([(3,), (4,)])
    optimizer = MemSGD(params, lr=0.1)
    params[0].grad = torch.ones_like(params[0])
    optimizer.step()
    optimizer.param_groups[0]["state_dtype"] = torch.float32
    train(optimizer, params, some_gradients(params, 2))
    assert optimizer.state[params[1]]["average"].dtype == torch.float32


@every_row
def test_the_hooks_of_checkpoints_are_called_and_may_replace_them(row: Row) -> None:
    params, optimizer, _ = half_trained(row)
    seen: list[str] = []
    optimizer.register_state_dict_pre_hook(lambda opt: seen.append("before saving"))
    optimizer.register_state_dict_post_hook(lambda opt, state: {**state, "extra": 1})
    state_dict = optimizer.state_dict()
    assert state_dict["extra"] == 1
    resumed = row.make(copies_of(params))

    def with_another_rate(opt: Any, state: Any) -> Any:
        seen.append("before loading")
        return {**state, "param_groups": [{**group, "lr": 0.5} for group in state["param_groups"]]}

    resumed.register_load_state_dict_pre_hook(with_another_rate)
    resumed.register_load_state_dict_post_hook(lambda opt: seen.append("after loading"))
    for _ in range(2):
        resumed.load_state_dict(state_dict)
    assert seen == ["before saving", *["before loading", "after loading"] * 2]
    assert resumed.param_groups[0]["lr"] == 0.5
    assert all(resumed.state[q]["step"] == LAST // 2 for q in resumed.param_groups[0]["params"])


@every_row
def test_a_checkpoint_of_other_groups_is_refused_and_changes_nothing(row: Row) -> None:
    _, optimizer, _ = half_trained(row)
    state_dict = optimizer.state_dict()
    params, other = trained(row, 2)
    before = str(other.state_dict())
    with pytest.raises(ValueError, match="parameter group"):
        other.load_state_dict({**state_dict, "param_groups": state_dict["param_groups"] * 2})
    assert str(other.state_dict()) == before
    train(other, params, some_gradients(params, 1))


# --- memories made of code -------------------------------------------------------------------------------------------


def square(t: Any) -> Any:
    return t**2


def its_derivative(t: Any) -> Any:
    return 2 * t


def decays(k: Any) -> Any:
    return k / (k + 2)


SAMPLED = Sampled(square, its_derivative, h=1.0)
CODE = {"sampled": SAMPLED, "decays": FromDecays(decays)}
CLOSED_FORMS = {  # w(j, k)
    "sampled": lambda j, k: (2 * j + 1) / (k + 1) ** 2,
    "decays": lambda j, k: 2 * (j + 1) / ((k + 1) * (k + 2)),
}


@pytest.mark.parametrize("capturable", [False, True], ids=["", "capturable"])
@pytest.mark.parametrize("name", CODE)
def test_a_memory_made_of_functions_trains(name: str, capturable: bool) -> None:
    x = Parameter(torch.zeros(LAST, dtype=torch.float64))
    optimizer = MemSGD([x], lr=1.0, memory=CODE[name], capturable=capturable)
    train(optimizer, [x], [[impulse] for impulse in torch.eye(LAST, dtype=torch.float64)])
    j, k = np.arange(LAST)[:, None], np.arange(LAST)[None, :]
    weights = np.where(j <= k, CLOSED_FORMS[name](j, k), 0.0)
    assert np.allclose(values([x]), -weights.sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize("name", CODE)
def test_a_memory_made_of_functions_must_be_given_again_to_load_a_checkpoint(name: str) -> None:
    params, gradients = some_params(), some_gradients(some_params(), LAST)
    optimizer = MemSGD(params, lr=0.1, memory=CODE[name])
    train(optimizer, params, gradients[:6])
    state_dict = saved_and_loaded(optimizer.state_dict())
    assert types_in(state_dict) <= set(PLAIN)
    resumed_params = copies_of(params)
    resumed = MemSGD(resumed_params, lr=0.1, memory=CODE[name])
    resumed.load_state_dict(state_dict)
    train(resumed, resumed_params, gradients[6:])
    train(optimizer, params, gradients[6:])
    assert same(params, resumed_params)
    without = MemSGD(copies_of(params), lr=0.1)
    before = str(without.state_dict())
    with pytest.raises(ValueError, match="function"):
        without.load_state_dict(state_dict)
    assert str(without.state_dict()) == before


def test_two_memories_made_of_different_functions_with_one_name_are_refused() -> None:
    first = Sampled(lambda t: t**2, lambda t: 2 * t, h=1.0)
    second = Sampled(lambda t: t**3, lambda t: 3 * t**2, h=1.0)
    with pytest.raises(ValueError, match="name their functions differently"):
        MemAdam(some_params(), memory=first, second_memory=second)


def test_a_memory_made_of_functions_survives_copies() -> None:
    x = Parameter(random(3))
    optimizer = MemSGD([x], memory=SAMPLED)
    for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        y = copied.param_groups[0]["params"][0]
        for p, each in ((x, optimizer), (y, copied)):
            p.data.zero_()
            train(each, [p], some_gradients([x], 3))
            each.state.clear()
        assert same([x], [y])
