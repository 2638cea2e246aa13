"""Mixtures in the optimizers: changed in mid-run, in pieces, with weight decay; what is kept and what is refused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch
from optimizer_table import random, some_gradients, some_params, train
from torch.multiprocessing.reductions import StorageWeakRef

from memgrad import QHM, ADana, AdEMAMix, AggMo, Gain, MemAdam, MemSGD, Mixture, Polynomial
from memgrad.method import Method, WeightDecay, adana, ademamix, aggmo, qhm
from memgrad.method.text import parse_decay
from memgrad.optim import reference, workspace

GROWING = "inst + (1+k)^0.25*poly:8"
SLOW = "exp:0.9 + 5*cold*ramp(3)*exp:0.99"


def path(optimizer: Any, x: torch.nn.Parameter, gradients: list[torch.Tensor]) -> np.ndarray:
    found = []
    for g in gradients:
        x.grad = g.clone()
        optimizer.step()
        found.append(x.detach().double().numpy().copy())
    return np.stack(found)


@pytest.mark.parametrize("memory", [GROWING, SLOW, "sum*exp:0.8", "2*inst", "poly:8 + inst + (1+k)^0.15*poly:8"])
@pytest.mark.parametrize("decay", [None, WeightDecay(0.3, "l2"), WeightDecay(0.3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("adaptive", [False, True])
def test_mixtures_with_weight_decay_are_the_reference(
    memory: str, decay: WeightDecay | None, dtype: torch.dtype, adaptive: bool
) -> None:
    x = torch.nn.Parameter(random(40, dtype=dtype))
    gradients = [random(40, seed=k + 1, dtype=dtype) for k in range(8)]
    start = x.detach().double().numpy().copy()
    options: dict[str, Any] = {"memory": memory}
    method = Method(memory, weight_decay=decay or WeightDecay())
    if adaptive:
        options["second_memory"] = "poly:3"
        method = Method(memory, "poly:3", eps=1e-8, weight_decay=decay or WeightDecay())
    if decay is not None:
        options |= {"weight_decay": decay.amount, "decoupled_weight_decay": decay.kind == "decoupled"}
    make = MemAdam if adaptive else MemSGD
    found = path(make([x], lr=0.05, **options), x, gradients)
    exact = reference.follow(method, lambda _, k: gradients[k].double().numpy(), start, lr=0.05, steps=8)
    # 8 steps of up to 5 roundings each, of numbers below 10
    unit = torch.finfo(dtype).eps
    np.testing.assert_allclose(found, exact[1:], rtol=0, atol=8 * 50 * unit)


def test_large_tensors_are_updated_in_pieces_to_the_same_end(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(300,), (70,), (3, 50), (129,)]

    def trained() -> list[torch.nn.Parameter]:
        params = some_params(shapes, dtype=torch.float32)
        optimizer = MemAdam(params, lr=0.05, memory=GROWING, second_memory="poly:8", weight_decay=0.1)
        train(optimizer, params, some_gradients(params, 5))
        return params

    whole = trained()
    monkeypatch.setattr(workspace, "PIECE", 64)
    for a, b in zip(whole, trained(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)  # vectors of another length round otherwise


def test_pieces_hold_every_element_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x = [torch.arange(10.0), torch.arange(10.0, 13.0), torch.arange(13.0, 40.0)]
    from memgrad.optim.buckets import Bucket

    bucket = Bucket(3, x, [t.clone() for t in x], ([t.clone() for t in x],), [{}, {}, {}], ())
    monkeypatch.setattr(workspace, "PIECE", 8)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    parts = list(workspace.Workspace().pieces(bucket))
    assert torch.equal(torch.cat([t for part in parts for t in part.x]), torch.arange(40.0))
    assert len(parts) > 3
    for part in parts:
        part.x[0].zero_()  # views: what is written to a piece is written to the parameter
    assert float(torch.cat(x).sum()) < 780


@pytest.mark.parametrize("memory", [GROWING, SLOW])
@pytest.mark.parametrize("make", [MemSGD, MemAdam])
def test_an_infinite_gradient_reaches_no_other_parameter(
    make: Any, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces share a scratch, and 0 times an infinity that was left there is not a number."""
    monkeypatch.setattr(workspace, "PIECE", 32)
    params = some_params([(40,), (40,)], dtype=torch.float32)
    optimizer = make(params, lr=0.05, memory=memory)
    for _ in range(3):
        params[0].grad, params[1].grad = torch.full((40,), torch.inf), torch.ones(40)
        optimizer.step()
    assert not params[0].isfinite().any()
    assert params[1].isfinite().all()


