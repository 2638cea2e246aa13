"""Training on two processes gives the result of one: DDP, FSDP2, tensor parallelism, distributed checkpoints.

Two CPU processes, joined by gloo, live as long as this file's tests and run one job after another. A job that hangs is
killed with its processes after a timeout and fails its own test alone; the next test gets new processes.
"""

from __future__ import annotations

import copy
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from memgrad import ADana, HeavyBall, MemAdam, MemSGD, Nesterov

WORLD = 2
ALL_RANKS = slice(None)
Arrays = dict[str, np.ndarray]

# name -> the optimizer with these options; jobs are given the name, since a function made here cannot be sent.
OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "MemSGD": lambda params: MemSGD(params, lr=0.1, weight_decay=0.01),
    "MemSGD foreach": lambda params: MemSGD(params, lr=0.1, weight_decay=0.01, foreach=True),
    "MemSGD single": lambda params: MemSGD(params, lr=0.1, weight_decay=0.01, foreach=False, fused=False),
    "MemAdam": lambda params: MemAdam(params, lr=0.01, weight_decay=0.1),
    "MemAdam capturable": lambda params: MemAdam(params, lr=0.01, weight_decay=0.1, capturable=True),
    "MemSGD mixture": lambda params: MemSGD(params, lr=0.03, memory="inst + (1+k)^0.25*poly:8 + exp:0.9"),
    "MemAdam mixture": lambda params: MemAdam(params, lr=0.003, memory="exp:0.9 + 2*cold*exp:0.99 + inst"),
    "HeavyBall": lambda params: HeavyBall(params, lr=0.03),
    "Nesterov": lambda params: Nesterov(params, lr=0.03, viscosity=3),
    "ADana": lambda params: ADana(params, lr=0.003),
}
every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)
every_precision = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
every_wrapping = pytest.mark.parametrize("wrapping", ["ddp", "fsdp2"])
# torch says so whenever it reads or writes a distributed checkpoint without processes, which is what these tests do.
on_one_process = pytest.mark.filterwarnings(
    "ignore:torch.distributed is disabled, unavailable or uninitialized:UserWarning"
)

# The mean of two half batches is rounded otherwise than the mean of the batch. After 8 steps that amounts to at most
# 7e-16 in float64 and 2.3e-7 in float32, measured; twenty times as much leaves room for other processors.
TOLERANCE = {torch.float64: 1.4e-14, torch.float32: 4.6e-6}


# --- two processes ---------------------------------------------------------------------------------------------------


