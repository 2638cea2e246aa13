"""The line to paste: how a method is written for torch and for optax."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memgrad import optim
from memgrad.experiments.planning.methods import Method


def lines_of(method: Method, lr: float) -> dict[str, str]:
    """The lines that make the optimizer of a method at a learning rate, by library.

    There is none for optax if the optimizer is not a method, as `Recipe.method` has it.

    Example:
        >>> lines = lines_of(Method(optimizer="MemAdam", lr=0.1, memory="poly:8", weight_decay=0.01), 3.2e-3)
        >>> print(lines["torch"])
        from memgrad import MemAdam
        optimizer = MemAdam(model.parameters(), lr=0.0032, memory="poly:8", weight_decay=0.01)
        >>> print(lines["optax"])
        from memgrad.transforms import from_method
        optimizer = from_method(0.0032, "poly:8 / (sqrt(poly:4) + 1e-08); decay=0.01")
    """
    lines = {"torch": _torch(method, lr)}
    rule = method.recipe.method
    if rule is not None:
        lines["optax"] = (
            f"from memgrad.transforms import from_method\noptimizer = from_method({lr:g}, {json.dumps(str(rule))})"
        )
    return lines


def _torch(method: Method, lr: float) -> str:
    given = "".join(f", {name}={_literal(value)}" for name, value in (method.model_extra or {}).items())
    place, colon, name = method.optimizer.rpartition(":")
    if colon:
        module = Path(place).stem if place.endswith(".py") else place
    else:
        module = "memgrad" if hasattr(optim, name) else "torch.optim"
    return f"from {module} import {name}\noptimizer = {name}(model.parameters(), lr={lr:g}{given})"


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)