@pytest.mark.parametrize("memory", [GROWING, SLOW, f"{GROWING} + exp:0.9"])
@pytest.mark.parametrize("make", [MemSGD, MemAdam])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_to_maximize_is_to_minimize_the_negative(make: Any, memory: str, dtype: torch.dtype) -> None:
    ends = []
    for sign in (1, -1):
        x = torch.nn.Parameter(random(40, dtype=dtype))
        optimizer = make([x], lr=0.05, memory=memory, maximize=sign < 0)
        ends.append(path(optimizer, x, [sign * random(40, seed=k, dtype=dtype) for k in range(5)]))
        assert torch.equal(x.grad, sign * random(40, seed=4, dtype=dtype))  # type: ignore[arg-type]  # it has one
    np.testing.assert_allclose(*ends, rtol=0, atol=200 * torch.finfo(dtype).eps)


def test_a_part_that_is_added_in_mid_run_begins_with_the_newest_gradient() -> None:
    x = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = MemSGD([x], lr=1.0, memory="exp:0.5")
    path(optimizer, x, [torch.ones(1, dtype=torch.float64)] * 3)
    optimizer.param_groups[0]["memory"] = "exp:0.5 + 2*poly:1"
    before = x.item()
    (after,) = path(optimizer, x, [torch.full((1,), 4.0, dtype=torch.float64)])
    # exp:0.5 of (1, 1, 1, 4) and the new average, which is 4
    average = (1 + 2 + 4 + 8 * 4) / 15
    assert before - after.item() == pytest.approx(average + 2 * 4.0, rel=1e-12)
    assert optimizer.state[x].keys() == {"step", "average", "average_2"}


def test_a_part_that_is_dropped_leaves_nothing_behind() -> None:
    x = torch.nn.Parameter(torch.zeros(3))
    optimizer = MemAdam([x], lr=0.1, memory=SLOW)
    path(optimizer, x, [torch.ones(3)])
    assert optimizer.state[x].keys() == {"step", "square_average", "average", "average_2"}
    optimizer.param_groups[0]["memory"] = "poly:2"
    path(optimizer, x, [torch.ones(3)])
    assert optimizer.state[x].keys() == {"step", "square_average", "average"}


def test_mixtures_are_kept_as_text_and_load_again() -> None:
    x = torch.nn.Parameter(torch.ones(3))
    optimizer = MemSGD([x], lr=0.1, memory=Mixture.parse(GROWING))
    assert optimizer.param_groups[0]["memory"] == GROWING
    path(optimizer, x, [torch.ones(3)] * 2)
    y = torch.nn.Parameter(x.detach().clone())
    resumed = MemSGD([y], lr=0.1)
    resumed.load_state_dict(optimizer.state_dict())
    path(optimizer, x, [torch.ones(3)])
    path(resumed, y, [torch.ones(3)])
    assert torch.equal(x, y)


def test_a_gain_of_code_is_given_again_when_a_checkpoint_is_loaded() -> None:
    mixture = Gain.of(lambda k: 1.0 + k) * Polynomial(2)
    x = torch.nn.Parameter(torch.ones(3))
    optimizer = MemSGD([x], lr=0.1, memory=mixture)
    path(optimizer, x, [torch.ones(3)] * 3)
    assert torch.allclose(x, torch.full((3,), 1 - 0.1 * (1 + 2 + 3)))
    resumed = MemSGD([torch.nn.Parameter(torch.ones(3))], lr=0.1, memory=mixture)
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.param_groups[0]["memory"] == "<lambda>(k)*poly:2"


