"""The paper's experiments on real data, as specifications at several scales."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from memgrad.suggestions import did_you_mean

if TYPE_CHECKING:
    from memgrad.experiments.planning.spec import Spec

PROBLEMS: Mapping[str, str] = MappingProxyType(
    {
        "covtype": "Covtype Logreg",
        "autoencoder": "MNIST Autoencoder",
        "mlp": "FashionMNIST MLP",
        "cnn": "CIFAR-10 CNN",
    }
)
"""The paper's four problems, in its order, and what it calls them."""

NETWORKS = ("autoencoder", "mlp", "cnn")
SETTINGS = ("mini", "full")
"""Minibatches, and all examples at every step."""


def in_both_settings(*problems: str) -> tuple[str, ...]:
    """The names of the experiments on these problems, in minibatches and in full batches.

    Example:
        >>> in_both_settings("covtype")
        ('covtype-mini', 'covtype-full')
    """
    return tuple(f"{problem}-{setting}" for problem in problems for setting in SETTINGS)


POLYADAM = "polyadam"
EXPERIMENTS = (*in_both_settings(*PROBLEMS), POLYADAM)
"""The names of all experiments on real data."""

GRID = (1.0, 0.1, 0.05, 0.01, 0.005, 0.001, 5e-4, 1e-4, 5e-5, 1e-5)
"""The step sizes that the paper tries for SGD and heavy ball."""


HB_AT_SGDS = "HB, SGD's lr"
"""Heavy ball at the step size that is best for SGD, which the paper's figures show: its label and, where it has runs of
its own, its name."""


@final
@dataclass(frozen=True)
class Scale:
    """The size of the paper's experiments.

    Attributes:
        name: `quick`, `laptop`, `workstation` or `paper`.
        about: A description in one line.
        decides: Whether it can decide claims on real data; a rehearsal cannot, whatever its numbers are.
    """

    name: str
    about: str
    decides: bool


@cache
def scales() -> Mapping[str, Scale]:
    """The scales by name, from small to large.

    Example:
        >>> {name: scale.decides for name, scale in scales().items()}
        {'quick': False, 'laptop': True, 'workstation': True, 'paper': True}
    """
    return MappingProxyType(
        {name: Scale(name, each["about"], each["decides"]) for name, each in read_table("scales.toml").items()},
    )


def experiment(name: str, scale: str = "paper") -> Spec:
    """An experiment of the paper at a scale.

    Args:
        name: One of `EXPERIMENTS`.
        scale: One of `scales()`.

    Example:
        >>> experiment("covtype-mini").steps, experiment("covtype-mini", "quick").steps
        (300000, 400)
        >>> experiment("mlp-mini", "laptops")
        Traceback (most recent call last):
        ...
        ValueError: unknown scale 'laptops'; did you mean 'laptop'? Known: quick, laptop, workstation, paper.
    """
    from memgrad.experiments.planning.spec import Spec  # here, because it loads torch

    known("experiment", name, EXPERIMENTS)
    known("scale", scale, scales())
    data = _at_the_papers_scale(name)
    changes = dict(read_table("scales.toml")[scale].get(name, {}))
    step_sizes, drawn = dict(changes.pop("lr", {})), changes.pop("drawn", None)
    when = {key: changes.pop(key) for key in ("times", "gradient_examples", "loss_examples") if key in changes}
    data["evaluate"] = {**data["evaluate"], **when}
    if unknown := step_sizes.keys() - {method["name"] for method in data["methods"]}:
        raise ValueError(
            f"scales.toml has step sizes for {', '.join(sorted(unknown))}, which {name} has no methods of."
        )
    data["methods"] = [
        {**method, "lr": step_sizes.get(method["name"], method.get("lr", list(GRID)))} for method in data["methods"]
    ]
    if drawn is not None:  # heavy ball at SGD's step size, which is compared with nothing
        heavy_ball = next(method for method in data["methods"] if method["name"] == "HB")
        data["methods"].append({**heavy_ball, "name": HB_AT_SGDS, "lr": "best of SGD", "seeds": drawn})
    return Spec.of({**data, **changes}, where=f"{name} at the scale {scale}")


def in_training_order(names: Iterable[str], scale: str) -> tuple[str, ...]:
    """Experiments in the order of scales.toml, where the cheap ones come first: what is complete early can be used.

    Example:
        >>> in_training_order(["autoencoder-mini", "mlp-mini"], "workstation")
        ('mlp-mini', 'autoencoder-mini')
    """
    first = [name for name in read_table("scales.toml")[scale] if name in EXPERIMENTS]
    return tuple(sorted(names, key=lambda name: first.index(name) if name in first else len(first)))


def _at_the_papers_scale(name: str) -> dict[str, Any]:
    """An experiment as plain data: the common part, its problem and its setting, the later overriding the earlier."""
    table = read_table("experiments.toml")
    problem, _, setting = name.rpartition("-")
    own = table[name] if name == POLYADAM else {**table[problem], **table[problem][setting]}
    return {"name": name, **table["common"], **{key: own[key] for key in own if key not in SETTINGS}}


def known(kind: str, name: str, names: Iterable[str]) -> str:
    """The name if it is one of `names`; otherwise an error that suggests the nearest.

    Example:
        >>> known("scale", "laptop", scales())
        'laptop'
    """
    names = list(names)
    if name not in names:
        raise ValueError(f"unknown {kind} {name!r}{did_you_mean(name, names)} Known: {', '.join(names)}.")
    return name


@cache
def read_table(file: str) -> Mapping[str, Any]:
    """The content of a TOML file of this folder."""
    return MappingProxyType(tomllib.loads((Path(__file__).parent / file).read_text(encoding="utf-8")))
