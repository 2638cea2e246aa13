"""The guards around torch's fused kernels, and counts k without end: each was found through a wrong result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from optimizer_steps import ones, parameters, step
from optimizer_table import ROWS, Row, each_mode_of, every_row, every_row_and_mode, random, train
from torch import Tensor
from torch.nn import Parameter

from memgrad import ADana, HeavyBall, MemAdam, MemSGD, Nesterov
from memgrad.optim.base import MemoryOptimizer

AVERAGES = ("average", "square_average")
POLYNOMIAL = [row for row in ROWS if row.name in ("MemSGD poly:2", "PolyAdam", "ADana", "MemSGD log")]


def at_step(k: int, optimizer: MemoryOptimizer, x: Parameter, average: float = 1.0) -> MemoryOptimizer:
    """Put an optimizer at step k, with all averages at the same value."""
    x.grad = torch.ones_like(x)
    optimizer.step()
    state = optimizer.state[x]
    state["step"] = torch.full_like(state["step"], k) if isinstance(state["step"], Tensor) else k
    for name in state.keys() & set(AVERAGES):
        state[name].fill_(average)
    x.data.zero_()
    return optimizer


def repeated(optimizer: MemoryOptimizer, x: Parameter, g: float, steps: int) -> None:
    x.grad = torch.full_like(x, g)
    for _ in range(steps):
        optimizer.step()


# --- long memories stay normalized -----------------------------------------------------------------------------------


@pytest.mark.most(16)
@pytest.mark.parametrize("k", [5 * 10**5, 10**6, 10**9])
@each_mode_of(POLYNOMIAL)
def test_the_weights_of_a_long_memory_sum_to_1_in_float32(row: Row, mode: dict[str, Any], k: int) -> None:
    """Decays that a kernel rounds to float32 would let the average drift by 3e-8 a step."""
    x = Parameter(torch.zeros(20))
    optimizer = at_step(k, row.make([x], **mode), x)
    repeated(optimizer, x, 1.0, 1000)
    for name in optimizer.state[x].keys() & set(AVERAGES):
        assert torch.allclose(optimizer.state[x][name], torch.ones(20), rtol=0, atol=1e-6)
    assert optimizer.state[x]["step"] == k + 1000


@pytest.mark.parametrize(("name", "buffer"), [("MemSGD poly:2", "average"), ("PolyAdam", "square_average")])
@pytest.mark.parametrize("mode", ["default", "fused", "foreach", "single"])
def test_noise_does_not_shake_the_weights_of_a_long_memory_off_their_sum(name: str, buffer: str, mode: str) -> None:
    """A constant gradient hides what noise shows: a sum of weights that is off by less than an ulp rounds back to 1.

    At this k the new weight 2/(k+2) is 67.5 units of 2^-24. A decay that is rounded by itself is off by half a unit at
    each step, and so may be u b + g (1-b), where u b rounds the same way at each step because u hardly changes. Either
    makes 3e-5 and more in a thousand steps: 1 % over the 2.5e5 steps that such a memory averages. u + (1-b)(g - u) does
    not: the difference to the nearest number is that of g, which is noise.
    """
    row = next(row for row in ROWS if row.name == name)
    k, steps, entries = 497_100, 1000, 500
    x, exact = Parameter(torch.zeros(entries)), Parameter(torch.zeros(entries, dtype=torch.float64))
    ours = at_step(k, row.make([x], **row.modes[mode]), x)
    theirs = at_step(k, row.make([exact], **row.modes["single"]), exact)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        x.grad = 1 + torch.rand(entries, generator=generator) / 2
        exact.grad = x.grad.double()
        ours.step()
        theirs.step()
    off = (ours.state[x][buffer].double() - theirs.state[exact][buffer]).mean().item()
    assert abs(off) < 1e-5


@pytest.mark.parametrize(
    ("dtype", "k", "tolerance"),
    [
        # float32: the decay is rounded to 1 % of 1 - b_k at worst, and a sum near 1 rounds moves of 2/k by 3e-8.
        (torch.float32, 10**4, 0.005),
        (torch.float32, 10**5, 0.02),
        (torch.float64, 10**6, 1e-9),
        (torch.float64, 10**9, 1e-6),
    ],
    ids=str,
)
@each_mode_of([row for row in ROWS if row.name == "MemSGD poly:2"])
def test_a_long_memory_moves_as_its_closed_form_says(
    row: Row, mode: dict[str, Any], dtype: torch.dtype, k: int, tolerance: float
) -> None:
    """From the average 1 at step k, n gradients 2: what is left of the 1 is the product of j/(j+2)."""
    n = 1000
    x = Parameter(torch.zeros(20, dtype=dtype))
    optimizer = at_step(k, row.make([x], lr=0.0, **mode), x)
    repeated(optimizer, x, 2.0, n)
    forgotten = 1 - k * (k + 1) / ((k + n) * (k + n + 1))
    moved = optimizer.state[x]["average"].double() - 1
    assert np.allclose(moved.numpy(), forgotten, rtol=tolerance)


@pytest.mark.parametrize("capturable", [False, True], ids=["default", "capturable"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@every_row
def test_a_count_beyond_every_float_is_still_counted_and_steps_are_finite(
    row: Row, dtype: torch.dtype, capturable: bool
) -> None:
    k = 2**52 if capturable else 2**60  # float64 counts to 2^53
    x = Parameter(torch.zeros(20, dtype=dtype))
    optimizer = at_step(k, row.make([x], lr=0.1, capturable=capturable), x)
    repeated(optimizer, x, 1.0, 3)
    assert optimizer.state[x]["step"] == k + 3
    assert torch.isfinite(x).all()
    if row.optimizer is MemSGD and row.gain is None:
        assert torch.allclose(x, torch.full_like(x, -0.3), rtol=1e-6)


@every_row
def test_the_counter_on_the_device_counts_past_2_to_the_24(row: Row) -> None:
    """Where torch's, in float32, stops."""
    x = Parameter(torch.zeros(20))
    optimizer = at_step(2**24, row.make([x], capturable=True), x)
    repeated(optimizer, x, 1.0, 3)
    assert isinstance(optimizer.state[x]["step"], Tensor)
    assert optimizer.state[x]["step"].item() == 2**24 + 3


