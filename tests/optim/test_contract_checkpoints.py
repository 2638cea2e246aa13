"""The contract, part 4: copies, checkpoints, and memories that are made of code. Rows: optimizer_table.py."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from optimizer_steps import after_a_step
from optimizer_table import (
    ROWS,
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

import memgrad
from memgrad import FromDecays, HeavyBall, MemAdam, Memory, MemSGD, Nesterov, PolyAdam, Polynomial, Sampled
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


@every_row_and_mode
def test_a_loaded_state_is_not_that_of_the_checkpoint(row: Row, mode: dict[str, Any]) -> None:
    """Steps after loading must change neither the checkpoint in memory nor the optimizer that it came from."""
    params, optimizer, rest = half_trained(row, **mode)
    checkpoint = optimizer.state_dict()
    for state in checkpoint["state"].values():
        state["tag"] = torch.zeros(3)  # a tensor of the user's
    before = copy.deepcopy(checkpoint)
    resumed_params = copies_of(params)
    resumed = row.make(resumed_params)
    resumed.load_state_dict(checkpoint)
    train(resumed, resumed_params, rest)
    for q in resumed_params:
        resumed.state[q]["tag"].add_(1)
    assert str(checkpoint["state"]) == str(before["state"])
    train(optimizer, params, rest)
    assert same(params, resumed_params)


@every_row
def test_a_checkpoint_is_saved_whatever_was_written_into_a_group(row: Row) -> None:
    """Hours of training must not be lost because someone set lr = -0.1; to load it, the value is asked for."""
    params, optimizer, _ = half_trained(row)
    for name, value in (("lr", -0.1), ("lr", "fast"), ("maximize", "yes"), ("foreach", 3), ("state_dtype", "float33")):
        group = optimizer.param_groups[0]
        kept, group[name] = group[name], value
        checkpoint = saved_and_loaded(optimizer.state_dict())
        assert checkpoint["param_groups"][0][name] == value
        duplicate = copy.deepcopy(optimizer)
        assert duplicate.param_groups[0][name] == value
        fresh = row.make(copies_of(params))
        with pytest.raises(
            (TypeError, ValueError), match=rf"group 0 of the checkpoint.*\b{name}\b.*nothing was loaded"
        ):
            fresh.load_state_dict(checkpoint)
        assert not fresh.state
        checkpoint["param_groups"][0][name] = group[name] = kept  # the way out that the error names
        fresh.load_state_dict(checkpoint)


def test_a_checkpoint_is_saved_also_where_two_memories_have_one_name() -> None:
    optimizer = MemSGD(some_params(), memory=Sampled(lambda t: t**2, lambda t: 2 * t, h=1.0))
    optimizer.param_groups[0]["memory"] = Sampled(lambda t: t**3, lambda t: 3 * t**2, h=1.0)
    assert types_in(optimizer.state_dict()) <= set(PLAIN)


def without_a_mark(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """As older versions and distributed checkpoints have it."""
    return {name: checkpoint[name] for name in ("state", "param_groups")}


RULES = {row.optimizer: "MemAdam" if row.optimizer is PolyAdam else row.optimizer.__name__ for row in ROWS}


@pytest.mark.parametrize("stepped", [True, False], ids=["stepped", "fresh"])
@pytest.mark.parametrize("other", ROWS, ids=str)
@every_row
def test_a_checkpoint_of_another_optimizer_is_refused_by_name(row: Row, other: Row, stepped: bool) -> None:
    params, optimizer, _ = half_trained(other)
    checkpoint = saved_and_loaded((optimizer if stepped else other.make(some_params())).state_dict())
    ours = row.make(copies_of(params))
    if RULES[row.optimizer] == RULES[other.optimizer]:
        ours.load_state_dict(checkpoint)
        return
    before = str(ours.state_dict())
    with pytest.raises(ValueError, match=f"one of {RULES[other.optimizer]}, not of {row.optimizer.__name__}"):
        ours.load_state_dict(checkpoint)
    assert str(ours.state_dict()) == before


@pytest.mark.parametrize("other", ROWS, ids=str)
@every_row
def test_a_checkpoint_without_a_mark_is_told_by_its_options_and_buffers(row: Row, other: Row) -> None:
    params, optimizer, rest = half_trained(other)
    checkpoint = without_a_mark(saved_and_loaded(optimizer.state_dict()))
    resumed_params = copies_of(params)
    resumed = row.make(resumed_params)
    alike = RULES[row.optimizer] == RULES[other.optimizer]
    if not alike and {row.optimizer, other.optimizer} != {
        HeavyBall,
        Nesterov,
    }:  # whose options and buffers are the same
        with pytest.raises(ValueError, match=f"not one of {row.optimizer.__name__}"):
            resumed.load_state_dict(checkpoint)
        return
    resumed.load_state_dict(checkpoint)
    if alike:
        train(resumed, resumed_params, rest)
        train(optimizer, params, rest)
        assert same(params, resumed_params)


THEIRS = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1),
    "SGD with momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "Adam": torch.optim.Adam,
    "Adagrad": torch.optim.Adagrad,
    "RMSprop": torch.optim.RMSprop,
    "Rprop": torch.optim.Rprop,
}


@pytest.mark.parametrize("name", THEIRS)
@every_row
def test_a_checkpoint_of_torch_is_refused(row: Row, name: str) -> None:
    params = some_params()
    theirs = THEIRS[name](params)
    train(theirs, params, some_gradients(params, 2))
    ours = row.make(copies_of(params))
    with pytest.raises(ValueError, match=f"not one of {row.optimizer.__name__}"):
        ours.load_state_dict(theirs.state_dict())
    assert not ours.state


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("saved", [torch.bfloat16, torch.float32, None], ids=str)
@pytest.mark.parametrize("own", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_precision_that_an_optimizer_was_given_holds_also_for_a_state_that_it_loads(
    dtype: torch.dtype, saved: torch.dtype | None, own: torch.dtype
) -> None:
    if dtype.is_complex and torch.bfloat16 in (saved, own):
        return  # there are no complex numbers of that precision
    params = some_params(dtype=dtype)
    optimizer = MemAdam(params, state_dtype=saved)
    train(optimizer, params, some_gradients(params, 3))
    resumed = MemAdam(copies_of(params), state_dtype=own)
    resumed.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    for p, q in zip(params, resumed.param_groups[0]["params"], strict=True):
        for name in ("average", "square_average"):
            expected = own.to_complex() if dtype.is_complex else own
            assert resumed.state[q][name].dtype == expected
            assert torch.equal(resumed.state[q][name], optimizer.state[p][name].to(expected))
    assert resumed.state_dict()["param_groups"][0]["state_dtype"] == str(own).removeprefix("torch.")
    train(resumed, resumed.param_groups[0]["params"], some_gradients(params, 1))


def test_a_checkpoint_right_after_a_memory_followed_none_is_loaded() -> None:
    """Its states have a count and no average yet."""
    params, gradients = some_params(), some_gradients(some_params(), 6)
    optimizer = MemSGD(params, memory="inst")
    train(optimizer, params, gradients[:3])
    optimizer.param_groups[0]["memory"] = "poly:2"
    resumed_params = copies_of(params)
    resumed = MemSGD(resumed_params)
    resumed.load_state_dict(saved_and_loaded(optimizer.state_dict()))
    train(optimizer, params, gradients[3:])
    train(resumed, resumed_params, gradients[3:])
    assert same(params, resumed_params)


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


@dataclass(frozen=True)
class Halved(Memory):
    """A family of a user's: text cannot rebuild it, and it is not made of code."""

    p: float

    family: ClassVar[str] = "halved"
    example: ClassVar[str] = "halved:2"
    formula: ClassVar[str] = "-"
    decay_formula: ClassVar[str] = "k/(k+p)"

    def _decay(self, k: Any, xp: Any) -> Any:
        return k / (k + self.p)

    def _fresh(self, k: Any, xp: Any) -> Any:
        return self.p / (k + self.p)