def test_gains_change_with_the_group() -> None:
    x = torch.nn.Parameter(torch.zeros(1))
    optimizer = MemSGD([x], lr=1.0, memory="2*inst")
    path(optimizer, x, [torch.ones(1)])
    optimizer.param_groups[0]["memory"] = "3*inst"
    path(optimizer, x, [torch.ones(1)])
    assert x.item() == -5.0


@pytest.mark.parametrize("make", [MemSGD, MemAdam])
def test_too_many_averages_are_refused(make: Any) -> None:
    many = " + ".join(f"exp:0.{i}" for i in range(10, 19))
    with pytest.raises(ValueError, match="at most 8 averages"):
        make([torch.nn.Parameter(torch.ones(1))], memory=many)


def test_squares_are_one_memory() -> None:
    with pytest.raises(ValueError, match=r"MemAdam needs one memory.*got second_memory='poly:2 \+ poly:3'"):
        MemAdam([torch.nn.Parameter(torch.ones(1))], second_memory="poly:2 + poly:3")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("capturable", [False, True])
def test_the_sum_of_all_squares_is_adagrad_s(dtype: torch.dtype, capturable: bool) -> None:
    x, y = (torch.nn.Parameter(random(9, dtype=dtype)) for _ in range(2))
    gradients = [random(9, seed=k + 1, dtype=dtype) for k in range(9)]
    ours = MemAdam([x], lr=0.1, memory="inst", second_memory="sum*poly:1", eps=1e-3, capturable=capturable)
    theirs = torch.optim.Adagrad([y], lr=0.1, eps=1e-3)
    np.testing.assert_allclose(
        path(ours, x, gradients), path(theirs, y, gradients), rtol=0, atol=100 * torch.finfo(dtype).eps
    )


@pytest.mark.parametrize("kind", ["l2=0.3", "decay=0.3", "decay=2/t", "independent=0.3", "independent=0.9/t", "l2=2/t"])
@pytest.mark.parametrize("memory", ["poly:2", GROWING])
@pytest.mark.parametrize("second_memory", [None, "poly:3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_kind_of_weight_decay_is_the_reference(
    kind: str, memory: str, second_memory: str | None, dtype: torch.dtype
) -> None:
    x = torch.nn.Parameter(random(20, dtype=dtype))
    start = x.detach().double().numpy().copy()
    gradients = [random(20, seed=k + 1, dtype=dtype) for k in range(6)]
    options = {} if second_memory is None else {"second_memory": second_memory}
    make = MemSGD if second_memory is None else MemAdam
    optimizer = make([x], lr=0.1, memory=memory, weight_decay=kind, **options)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 - k / 10)
    found = []
    for g in gradients:
        found.append(path(optimizer, x, [g])[0])
        schedule.step()
    eps = {} if second_memory is None else {"eps": 1e-8}
    method = Method(memory, second_memory, weight_decay=parse_decay(kind, kind), **eps)
    rate = lambda k: 0.1 * (1 - k / 10)  # noqa: E731
    exact = reference.follow(method, lambda _, k: gradients[k].double().numpy(), start, lr=rate, steps=6, peak_lr=0.1)
    np.testing.assert_allclose(found, exact[1:], rtol=0, atol=300 * torch.finfo(dtype).eps)


def test_an_independent_decay_needs_a_peak() -> None:
    with pytest.raises(ValueError, match=r"peak_lr=0\.0"):
        MemAdam([torch.nn.Parameter(torch.ones(1))], lr=0.0, weight_decay="independent=1")
    group = MemAdam(
        [{"params": [torch.nn.Parameter(torch.ones(1))], "peak_lr": 0.5}], lr=0.0, weight_decay="independent=1"
    )
    assert group.param_groups[0]["peak_lr"] == 0.5
    with pytest.raises(ValueError, match="MemAdam, weight_decay='wd=1'"):
        MemAdam([torch.nn.Parameter(torch.ones(1))], weight_decay="wd=1")


