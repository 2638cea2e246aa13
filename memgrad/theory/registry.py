"""All bounds by name, with their arguments, so that a command line or a page can list and compute them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from memgrad.theory.bound import Bound
from memgrad.theory.continuous import exponential, instantaneous, polynomial
from memgrad.theory.discrete import discrete_master, memsgd
from memgrad.theory.heavy_ball import heavy_ball, heavy_ball_bounded, heavy_ball_gradient
from memgrad.theory.linear_rates import exponential_general, exponential_strongly_convex, heavy_ball_strongly_convex
from memgrad.theory.master import master
from memgrad.theory.quantities import QUANTITIES

FUNCTIONS: tuple[tuple[Callable[..., Bound], str], ...] = (
    (memsgd, "MemSGD-p on convex functions, last iterate"),
    (discrete_master, "the family that MemSGD-p comes from, any lambda_k, last iterate"),
    (polynomial, "MG-SDE with polynomial memory on convex functions, last point"),
    (exponential, "MG-SDE with exponential memory on convex functions, mean of the path"),
    (instantaneous, "the model of SGD on convex functions, mean of the path"),
    (master, "MG-SDE with any memory function on convex functions, last point"),
    (exponential_strongly_convex, "MG-SDE with exponential memory on strongly convex functions, last point"),
    (heavy_ball_strongly_convex, "HB-SDE on strongly convex functions, last point"),
    (exponential_general, "constant viscosity with quadratic growth in general, last point"),
    (heavy_ball, "heavy-ball on convex smooth functions, mean of the iterates"),
    (heavy_ball_bounded, "heavy-ball on convex functions with bounded gradients, mean of the iterates"),
    (heavy_ball_gradient, "heavy-ball on functions that need not be convex, smallest squared gradient"),
)

# The kind and the meaning of the parameters that are not single numbers.
OTHERS: Mapping[str, tuple[str, str]] = {
    "memory": ("memory", "a memory with a memory function m(t), or its text form"),
    "lambdas": ("numbers", "lambda_0 = 0, lambda_1, ..., each at most 1 above the one before"),
    "tight": ("flag", "whether to take the best constants that the proof allows"),
    "lam": ("code", "a function of time that solves lam' = a lam - 1"),
}


@dataclass(frozen=True)
class Parameter:
    """One argument of a bound.

    Args:
        name: Name of the argument.
        kind: `number`, `numbers` (one or several), `count` (an integer), `flag`, `memory`, or `code` (a function).
        meaning: What it is.
        domain: Its domain; empty if it is not a number.
        required: Whether it must be given.
        default: Its value if it is not given.
    """

    name: str
    kind: str
    meaning: str
    domain: str
    required: bool
    default: Any


@dataclass(frozen=True)
class Entry:
    """A bound in the list of all.

    Args:
        name: Name of the function in `memgrad.theory`.
        summary: What it is about, in one line.
        function: The function.
        parameters: Its arguments, in order.
    """

    name: str
    summary: str
    function: Callable[..., Bound]
    parameters: tuple[Parameter, ...]

    def compute(self, arguments: Mapping[str, Any]) -> Bound:
        """The bound for arguments by name, or an error that lists those that are unknown or missing.

        Example:
            >>> bounds()["instantaneous"].compute({"t": 10, "distance": 1, "noise": 0.5, "dimension": 2}).value
            0.3
        """
        known = [parameter.name for parameter in self.parameters]
        unknown = [name for name in arguments if name not in known]
        missing = [each.name for each in self.parameters if each.required and each.name not in arguments]
        if unknown or missing:
            wrong = [f"does not take {name}" for name in unknown] + [f"needs {name}" for name in missing]
            raise ValueError(f"the bound {self.name} {' and '.join(wrong)}; it takes {', '.join(known)}.")
        return self.function(**arguments)


@cache
def bounds() -> Mapping[str, Entry]:
    """All bounds by name, in the order in which a list should show them.

    Example:
        >>> list(bounds())[:3]
        ['memsgd', 'discrete_master', 'polynomial']
        >>> bounds()["memsgd"].parameters[1]
        Parameter(name='degree', kind='number', meaning='p, the degree of polynomial memory', domain='finite and > 0', \
required=True, default=None)
    """
    entries = {}
    for function, summary in FUNCTIONS:
        parameters = tuple(map(_parameter, inspect.signature(function).parameters.values()))
        entries[function.__name__] = Entry(function.__name__, summary, function, parameters)
    return entries


def _parameter(parameter: inspect.Parameter) -> Parameter:
    name, required = parameter.name, parameter.default is inspect.Parameter.empty
    default = None if required else parameter.default
    if name in OTHERS:
        kind, meaning = OTHERS[name]
        return Parameter(name, kind, meaning, "", required, default)
    quantity = QUANTITIES[name]
    kind = "numbers" if name in ("t", "k") else "count" if quantity.is_count else "number"
    return Parameter(name, kind, quantity.meaning, quantity.domain, required, default)
