"""The audit finds what optimizers really remember: torch's own, torch's misused, and ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_table import Row, every_row

from memgrad import ADana, HeavyBall, MemAdam, MemSGD, PolyAdam, audit
from memgrad.memory import Exponential, Instantaneous, Polynomial

SGD, Adam = torch.optim.SGD, torch.optim.Adam


def lower_triangle(steps: int) -> tuple[Any, Any]:
    """The indices j and k, for weights w(j,k) as the rows k of a matrix."""
    return np.meshgrid(np.arange(steps), np.arange(steps))


# --- schedules by mutation are wrong in torch, and right here --------------------------------------------------------


def set_betas(optimizer: Any, k: int) -> None:
    optimizer.param_groups[0]["betas"] = (k / (k + 2), 0.999)


def set_momentum(optimizer: Any, k: int) -> None:
    optimizer.param_groups[0].update(momentum=k / (k + 2), dampening=k / (k + 2))


def test_adam_with_a_scheduled_beta_is_off_by_15_7_percent_for_ever() -> None:
    """It divides by 1 - beta_k^{k+1} -> 1 - e^-2, though the average needs no correction."""
    steps = 500
    gain = audit(lambda params: Adam(params, lr=1e-3), steps, before_step=set_betas).constant_gain
    limit = 1 / (1 - math.exp(-2))
    assert limit == pytest.approx(1.1565, abs=5e-5)
    k = np.arange(1, steps)
    assert np.allclose(gain[1:], 1 / (1 - (k / (k + 2)) ** (k + 1)), rtol=1e-6)  # eps = 1e-8 beside sqrt(v) = 1
    assert gain[-1] == pytest.approx(limit, rel=2e-3)  # its distance falls as 1/k


def test_memadam_with_that_memory_has_the_gain_1_at_every_step() -> None:
    found = audit(lambda params: MemAdam(params, lr=1e-3, memory="poly:2", second_memory="exp:0.999", eps=0.0), 300)
    assert np.allclose(found.constant_gain, 1, rtol=1e-12)


def test_sgd_with_a_scheduled_momentum_and_dampening_loses_its_first_gradient() -> None:
    """With the momentum 0 at k = 0 it makes no buffer; a constant gradient hides it, an impulse shows it."""
    steps = 100
    found = audit(lambda params: SGD(params, lr=0.1), steps, before_step=set_momentum)
    assert found.step is not None
    assert found.step.weights[0, 0] == pytest.approx(1)
    assert np.all(found.step.weights[1:, 0] == 0)
    assert np.allclose(found.constant_gain, 1)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "single"])
def test_memsgd_gives_its_first_gradient_the_weight_2_over_k_plus_1_and_k_plus_2(fused: bool) -> None:
    steps = 100
    found = audit(lambda params: MemSGD(params, lr=0.1, memory="poly:2", fused=fused), steps)
    assert found.step is not None
    j, k = lower_triangle(steps)
    expected = np.where(j <= k, 2 * (j + 1) / ((k + 1) * (k + 2)), 0)
    assert np.allclose(found.step.weights, expected, atol=1e-14)
    assert np.allclose(found.step.gain, 1, rtol=1e-12)
    assert found.step.mean_age == pytest.approx((steps - 1) / 3, rel=1e-12)  # C2: k/(p+1)


# --- the nearest memory ----------------------------------------------------------------------------------------------

# Optimizer, where the memory is, power, and the memory of its definition.
LINEAR: dict[str, tuple[Callable[..., Any], Any]] = {
    "SGD": (lambda params: SGD(params, lr=0.1), Instantaneous()),
    "SGD momentum": (lambda params: SGD(params, lr=0.1, momentum=0.9), Exponential(0.9)),
    "MemSGD poly": (lambda params: MemSGD(params, lr=0.1, memory="poly:3"), Polynomial(3)),
    "MemSGD exp": (lambda params: MemSGD(params, lr=0.1, memory="exp:0.95"), Exponential(0.95)),
    "MemSGD inst": (lambda params: MemSGD(params, lr=0.1, memory="inst"), Instantaneous()),
    "HeavyBall": (lambda params: HeavyBall(params, lr=0.1, momentum=0.8), Exponential(0.8)),
}
ADAPTIVE: dict[str, tuple[Callable[..., Any], dict[str, tuple[int, Any]]]] = {
    "Adam": (
        lambda params: Adam(params, lr=0.1, betas=(0.9, 0.99)),
        {"exp_avg": (1, Exponential(0.9)), "exp_avg_sq": (2, Exponential(0.99))},
    ),
    "RMSprop": (lambda params: torch.optim.RMSprop(params, lr=0.1, alpha=0.95), {"square_avg": (2, Exponential(0.95))}),
    "Adagrad": (lambda params: torch.optim.Adagrad(params, lr=0.1), {"sum": (2, Polynomial(1))}),
    "MemAdam": (
        lambda params: MemAdam(params, lr=0.1, memory="poly:2", second_memory="exp:0.9"),
        {"average": (1, Polynomial(2)), "square_average": (2, Exponential(0.9))},
    ),
    "PolyAdam": (
        lambda params: PolyAdam(params, lr=0.1, p=5, beta=0.8),
        {"average": (1, Exponential(0.8)), "square_average": (2, Polynomial(5))},
    ),
    "ADana": (
        lambda params: ADana(params, lr=0.1, delta=8),
        {"average": (1, Polynomial(8)), "square_average": (2, Polynomial(8))},
    ),
}


def assert_near(found: Any, expected: Any) -> None:
    """The fit's grid is fine to 4 digits in log p and log alpha."""
    assert type(found.nearest) is type(expected)
    if isinstance(expected, Polynomial):
        assert found.nearest.p == pytest.approx(expected.p, rel=1e-2)
    if isinstance(expected, Exponential):
        assert found.nearest.alpha == pytest.approx(expected.alpha, rel=1e-2)
    assert found.distance < 2e-3


