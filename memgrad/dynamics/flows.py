"""Flows by name, the expected time of simulating them, and their summaries as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from memgrad.dynamics.equations import Equation, HeavyBallFlow, MemoryFlow
from memgrad.dynamics.first_order import AmplifiedFlow, GradientFlow
from memgrad.dynamics.results import Ensemble
from memgrad.memory import Memory

# On one core of the machine of docs/dynamics.md, in seconds.
STEP_COST, PATH_COST = 20e-6, 20e-9
"""The cost of one step of a flow, and the additional cost per coordinate of each path."""


def parse_flow(text: str, gradient: Callable[[Any], Any], *, noise: Any = 0.0, hessian: Any = None) -> Equation:
    """The flow with this name: a memory (`poly:3`), a heavy ball's viscosity (`3/t`, `0.5`), `gd`, or `amplified`.

    Args:
        text: The name.
        gradient: The gradient of f, as for any `Equation`.
        noise: The volatility, as for any `Equation`.
        hessian: The Hessian of f, if f is a quadratic.

    Example:
        >>> [type(parse_flow(text, lambda x: x)).__name__ for text in ("poly:3", "3/t", "0.5", "gd", "amplified")]
        ['MemoryFlow', 'HeavyBallFlow', 'HeavyBallFlow', 'GradientFlow', 'AmplifiedFlow']
    """
    given: dict[str, Any] = {"gradient": gradient, "noise": noise, "hessian": hessian}
    if text in ("gd", "amplified"):
        return (GradientFlow if text == "gd" else AmplifiedFlow)(**given)
    if text.endswith("/t") or _is_number(text):
        return HeavyBallFlow(text, **given)
    try:
        memory = Memory.parse(text)
    except ValueError as error:
        raise ValueError(
            f"{error} A flow is a memory, a heavy ball's viscosity as a number or q/t (Nesterov's is 3/t), gd or "
            f"amplified."
        ) from None
    return MemoryFlow(memory, **given)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def expected_seconds(flows: int, *, steps: float, paths: int, dimension: int) -> float:
    """The approximate number of seconds that a simulation of several flows takes on one core.

    Example:
        >>> round(expected_seconds(2, steps=10_000, paths=1000, dimension=2), 6)
        1.2
    """
    return steps * flows * (STEP_COST + PATH_COST * dimension * paths)


def joint_columns(ensembles: Mapping[str, Ensemble]) -> dict[str, Any]:
    """The summaries of several ensembles, by name, as one table: the column `flow`, then those of each ensemble."""
    tables = {name: ensemble.columns() for name, ensemble in ensembles.items()}
    names = list(next(iter(tables.values())))
    joint = {column: np.concatenate([table[column] for table in tables.values()]) for column in names}
    return {"flow": np.repeat(list(tables), [len(table["t"]) for table in tables.values()]), **joint}