class Pair:
    """Two processes joined by gloo. A job is a function of this file; its first argument is the rank."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.generation = 0
        self.processes: list[Any] = []
        self.pipes: list[Connection] = []

    def run(self, job: Callable[..., Any], *args: Any, timeout: float = 60.0) -> list[Any]:
        """What the job returns on each rank. Both are killed if one of them fails, dies or does not answer in time."""
        if not self.processes:
            self._start()
        for pipe in self.pipes:
            pipe.send((job, args))
        return self._answers(timeout)

    def _start(self) -> None:
        self.generation += 1
        spawn = mp.get_context("spawn")
        store = self.folder / f"store{self.generation}"
        for rank in range(WORLD):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(rank, store, theirs), daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.pipes.append(ours)
        self._answers(timeout=180.0)  # importing torch takes a while on a busy machine

    def _answers(self, timeout: float) -> list[Any]:
        deadline = time.monotonic() + timeout
        answers: dict[int, Any] = {}
        while len(answers) < WORLD:
            waiting = {pipe: rank for rank, pipe in enumerate(self.pipes) if rank not in answers}
            ready = wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
            if not ready:
                self.kill()
                raise TimeoutError(f"No answer from rank {', '.join(map(str, waiting.values()))} in {timeout:g} s.")
            for pipe in ready:
                rank = waiting[pipe]
                try:
                    answers[rank], failure = pipe.recv()
                except (EOFError, ConnectionError):
                    failure = "the process died"
                if failure:
                    self.kill()
                    raise RuntimeError(f"Rank {rank}: {failure}")
        return [answers[rank] for rank in range(WORLD)]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        for pipe in self.pipes:
            pipe.close()
        self.processes, self.pipes = [], []


def serve(rank: int, store: Path, pipe: Connection) -> None:
    """What each of the two processes does: jobs, until it is killed."""
    warnings.simplefilter("error")
    # torch's own, when it loads the optimizers that are made of TorchScript
    warnings.filterwarnings("ignore", message=r"`torch\.jit\.", category=DeprecationWarning)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    # Longer than any job may take: it is the pair's own timeout that ends a job.
    dist.init_process_group(
        "gloo", init_method=store.as_uri(), rank=rank, world_size=WORLD, timeout=timedelta(minutes=5)
    )
    pipe.send((None, None))
    while True:
        job, args = pipe.recv()
        try:
            answer = job(rank, *args), None
        except Exception:  # whatever it is, it is reported
            answer = None, traceback.format_exc()
        pipe.send(answer)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    two = Pair(tmp_path_factory.mktemp("pair"))
    yield two
    two.kill()


# --- what is trained -------------------------------------------------------------------------------------------------


class Network(nn.Module):
    """Odd sizes, so that shards are uneven, and a head with one row, so that the second rank has nothing of it."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Linear(5, 7)
        self.norm = nn.LayerNorm(7)
        self.extra = nn.Linear(7, 7)
        self.head = nn.Linear(7, 1)
        self.to(dtype)

    def forward(self, x: Tensor, *, with_extra: bool = True) -> Tensor:
        h = torch.tanh(self.norm(self.body(x)))
        if with_extra:
            h = h + torch.tanh(self.extra(h))
        return self.head(h)


def ours(rank: int) -> slice:
    """The rows of a batch that belong to a rank: each has the same number, so that means of means are means."""
    return slice(rank, None, WORLD)


def train(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    rows: slice,
    steps: range = range(8),
    clip: float | None = None,
    skip_extra: bool = False,
) -> None:
    """Descend, on the given rows of each batch. `skip_extra` leaves some gradients None at every other step."""
    dtype = next(model.parameters()).dtype
    for k in steps:
        random = torch.Generator().manual_seed(k)
        x = torch.randn(8, 5, generator=random, dtype=torch.float64)[rows].to(dtype)
        y = torch.randn(8, 1, generator=random, dtype=torch.float64)[rows].to(dtype)
        optimizer.zero_grad()
        (model(x, with_extra=not (skip_extra and k % 2)) - y).square().mean().backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def wrapped(wrapping: str, dtype: torch.dtype, **ddp_options: Any) -> nn.Module:
    model: nn.Module = Network(dtype)
    if wrapping == "ddp":
        return DistributedDataParallel(model, **ddp_options)
    mesh = init_device_mesh("cpu", (WORLD,))
    for layer in model.children():
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole(tensor: Any) -> np.ndarray:
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().to(torch.float64).numpy().copy()


def parameters(model: nn.Module) -> Arrays:
    return {name.removeprefix("module."): whole(p) for name, p in model.named_parameters()}


def parameters_and_state(model: nn.Module, optimizer: Optimizer) -> Arrays:
    found = parameters(model)
    for name, p in model.named_parameters():
        for key, value in optimizer.state[p].items():
            number = value if isinstance(value, Tensor) else torch.tensor(value)
            found[f"{name.removeprefix('module.')} {key}"] = whole(number)
    return found


