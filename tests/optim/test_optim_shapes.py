"""Tensors whose shapes do not fit are refused by name, before a fused kernel writes past their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from optimizer_table import ROWS, Row, each_mode_of, every_row, same, some_gradients, some_params, train, values
from torch import Tensor
from torch.nn import Parameter

from memgrad import MemSGD
from memgrad.optim import kernel_guards
from memgrad.optim.base import MemoryOptimizer

WITH_STATE = [row for row in ROWS if row.options.get("memory") != "inst"]
every_row_with_state = pytest.mark.parametrize("row", WITH_STATE, ids=str)


def trained(row: Row, *sizes: int, steps: int = 3, **options: Any) -> tuple[list[Parameter], MemoryOptimizer]:
    params = some_params([(size,) for size in sizes], dtype=torch.float32)
    optimizer = row.make(params, **options)
    train(optimizer, params, some_gradients(params, steps))
    return params, optimizer


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("saved", "own"), [(100, 100_000), (100_000, 100), (1, 7), (7, 1)])
@every_row_with_state
def test_a_state_of_another_size_is_not_loaded(row: Row, saved: int, own: int) -> None:
    _, source = trained(row, 5, saved)
    params, optimizer = trained(row, 5, own)
    before, checkpoint = [p.detach().clone() for p in params], str(optimizer.state_dict())
    with pytest.raises(ValueError, match=rf"of parameter 1 .*\[{saved}\].*\[{own}\].*nothing was loaded"):
        optimizer.load_state_dict(source.state_dict())
    assert str(optimizer.state_dict()) == checkpoint
    train(optimizer, params, some_gradients(params, 1))
    assert not same(params, before)


@every_row_with_state
def test_a_state_of_the_same_size_but_another_shape_is_not_loaded_and_named(row: Row) -> None:
    ours, theirs = some_params([(4, 6)]), some_params([(6, 4)])
    source, optimizer = row.make(theirs), row.make([("body.weight", ours[0])])
    train(source, theirs, some_gradients(theirs, 2))
    with pytest.raises(ValueError, match=r"'body.weight'.*\[6, 4\].*\[4, 6\]"):
        optimizer.load_state_dict(source.state_dict())
    assert not optimizer.state


@pytest.mark.parametrize("count", [-1, 0.5, float("nan"), "3", None, torch.ones(2)], ids=str)
@every_row
def test_a_count_that_counts_nothing_is_not_loaded(row: Row, count: Any) -> None:
    _, optimizer = trained(row, 5)
    checkpoint = optimizer.state_dict()
    checkpoint["state"][0] = {**checkpoint["state"][0], "step": count}
    with pytest.raises(ValueError, match="count of steps"):
        optimizer.load_state_dict(checkpoint)


@every_row_with_state
def test_a_state_that_is_not_a_tensor_is_not_loaded(row: Row) -> None:
    _, optimizer = trained(row, 5)
    checkpoint = optimizer.state_dict()
    checkpoint["state"][0] = {**checkpoint["state"][0], row.optimizer.buffers[0]: [1.0] * 5}
    with pytest.raises(ValueError, match=f"{row.optimizer.buffers[0]}.*must be a tensor"):
        optimizer.load_state_dict(checkpoint)


# --- steps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [((100,), (100_000,)), ((100_000,), (100,)), ((1,), (7,)), ((4, 6), (6, 4))])
@each_mode_of(WITH_STATE)
def test_a_parameter_with_other_data_than_its_state_is_refused(
    row: Row, mode: dict[str, Any], old: tuple[int, ...], new: tuple[int, ...]
) -> None:
    params = some_params([(5,), old], dtype=torch.float32)
    optimizer = row.make(params, **mode)
    train(optimizer, params, some_gradients(params, 2))
    params[1].grad = None
    params[1].data = torch.zeros(new)
    params[1].grad = torch.ones(new)
    before = [p.detach().clone() for p in params]
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"state .* of parameter 1 has the shape"):
            optimizer.step()
    assert same(params, before)
    assert optimizer.state[params[0]]["step"] == 2
    del optimizer.state[params[1]]  # the way out that the error names
    optimizer.step()
    assert optimizer.state[params[1]]["step"] == 1


@each_mode_of(ROWS)
def test_a_gradient_of_old_data_is_refused(row: Row, mode: dict[str, Any]) -> None:
    params = some_params([(5,), (100,)], dtype=torch.float32)
    optimizer = row.make([{"params": [("a", params[0])]}, {"params": [("b", params[1])]}], **mode)
    params[0].grad, params[1].grad = torch.ones(5), torch.ones(100)
    params[1].data = torch.zeros(200)
    with pytest.raises(RuntimeError, match=r"gradient of parameter 'b' has the shape \[100\], the parameter \[200\]"):
        optimizer.step()
    assert same(params[:1], some_params([(5,)], dtype=torch.float32))  # no group has taken its step


@pytest.mark.parametrize("change", ["average", "resized"])
def test_a_state_that_is_changed_by_hand_is_refused(change: str) -> None:
    params, optimizer = trained(ROWS[0], 100)
    state = optimizer.state[params[0]]
    if change == "average":
        state["average"] = torch.zeros(10)
    else:
        state["average"].resize_(10)
    with pytest.raises(RuntimeError, match=r"'average' of parameter 0 has the shape \[10\], the parameter \[100\]"):
        optimizer.step()


# --- what was found is remembered only while it is true --------------------------------------------------------------


def as_if_never_seen(tensors: Any) -> Callable[..., bool]:
    return lambda *_: False


@pytest.mark.parametrize("remembers", [True, False], ids=["with torch's guards", "without"])
@each_mode_of([row for row in ROWS if row.takes("fused")])
def test_tensors_that_change_from_step_to_step_are_looked_at_again(
    row: Row, mode: dict[str, Any], remembers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layout, dtype and lazy negation of gradients change: the kernel would take each for the last one."""
    if not remembers:
        monkeypatch.setattr(kernel_guards, "unless_changed", as_if_never_seen)
    x, plain = Parameter(torch.zeros(4, 4)), Parameter(torch.zeros(4, 4))
    x.grad_dtype = None
    ours, theirs = row.make([x], **mode), row.make([plain], **row.modes["single"])
    variants: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda g: g,
        lambda g: g.T.contiguous().T,
        lambda g: g,
        lambda g: torch.complex(torch.zeros(4, 4), -g).conj().imag,
        lambda g: g.double(),
        lambda g: g,
    )
    for k, variant in enumerate(variants):
        g = some_gradients([plain], 1, seed=k)[0][0]
        x.grad, plain.grad = variant(g), g
        ours.step()
        theirs.step()
    assert torch.allclose(x, plain, rtol=1e-5, atol=1e-6)


