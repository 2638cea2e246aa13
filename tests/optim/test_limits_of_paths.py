"""Where one path ends and the next begins: rounded decays, foreach, the shortest audit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import Parameter

from memgrad.optim import MemSGD, audit
from memgrad.optim.arithmetic import rounded_decay
from memgrad.optim.buckets import Bucket


@pytest.mark.parametrize(
    ("dtype", "bits"), [(torch.float64, 53), (torch.float32, 24), (torch.bfloat16, 8), (torch.float16, 11)], ids=str
)
def test_a_decay_is_rounded_where_that_changes_its_complement_by_a_500th_at_most(dtype: torch.dtype, bits: int) -> None:
    """Between 1/2 and 1 numbers are 2^-bits apart, so the limit is 500 times the largest error, 2^-bits/2, twice."""
    limit = 500 * 2.0**-bits
    decay = rounded_decay(limit, dtype)
    assert decay is not None
    assert abs((1 - decay) / limit - 1) <= 1 / 500
    assert torch.tensor(decay, dtype=dtype).item() == decay
    assert rounded_decay(0.999 * limit, dtype) is None


def uses_foreach(device: str, **options: Any) -> bool:
    x = [Parameter(torch.zeros(3, device=device))]
    optimizer = MemSGD(x, **options)
    bucket = Bucket(0, x, [torch.zeros(3, device=device)], (), [{}], ())
    return optimizer._uses_foreach(bucket, optimizer.param_groups[0])


def test_foreach_is_chosen_on_accelerators_alone_unless_it_is_asked_for() -> None:
    assert uses_foreach("meta")  # which is no CPU
    assert not uses_foreach("cpu")
    assert uses_foreach("cpu", foreach=True)
    assert not uses_foreach("meta", foreach=False)
    assert not uses_foreach("meta", differentiable=True)


def test_two_steps_are_the_shortest_audit() -> None:
    found = audit(lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.5), steps=2)
    assert found.step is not None
    assert found.step.weights == pytest.approx(torch.tensor([[1.0, 0.0], [0.5, 1.0]]).numpy())
    with pytest.raises(ValueError, match="steps >= 2, got steps=1"):
        audit(lambda params: torch.optim.SGD(params, lr=0.1), steps=1)