def assert_close(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


def assert_identical(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def alone(name: str, dtype: torch.dtype, **options: Any) -> Arrays:
    """The result of one process that sees whole batches."""
    model = Network(dtype)
    optimizer = OPTIMIZERS[name](model.parameters())
    train(model, optimizer, rows=ALL_RANKS, **options)
    return parameters_and_state(model, optimizer)


def together(rank: int, wrapping: str, name: str, dtype: torch.dtype, options: dict[str, Any]) -> Arrays:
    model = wrapped(wrapping, dtype, find_unused_parameters="skip_extra" in options)
    optimizer = OPTIMIZERS[name](model.parameters())
    train(model, optimizer, rows=ours(rank), **options)
    return parameters_and_state(model, optimizer)


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.most(8)
@every_precision
@every_optimizer
@every_wrapping
def test_two_processes_give_the_result_of_one(pair: Pair, wrapping: str, name: str, dtype: torch.dtype) -> None:
    expected = alone(name, dtype)
    for found in pair.run(together, wrapping, name, dtype, {}):
        assert_close(found, expected, TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["MemSGD", "MemAdam"])
@every_wrapping
def test_clipped_gradients_give_the_result_of_one_process(pair: Pair, wrapping: str, name: str) -> None:
    clip = {"clip": 0.1}
    expected = alone(name, torch.float64, **clip)
    if name == "MemSGD":  # MemAdam hardly notices the scale of gradients
        assert not np.allclose(expected["head.weight"], alone(name, torch.float64)["head.weight"], rtol=0.01)
    for found in pair.run(together, wrapping, name, torch.float64, clip):
        assert_close(found, expected, TOLERANCE[torch.float64])


@pytest.mark.parametrize("name", ["MemSGD", "MemAdam"])
@every_wrapping
def test_parameters_without_gradients_do_not_count_the_step(pair: Pair, wrapping: str, name: str) -> None:
    skip = {"skip_extra": True}
    expected = alone(name, torch.float64, **skip)
    assert (expected["extra.weight step"], expected["body.weight step"]) == (4, 8)
    for found in pair.run(together, wrapping, name, torch.float64, skip):
        assert_close(found, expected, TOLERANCE[torch.float64])


def apart(rank: int, name: str) -> Arrays:
    model = Network(torch.float64)
    optimizer = OPTIMIZERS[name](model.parameters())
    train(model, optimizer, rows=ours(rank))
    return parameters_and_state(model, optimizer)


def test_the_comparison_notices_gradients_that_are_not_averaged(pair: Pair) -> None:
    expected = alone("MemSGD", torch.float64)
    for found in pair.run(apart, "MemSGD"):
        with pytest.raises(AssertionError):
            assert_close(found, expected, 1e-3)


def fused_calls(rank: int) -> int:
    real, calls = torch._fused_sgd_, []
    torch._fused_sgd_ = lambda *args, **options: calls.append(1) or real(*args, **options)
    try:
        together(rank, "fsdp2", "MemSGD", torch.float32, {})
    finally:
        torch._fused_sgd_ = real
    return len(calls)


def test_shards_take_the_fused_kernel_by_default(pair: Pair) -> None:
    assert pair.run(fused_calls) == [8, 8]


def in_mixed_precision(rank: int) -> tuple[set[torch.dtype], set[torch.dtype], Arrays]:
    model = Network(torch.float32)
    fully_shard(
        model,
        mesh=init_device_mesh("cpu", (WORLD,)),
        mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
    )
    optimizer = OPTIMIZERS["MemSGD"](model.parameters())
    train(model, optimizer, rows=ours(rank))
    buffers = {state["average"].dtype for state in optimizer.state.values()}
    return {p.dtype for p in model.parameters()}, buffers, parameters(model)


def test_mixed_precision_of_fsdp2_leaves_parameters_and_averages_in_float32(pair: Pair) -> None:
    expected = alone("MemSGD", torch.float32)
    for dtypes, buffers, found in pair.run(in_mixed_precision):
        assert dtypes == buffers == {torch.float32}
        # bfloat16 has 8 bits: gradients are right to about 1 %
        assert_close(found, {name: expected[name] for name in found}, 0.03)


def block() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6), nn.LayerNorm(6)).double()


