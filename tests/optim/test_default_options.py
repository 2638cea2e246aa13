"""The defaults of every optimizer: those of its paper, of `torch.optim`, and off for what must be asked for."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from memgrad import optim
from memgrad.memory import Exponential, Polynomial
from memgrad.optim import reference

ASKED_FOR = {"maximize": False, "foreach": None, "fused": None, "capturable": False, "differentiable": False}
COMMON = {"lr": 1e-3, **ASKED_FOR, "state_dtype": None, "compiled": False}
L2 = {"weight_decay": 0.0, "decoupled_weight_decay": False}
DEFAULTS: dict[str, dict[str, Any]] = {
    "MemSGD": {"memory": Polynomial(2), **L2},
    "MemAdam": {"memory": Exponential(0.9), "second_memory": Polynomial(4), "eps": 1e-8}
    | {"weight_decay": 0.0, "decoupled_weight_decay": True},
    "PolyAdam": {"p": 4.0, "beta": 0.9, "eps": 1e-8, "weight_decay": 0.0},
    "HeavyBall": {"momentum": None, "viscosity": None, **L2},
    "QHM": {"nu": 0.7, "beta": 0.999, **L2},  # Ma and Yarats
    "AggMo": {"betas": (0.0, 0.9, 0.99), **L2},  # Lucas et al.
    "AdEMAMix": {"betas": (0.9, 0.999, 0.9999), "alpha": 5.0, "ramp": None, "eps": 1e-8, "weight_decay": 0.0},
    "ADana": {"delta": 8.0, "kappa": 0.85, "omega": 0.0, "through_lr": False, "eps": 1e-8},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_optimizer_has_its_documented_defaults(name: str) -> None:
    parameters = inspect.signature(getattr(optim, name)).parameters
    found = {each: value.default for each, value in parameters.items() if each != "params"}
    assert found == {**COMMON, **DEFAULTS[name]}


# What a reference leaves out is what its paper takes, which is not always the default of the optimizer: omega is 4.
OF_REFERENCES: dict[str, dict[str, Any]] = {
    "memsgd": {"weight_decay": 0.0},
    "memadam": {"eps": 1e-8, "weight_decay": 0.0, "decoupled_weight_decay": True},
    "heavy_ball": {"momentum": 0.9, "viscosity": None},
    "nesterov": {"momentum": 0.9, "viscosity": None},
    "adana": {"delta": 8.0, "kappa": 0.85, "omega": 4.0, "through_lr": False, "eps": 1e-8},
    "follow": {"peak_lr": None},
}


@pytest.mark.parametrize("name", OF_REFERENCES)
def test_a_reference_has_its_documented_defaults(name: str) -> None:
    parameters = inspect.signature(getattr(reference, name)).parameters
    found = {each: value.default for each, value in parameters.items() if value.default is not inspect.Parameter.empty}
    assert found == OF_REFERENCES[name]
