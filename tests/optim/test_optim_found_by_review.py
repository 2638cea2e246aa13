"""Faults of the optimizers that a review found: schedules of memories, refused steps, precisions, devices."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import OneCycleLR

from memgrad.memory import FromDecays, Gain, Memory, Mixture, Polynomial, Sampled
from memgrad.optim import ADana, AggMo, MemAdam, MemSGD, PolyAdam, from_torch

Optimizer = torch.optim.Optimizer
PATHS = [{}, {"fused": False}, {"foreach": True}]


def ones(dtype: torch.dtype = torch.float64) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.ones(3, dtype=dtype))


def parameters(optimizer: Optimizer) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def step(optimizer: Optimizer, gradient: float = 1.0) -> None:
    for p in parameters(optimizer):
        p.grad = torch.full_like(p, gradient)
    optimizer.step()


def snapshot(optimizer: Optimizer) -> tuple[list[Any], Any]:
    """The parameters and the state, as copies."""
    return [p.detach().clone() for p in parameters(optimizer)], copy.deepcopy(dict(optimizer.state_dict()["state"]))


def is_unchanged(optimizer: Optimizer, before: tuple[list[Any], Any]) -> bool:
    now = snapshot(optimizer)
    same_state = [now[1].keys() == before[1].keys()]
    for number, state in before[1].items():
        same_state.append(now[1].get(number, {}).keys() == state.keys())
        same_state += [bool(np.array_equal(now[1][number][name], value)) for name, value in state.items()]
    return all(map(torch.equal, now[0], before[0])) and all(same_state)


# --- schedules of memories -------------------------------------------------------------------------------------------


def two_groups() -> MemSGD:
    return MemSGD([{"params": [ones()]}, {"params": [ones()], "memory": "exp:0.9"}], lr=1e-3)


# What a group's option is at step k, and the length of a step along a constant gradient, in learning rates: averages
# of ones are 1, and ADana with kappa = 1 adds the gradient to its average.
SCHEDULES = {
    "the second memory of PolyAdam": (lambda: PolyAdam([ones()], 1e-3, eps=0.0), "p", lambda k: 2 + k / 100, 1),
    "the second memory of MemAdam": (
        lambda: MemAdam([ones()], 1e-3, eps=0.0),
        "second_memory",
        lambda k: f"poly:{2 + k / 100}",
        1,
    ),
    "the last of two groups": (two_groups, "memory", lambda k: Polynomial(2 + k / 100), 1),
    "both memories of ADana": (
        lambda: ADana([ones()], 1e-3, kappa=1.0, eps=0.0),
        "delta",
        lambda k: 8 + k / 100,
        2,
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_memories_may_be_scheduled_for_many_steps(name: str) -> None:
    make, option, value, length = SCHEDULES[name]
    optimizer = make()
    for k in range(230):
        optimizer.param_groups[-1][option] = value(k)
        step(optimizer)
    for p in parameters(optimizer):
        # 230 roundings of numbers near 1 in double precision
        torch.testing.assert_close(p.detach(), torch.full_like(p, 1 - 0.23 * length), rtol=0, atol=1e-12)
    assert len(optimizer._memories) < 130  # old ones are forgotten


# --- refused steps ---------------------------------------------------------------------------------------------------


def refuse_a_sparse_gradient(optimizer: Optimizer) -> None:
    for p in parameters(optimizer):
        p.grad = torch.ones_like(p)
    last = parameters(optimizer)[-1]
    last.grad = torch.ones_like(last).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()


def refuse_a_misspelled_memory(optimizer: Optimizer) -> None:
    right = optimizer.param_groups[-1]["memory"]
    optimizer.param_groups[-1]["memory"] = "polly:2"
    with pytest.raises(ValueError, match="did you mean"):
        step(optimizer)
    optimizer.param_groups[-1]["memory"] = right


refusals = pytest.mark.parametrize("refuse", [refuse_a_sparse_gradient, refuse_a_misspelled_memory])


@refusals
def test_a_memory_begins_with_its_first_gradient_also_if_a_step_was_refused_before(
    refuse: Callable[[Optimizer], None],
) -> None:
    optimizer = MemSGD([{"params": [ones()]}, {"params": [ones()]}], lr=1.0, memory="inst")
    for _ in range(1000):
        step(optimizer)
    for group in optimizer.param_groups:
        group["memory"] = "poly:2"
    before = snapshot(optimizer)
    refuse(optimizer)
    assert is_unchanged(optimizer, before)
    step(optimizer)
    assert [p[0].item() for p in parameters(optimizer)] == [-1000.0, -1000.0]  # 1001 steps of length 1 from 1


@refusals
def test_an_average_is_not_dropped_by_a_refused_step_without_it(refuse: Callable[[Optimizer], None]) -> None:
    optimizer = MemSGD([{"params": [ones()]}, {"params": [ones()]}], lr=1.0, memory="poly:1")
    step(optimizer, 0.0)
    optimizer.param_groups[0]["memory"] = "inst"
    before = snapshot(optimizer)
    refuse(optimizer)
    assert is_unchanged(optimizer, before)
    optimizer.param_groups[0]["memory"] = "poly:1"
    step(optimizer, 1.0)
    assert [p[0].item() for p in parameters(optimizer)] == [0.5, 0.5]  # the mean of 0 and 1


def test_a_refused_first_step_leaves_no_state() -> None:
    optimizer = MemAdam([ones(), ones()])
    refuse_a_sparse_gradient(optimizer)
    assert len(optimizer.state) == 0


def failing_gain(k: Any) -> float:
    if k >= 3:
        raise RuntimeError("no gain after step 2")
    return 1.0


ENDING: dict[str, Callable[[], Memory | Mixture]] = {
    "FromDecays runs out": lambda: FromDecays([0.0, 0.5, 0.5]),
    "Sampled overflows": lambda: Sampled(lambda t: t**200, lambda t: 200 * t**199, 9.0, steps=3),  # 36^200 overflows
    "a gain of the user's raises": lambda: Gain.of(failing_gain) * Polynomial(2),
}


@pytest.mark.parametrize("options", PATHS, ids=str)
@pytest.mark.parametrize("ending", ENDING)
@pytest.mark.parametrize("rule", [MemSGD, MemAdam])
def test_a_memory_that_fails_in_a_step_leaves_all_groups_as_they_were(
    rule: type[MemSGD | MemAdam], ending: str, options: dict[str, bool]
) -> None:
    decaying = {"memory": ENDING[ending](), "weight_decay": 0.5, "decoupled_weight_decay": True}
    optimizer = rule([{"params": [ones()]}, {"params": [ones()], **decaying}], lr=0.1, **options)
    for _ in range(3):
        step(optimizer)
    before = snapshot(optimizer)
    with pytest.raises((ValueError, RuntimeError), match=r"FromDecays was given|overflows|no gain after"):
        step(optimizer)
    assert is_unchanged(optimizer, before)


def test_a_second_memory_that_fails_leaves_all_groups_as_they_were() -> None:
    optimizer = MemAdam([{"params": [ones()]}, {"params": [ones()], "second_memory": FromDecays([0.0])}], lr=0.1)
    step(optimizer)
    before = snapshot(optimizer)
    with pytest.raises(ValueError, match="FromDecays was given"):
        step(optimizer)
    assert is_unchanged(optimizer, before)


# --- precisions of averages ------------------------------------------------------------------------------------------


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


# --- schedulers ------------------------------------------------------------------------------------------------------


def test_one_cycle_does_not_pretend_to_schedule_the_momenta_of_aggmo() -> None:
    with pytest.raises(ValueError, match="momentum"):
        OneCycleLR(AggMo([ones()]), max_lr=0.5, total_steps=12)


def test_one_cycle_leaves_the_momenta_of_aggmo_where_it_only_schedules_the_learning_rate() -> None:
    optimizer = AggMo([ones()], betas=(0.0, 0.5))
    OneCycleLR(optimizer, max_lr=0.5, total_steps=12, cycle_momentum=False)
    assert optimizer.param_groups[0]["betas"] == (0.0, 0.5)


@pytest.mark.parametrize(
    "again", [lambda o: o, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["itself", "copied", "pickled"]
)
def test_a_group_added_to_aggmo_has_the_betas_of_its_constructor(again: Callable[[AggMo], AggMo]) -> None:
    optimizer = again(AggMo([{"params": [ones()], "betas": (0.25,)}], betas=(0.0, 0.5)))
    optimizer.add_param_group({"params": [ones()]})
    assert [group["betas"] for group in optimizer.param_groups] == [(0.25,), (0.0, 0.5)]
    assert optimizer.param_groups[1]["memory"] == "0.5*inst + 0.5*sum*exp:0.5"


# --- continuing torch's optimizers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.NAdam, torch.optim.Adagrad])
def test_steps_are_refused_for_optimizers_that_count_their_own(kind: type[Optimizer]) -> None:
    with pytest.raises(ValueError, match=f"for SGD only; {kind.__name__} counts its own, got steps=10"):
        from_torch(kind([ones()]), steps=10)


@pytest.mark.parametrize("given", [None, 7])
def test_sgd_whose_momentum_was_set_to_0_is_continued_without_its_buffer(given: int | None) -> None:
    sgd = torch.optim.SGD([ones()], lr=0.25, momentum=0.5)
    step(sgd)
    sgd.param_groups[0]["momentum"] = 0.0
    ours = from_torch(sgd, steps=given)
    step(ours, 2.0)
    assert parameters(ours)[0].tolist() == [1 - 0.25 - 0.5] * 3
    assert ours.state[parameters(ours)[0]] == {"step": (given or 0) + 1}


@pytest.mark.parametrize("nesterov", [False, True])
def test_a_momentum_of_numpy_is_a_number(nesterov: bool) -> None:
    sgd = torch.optim.SGD([ones()], lr=0.25, momentum=np.float64(0.5), nesterov=nesterov)  # type: ignore[arg-type]
    step(sgd)
    twin = copy.deepcopy(sgd)
    ours = from_torch(sgd)
    for gradient in (2.0, -1.0):
        step(ours, gradient)
        step(twin, gradient)
    # The average is the buffer times 1 - beta, which its gain undoes: some roundings of doubles
    torch.testing.assert_close(parameters(ours)[0], parameters(twin)[0], rtol=1e-13, atol=1e-13)


# --- devices ---------------------------------------------------------------------------------------------------------


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