def descend_block(model: nn.Module, optimizer: Optimizer) -> None:
    x = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for _ in range(4):
        optimizer.zero_grad()
        y = model(x)
        (y.full_tensor() if isinstance(y, DTensor) else y).pow(3).mean().backward()
        optimizer.step()


def in_tensor_parallel(rank: int, name: str) -> tuple[bool, Arrays]:
    plan = {
        "0": ColwiseParallel(),
        "2": RowwiseParallel(output_layouts=Shard(1)),
        "3": SequenceParallel(),
    }
    model = parallelize_module(block(), init_device_mesh("cpu", (WORLD,)), plan)
    optimizer = OPTIMIZERS[name](model.parameters())
    descend_block(model, optimizer)
    norm = model.get_parameter("3.weight")
    # full_tensor of a replicated tensor is the local one, so diverged replicas show as different answers.
    return norm.placements[0].is_replicate() and norm.grad.placements[0].is_partial(), parameters(model)


@pytest.mark.most(4)
@every_optimizer
def test_tensor_and_sequence_parallelism_give_the_result_of_one_process(pair: Pair, name: str) -> None:
    """The gradients of a LayerNorm that each rank applies to its part of the sequence are sums still to be made."""
    model = block()
    descend_block(model, OPTIMIZERS[name](model.parameters()))
    for still_to_sum, found in pair.run(in_tensor_parallel, name):
        assert still_to_sum
        assert_close(found, parameters(model), TOLERANCE[torch.float64])


def in_zero(rank: int) -> tuple[Arrays, Arrays]:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = wrapped("ddp", torch.float64)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=MemSGD, lr=0.1, memory="poly:3")
    train(model, optimizer, rows=ours(rank), steps=range(4))
    optimizer.consolidate_state_dict(to=0)
    one = Network(torch.float64)
    if rank == 0:
        one.load_state_dict(model.module.state_dict())
        restored = MemSGD(one.parameters())
        restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # else it would share the averages
        train(one, restored, rows=ALL_RANKS, steps=range(4, 8))
    train(model, optimizer, rows=ours(rank), steps=range(4, 8))
    return parameters(model), parameters(one)


def test_zero_redundancy_gives_the_result_of_one_process_and_its_state(pair: Pair) -> None:
    model = Network(torch.float64)
    train(model, MemSGD(model.parameters(), lr=0.1, memory="poly:3"), rows=ALL_RANKS)
    answers = pair.run(in_zero)
    for found, _ in answers:
        assert_close(found, parameters(model), TOLERANCE[torch.float64])
    assert_close(answers[0][1], parameters(model), TOLERANCE[torch.float64])


# --- checkpoints -----------------------------------------------------------------------------------------------------


def save(model: nn.Module, optimizer: Optimizer, path: Path, options: StateDictOptions | None = None) -> None:
    state = {
        "model": get_model_state_dict(model),
        "optimizer": get_optimizer_state_dict(model, optimizer, options=options),
    }
    dcp.save(state, checkpoint_id=path)


def load(
    model: nn.Module,
    optimizer: Optimizer,
    path: Path,
    options: StateDictOptions | None = None,
    *,
    no_dist: bool = False,
) -> None:
    state = {
        "model": get_model_state_dict(model),
        "optimizer": get_optimizer_state_dict(model, optimizer, options=options),
    }
    dcp.load(state, checkpoint_id=path, no_dist=no_dist)
    set_model_state_dict(model, state["model"])
    set_optimizer_state_dict(model, optimizer, state["optimizer"], options=options)


def saved_half_way(rank: int, wrapping: str, name: str, path: Path, flat: bool) -> tuple[Arrays, Arrays, Arrays]:
    """The state half way, at the end, and at the end of another run that was loaded half way."""
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    model = wrapped(wrapping, torch.float32)
    optimizer = OPTIMIZERS[name](model.parameters())
    train(model, optimizer, rows=ours(rank), steps=range(4))
    save(model, optimizer, path, options)
    half_way = parameters_and_state(model, optimizer)
    train(model, optimizer, rows=ours(rank), steps=range(4, 8))

    again = wrapped(wrapping, torch.float32)
    with torch.no_grad():
        for p in again.parameters():
            p.zero_()
    restored = OPTIMIZERS[name](again.parameters())
    load(again, restored, path, options)
    train(again, restored, rows=ours(rank), steps=range(4, 8))
    return half_way, parameters_and_state(model, optimizer), parameters_and_state(again, restored)


