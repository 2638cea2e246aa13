"""What is passed to torch's fused kernels, seen without a GPU; and tensors that have none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from optimizer_table import ROWS, Row, every_row, random, some_gradients, some_params, train
from torch import Tensor
from torch.nn import Parameter
from torch.utils._pytree import tree_map

from memgrad import HeavyBall, MemAdam, MemSGD, Nesterov
from memgrad.optim import kernel_guards
from memgrad.optim.base import MemoryOptimizer

KERNELS = ("_fused_sgd_", "_fused_adam_", "_fused_adamw_")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Every call of a fused kernel: its name and arguments. The kernel itself is called as well where it can be."""
    seen: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def watch(name: str) -> None:
        kernel = getattr(torch, name)

        def watched(*args: Any, **options: Any) -> None:
            seen.append((name, args, options))
            if args[0][0].device.type != "meta":
                kernel(*args, **options)

        monkeypatch.setattr(torch, name, watched)

    for name in KERNELS:
        watch(name)
    return seen


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def on_an_accelerator(shape: tuple[int, ...], dtype: torch.dtype) -> Parameter:
    """A parameter that is not on the CPU: one on the meta device stands in for CUDA's."""
    return Parameter(torch.empty(shape, dtype=dtype, device="meta"))


# --- CUDA, by what the kernels are given -----------------------------------------------------------------------------


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("decoupled", [True, False], ids=["adamw", "adam"])
def test_the_count_is_float32_as_the_cuda_kernel_reads_it(calls: Any, decoupled: bool, default: torch.dtype) -> None:
    """It reads 4 bytes of it as float32. Those of 1e30 in float64 are -6e-33 there: 1 - beta^step would be 0."""
    with default_dtype(default):
        x = Parameter(torch.zeros(3, dtype=torch.float32))
        optimizer = MemAdam([x], weight_decay=0.1, decoupled_weight_decay=decoupled)
        x.grad = torch.ones(3, dtype=torch.float32)
        optimizer.step()
    ((name, args, _),) = calls
    assert name == ("_fused_adamw_" if decoupled else "_fused_adam_")
    (step,) = args[5]
    assert step.dtype == torch.float32
    assert step.item() > 1e20
    assert step.shape == ()


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda x: MemSGD([x], memory="poly:2"), {"momentum": 10 / 12, "dampening": 10 / 12}),
        (lambda x: HeavyBall([x], viscosity=2.0), {"momentum": 10 / 12, "dampening": 0.0}),
        (lambda x: MemAdam([x], memory="poly:2", second_memory="poly:5"), {"beta1": 10 / 12, "beta2": 10 / 15}),
    ],
    ids=["MemSGD", "HeavyBall", "MemAdam"],
)
@pytest.mark.parametrize("device", ["cpu", "accelerator"])
def test_decays_of_float64_parameters_are_not_rounded_to_float32(
    calls: Any, monkeypatch: pytest.MonkeyPatch, make: Any, options: dict[str, float], device: str
) -> None:
    """The CUDA kernels take doubles and compute with opmath_type, which is double for double tensors."""
    x = Parameter(torch.zeros(3, dtype=torch.float64))
    if device == "accelerator":
        monkeypatch.setattr(kernel_guards, "FUSED_DEVICES", ("meta",))
        x = on_an_accelerator((3,), torch.float64)
    optimizer = make(x)
    x.grad = torch.ones_like(x)
    for _ in range(11):
        optimizer.step()
    _, _, passed = calls[-1]
    assert len(calls) == 11
    for name, value in options.items():
        assert passed[name] == pytest.approx(value, rel=1e-15, abs=0.0)  # float32 would be off by 1e-8


def test_decays_of_float32_parameters_are_rounded_so_that_the_weights_sum_to_1(
    calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_guards, "FUSED_DEVICES", ("meta",))
    x = on_an_accelerator((3,), torch.float32)
    optimizer = MemSGD([x], memory="poly:2")
    x.grad = torch.ones_like(x)
    for _ in range(11):
        optimizer.step()
    _, _, passed = calls[-1]
    assert passed["momentum"] == passed["dampening"] == torch.tensor(10 / 12, dtype=torch.float32).item()


