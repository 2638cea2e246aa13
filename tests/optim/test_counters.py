"""Counters of steps in tensors: equal ones share a mark, and none is read twice."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest
import torch

from memgrad.optim.buckets import Bucket, Counters


def counted(counters: Counters, *steps: torch.Tensor) -> None:
    counters.count(Bucket(0, [], [], (), [{"step": k} for k in steps], ()))


def test_counters_that_are_counted_together_share_a_mark_that_is_not_read() -> None:
    counters, k, other = Counters(), torch.tensor(3.0), torch.tensor(3.0)
    assert counters.mark(k) == counters.mark(other) == 3
    counted(counters, k, other)
    assert k == other == 4
    assert counters.mark(k) is counters.mark(other)
    assert not isinstance(counters.mark(k), int)


def test_a_counter_that_something_else_has_written_to_is_read_again() -> None:
    counters, k, other = Counters(), torch.tensor(3.0), torch.tensor(3.0)
    counted(counters, k, other)
    k.fill_(7)
    assert counters.mark(k) == 7
    assert not isinstance(counters.mark(other), int)


@pytest.mark.parametrize("mode", [nullcontext, torch.inference_mode], ids=["usual", "inference"])
def test_counters_count_in_inference_mode_too(mode: type[AbstractContextManager[None]]) -> None:
    with mode():
        counters, k = Counters(), torch.tensor(0.0)
        counted(counters, k)
        counted(counters, k)
        assert k == 2
        assert counters.mark(k) == counters.mark(k)