@pytest.mark.most(6)
@every_optimizer
@every_wrapping
def test_a_checkpoint_continues_bit_for_bit_on_two_processes(
    pair: Pair, wrapping: str, name: str, tmp_path: Path
) -> None:
    for half_way, end, resumed in pair.run(saved_half_way, wrapping, name, tmp_path / "c", False):
        assert_identical(resumed, end)
        assert half_way["body.weight step"] == 4
        assert not np.array_equal(half_way["body.weight"], end["body.weight"])


@pytest.mark.parametrize("name", ["MemSGD", "MemAdam"])
def test_a_flattened_checkpoint_continues_bit_for_bit(pair: Pair, name: str, tmp_path: Path) -> None:
    for _, end, resumed in pair.run(saved_half_way, "fsdp2", name, tmp_path / "c", True):
        assert_identical(resumed, end)


@pytest.mark.most(4)
@on_one_process
@every_optimizer
def test_a_sharded_checkpoint_continues_on_one_process(pair: Pair, name: str, tmp_path: Path) -> None:
    half_way, end, _ = pair.run(saved_half_way, "fsdp2", name, tmp_path / "c", False)[0]
    model = Network(torch.float32)
    optimizer = OPTIMIZERS[name](model.parameters())
    load(model, optimizer, tmp_path / "c", no_dist=True)
    assert_identical(parameters_and_state(model, optimizer), half_way)
    train(model, optimizer, rows=ALL_RANKS, steps=range(4, 8))
    assert_close(parameters_and_state(model, optimizer), end, TOLERANCE[torch.float32])


def resumed_from(rank: int, name: str, path: Path) -> Arrays:
    model = wrapped("fsdp2", torch.float64)
    optimizer = OPTIMIZERS[name](model.parameters())
    load(model, optimizer, path)
    train(model, optimizer, rows=ours(rank), steps=range(4, 8))
    return parameters_and_state(model, optimizer)


@on_one_process
@pytest.mark.parametrize("name", ["MemSGD", "MemAdam"])
def test_a_checkpoint_of_one_process_continues_sharded(pair: Pair, name: str, tmp_path: Path) -> None:
    model = Network(torch.float64)
    optimizer = OPTIMIZERS[name](model.parameters())
    train(model, optimizer, rows=ALL_RANKS, steps=range(4))
    save(model, optimizer, tmp_path / "c")
    expected = alone(name, torch.float64)
    for found in pair.run(resumed_from, name, tmp_path / "c"):
        assert_close(found, expected, TOLERANCE[torch.float64])


def gathered(rank: int, name: str, path: Path) -> tuple[Arrays, Arrays]:
    """The end of a run, and of one whose whole state was gathered on rank 0 half way, saved, and spread again."""
    model = wrapped("fsdp2", torch.float64)
    optimizer = OPTIMIZERS[name](model.parameters())
    train(model, optimizer, rows=ours(rank), steps=range(4))
    gather = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=gather)
    state = get_optimizer_state_dict(model, optimizer, options=gather)
    if rank == 0:
        torch.save({"model": weights, "optimizer": state}, path)
    train(model, optimizer, rows=ours(rank), steps=range(4, 8))

    again = wrapped("fsdp2", torch.float64)
    restored = OPTIMIZERS[name](again.parameters())
    spread = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    read: dict[str, Any] = torch.load(path, weights_only=True) if rank == 0 else {"model": {}, "optimizer": {}}
    set_model_state_dict(again, read["model"], options=spread)
    set_optimizer_state_dict(again, restored, read["optimizer"], options=spread)
    train(again, restored, rows=ours(rank), steps=range(4, 8))
    return parameters_and_state(model, optimizer), parameters_and_state(again, restored)


