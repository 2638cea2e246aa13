"""Steps that an optimizer compiles itself: the eager ones, compiled once, whatever changes from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_table import ROWS, Row, some_gradients, some_params, train, values
from torch._dynamo.testing import CompileCounterWithBackend

from memgrad import MemAdam, MemSGD
from memgrad.optim import compiled

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
SHAPES = ((), (7,), (4, 5))  # what is compiled grows with their number
GROWING = {"memory": "inst + (1+k)^0.25*poly:8"}


@pytest.fixture(autouse=True)
def _forget_what_was_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> CompileCounterWithBackend:
    """Counts what is compiled, by a backend that needs no compiler of C++."""
    counts = CompileCounterWithBackend("aot_eager")
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda step, **options: real(step, backend=counts, **options))
    return counts


@pytest.mark.most(6)
@pytest.mark.parametrize("dtype", [torch.float64, pytest.param(torch.float32, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_compiled_step_is_the_eager_one_and_is_compiled_once(
    row: Row, dtype: torch.dtype, counter: CompileCounterWithBackend
) -> None:
    params, eager = some_params(SHAPES, dtype=dtype), some_params(SHAPES, dtype=dtype)
    gradients = some_gradients(params, 5)
    decay = {"weight_decay": 0.1} if row.takes("weight_decay") else {"omega": 0.1}
    ours, theirs = row.make(params, compiled=True, **decay), row.make(eager, **decay)
    for k, step in enumerate(gradients):
        for optimizer in (ours, theirs):
            optimizer.param_groups[0]["lr"] = 0.05 / (k + 1)
        train(ours, params, [step])
        train(theirs, eager, [step])
    assert counter.frame_count == 1
    # 5 steps of up to 10 roundings each, of numbers below 10
    np.testing.assert_allclose(values(params), values(eager), rtol=0, atol=500 * torch.finfo(dtype).eps)
    assert all(ours.state[p]["step"] == 5 for p in params)


@pytest.mark.parametrize("make", [MemSGD, MemAdam])
def test_each_group_takes_its_own_compiled_step(make: Any, counter: CompileCounterWithBackend) -> None:
    ends = []
    for option in (True, False):
        params = some_params()
        groups = [{"params": params[:3]}, {"params": params[3:], "memory": "poly:3", "lr": 0.2, "maximize": True}]
        optimizer = make(groups, lr=0.1, compiled=option, **GROWING)
        train(optimizer, params, some_gradients(params, 4))
        ends.append(values(params))
    np.testing.assert_allclose(*ends, rtol=1e-12, atol=1e-12)
    assert counter.frame_count == 2


def test_many_steps_of_different_shapes_are_all_compiled(counter: CompileCounterWithBackend) -> None:
    """torch gives up a function after eight compilations."""
    for size in range(1, 12):
        params = some_params([(size,)])
        train(MemSGD(params, compiled=True), params, some_gradients(params, 2))
    assert counter.frame_count == 11


def test_a_compiled_optimizer_continues_an_eager_one_and_the_other_way_round(
    counter: CompileCounterWithBackend,
) -> None:
    params, eager = some_params(), some_params()
    gradients = some_gradients(params, 6)
    first = MemAdam(params, compiled=True, **GROWING)
    train(first, params, gradients[:2])
    second = MemAdam(params, **GROWING)
    second.load_state_dict({**first.state_dict(), "param_groups": second.state_dict()["param_groups"]})
    train(second, params, gradients[2:4])
    third = MemAdam(params, **GROWING)
    third.load_state_dict(second.state_dict())
    third.param_groups[0]["compiled"] = True
    train(third, params, gradients[4:])
    train(MemAdam(eager, **GROWING), eager, gradients)
    np.testing.assert_allclose(values(params), values(eager), rtol=1e-12, atol=1e-12)
    assert counter.frame_count == 2


def test_a_state_of_more_bits_than_the_parameter_is_not_rounded(counter: CompileCounterWithBackend) -> None:
    params, eager = some_params(dtype=torch.bfloat16), some_params(dtype=torch.bfloat16)
    gradients = some_gradients(params, 5)
    ours = MemAdam(params, compiled=True, state_dtype=torch.float32, **GROWING)
    theirs = MemAdam(eager, state_dtype=torch.float32, **GROWING)
    train(ours, params, gradients)
    train(theirs, eager, gradients)
    for a, b in zip(params, eager, strict=True):
        assert ours.state[a]["average"].dtype is torch.float32
        torch.testing.assert_close(ours.state[a]["average"], theirs.state[b]["average"], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(a, b, rtol=2**-7, atol=1e-4)  # one unit of the 8 bits


@pytest.mark.parametrize("other", ["foreach", "fused", "capturable", "differentiable"])
def test_other_ways_to_take_the_step_are_refused_beside_it(other: str) -> None:
    with pytest.raises(ValueError, match=rf"MemAdam takes one of compiled=True and {other}=True"):
        MemAdam(some_params(), compiled=True, **{other: True})


def test_it_is_on_or_off() -> None:
    with pytest.raises(TypeError, match="compiled to be True or False"):
        MemSGD(some_params(), compiled="yes")  # type: ignore[arg-type]  # it is refused


def test_without_a_compiler_no_step_is_taken_and_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("no working C++ compiler")

    monkeypatch.setattr(torch, "compile", fails)
    params = some_params()
    optimizer = MemSGD(params, compiled=True)
    before = values(params)
    with pytest.raises(
        RuntimeError, match=r"MemSGD with compiled=True needs.*compiled=False.*no working C\+\+ compiler"
    ):
        train(optimizer, params, some_gradients(params, 1))
    assert (values(params) == before).all()
    assert optimizer.state[params[0]]["step"] == 0


def test_a_schedule_of_options_does_not_pile_up_steps(
    counter: CompileCounterWithBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "_MANY_STEPS", 2)
    params = some_params([(3,)])
    optimizer = MemAdam(params, compiled=True)
    for memory in ("poly:2", "2*poly:2", "inst + poly:2", "poly:2 + exp:0.5", "inst + poly:2 + exp:0.5"):
        optimizer.param_groups[0]["memory"] = memory
        train(optimizer, params, some_gradients(params, 1))
    assert len(optimizer._compiler._steps) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_step_of_inductor_is_the_eager_one(row: Row) -> None:
    params, eager = some_params(dtype=torch.float32), some_params(dtype=torch.float32)
    gradients = some_gradients(params, 5)
    train(row.make(params, compiled=True), params, gradients)
    train(row.make(eager), eager, gradients)
    np.testing.assert_allclose(values(params), values(eager), rtol=0, atol=500 * torch.finfo(torch.float32).eps)