@pytest.mark.parametrize("memory", [Halved(2.0), SAMPLED, FromDecays(decays)], ids=["class", "sampled", "decays"])
def test_a_memory_of_the_users_is_not_forgotten_after_many_others(memory: Memory) -> None:
    """A schedule of memories, objects or text, must neither pile up nor push it out."""
    x = Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = MemSGD([x], lr=1.0, memory=memory)
    text = optimizer.param_groups[0]["memory"]
    for k in range(350):
        optimizer.param_groups[0]["memory"] = f"poly:{k + 1}" if k % 2 else Polynomial(k + 1)
        train(optimizer, [x], [[torch.ones(1, dtype=torch.float64)]])
    assert len(optimizer._memories) < 200
    optimizer.param_groups[0]["memory"] = text
    before = x.item()
    train(optimizer, [x], [[torch.full((1,), 3.0, dtype=torch.float64)]])
    fresh = memory.fresh(350)
    assert x.item() - before == pytest.approx(-(1 - fresh) - 3 * fresh, rel=1e-12)
    optimizer.load_state_dict(saved_and_loaded(optimizer.state_dict()))


def test_what_is_not_a_state_dict_is_refused_with_the_part_that_is_one() -> None:
    model, optimizer = after_a_step(lambda params: MemSGD(params, lr=0.1))
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with pytest.raises(
        ValueError, match=r"has the keys model, optimizer: load its entry 'optimizer'\. Nothing"
    ) as error:
        optimizer.load_state_dict(whole)
    assert len(str(error.value)) < 300
    with pytest.raises(
        ValueError, match=r"has the keys weight, bias: load what the optimizer's state_dict\(\) returned"
    ):
        optimizer.load_state_dict(model.state_dict())
    optimizer.load_state_dict(whole["optimizer"])


def test_a_checkpoint_of_torch_is_refused_with_the_way_to_continue_it() -> None:
    _, adamw = after_a_step(torch.optim.AdamW)
    with pytest.raises(ValueError, match=r"amsgrad, betas; nothing was loaded.* pass that optimizer to from_torch"):
        MemAdam([torch.zeros(1)]).load_state_dict(adamw.state_dict())
    assert memgrad.from_torch(adamw).param_groups[0]["second_memory"] == "exp:0.999"