@pytest.mark.parametrize("scheduled", [False, True], ids=["constant", "scheduled"])
@pytest.mark.parametrize(
    ("make", "written"),
    [
        (MemSGD, {"weight_decay": "independent=0.5"}),
        (MemAdam, {"weight_decay": "independent=0.5/t"}),
        (ADana, {"omega": 0.5}),
    ],
)
def test_an_independent_decay_that_is_written_later_is_relative_to_the_first_rate(
    make: Any, written: dict[str, Any], scheduled: bool
) -> None:
    x = torch.nn.Parameter(torch.ones(1))
    optimizer = make([x], lr=0.1)
    if scheduled:
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 0.2)  # a warm-up
    optimizer.param_groups[0].update(written)
    x.grad = torch.zeros(1)
    optimizer.step()
    assert x.item() == pytest.approx(1 - 0.5 * (0.2 if scheduled else 1.0), rel=1e-6)
    assert optimizer.param_groups[0]["peak_lr"] == 0.1


def test_a_decay_may_take_all_of_the_weights_and_not_more() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    optimizer = MemSGD([x], lr=0.5, weight_decay="decay=2")
    path(optimizer, x, [torch.full((2,), 3.0)])
    assert torch.equal(x.data, torch.full((2,), -1.5))
    optimizer.param_groups[0]["lr"] = 0.51
    with pytest.raises(ValueError, match=r"would subtract 102 % of the weights at step k=1\."):
        optimizer.step()


def test_the_peak_of_one_cycle_is_the_peak_of_the_decay() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    optimizer = MemSGD([x], lr=0.1, weight_decay="independent=0.5")
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.4, total_steps=10, div_factor=2.0, cycle_momentum=False)
    path(optimizer, x, [torch.zeros(2)])
    assert torch.allclose(x.data, torch.full((2,), 1 - 0.5 * 0.2 / 0.4))


@pytest.mark.parametrize("make", [MemSGD, MemAdam])
def test_eight_averages_are_kept(make: Any) -> None:
    x = torch.nn.Parameter(torch.ones(1))
    optimizer = make([x], lr=0.1, memory=" + ".join(f"exp:0.{i}" for i in range(1, 9)))
    path(optimizer, x, [torch.ones(1)])
    assert {f"average_{i}" for i in range(2, 9)} < optimizer.state[x].keys()


NAMED = {
    "QHM": (QHM, {"nu": 0.6, "beta": 0.9}, qhm(0.6, 0.9)),
    "AggMo": (AggMo, {"betas": (0.0, 0.5, 0.9)}, aggmo((0.0, 0.5, 0.9))),
    "AdEMAMix": (AdEMAMix, {"ramp": 4, "weight_decay": 0.1}, ademamix(ramp=4, weight_decay=0.1)),
    "AdEMAMix, plain": (AdEMAMix, {"betas": (0.8, 0.9, 0.99), "alpha": 2.0}, ademamix((0.8, 0.9, 0.99), alpha=2.0)),
    "ADana": (ADana, {"omega": 0.5, "kappa": 0.7}, adana(kappa=0.7, omega=0.5)),
    "ADana, former": (ADana, {"omega": 0.5, "through_lr": True}, adana(omega=0.5, through_lr=True)),
}


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_named_optimizers_follow_their_methods(name: str, dtype: torch.dtype) -> None:
    make, options, method = NAMED[name]
    x = torch.nn.Parameter(random(20, dtype=dtype))
    start = x.detach().double().numpy().copy()
    gradients = [random(20, seed=k + 1, dtype=dtype) for k in range(6)]
    found = path(make([x], lr=0.1, **options), x, gradients)
    exact = reference.follow(method, lambda _, k: gradients[k].double().numpy(), start, lr=0.1, steps=6)
    np.testing.assert_allclose(found, exact[1:], rtol=0, atol=300 * torch.finfo(dtype).eps)