class Capture:
    """A CUDA machine that records a graph, as torch.accelerator would tell."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, capturing: bool) -> None:
        self.capturing = capturing
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **_: torch.device("cuda"))
        monkeypatch.setattr(torch.accelerator, "current_stream", lambda: self)

    def is_capturing(self) -> bool:
        return self.capturing


@every_row
def test_a_graph_capture_without_capturable_is_refused_as_by_torch(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count would be a constant of the graph: every replay would take the same step again."""
    x, y = on_an_accelerator((3,), torch.float32), on_an_accelerator((3,), torch.float32)
    ours, theirs = row.make([x]), torch.optim.Adam([y])
    x.grad, y.grad = torch.ones_like(x), torch.ones_like(y)
    Capture(monkeypatch, capturing=True)
    words = []
    for optimizer in (ours, theirs):
        with pytest.raises(RuntimeError) as refusal:
            optimizer.step()
        words.append(str(refusal.value).replace(type(optimizer).__name__, "Adam"))
    assert words[0] == words[1]
    assert not ours.state[x]  # a buffer made now would be filled by the graph, not before the next step


@pytest.mark.parametrize("capturing", [True, False])
@every_row
def test_a_capturable_step_may_be_captured(row: Row, capturing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = on_an_accelerator((3,), torch.float32)
    optimizer = row.make([x], capturable=True)
    x.grad = torch.ones_like(x)
    Capture(monkeypatch, capturing=capturing)
    optimizer.step()
    optimizer.step()
    assert isinstance(optimizer.state[x]["step"], Tensor)


@every_row
def test_parameters_on_the_cpu_do_not_ask_for_an_accelerator(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    Capture(monkeypatch, capturing=True)
    params = some_params()
    before = [x.detach().clone() for x in params]
    train(row.make(params), params, some_gradients(params, 2))  # steps are taken, not refused
    assert not any(torch.equal(x, y) for x, y in zip(params, before, strict=True))


def test_a_state_on_another_device_is_not_given_to_a_kernel(calls: Any) -> None:
    x = Parameter(torch.zeros(3))
    optimizer = MemSGD([x])
    x.grad = torch.ones(3)
    optimizer.step()
    optimizer.state[x]["average"] = torch.zeros(3, device="meta")
    with pytest.raises(RuntimeError, match="device"):
        optimizer.step()
    assert len(calls) == 1


# --- subclasses of tensors -------------------------------------------------------------------------------------------


class Logged(Tensor):
    """A wrapper that knows the plain operators alone, as quantized and sharded tensors outside torch do."""

    inner: Tensor

    @staticmethod
    def __new__(cls: Any, inner: Tensor) -> Logged:
        return Tensor._make_wrapper_subclass(  # type: ignore[attr-defined, no-any-return]  # not public
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device
        )

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator.__name__.startswith(("_fused", "_foreach")):
            raise NotImplementedError(f"Logged has no {operator.__name__}")
        unwrapped = tree_map(lambda t: t.inner if isinstance(t, Logged) else t, (args, kwargs or {}))
        result = operator(*unwrapped[0], **unwrapped[1])
        if operator.__name__.split(".")[0].endswith("_"):
            return args[0]
        return tree_map(lambda t: cls(t) if isinstance(t, Tensor) else t, result)


class Asked(Tensor):
    """A subclass that answers functions in Python, and refuses those that it does not know."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "").startswith(("_fused", "_foreach")):
            raise NotImplementedError(f"Asked has no {function.__name__}")
        return super().__torch_function__(function, types, args, kwargs or {})


class OnlyNamed(Parameter):
    """A subclass that changes nothing, as FlatParameter."""


@pytest.mark.parametrize("kind", [Logged, Asked], ids=["dispatch", "function"])
@pytest.mark.parametrize("where", ["parameter", "gradient"])
@every_row
def test_a_subclass_without_fused_operators_takes_plain_steps(row: Row, kind: type, where: str) -> None:
    wrap = kind if kind is Logged else lambda t: t.as_subclass(Asked)
    values, gradients = random(20, dtype=torch.float32), some_gradients([random(20, dtype=torch.float32)], 4)
    plain, other = Parameter(values.clone()), Parameter(random(5, dtype=torch.float32))
    x = Parameter(wrap(values.clone()) if where == "parameter" else values.clone())
    ours, theirs = row.make([other, x]), row.make([plain], **row.modes["single"])
    for (g,) in gradients:
        other.grad = torch.ones(5)
        x.grad = wrap(g.clone())
        plain.grad = g.clone()
        ours.step()
        theirs.step()
    found = x.detach()
    found = found.inner if isinstance(found, Logged) else found.as_subclass(Tensor)
    assert torch.allclose(found, plain, rtol=1e-6, atol=1e-6)
    assert ours.state[other]["step"] == ours.state[x]["step"] == 4


# ADana has no fused kernel, and Nesterov's knows no momentum that changes from step to step.
FUSED = [
    row
    for row in ROWS
    if row.takes("fused") and row.kernels and not (row.optimizer is Nesterov and "viscosity" in row.options)
]


@pytest.mark.parametrize("row", FUSED, ids=str)
def test_a_subclass_that_changes_nothing_keeps_the_fused_kernels(row: Row, calls: Any) -> None:
    x = OnlyNamed(torch.zeros(20))
    optimizer = row.make([x])
    x.grad = torch.ones(20)
    optimizer.step()
    assert len(calls) == row.kernels


# --- which steps are given to a kernel -------------------------------------------------------------------------------

ONE, TWO = "inst + (1+k)^0.25*poly:8", "exp:0.9 + 5*poly:2"
GIVEN: list[tuple[type[MemoryOptimizer], dict[str, Any], int]] = [
    (MemSGD, {"weight_decay": 0.1}, 1),
    (MemSGD, {"decoupled_weight_decay": True}, 1),
    (MemSGD, {"decoupled_weight_decay": True, "weight_decay": 0.1}, 0),  # the kernel has no such decay
    (MemSGD, {"weight_decay": "l2=0.1"}, 0),
    (MemSGD, {"memory": "inst"}, 1),
    (MemSGD, {"memory": "2*poly:8", "weight_decay": 0.1}, 1),
    (MemSGD, {"memory": ONE}, 2),
    (MemSGD, {"memory": ONE, "weight_decay": 0.1}, 0),  # the second call would see changed parameters
    (MemSGD, {"memory": TWO}, 2),
    (MemSGD, {"memory": "poly:1e-4"}, 1),  # 1 - b_1 is 1e-4
    (MemSGD, {"memory": "poly:1e-6"}, 0),  # a float32 would change it by up to 3 %
    (MemSGD, {"memory": "inst + poly:1e-6"}, 0),
    (MemSGD, {"fused": False}, 0),
    (MemSGD, {"foreach": True}, 0),
    (MemSGD, {"capturable": True}, 0),
    (HeavyBall, {"momentum": 0.0}, 1),
    (HeavyBall, {"viscosity": 3.0}, 1),
    (HeavyBall, {"decoupled_weight_decay": True}, 1),
    (HeavyBall, {"decoupled_weight_decay": True, "weight_decay": 0.1}, 0),
    (Nesterov, {"momentum": 0.9}, 1),
    (Nesterov, {"momentum": 0.0}, 0),
    (Nesterov, {"viscosity": 3.0}, 0),  # the kernel looks ahead with the momentum of this step
    (MemAdam, {"weight_decay": 0.1}, 1),
    (MemAdam, {"weight_decay": 0.1, "decoupled_weight_decay": False}, 1),
    (MemAdam, {"weight_decay": "l2=0.1"}, 1),
    (MemAdam, {"memory": "inst"}, 1),
    (MemAdam, {"memory": "poly:1e-6"}, 0),
    (MemAdam, {"second_memory": "poly:1e-6"}, 0),
    (MemAdam, {"lr": 0.0}, 1),
    (MemAdam, {"lr": 0.0, "weight_decay": "independent=0.1"}, 1),  # nothing shrinks at the learning rate 0
    (MemAdam, {"memory": ONE}, 1),
    (MemAdam, {"memory": ONE, "lr": 0.0}, 0),
    (MemAdam, {"memory": ONE, "weight_decay": 0.1}, 1),
    (MemAdam, {"memory": ONE, "weight_decay": "l2=0.1"}, 0),
    (MemAdam, {"memory": TWO}, 2),
]


@pytest.mark.parametrize(("make", "options", "given"), GIVEN, ids=str)
def test_a_step_is_given_to_the_kernels_that_are_correct_for_it(
    make: type[MemoryOptimizer], options: dict[str, Any], given: int, calls: Any
) -> None:
    x = Parameter(torch.ones(3))
    optimizer = make([{"params": [x], "peak_lr": 0.1}], **options)  # type: ignore[call-arg]  # as a subclass takes it
    for _ in range(2):
        calls.clear()
        x.grad = torch.ones(3)
        optimizer.step()
    assert len(calls) == given


@pytest.mark.parametrize(
    ("dtype", "state_dtype", "memory", "given"),
    [
        (torch.float64, None, ONE, 1),
        (torch.float64, None, TWO, 0),  # a second call would round the squares
        (torch.bfloat16, torch.float32, "poly:2", 1),
        (torch.float16, torch.float32, TWO, 2),
        (torch.bfloat16, None, "poly:2", 0),
        (torch.float32, torch.float64, "poly:2", 0),
    ],
    ids=str,
)
def test_kernels_take_one_precision_or_a_wider_state(
    dtype: torch.dtype, state_dtype: torch.dtype | None, memory: str, given: int, calls: Any
) -> None:
    x = Parameter(torch.ones(3, dtype=dtype))
    optimizer = MemAdam([x], memory=memory, state_dtype=state_dtype)
    x.grad = torch.ones_like(x)
    optimizer.step()
    assert len(calls) == given
