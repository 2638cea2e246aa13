"""The contract, part 3: every kind of tensor is trained as a plain one would be. Rows: optimizer_table.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_steps import step
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

from memgrad import ADana, MemSGD, PolyAdam
from memgrad.optim import MemAdam

# --- complex and sparse ----------------------------------------------------------------------------------------------


@every_row_and_mode
def test_complex_parameters_are_pairs_of_reals(row: Row, mode: dict[str, Any]) -> None:
    pairs = [(*shape, 2) for shape in ((), (3,), (2, 5))]
    real = some_params(pairs)
    numbers = [Parameter(torch.view_as_complex(p.detach().clone())) for p in real]
    gradients = some_gradients(real, 6)
    decay = {"weight_decay": 0.1} if row.takes("weight_decay") else {}
    train(row.make(real, **mode, **decay), real, gradients)
    complex_gradients = [[torch.view_as_complex(g) for g in step] for step in gradients]
    train(row.make(numbers, **mode, **decay), numbers, complex_gradients)
    assert same([torch.view_as_real(z.detach()) for z in numbers], real)


@every_row_and_mode
def test_a_gradient_that_autograd_leaves_lazily_conjugated_is_read_right(row: Row, mode: dict[str, Any]) -> None:
    z, plain = Parameter(random(6, dtype=torch.complex128)), Parameter(random(6, dtype=torch.complex128))
    slope = random(6, seed=1, dtype=torch.complex128)
    ours, theirs = row.make([z], **mode), row.make([plain], **mode)
    for _ in range(3):
        ours.zero_grad()
        (z.conj() * slope).sum().real.backward()
        assert z.grad is not None
        assert z.grad.is_conj()
        plain.grad = slope.clone()
        ours.step()
        theirs.step()
    assert same([z], [plain])


@every_row_and_mode
def test_a_gradient_that_is_lazily_negated_is_read_right(row: Row, mode: dict[str, Any]) -> None:
    x, plain = Parameter(random(6)), Parameter(random(6))
    ours, theirs = row.make([x], **mode), row.make([plain], **mode)
    for k in range(3):
        negated = random(6, seed=k, dtype=torch.complex128).conj().imag
        assert negated.is_neg()
        x.grad, plain.grad = negated, negated.resolve_neg().clone()
        ours.step()
        theirs.step()
    assert np.allclose(values([x]), values([plain]), rtol=1e-14)  # their paths may differ: the view has gaps


@every_row
def test_sparse_gradients_are_refused_and_nothing_is_changed(row: Row) -> None:
    params = some_params([(4, 2), (4, 2)])
    optimizer = row.make(params)
    params[0].grad = torch.ones(4, 2, dtype=torch.float64)
    params[1].grad = torch.ones(4, 2, dtype=torch.float64).to_sparse()
    with pytest.raises(RuntimeError, match=r"does not support sparse gradients.*sparse=False"):
        optimizer.step()
    assert same(params, some_params([(4, 2), (4, 2)]))


# --- low precision ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state_dtype", [None, torch.float32], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_row_and_mode
def test_low_precision_parameters_follow_the_path_of_double_precision(
    row: Row, mode: dict[str, Any], dtype: torch.dtype, state_dtype: torch.dtype | None
) -> None:
    shapes, steps = [(3,), (40,), (5, 8)], 10
    params = some_params(shapes, dtype=dtype)
    exact = [Parameter(p.detach().double()) for p in params]
    gradients = some_gradients(params, steps)
    optimizer = row.make(params, state_dtype=state_dtype, **mode)
    train(optimizer, params, gradients)
    train(row.make(exact), exact, [[g.double() for g in step] for step in gradients])
    # Each step rounds x (|x| < 8) by half an ulp, and the step by some ulps more of its own size (< 1).
    unit = torch.finfo(dtype).eps
    error = np.abs(values(params) - values(exact))
    assert error.max() < steps * (8 * unit / 2 + 4 * unit)
    assert error.mean() < steps * unit
    # Squares of float16 would vanish (test_float16_squares.py).
    own = torch.float32 if dtype is torch.float16 and "square_average" in row.kept else dtype
    expected = own if state_dtype is None else state_dtype
    kept = [t for p in params for t in optimizer.state[p].values() if isinstance(t, Tensor) and t.dim()]
    assert {t.dtype for t in kept} <= {expected}


def of_degree_1(optimizer: Any, **degree: Any) -> Callable[..., torch.optim.Optimizer]:
    return lambda params, **options: optimizer(params, lr=1e-3, **degree, **options)


LONG = [
    pytest.param(of_degree_1(MemSGD, memory="poly:1"), "average", 0.75, torch.bfloat16, id="MemSGD-bfloat16"),
    pytest.param(of_degree_1(MemSGD, memory="poly:1"), "average", 0.75, torch.float16, id="MemSGD-float16"),
    pytest.param(of_degree_1(PolyAdam, p=1), "square_average", 0.625, torch.bfloat16, id="PolyAdam-bfloat16"),
    pytest.param(of_degree_1(ADana, delta=1), "average", 0.75, torch.bfloat16, id="ADana-bfloat16"),
]


@pytest.mark.parametrize(("make", "buffer", "mean", "dtype"), LONG)
def test_a_long_memory_loses_small_updates_unless_its_state_has_float32(
    make: Callable[..., torch.optim.Optimizer], buffer: str, mean: float, dtype: torch.dtype
) -> None:
    """The mean of gradients that are 1 in a first half and 0.5 in a second is 0.75, of their squares 0.625.

    At step k the mean moves by 1/(2k), that of squares by 3/(4k). Below 1 bfloat16 has the spacing 2^-8 and float16
    2^-11, so the former round to nothing from k = 2^8 and 2^11 on, and the mean stays 1 for ever; the latter soon
    after.
    """
    half = 300 if dtype == torch.bfloat16 else 2100
    ends = {}
    for state_dtype in (None, torch.float32):
        x = Parameter(torch.zeros(20, dtype=dtype))
        optimizer = make([x], state_dtype=state_dtype)
        for k in range(2 * half):
            x.grad = torch.full_like(x, 1.0 if k < half else 0.5)
            optimizer.step()
        ends[state_dtype] = optimizer.state[x][buffer].double()
    assert (ends[None] > mean + 0.2).all()
    # float32: each of the moves rounds by 2^-25 at most.
    assert torch.allclose(ends[torch.float32], torch.full((20,), mean, dtype=torch.float64), atol=2 * half * 2.0**-25)


DECAYS = {
    "plain": {},
    "l2": {"weight_decay": 0.1, "decoupled_weight_decay": False},
    "decoupled": {"weight_decay": 0.1, "decoupled_weight_decay": True},
}


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize(
    ("dtype", "state_dtype"),
    [
        (torch.float32, torch.float64),
        (torch.float64, torch.float32),
        (torch.float32, torch.bfloat16),
        (torch.float64, torch.bfloat16),
        (torch.bfloat16, torch.float64),
        (torch.complex128, torch.float32),
    ],
    ids=str,
)
@every_row_and_mode
def test_a_state_may_have_any_other_precision(
    row: Row, mode: dict[str, Any], dtype: torch.dtype, state_dtype: torch.dtype, decay: str
) -> None:
    options = {name: value for name, value in DECAYS[decay].items() if row.takes(name)}
    wide = torch.complex128 if dtype.is_complex else torch.float64
    params, exact = some_params(dtype=dtype), some_params(dtype=wide)
    steps, unit = 6, max(torch.finfo(dtype).eps, torch.finfo(state_dtype).eps)
    gradients = [[g.to(dtype) for g in step] for step in some_gradients(exact, steps)]
    optimizer = row.make(params, state_dtype=state_dtype, **mode, **options)
    train(optimizer, params, gradients)
    train(row.make(exact, **options), exact, [[g.to(wide) for g in step] for step in gradients])
    # Each step rounds |x| < 4 and a direction of size 10 at most some ulps.
    assert np.allclose(values(params), values(exact), rtol=0, atol=steps * 16 * unit)
    kept = state_dtype.to_complex() if dtype.is_complex else state_dtype
    assert all(optimizer.state[p][name].dtype == kept for p in params for name in row.kept)


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize(("first", "then"), [("float32", "double"), ("float64", "float"), ("float32", "bfloat16")])
@every_row_and_mode
def test_a_model_may_change_its_precision_in_mid_training(
    row: Row, mode: dict[str, Any], first: str, then: str, decay: str
) -> None:
    """`model.double()` gives parameters other data; the state stays as it is."""
    options = {name: value for name, value in DECAYS[decay].items() if row.takes(name)}
    model = torch.nn.Linear(5, 4).to(getattr(torch, first))
    params = list(model.parameters())
    exact = [Parameter(p.detach().double().clone()) for p in params]
    optimizer, theirs = row.make(params, **mode, **options), row.make(exact, **options)
    gradients = some_gradients(exact, 6)
    for k, gradient in enumerate(gradients):
        if k == 3:
            optimizer.zero_grad()
            getattr(model, then)()
        train(optimizer, params, [[g.to(p.dtype) for g, p in zip(gradient, params, strict=True)]])
        train(theirs, exact, [gradient])
    assert all(p is q for p, q in zip(model.parameters(), params, strict=True))
    unit = torch.finfo(torch.bfloat16 if then == "bfloat16" else torch.float32).eps
    assert np.allclose(values(params), values(exact), rtol=0, atol=6 * 16 * unit)


@pytest.mark.parametrize(
    ("dtype", "grad_dtype"),
    [(torch.float32, torch.float64), (torch.float64, torch.float32), (torch.bfloat16, torch.float32)],
    ids=str,
)
@every_row_and_mode
def test_a_gradient_may_have_another_precision_than_its_parameter(
    row: Row, mode: dict[str, Any], dtype: torch.dtype, grad_dtype: torch.dtype
) -> None:
    params, exact = some_params([(20,), (20,)], dtype=dtype), some_params([(20,), (20,)])
    params[1].grad_dtype = grad_dtype  # beside one that has its parameter's
    gradients = some_gradients(exact, 4)
    cast = [[g.to(t) for g, t in zip(step, (dtype, grad_dtype), strict=True)] for step in gradients]
    train(row.make(params, **mode), params, cast)
    train(row.make(exact), exact, gradients)
    unit = max(torch.finfo(dtype).eps, torch.finfo(grad_dtype).eps)
    assert np.allclose(values(params), values(exact), atol=4 * 8 * unit)  # 4 steps, |x| < 4, an ulp or two each


# --- layouts ---------------------------------------------------------------------------------------------------------

SHAPE = (2, 4, 3, 5)
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda v: v.clone(),
    "transposed": lambda v: v.mT.contiguous().mT,
    "reversed": lambda v: v.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "channels_last": lambda v: v.contiguous(memory_format=torch.channels_last),
    "with gaps": lambda v: torch.zeros(*v.shape[:-1], 2 * v.shape[-1], dtype=v.dtype)[..., ::2].copy_(v),
    "misaligned": lambda v: torch.zeros(v.numel() + 1, dtype=v.dtype)[1:].view(v.shape).copy_(v),
}
GRADIENT_LAYOUTS = {
    **LAYOUTS,
    "expanded row": lambda v: v[..., :1].expand(v.shape),
    "expanded number": lambda v: v[:1, :1, :1, :1].expand(v.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@every_row_and_mode
def test_every_layout_of_parameters_and_gradients_gives_the_same_values(
    row: Row, mode: dict[str, Any], layout: str
) -> None:
    for name, lay_out in GRADIENT_LAYOUTS.items():
        x, exact = Parameter(LAYOUTS[layout](random(*SHAPE).float())), Parameter(random(*SHAPE))
        strides = x.stride()
        ours, theirs = row.make([x], **mode), row.make([exact], **row.modes["single"])
        for k in range(3):
            g = random(*SHAPE, seed=k)
            x.grad, exact.grad = lay_out(g.float()), lay_out(g).contiguous()
            ours.step()
            theirs.step()
        assert x.stride() == strides
        # Three steps of float32, with |x| < 4.
        assert np.allclose(values([x]), values([exact]), rtol=2e-6, atol=2e-6), f"gradient {name}"


@every_row_and_mode
def test_empty_and_zero_dimensional_parameters_are_trained_with_the_others(row: Row, mode: dict[str, Any]) -> None:
    shapes = [(0,), (5,), (3, 0, 2), (), (1, 1)]
    params, exact = some_params(shapes, dtype=torch.float32), some_params(shapes)
    gradients = some_gradients(exact, 4)
    train(row.make(params, **mode), params, [[g.float() for g in step] for step in gradients])
    for i, p in enumerate(exact):
        train(row.make([p], **row.modes["single"]), [p], [[step[i]] for step in gradients])
    assert [p.shape for p in params] == [p.shape for p in exact]
    assert np.allclose(values(params), values(exact), rtol=2e-6, atol=2e-6)


@every_row_and_mode
def test_only_empty_parameters_are_trained_without_complaint(row: Row, mode: dict[str, Any]) -> None:
    params = some_params([(0,), (2, 0)])
    optimizer = row.make(params, **mode)
    train(optimizer, params, some_gradients(params, 2))
    assert all(optimizer.state[p]["step"] == 2 for p in params)


@pytest.mark.parametrize("capturable", [False, True], ids=["", "capturable"])
@every_row_and_mode
def test_parameters_on_the_meta_device_are_counted_and_given_state(
    row: Row, mode: dict[str, Any], capturable: bool
) -> None:
    params = [Parameter(torch.empty(3, 4, device="meta")), Parameter(torch.empty(5, device="meta"))]
    optimizer = row.make(params, capturable=capturable, **mode)
    for _ in range(2):
        for p in params:
            p.grad = torch.empty_like(p)
        optimizer.step()
    for p in params:
        state = optimizer.state[p]
        assert all(t.device.type == "meta" for t in state.values() if isinstance(t, Tensor))
        assert all(t.shape == p.shape for name, t in state.items() if name != "step")
        assert capturable or state["step"] == 2


@every_row
def test_the_state_is_one_buffer_for_each_average_and_a_counter(row: Row) -> None:
    params, optimizer = trained(row)
    for p in params:
        state = dict(optimizer.state[p])
        assert state.pop("step") == 6
        assert state.keys() == row.kept
        assert all(t.shape == p.shape for t in state.values())


Optimizer = torch.optim.Optimizer


@pytest.fixture
def _another_default_device() -> Iterator[None]:
    torch.set_default_device("meta")  # stands for any device that is not that of the parameters
    yield
    torch.set_default_device(None)


@pytest.mark.usefixtures("_another_default_device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("make", "length"),
    [
        (lambda p: MemSGD([p], lr=0.125), 1),
        (lambda p: MemAdam([p], lr=0.125, eps=0.0), 1),
        (lambda p: ADana([p], lr=0.125, kappa=1.0, eps=0.0), 2),
    ],
    ids=["MemSGD", "MemAdam", "ADana"],
)
def test_the_default_device_does_not_matter(
    make: Callable[[torch.nn.Parameter], Optimizer], length: int, dtype: torch.dtype
) -> None:
    p = torch.nn.Parameter(torch.ones(3, dtype=dtype, device="cpu"))
    optimizer = make(p)
    for _ in range(2):
        step(optimizer)
    # Averages of ones are 1, up to the rounding of float32
    assert p.tolist() == pytest.approx([1 - 2 * 0.125 * length] * 3, rel=1e-6)
