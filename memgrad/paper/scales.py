"""The paper's experiments on real data, at three scales: what is run, as data."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, final

from memgrad.experiments.spec import Spec

FOLDER = Path(__file__).parent

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

POLYADAM = "polyadam"
EXPERIMENTS = (*(f"{problem}-{setting}" for problem in PROBLEMS for setting in SETTINGS), POLYADAM)
"""The names of all experiments on real data."""

GRID = (1.0, 0.1, 0.05, 0.01, 0.005, 0.001, 5e-4, 1e-4, 5e-5, 1e-5)
"""The step sizes that the paper tries for SGD and heavy ball."""


@final
@dataclass(frozen=True)
class Scale:
    """How large the paper's experiments are made.

    Attributes:
        name: `quick`, `laptop` or `paper`.
        about: What it is, in a line.
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
        {'quick': False, 'laptop': True, 'paper': True}
    """
    return MappingProxyType(
        {name: Scale(name, each["about"], each["decides"]) for name, each in _table().items()},
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
        ValueError: unknown scale 'laptops'. Did you mean 'laptop'? Known: quick, laptop, paper.
    """
    known("experiment", name, EXPERIMENTS)
    known("scale", scale, scales())
    path = FOLDER / "experiments" / f"{name}.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    changes = dict(_table()[scale].get(name, {}))
    step_sizes = dict(changes.pop("lr", {}))
    when = {key: changes.pop(key) for key in ("times", "gradient_examples") if key in changes}
    data["evaluate"] = {**data["evaluate"], **when}
    data["methods"] = [
        {**method, "lr": step_sizes.pop(method["name"], method["lr"])} if step_sizes else method
        for method in data["methods"]
    ]
    if step_sizes:
        raise ValueError(
            f"scales.toml has step sizes for {', '.join(step_sizes)}, which {path.name} has no methods of."
        )
    return Spec.of({**data, **changes}, where=f"{path.name} at the scale {scale}")


def known(kind: str, name: str, names: Iterable[str]) -> str:
    """The name, if it is one of `names`; else an error that says which is nearest.

    Example:
        >>> known("scale", "laptop", scales())
        'laptop'
    """
    names = list(names)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
    return name


@cache
def _table() -> Mapping[str, Any]:
    return MappingProxyType(tomllib.loads((FOLDER / "scales.toml").read_text(encoding="utf-8")))