@pytest.mark.parametrize("capturable", [False, True], ids=["default", "capturable"])
def test_the_weight_of_the_newest_gradient_does_not_round_k_to_float32(capturable: bool) -> None:
    """2^24 + 1 is 2^24 in float32, and 2/(k+2) off by 6e-8; a decay in float64 leaves 1e-16/1e-7 = 1e-9."""
    x = Parameter(torch.zeros(20, dtype=torch.float64))
    optimizer = at_step(2**24 + 1, MemSGD([x], lr=0.0, capturable=capturable), x, average=0.0)
    repeated(optimizer, x, 1.0, 1)
    assert torch.allclose(
        optimizer.state[x]["average"], torch.tensor(2 / (2**24 + 3), dtype=torch.float64), rtol=3e-9, atol=0
    )


# --- the kernels' own traps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@every_row_and_mode
def test_tensors_of_any_size_are_updated_in_low_precision(row: Row, mode: dict[str, Any], dtype: torch.dtype) -> None:
    """torch 2.13's fused SGD on the CPU leaves bfloat16 and float16 tensors of 16 elements or more as they are."""
    for size in (1, 15, 16, 17, 64, 100):
        x = Parameter(torch.ones(size, dtype=dtype))
        repeated(row.make([x], lr=0.125, **mode), x, 1.0, 2)
        assert (x < 0.9).all(), f"{size} elements"


@every_row_and_mode
def test_strides_that_differ_do_not_mix_up_the_entries(row: Row, mode: dict[str, Any]) -> None:
    """The kernels walk over storage: a transposed gradient would update the transposed entries."""
    x, plain = Parameter(torch.zeros(4, 4)), Parameter(torch.zeros(4, 4))
    ours, theirs = row.make([x], **mode), row.make([plain], **mode)
    for k in range(3):
        g = random(4, 4, seed=k, dtype=torch.float32)
        x.grad, plain.grad = g.T.contiguous().T, g
        assert x.grad.stride() != plain.grad.stride()
        ours.step()
        theirs.step()
    assert torch.allclose(x, plain, rtol=1e-6, atol=1e-7)


@every_row_and_mode
def test_the_first_step_is_taken_along_the_first_gradient(row: Row, mode: dict[str, Any]) -> None:
    """At k = 0 the decay is 0, which the fused SGD refuses beside a buffer; and the impulse must be remembered."""
    x = Parameter(torch.zeros(20))
    optimizer = row.make([x], lr=0.125, **mode)
    train(optimizer, [x], [[torch.full((20,), 2.0)]])
    scale = {MemSGD: 2.0, HeavyBall: 2.0, Nesterov: 2.0, MemAdam: 1.0, ADana: 2.0}
    if row.optimizer is Nesterov:  # g + beta_1 v
        scale[Nesterov] *= 1 + (0.9 if "momentum" in row.options else 1 / 4)
    expected = (
        scale.get(row.optimizer, 1.0) if row.gain is None else row.gain * (1 if "square_average" in row.kept else 2)
    )
    assert torch.allclose(x, torch.full((20,), -0.125 * expected), rtol=1e-6)
    for name in optimizer.state[x].keys() & {"average", "velocity"}:
        assert torch.equal(optimizer.state[x][name], torch.full((20,), 2.0))


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "single"])
@pytest.mark.parametrize("optimizer", [HeavyBall, Nesterov])
def test_a_momentum_of_0_is_plain_sgd_at_every_step(optimizer: type[HeavyBall], fused: bool) -> None:
    x = Parameter(torch.zeros(20))
    repeated(optimizer([x], lr=0.5, momentum=0.0, fused=fused), x, 1.0, 4)
    assert torch.equal(x.data, torch.full((20,), -2.0))