def test_the_fused_kernel_is_called_again_after_tensors_that_it_cannot_take(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    kernel = torch._fused_sgd_
    monkeypatch.setattr(torch, "_fused_sgd_", lambda *args, **kwargs: (calls.append(1), kernel(*args, **kwargs)))
    x = Parameter(torch.zeros(4, 4))
    optimizer = MemSGD([x])
    for transposed, expected in ((False, 1), (False, 2), (True, 2), (False, 3)):
        x.grad = torch.ones(4, 4).T if transposed else torch.ones(4, 4)
        optimizer.step()
        assert len(calls) == expected


def test_torch_has_the_guards_that_make_looking_cheap() -> None:
    """If a torch without them is pinned, every step looks at every tensor, and a small model pays a third more."""
    tensors = [torch.zeros(2, 3), torch.zeros(3)]
    unchanged = kernel_guards.unless_changed(tensors)
    assert unchanged(*tensors)
    assert unchanged(torch.ones(2, 3), torch.ones(3))
    for others in (
        [torch.zeros(3, 2), torch.zeros(3)],
        [torch.zeros(3, 2).T, torch.zeros(3)],
        [torch.zeros(2, 3), torch.zeros(3, dtype=torch.float64)],
        [torch.zeros(2, 3), torch.zeros(3, device="meta")],
        [torch.zeros(2, 3), Parameter(torch.zeros(3))],
    ):
        assert not unchanged(*others)


def test_sizes_that_fit_are_not_refused() -> None:
    params = some_params([(), (1,), (0,), (2, 0), (1, 3)])
    optimizer = MemSGD(params)
    train(optimizer, params, some_gradients(params, 2))
    optimizer.load_state_dict(optimizer.state_dict())
    before = values(params)
    train(optimizer, params, some_gradients(params, 1))
    assert not (values(params) == before).any()
