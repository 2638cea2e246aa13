"""The one table of optimizers, and what every test of the contract needs: parameters, gradients, training.

A new optimizer needs one row of `ROWS`, and one of `REFUSED` for each of its hyper-parameters.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from memgrad import (
    QHM,
    ADana,
    AdEMAMix,
    AggMo,
    Exponential,
    HeavyBall,
    MemAdam,
    Memory,
    MemSGD,
    Nesterov,
    PolyAdam,
    Polynomial,
)
from memgrad.method import Method, ademamix, aggmo, qhm
from memgrad.optim import reference
from memgrad.optim.base import MemoryOptimizer

Iterates = Callable[..., Any]
Gradients = Sequence[Sequence[Tensor | None]]


@dataclass(frozen=True)
class Row:
    """One optimizer of the contract.

    Args:
        name: As pytest shows it.
        optimizer: The class.
        options: What it is made with.
        other: Options with which it remembers or moves differently, for a second group.
        reference: Its slow twin in `memgrad.optim.reference`.
        reference_options: The same options for the twin.
    """

    name: str
    optimizer: type[MemoryOptimizer]
    options: Mapping[str, Any]
    other: Mapping[str, Any]
    reference: Iterates
    reference_options: Mapping[str, Any] = field(default_factory=dict)
    averages: int = 1
    """How many averages (or sums) of gradients it keeps."""
    kernels: int | None = 1
    """How many calls of fused kernels a step takes; None: it is not made of them."""
    gain: float | None = None
    """Of a mixture: its gain at the first step, by hand."""

    @property
    def kept(self) -> set[str]:
        """The names of the tensors it keeps for each parameter."""
        if issubclass(self.optimizer, HeavyBall):
            return {"velocity"}
        squares = {"square_average"} if issubclass(self.optimizer, MemAdam | ADana) else set()
        return {*("average", "average_2", "average_3")[: self.averages], *squares}

    def make(self, params: Any, lr: Any = 0.05, **options: Any) -> MemoryOptimizer:
        return self.optimizer(params, lr=lr, **{**self.options, **options})

    def iterates(self, gradient: Any, x0: Any, *, lr: Any = 0.05, steps: int) -> Any:
        return self.reference(gradient, x0, lr=lr, steps=steps, **self.reference_options)

    def takes(self, option: str) -> bool:
        return option in inspect.signature(self.optimizer).parameters

    @property
    def modes(self) -> dict[str, dict[str, Any]]:
        """The ways to compute the step, by name, as options."""
        known = {
            "default": {},
            "fused": {"fused": True},
            "foreach": {"foreach": True},
            "single": {"foreach": False, "fused": False},
        }
        return {
            name: {key: value for key, value in options.items() if self.takes(key)}
            for name, options in known.items()
            if name != "fused" or self.takes("fused")
        }

    def __str__(self) -> str:
        return self.name


def _memsgd(memory: str) -> Row:
    twin = {"memory": Memory.parse(memory)}
    averages = 0 if memory == "inst" else 1
    options, other = {"memory": memory}, {"memory": "poly:5"}
    return Row(f"MemSGD {memory}", MemSGD, options, other, reference.memsgd, twin, averages)


def _memadam(first: str, second: str) -> Row:
    texts = {"memory": first, "second_memory": second}
    twin = {name: Memory.parse(text) for name, text in texts.items()}
    return Row("MemAdam", MemAdam, texts, {"second_memory": "poly:5"}, reference.memadam, twin)


def _polyadam(p: float, beta: float) -> Row:
    twin = {"memory": Exponential(beta), "second_memory": Polynomial(p)}
    return Row("PolyAdam", PolyAdam, {"p": p, "beta": beta}, {"eps": 0.1}, reference.memadam, twin)


def _momentum(optimizer: type[HeavyBall], twin: Iterates, name: str, value: float, other: float) -> Row:
    return Row(f"{optimizer.__name__} {name}", optimizer, {name: value}, {name: other}, twin, {name: value})


def _of_method(
    name: str,
    optimizer: type[MemoryOptimizer],
    options: Mapping[str, Any],
    method: Method,
    kernels: int | None,
    gain: float,
) -> Row:
    """A row whose twin is `reference.follow` with a method."""
    twin = lambda gradient, x0, **given: reference.follow(method, gradient, x0, **given)  # noqa: E731
    averages = len(method.mixture.averages)
    return Row(name, optimizer, options, {"memory": "poly:5"}, twin, averages=averages, kernels=kernels, gain=gain)


def _mixtures() -> tuple[Row, ...]:
    linear, growing = "0.5*inst + 0.3*(1+k)^0.5*poly:3 + 0.2*sum*exp:0.9", "inst + (1+k)^0.25*poly:8"
    slow = "exp:0.9 + 2*cold*exp:0.99"
    return (
        _of_method("MemSGD mixture", MemSGD, {"memory": linear}, Method(linear), 3, 1.0),
        _of_method("MemSGD growing", MemSGD, {"memory": growing}, Method(growing), 2, 2.0),
        _of_method(
            "MemAdam growing",
            MemAdam,
            {"memory": growing, "second_memory": "poly:8"},
            Method(growing, "poly:8", eps=1e-8),
            1,
            2.0,
        ),
        Row(
            "QHM",
            QHM,
            {"nu": 0.6, "beta": 0.9},
            {"nu": 0.3},
            lambda gradient, x0, **given: reference.follow(qhm(0.6, 0.9), gradient, x0, **given),
            kernels=2,
            gain=0.4 + 0.6 * 0.1,
        ),
        Row(
            "AggMo",
            AggMo,
            {"betas": (0.0, 0.5, 0.9)},
            {"betas": (0.0, 0.9)},
            lambda gradient, x0, **given: reference.follow(aggmo((0.0, 0.5, 0.9)), gradient, x0, **given),
            averages=2,
            kernels=3,
            gain=1.0,
        ),
        Row(
            "AdEMAMix",
            AdEMAMix,
            {"ramp": 4},
            {"alpha": 2.0},
            lambda gradient, x0, **given: reference.follow(ademamix(ramp=4), gradient, x0, **given),
            averages=2,
            kernels=2,
            gain=1 + 5 / 4 * (1 - math.exp(1 / (0.75 / math.log(0.9) + 0.25 / math.log(0.9999)))),
        ),
        _of_method(
            "MemAdam two averages",
            MemAdam,
            {"memory": slow, "second_memory": "exp:0.99"},
            Method(slow, "exp:0.99", eps=1e-8),
            2,
            1.02,
        ),
    )


ROWS = (
    _memsgd("poly:2"),
    _memsgd("exp:0.9"),
    _memsgd("inst"),
    _memsgd("log"),
    _memadam("poly:3", "exp:0.99"),
    _polyadam(p=2.5, beta=0.8),
    _momentum(HeavyBall, reference.heavy_ball, "momentum", 0.9, 0.5),
    _momentum(HeavyBall, reference.heavy_ball, "viscosity", 3.0, 5.0),
    _momentum(Nesterov, reference.nesterov, "momentum", 0.9, 0.5),
    _momentum(Nesterov, reference.nesterov, "viscosity", 3.0, 5.0),
    # Its other weight decay needs a learning rate that is warmed up: see test_optim_mixtures.
    Row(
        "ADana",
        ADana,
        {"omega": 4.0, "through_lr": True},
        {"delta": 4.0},
        reference.adana,
        {"through_lr": True},
        kernels=1,
    ),
    *_mixtures(),
)


def each_mode_of(rows: Iterable[Row]) -> pytest.MarkDecorator:
    cases = [(f"{row}-{name}", row, options) for row in rows for name, options in row.modes.items()]
    return pytest.mark.parametrize(("row", "mode"), [pytest.param(*case, id=name) for name, *case in cases])


every_row = pytest.mark.parametrize("row", ROWS, ids=str)
every_row_and_mode = each_mode_of(ROWS)

# Each hyper-parameter, values that make no sense for it, and the words that the refusal must contain.
NOT_FINITE_OR_NEGATIVE = (math.nan, math.inf, -1.0)
NOT_A_NUMBER = (True, "0.1", None, 1j)
LR = ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER, torch.tensor(math.nan), torch.ones(2)), r"\blr\b")
WEIGHT_DECAY = ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER), "weight_decay")
EPS = ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER), r"\beps\b")
MEMORY = ((2, None, True, "poly", "poly:0", "poly:nan", "exp:1", "polynomial"), r"[Mm]emory")
STATE_DTYPE = ((torch.int64, torch.bool, "float33", 32, True), "state_dtype")
MOMENTUM = ((math.nan, 1.0, -0.1, True, "0.9"), "momentum")
VISCOSITY = ((*NOT_FINITE_OR_NEGATIVE, True, "3", 0.0), "viscosity|degree")
COMMON = {"lr": LR, "state_dtype": STATE_DTYPE}
REFUSED: Mapping[type[MemoryOptimizer], Mapping[str, tuple[tuple[Any, ...], str]]] = {
    MemSGD: {**COMMON, "weight_decay": WEIGHT_DECAY, "memory": MEMORY},
    MemAdam: {**COMMON, "weight_decay": WEIGHT_DECAY, "memory": MEMORY, "second_memory": MEMORY, "eps": EPS},
    PolyAdam: {
        **COMMON,
        "weight_decay": WEIGHT_DECAY,
        "eps": EPS,
        "p": ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER, 0.0), r"\bp\b"),
        "beta": ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER, 1.0, False), "beta"),
    },
    HeavyBall: {**COMMON, "weight_decay": WEIGHT_DECAY, "momentum": MOMENTUM, "viscosity": VISCOSITY},
    Nesterov: {**COMMON, "weight_decay": WEIGHT_DECAY, "momentum": MOMENTUM, "viscosity": VISCOSITY},
    QHM: {
        **COMMON,
        "weight_decay": WEIGHT_DECAY,
        "nu": ((*NOT_FINITE_OR_NEGATIVE, True, "0.1", None, 1.5), "nu"),
        "beta": ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER, 1.0), "beta"),
    },
    AggMo: {**COMMON, "weight_decay": WEIGHT_DECAY, "betas": (((), (1.0,), (-0.1,), ("x",), 0.9, None), "beta")},
    AdEMAMix: {
        **COMMON,
        "weight_decay": WEIGHT_DECAY,
        "eps": EPS,
        "betas": (((0.9, 0.99), (0.9, 0.99, 1.0), (0.9, 0.99, "x"), 0.9, None), "beta"),
        "alpha": ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER), "gain|alpha"),
        "ramp": ((0, -1, math.nan, "x", 0.5), "ramp|steps"),
    },
    ADana: {
        **COMMON,
        "eps": EPS,
        "delta": ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER, 0.0), "delta|degree"),
        "kappa": ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER, 1.5), "kappa"),
        "omega": ((*NOT_FINITE_OR_NEGATIVE, *NOT_A_NUMBER), "omega"),
    },
}


# --- parameters, gradients, training ---------------------------------------------------------------------------------

SHAPES = ((), (1,), (7,), (4, 5), (2, 3, 4), (33,))


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers, the same in every precision."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def some_params(
    shapes: Iterable[tuple[int, ...]] = SHAPES, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> list[Parameter]:
    return [Parameter(random(*shape, seed=seed + i, dtype=dtype)) for i, shape in enumerate(shapes)]


def some_gradients(params: Sequence[Tensor], steps: int, *, seed: int = 100) -> list[list[Tensor]]:
    return [
        [random(*p.shape, seed=seed + 1000 * k + i, dtype=p.dtype) for i, p in enumerate(params)] for k in range(steps)
    ]


def train(optimizer: torch.optim.Optimizer, params: Sequence[Tensor], gradients: Gradients) -> None:
    """Take one step with each row of gradients; one that is None leaves its parameter out of the step."""
    for row in gradients:
        for p, g in zip(params, row, strict=True):
            p.grad = None if g is None else g.clone()
        optimizer.step()


def trained(row: Row, steps: int = 6, *, dtype: torch.dtype = torch.float64, **options: Any) -> Any:
    """Parameters and optimizer after some steps."""
    params = some_params(dtype=dtype)
    optimizer = row.make(params, **options)
    train(optimizer, params, some_gradients(params, steps))
    return params, optimizer


def values(tensors: Iterable[Tensor]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """All entries in one array, in double precision."""
    flat = [torch.view_as_real(t.detach()) if t.is_complex() else t.detach() for t in tensors]
    return np.concatenate([t.to(torch.float64).reshape(-1).numpy() for t in flat])


def same(ours: Iterable[Tensor], theirs: Iterable[Tensor]) -> bool:
    """Whether tensors are equal bit for bit."""
    return all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def given_gradients(gradients: Sequence[Sequence[Tensor]], i: int) -> Callable[[Any, int], Any]:
    """The gradients of parameter i as an oracle for the references."""
    return lambda x, k: gradients[k][i].double().numpy()
