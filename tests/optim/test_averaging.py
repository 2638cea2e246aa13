"""`memory_average` with torch's AveragedModel, against averages written out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_table import random
from scipy.special import poch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from memgrad import Polynomial, memory_average

STEPS = 12
ITERATES = random(STEPS, 2, 3)


def averaged(memory: Any, steps: int = STEPS, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """The averaged weights of a linear layer that takes the values of `ITERATES`."""
    model = nn.Linear(3, 2, bias=False).to(dtype)
    average = AveragedModel(model, avg_fn=memory_average(memory))
    for k in range(steps):
        model.weight.data.copy_(ITERATES[k])
        average.update_parameters(model)
    return average.module.weight.detach()


def test_degree_1_is_the_plain_mean_and_so_torch_s_own_default() -> None:
    model = nn.Linear(3, 2, bias=False).double()
    swa = AveragedModel(model)
    for k in range(STEPS):
        model.weight.data.copy_(ITERATES[k])
        swa.update_parameters(model)
    assert torch.allclose(averaged("poly:1"), ITERATES.mean(dim=0), rtol=1e-13)
    assert torch.allclose(averaged("poly:1"), swa.module.weight, rtol=1e-13)


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0, 8.5])
def test_degree_p_is_polynomial_decay_averaging(p: float) -> None:
    """Shamir and Zhang, Sec. 4, eta = p - 1, t = 1, 2, ...: mean_t = (1 - (eta+1)/(t+eta)) mean + (eta+1)/(t+eta) x."""
    eta, mean = p - 1, torch.zeros(2, 3, dtype=torch.float64)
    for t in range(1, STEPS + 1):
        new = (eta + 1) / (t + eta)
        mean = (1 - new) * mean + new * ITERATES[t - 1]
        assert torch.allclose(averaged(f"poly:{p}", t), mean, rtol=1e-12, atol=1e-13)
    weights = torch.from_numpy(p * poch(np.arange(STEPS) + 1.0, p - 1) / poch(float(STEPS), p))
    assert torch.allclose(mean, torch.tensordot(weights, ITERATES, dims=1), rtol=1e-11)


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.999])
def test_an_exponential_memory_is_a_bias_corrected_moving_average(beta: float) -> None:
    ema = torch.zeros(2, 3, dtype=torch.float64)
    for k in range(STEPS):
        ema = beta * ema + (1 - beta) * ITERATES[k]
        assert torch.allclose(averaged(f"exp:{beta}", k + 1), ema / (1 - beta ** (k + 1)), rtol=1e-11, atol=1e-12)


def test_no_memory_is_the_last_iterate() -> None:
    assert torch.equal(averaged("inst"), ITERATES[-1])


def test_a_memory_may_be_given_as_text_or_as_an_object() -> None:
    assert torch.equal(averaged("poly:3"), averaged(Polynomial(3)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_average_has_the_precision_of_the_model(dtype: torch.dtype) -> None:
    found = averaged("poly:2", dtype=dtype)
    assert found.dtype == dtype
    # An ulp of values below 4 at each step, of which later averages keep the most part.
    assert torch.allclose(found.double(), averaged("poly:2"), atol=STEPS * 2 * torch.finfo(dtype).eps)


def test_the_start_does_not_hang_on_to_the_initial_weights() -> None:
    """As torch's own get_ema_avg_fn would, whose first value is a copy without correction."""
    model = nn.Linear(3, 2, bias=False).double()
    average = AveragedModel(model, avg_fn=memory_average("exp:0.999"))
    for k in range(2):
        model.weight.data.copy_(ITERATES[k])
        average.update_parameters(model)
    assert torch.allclose(average.module.weight, (0.999 * ITERATES[0] + ITERATES[1]) / 1.999, rtol=1e-12)


# --- buffers ---------------------------------------------------------------------------------------------------------


def with_batch_norm(use_buffers: bool) -> tuple[nn.Module, AveragedModel, list[torch.Tensor]]:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()
    average = AveragedModel(model, avg_fn=memory_average("poly:1"), use_buffers=use_buffers)
    means = []
    for k in range(4):
        model(random(10, 3, seed=k) + k)
        means.append(model[1].running_mean.clone())
        average.update_parameters(model)
    return model, average, means


def test_buffers_of_batch_norm_are_averaged_if_asked_for_and_its_counter_is_copied() -> None:
    model, average, means = with_batch_norm(use_buffers=True)
    norm: Any = average.module[1]
    assert torch.allclose(norm.running_mean, torch.stack(means).mean(dim=0), rtol=1e-12)
    assert norm.num_batches_tracked.dtype == torch.int64
    assert norm.num_batches_tracked.item() == model[1].num_batches_tracked.item() == 4


def test_buffers_are_copied_if_not() -> None:
    model, average, _ = with_batch_norm(use_buffers=False)
    assert torch.equal(average.module[1].running_mean, model[1].running_mean)
    assert average.module[1].num_batches_tracked.item() == 4


def test_complex_parameters_are_averaged_too() -> None:
    model = nn.Module()
    model.z = nn.Parameter(torch.zeros(2, dtype=torch.complex128))
    average = AveragedModel(model, avg_fn=memory_average("poly:1"))
    values = random(3, 2, dtype=torch.complex128) * (1 + 2j)
    for value in values:
        model.z.data.copy_(value)
        average.update_parameters(model)
    assert torch.allclose(average.module.z, values.mean(dim=0), rtol=1e-13)


def test_averages_can_be_copied_saved_and_continued() -> None:
    model = nn.Linear(3, 2, bias=False).double()
    average = AveragedModel(model, avg_fn=memory_average("poly:2"))
    for k in range(STEPS // 2):
        model.weight.data.copy_(ITERATES[k])
        average.update_parameters(model)
    resumed = AveragedModel(copy.deepcopy(model), avg_fn=memory_average("poly:2"))
    resumed.load_state_dict(average.state_dict())
    for k in range(STEPS // 2, STEPS):
        model.weight.data.copy_(ITERATES[k])
        resumed.update_parameters(model)
    assert torch.equal(resumed.module.weight.detach(), averaged("poly:2"))


def test_the_model_itself_is_left_alone() -> None:
    model = nn.Linear(3, 2, bias=False).double()
    model.weight.data.copy_(ITERATES[0])
    AveragedModel(model, avg_fn=memory_average("poly:2")).update_parameters(model)
    assert torch.equal(model.weight.detach(), ITERATES[0])


@pytest.mark.parametrize(
    ("memory", "words"),
    [(2, "Memory or its text form"), (None, "Memory or its text form"), ("poly", "poly"), ("swa", "unknown memory")],
)
def test_anything_but_a_memory_is_refused_at_once(memory: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        memory_average(memory)
