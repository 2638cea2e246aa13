"""Values that hold others, such as lists of tensors, as JSON with the tensors beside it: for checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

PLAIN = bool | int | float | str | None


class UnsavableError(TypeError):
    """A value that a checkpoint cannot hold."""


def packed(value: Any, tensors: list[Tensor]) -> Any:
    """A value as plain data, in which tensors are places in a list, to which they are appended.

    Example:
        >>> packed([1.5, (None, "a")], [])
        {'list': [1.5, {'tuple': [None, 'a']}]}
    """
    if isinstance(value, np.generic):
        return {"numpy": [str(value.dtype), value.item()]}
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Tensor):
        tensors.append(value.detach())
        return {"tensor": len(tensors) - 1}
    if type(value) in (list, tuple):
        return {type(value).__name__: [packed(each, tensors) for each in value]}
    if type(value) is dict and all(isinstance(key, str | int) for key in value):
        return {"dict": [[key, packed(each, tensors)] for key, each in value.items()]}
    raise UnsavableError(f"{type(value).__name__} values cannot be kept in a checkpoint")


def unsavable(value: Any) -> str | None:
    """Why a checkpoint cannot hold a value; None if it can.

    Example:
        >>> unsavable([1.5, {"a": None}])
        >>> unsavable([print])
        'builtin_function_or_method values cannot be kept in a checkpoint'
    """
    try:
        packed(value, [])
    except UnsavableError as error:
        return str(error)
    return None


def unpacked(plain: Any, tensors: Sequence[Tensor]) -> Any:
    """The inverse of `packed`.

    Example:
        >>> unpacked(packed({"a": [1, (2.0, True)]}, []), [])
        {'a': [1, (2.0, True)]}
    """
    if not isinstance(plain, dict):
        return plain
    (kind, content), *_ = plain.items()
    if kind == "numpy":
        return np.dtype(content[0]).type(content[1])
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: unpacked(each, tensors) for key, each in content}
    items = [unpacked(each, tensors) for each in content]
    return tuple(items) if kind == "tuple" else items