def test_the_options_of_a_named_method_work_in_groups_and_change_in_mid_run() -> None:
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = ADana([{"params": [a], "delta": 4.0}, {"params": [b]}], lr=0.1, omega=0.0)
    assert [group["memory"] for group in optimizer.param_groups] == [
        "inst + (1+k)^0.15*poly:4",
        "inst + (1+k)^0.15*poly:8",
    ]
    a.grad = b.grad = torch.ones(2)
    optimizer.param_groups[0]["kappa"] = 0.5
    optimizer.step()
    assert optimizer.param_groups[0]["memory"] == "inst + (1+k)^0.5*poly:4"
    with pytest.raises(ValueError, match="ADana has no option 'memory' in its groups"):
        ADana([{"params": [a], "memory": "poly:2"}])


def test_a_checkpoint_of_adana_before_its_decay_was_independent_keeps_its_decay() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    saved = ADana([x], lr=0.1, omega=4.0, through_lr=True).state_dict()
    for name in ("through_lr", "memory", "second_memory", "weight_decay", "decoupled_weight_decay"):
        del saved["param_groups"][0][name]
    resumed = ADana([x], lr=0.1)
    resumed.load_state_dict(saved)
    x.grad = torch.zeros(2)
    resumed.step()
    assert torch.allclose(x, torch.full((2,), 1 - 0.1 * 4.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("memory", ["poly:2", GROWING, SLOW])
@pytest.mark.parametrize("make", [MemSGD, MemAdam])
def test_parameters_of_few_bits_take_the_kernels_in_pieces(
    make: Any, memory: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "PIECE", 16)
    ends = []
    for fused in (None, False):
        params = some_params([(40,), (3, 5)], dtype=dtype)
        optimizer = make(params, lr=0.05, memory=memory, state_dtype=torch.float32, fused=fused)
        train(optimizer, params, some_gradients(params, 4))
        ends.append([*params, *[optimizer.state[p]["average"] for p in params]])
    for a, b in zip(*ends, strict=True):
        unit = torch.finfo(a.dtype).eps
        torch.testing.assert_close(a, b, rtol=8 * unit, atol=8 * unit)  # a rounding or two per step


def test_parameters_of_few_bits_are_given_to_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    real = torch._fused_adamw_
    monkeypatch.setattr(torch, "_fused_adamw_", lambda *args, **options: seen.append(1) or real(*args, **options))
    params = some_params([(40,)], dtype=torch.bfloat16)
    train(MemAdam(params, state_dtype=torch.float32), params, some_gradients(params, 3))
    assert len(seen) == 3


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parameters each of MemSGD's updates takes."""
    seen: list[int] = []
    real = MemSGD._update

    def watched(self: MemSGD, do: Any, bucket: Any, group: Any) -> None:
        seen.append(len(bucket.x))
        real(self, do, bucket, group)

    monkeypatch.setattr(MemSGD, "_update", watched)
    return seen


def test_counts_on_the_device_that_are_equal_take_one_step_together(sizes: list[int]) -> None:
    params = some_params([(3,)] * 4)
    optimizer = MemSGD(params, memory="poly:2", capturable=True)
    gradients: list[Any] = some_gradients(params, 6)
    train(optimizer, params, gradients[:2])
    assert sizes == [4, 4]
    gradients[2][1] = None
    train(optimizer, params, gradients[2:4])
    assert sizes[2:] == [3, 3, 1]
    resumed = MemSGD(params, capturable=True)
    resumed.load_state_dict(optimizer.state_dict())
    resumed.state[params[0]]["step"].fill_(3)  # by hand, to what the second one's is
    train(resumed, params, gradients[4:])
    assert sizes[5:] == [2, 2, 2, 2]
    assert [int(resumed.state[p]["step"]) for p in params] == [5, 5, 6, 6]
    assert len({id(resumed.state[p]["step"]) for p in params}) == 4


def test_a_count_that_someone_writes_to_no_longer_counts_as_equal(sizes: list[int]) -> None:
    params, others = some_params([(3,)] * 2), some_params([(3,)] * 2)
    optimizer, eager = MemSGD(params, capturable=True), MemSGD(others)
    gradients = some_gradients(params, 3)
    for each, tensors in ((optimizer, params), (eager, others)):
        train(each, tensors, gradients[:2])
    optimizer.state[params[1]]["step"].zero_()
    eager.state[others[1]]["step"] = 0
    sizes.clear()
    train(optimizer, params, gradients[2:])
    assert sizes == [1, 1]
    train(eager, others, gradients[2:])
    for a, b in zip(params, others, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory", [GROWING, SLOW])
@pytest.mark.parametrize("make", [MemSGD, MemAdam])
def test_a_count_on_the_device_takes_the_same_steps(make: Any, memory: str) -> None:
    params = [torch.nn.Parameter(random(7)) for _ in range(2)]
    gradients = [random(7, seed=k + 1) for k in range(5)]
    paths = [
        path(make([p], lr=0.05, memory=memory, capturable=capturable), p, gradients)
        for p, capturable in zip(params, (False, True), strict=True)
    ]
    np.testing.assert_allclose(*paths, rtol=1e-12)


def test_a_decay_of_more_than_all_is_refused_before_anything_is_changed() -> None:
    x = torch.nn.Parameter(torch.ones(2))
    optimizer = ADana([x], lr=0.1, omega=4.0)
    x.grad = torch.ones(2)
    with pytest.raises(ValueError, match=r"subtract 400 % of the weights at step k=0. Warm up the learning rate"):
        optimizer.step()
    assert torch.equal(x.data, torch.ones(2))
    warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: min((k + 1) / 100, 1))
    for _ in range(5):
        optimizer.step()
        warm.step()
    assert torch.isfinite(x).all()


def test_pieces_follow_tensors_that_were_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views of parameters and averages are kept from step to step; a tensor with other memory must be cut anew."""
    shapes = [(300,), (70,), (3, 50)]
    whole, cut = some_params(shapes, dtype=torch.float32), some_params(shapes, dtype=torch.float32)
    gradients = some_gradients(whole, 8)
    optimizers = [MemAdam(params, lr=0.05, memory=GROWING, second_memory="poly:8") for params in (whole, cut)]
    for k, step in enumerate(gradients):
        train(optimizers[0], whole, [step])
        if k == 3:
            cut[0].data = cut[0].data.clone()
        elif k == 4:
            state = optimizers[1].state[cut[2]]
            state["average"] = state["average"].clone()
        elif k == 5:
            optimizers[1].load_state_dict(optimizers[1].state_dict())
        with monkeypatch.context() as patch:
            patch.setattr(workspace, "PIECE", 64)
            train(optimizers[1], cut, [step])
    for a, b in zip(whole, cut, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_pieces_keep_no_memory_of_a_state_that_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "PIECE", 64)
    params = some_params([(300,)], dtype=torch.float32)
    optimizer = MemAdam(params, memory=GROWING)
    train(optimizer, params, some_gradients(params, 2))
    storage = StorageWeakRef(optimizer.state[params[0]]["average"].untyped_storage())
    optimizer.load_state_dict(optimizer.state_dict())
    gc.collect()
    assert storage.expired()


def test_an_option_is_refused_though_an_equal_one_was_taken() -> None:
    ADana(some_params(), delta=1.0)  # True == 1.0, also for a cache
    with pytest.raises(TypeError, match="delta=True"):
        ADana(some_params(), delta=True)
    with pytest.raises(TypeError, match="beta=False"):
        QHM(some_params(), beta=False)