@pytest.mark.parametrize("name", LINEAR)
def test_the_memory_in_the_steps_of_a_linear_method_is_found(name: str) -> None:
    make, expected = LINEAR[name]
    found = audit(make)
    assert found.step is not None
    assert_near(found.step, expected)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_the_memories_in_the_buffers_of_an_adaptive_method_are_found(name: str) -> None:
    make, expected = ADAPTIVE[name]
    found = audit(make)
    assert found.step is None
    assert found.buffers.keys() == expected.keys()
    for buffer, (power, memory) in expected.items():
        assert found.buffers[buffer].power == power
        assert_near(found.buffers[buffer], memory)


def test_a_maximum_is_not_taken_for_a_memory() -> None:
    """AMSGrad's buffer quadruples with the gradients, but impulses do not add up in it."""
    found = audit(lambda params: Adam(params, lr=0.1, amsgrad=True))
    assert found.buffers.keys() == {"exp_avg", "exp_avg_sq"}


def test_a_memory_of_another_family_is_reported_with_its_distance() -> None:
    """The logarithmic memory favors old gradients: nearest is a polynomial below degree 1, and not near."""
    found = audit(lambda params: MemSGD(params, lr=0.1, memory="log")).step
    assert found is not None
    j, k = lower_triangle(100)
    expected = np.where(j <= k, np.log1p(1 / (j + 1)) / np.log1p(k + 1.0), 0)
    assert np.allclose(found.weights, expected, atol=1e-14)
    assert isinstance(found.nearest, Polynomial)
    assert found.nearest.p < 1
    assert found.distance > 0.05


@pytest.mark.parametrize("q", [1.0, 3.0])
def test_heavy_ball_with_viscosity_q_remembers_like_degree_q_plus_1_and_amplifies(q: float) -> None:
    found = audit(lambda params: HeavyBall(params, lr=0.1, viscosity=q)).step
    assert found is not None
    k = np.arange(100)
    assert np.allclose(found.gain, (k + q + 1) / (q + 1), rtol=1e-12)
    assert_near(found, Polynomial(q + 1))
    assert found.mean_age == pytest.approx(99 / (q + 2), rel=1e-12)


def test_the_gain_of_a_constant_momentum_grows_to_1_over_1_minus_beta() -> None:
    found = audit(lambda params: SGD(params, lr=0.1, momentum=0.9)).step
    assert found is not None
    k = np.arange(100)
    assert np.allclose(found.gain, (1 - 0.9 ** (k + 1)) / 0.1, rtol=1e-12)
    assert found.weights[-1, 0] == pytest.approx(0.9**99, rel=1e-9)


def test_the_gain_of_adagrad_falls_as_the_root_of_k() -> None:
    gain = audit(lambda params: torch.optim.Adagrad(params, lr=0.1, eps=0.0)).constant_gain
    assert np.allclose(gain, 1 / np.sqrt(np.arange(100) + 1.0), rtol=1e-12)


@pytest.mark.most(6)
@every_row
def test_every_optimizer_of_ours_can_be_audited_and_described(row: Row) -> None:
    if row.optimizer is ADana:
        row = Row(row.name, row.optimizer, {"omega": 0.0}, {}, row.reference)  # without weight decay
    found = audit(row.make, 20)
    assert found.optimizer == row.optimizer.__name__
    assert str(found).startswith(f"{row.optimizer.__name__} over 20 steps\n")
    assert ("remembers" in str(found)) == bool(found.step or found.buffers)
    assert len(found.constant_gain) == found.steps == 20


def test_what_a_learning_rate_schedule_does_is_divided_out() -> None:
    def set_rate(optimizer: Any, k: int) -> None:
        optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)

    found = audit(lambda params: MemSGD(params, memory="poly:2"), 30, before_step=set_rate)
    assert found.step is not None
    assert np.allclose(found.step.gain, 1, rtol=1e-11)


def test_an_audit_changes_no_state_of_the_generator() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    audit(lambda params: SGD(params, lr=0.1), 3)
    assert torch.equal(torch.rand(2), expected)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, -3, 2.5, True, "10", None, math.nan])
def test_a_number_of_steps_that_makes_no_sense_is_refused(steps: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="steps"):
        audit(lambda params: SGD(params, lr=0.1), steps)


def test_a_learning_rate_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match=r"learning rate.*lr=0\.0"):
        audit(lambda params: SGD(params, lr=0.0))


def test_something_that_makes_no_optimizer_is_refused() -> None:
    with pytest.raises(TypeError, match="optimizer"):
        audit(lambda params: None)  # type: ignore[arg-type,return-value]  # the mistake in question
    with pytest.raises(TypeError, match="optimizer"):
        audit(SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1))  # type: ignore[arg-type]  # an optimizer, not a maker


def test_decay_of_the_gradients_is_not_called_either_with_momentum() -> None:
    words = str(audit(lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9, weight_decay=5), 40))
    assert "the same here" not in words
    assert "weight decay: found, 5 x is added to the gradients (L2)" in words
    assert "the same here" in str(audit(lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1), 40))
