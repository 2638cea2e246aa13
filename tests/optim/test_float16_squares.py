"""Squares of gradients in float16: those of gradients below 2e-4 are 0 there, and a step would divide by 0."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from optimizer_table import ROWS, Row, every_row_and_mode
from torch.nn import Parameter

from memgrad.optim import MemAdam

GRADIENT = (0.0, 1e-5, 1e-3, 1.0)  # 1e-5 and 1e-3 are right to 2 % and 0.02 % in float16, their squares are not
OF_SQUARES = [row for row in ROWS if issubclass(row.optimizer, MemAdam)]


def steps_taken(row: Row, dtype: torch.dtype, **options: Any) -> torch.Tensor:
    x = Parameter(torch.zeros(len(GRADIENT), dtype=dtype))
    optimizer = row.make([x], lr=1e-3, **options)
    for _ in range(3):
        x.grad = torch.tensor(GRADIENT, dtype=dtype)
        optimizer.step()
    return x.detach().double()


@every_row_and_mode
def test_small_gradients_of_float16_take_the_steps_of_double_precision(row: Row, mode: dict[str, Any]) -> None:
    exact = steps_taken(row, torch.float64)
    # Gradients of 1e-5 are off by 2 %, and eps is a thousandth of them; a step rounds by 2^-11 of what is there.
    assert torch.allclose(steps_taken(row, torch.float16, **mode), exact, rtol=0.03, atol=1e-7)


@pytest.mark.parametrize("row", OF_SQUARES, ids=str)
def test_a_state_of_float16_is_refused_where_it_holds_squares(row: Row) -> None:
    with pytest.raises(ValueError, match=r"squares of gradients.*got state_dtype='float16'; use torch\.float32"):
        row.make([Parameter(torch.zeros(2))], state_dtype=torch.float16)
    optimizer = row.make([Parameter(torch.zeros(2))])
    with pytest.raises(ValueError, match="squares of gradients"):
        optimizer.add_param_group({"params": [Parameter(torch.zeros(2))], "state_dtype": "float16"})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("asked", ["float16", None])
def test_a_checkpoint_with_squares_of_float16_is_raised_to_float32(asked: str | None) -> None:
    """As earlier versions saved them."""
    x = Parameter(torch.zeros(2, dtype=torch.float16))
    optimizer = MemAdam([x])
    x.grad = torch.ones_like(x)
    optimizer.step()
    saved = optimizer.state_dict()
    for name in ("average", "square_average"):
        saved["state"][0][name] = saved["state"][0][name].half()
    saved["param_groups"][0]["state_dtype"] = asked
    y = Parameter(torch.zeros(2, dtype=torch.float16))
    again = MemAdam([y], state_dtype=torch.float32 if asked else None)
    again.load_state_dict(saved)
    assert {t.dtype for name, t in again.state[y].items() if name != "step"} == {torch.float32}