@pytest.mark.parametrize("name", ["MemSGD", "MemAdam capturable", "Nesterov", "ADana"])
def test_a_state_gathered_in_one_file_continues_sharded_and_on_one_process(
    pair: Pair, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "checkpoint.pt"
    answers = pair.run(gathered, name, file)
    for end, resumed in answers:
        assert_identical(resumed, end)

    read = torch.load(file, weights_only=True)
    model = Network(torch.float64)
    optimizer = OPTIMIZERS[name](model.parameters())
    set_model_state_dict(model, read["model"])
    set_optimizer_state_dict(model, optimizer, read["optimizer"])
    train(model, optimizer, rows=ALL_RANKS, steps=range(4, 8))
    assert_close(parameters_and_state(model, optimizer), answers[0][0], TOLERANCE[torch.float64])


def groups_and_dtypes_after_a_checkpoint(rank: int, path: Path) -> list[tuple[Any, ...]]:
    def made() -> tuple[nn.Module, Optimizer]:
        model = wrapped("fsdp2", torch.bfloat16)
        groups = [
            {"params": list(model.get_submodule("body").parameters()), "memory": "exp:0.95", "lr": 0.01},
            {"params": [p for name, p in model.named_parameters() if not name.startswith("body")]},
        ]
        return model, MemSGD(groups, lr=0.1, memory="poly:3", state_dtype=torch.float32)

    model, optimizer = made()
    train(model, optimizer, rows=ours(rank), steps=range(4))
    save(model, optimizer, path)
    again, restored = made()
    for group in restored.param_groups:
        group["lr"], group["memory"] = 0.5, "poly:1"
    load(again, restored, path)
    averages = {state["average"].dtype for state in restored.state.values()}
    same = all(
        torch.equal(restored.state[p]["average"].to_local(), optimizer.state[q]["average"].to_local())
        for p, q in zip(again.parameters(), model.parameters(), strict=True)
    )
    return [(group["memory"], group["lr"], averages, same) for group in restored.param_groups]


def test_a_checkpoint_keeps_the_memory_of_each_group_and_the_precision_of_the_averages(
    pair: Pair, tmp_path: Path
) -> None:
    for groups in pair.run(groups_and_dtypes_after_a_checkpoint, tmp_path / "c"):
        assert groups == [("exp:0.95", 0.01, {torch.float32}, True), ("poly:3", 0.1, {torch.float32}, True)]


# --- the two processes themselves ------------------------------------------------------------------------------------


def hang_on_rank_1(rank: int) -> None:
    if rank == 1:
        time.sleep(3600)
    dist.barrier()


def fail_on_rank_1(rank: int) -> None:
    if rank == 1:
        raise ArithmeticError("a mistake")
    dist.barrier()


def die_on_rank_1(rank: int) -> None:
    if rank == 1:
        os._exit(1)
    dist.barrier()


@pytest.mark.parametrize(
    ("job", "error", "message"),
    [
        (hang_on_rank_1, TimeoutError, "No answer from rank 0, 1 in 2 s"),
        pytest.param(fail_on_rank_1, RuntimeError, "Rank 1: (.|\n)*a mistake", marks=pytest.mark.slow),
        pytest.param(die_on_rank_1, RuntimeError, "Rank [01]: ", marks=pytest.mark.slow),
    ],
)
def test_a_job_that_does_not_end_well_fails_soon_and_leaves_no_process(
    pair: Pair, job: Callable[[int], None], error: type[Exception], message: str
) -> None:
    pair.run(apart, "MemSGD")  # so that the processes are there
    processes = list(pair.processes)
    begun = time.monotonic()
    with pytest.raises(error, match=message):
        pair.run(job, timeout=2.0)
    assert time.monotonic() - begun < 20
    assert not any(process.is_alive() for process in processes)