@pytest.mark.parametrize("size", [1, 16, 100])
def test_a_fused_adam_needs_no_bias_correction_at_any_step(size: int) -> None:
    """The kernel divides by 1 - beta^step; a large step count makes that 1 also for decays next to 1."""
    x = Parameter(torch.zeros(size))
    optimizer = MemAdam([x], lr=0.125, memory="poly:1", second_memory="poly:1", eps=0.0, fused=True)
    for k in (0, 1, 2, 10, 10**3, 10**5, 10**7):
        if k:
            at_step(k, optimizer, x)
        repeated(optimizer, x, 1.0, 1)
        assert torch.allclose(x, torch.full((size,), -0.125), rtol=1e-6)


Optimizer = torch.optim.Optimizer


PATHS = [{}, {"fused": False}, {"foreach": True}]


def averages(optimizer: Optimizer) -> dict[str, torch.Tensor]:
    [p] = parameters(optimizer)
    return {name: value for name, value in optimizer.state[p].items() if name != "step"}


@pytest.mark.parametrize("options", PATHS, ids=str)
def test_new_averages_have_the_precision_of_those_in_a_checkpoint(options: dict[str, bool]) -> None:
    wide = MemAdam([ones(torch.float32)], lr=0.125)
    step(wide)
    narrow = MemAdam([ones(torch.bfloat16)], lr=0.125, eps=0.0)
    narrow.load_state_dict(wide.state_dict())
    narrow.param_groups[0].update(memory="exp:0.9 + 5*exp:0.999", eps=0.0, **options)
    step(narrow)
    assert {name: t.dtype for name, t in averages(narrow).items()} == dict.fromkeys(
        ("square_average", "average", "average_2"), torch.float32
    )
    # All averages of ones are 1, so the step is the gain, 6, times the learning rate; exact in bfloat16.
    assert parameters(narrow)[0].tolist() == [0.25] * 3


@pytest.mark.parametrize("options", PATHS, ids=str)
def test_a_state_dtype_converts_the_averages_beside_which_new_ones_begin(options: dict[str, bool]) -> None:
    optimizer = MemSGD([ones(torch.bfloat16)], lr=0.125, memory="poly:2", **options)
    step(optimizer)
    optimizer.param_groups[0].update(state_dtype=torch.float32, memory="poly:2 + 2*exp:0.5")
    step(optimizer)
    assert {name: t.dtype for name, t in averages(optimizer).items()} == dict.fromkeys(
        ("average", "average_2"), torch.float32
    )
    assert parameters(optimizer)[0].tolist() == [1 - 0.125 - 3 * 0.125] * 3


@pytest.mark.parametrize("options", PATHS, ids=str)
@pytest.mark.parametrize("rule", [MemSGD, MemAdam])
def test_a_model_in_double_precision_goes_on_with_the_averages_of_single_precision(
    rule: type[MemSGD | MemAdam], options: dict[str, bool]
) -> None:
    p = ones(torch.float32)
    optimizer = rule([p], lr=0.125, memory="poly:2", **options)
    step(optimizer)
    p.data = torch.ones(3, dtype=torch.float64)
    p.grad = None
    optimizer.param_groups[0]["memory"] = "poly:2 + exp:0.5"
    step(optimizer)
    assert {t.dtype for t in averages(optimizer).values()} == {torch.float32}
    # 2 learning rates, up to MemAdam's eps of 1e-8 and the rounding of averages in float32
    torch.testing.assert_close(p.detach(), torch.full_like(p, 0.75), rtol=0, atol=1e-6)


@pytest.mark.parametrize("options", PATHS, ids=str)
@pytest.mark.parametrize("square", [torch.float32, torch.float64])
def test_averages_of_different_precisions_take_the_same_step(options: dict[str, bool], square: torch.dtype) -> None:
    optimizer = MemAdam([ones(torch.float32)], lr=0.125, eps=0.0, **options)
    step(optimizer)
    [p] = parameters(optimizer)
    state = optimizer.state[p]
    state["square_average"] = state["square_average"].to(square)
    state["average"] = state["average"].to(torch.float64)
    step(optimizer)
    # The root of an average of ones that float32 may round
    torch.testing.assert_close(p.detach(), torch.full_like(p, 0.75), rtol=1e-6, atol=0)
