"""Kinds of values: what kind an argument is, the type of arrays, and how a number is written in text forms."""

from __future__ import annotations

import math
import sys
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""An array of real numbers, the type of most results."""


def is_real(value: object) -> TypeGuard[float]:
    """Whether a value is one real number of Python or numpy. Booleans are not.

    Example:
        >>> is_real(2), is_real(np.float32(0.5)), is_real(True), is_real("2")
        (True, True, False, False)
    """
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def as_number(
    owner: str, name: str, value: object, *, least: float = -math.inf, excluded: bool = False, why: str = ""
) -> float:
    """A finite number >= `least` (or > `least`) as a float, or an error that names its owner, the rule and the value.

    Example:
        >>> as_number("a ramp", "steps", 0, least=1)
        Traceback (most recent call last):
        ...
        ValueError: a ramp needs a finite steps >= 1, got steps=0.
    """
    if not is_real(value):
        raise TypeError(f"{owner} needs a real number {name}, got {name}={value!r} of type {type(value).__name__}.")
    if not (math.isfinite(value) and (value > least if excluded else value >= least)):
        rule = "" if least == -math.inf else f" {'>' if excluded else '>='} {least:g}"
        raise ValueError(f"{owner} needs a finite {name}{rule}, got {name}={value!r}{': ' + why if why else ''}.")
    return float(value)


def is_torch(value: object) -> TypeGuard[Any]:
    """Whether a value is a torch tensor. Torch is not imported for it: a caller who has a tensor has imported torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def number_form(value: float) -> str:
    """A number in a text form: the shortest digits that read back to it, and no `.0`.

    Example:
        >>> number_form(2.0), number_form(0.1), number_form(1e-08)
        ('2', '0.1', '1e-08')
    """
    return repr(float(value)).removesuffix(".0")
