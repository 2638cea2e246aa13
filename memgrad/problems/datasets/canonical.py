"""Arrays in canonical form: the same bytes, hence the same SHA-256, whatever files they were read from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memgrad.problems.datasets.formats import Integers

Arrays = Mapping[str, Integers]
"""The arrays of a data set by name, as they are published: integers, not scaled, not split by us."""


@dataclass(frozen=True)
class Field:
    """One array of a data set: its name, its type as numpy writes it (such as `<i2` or `|u1`) and its shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size in memory."""
        return int(np.dtype(self.dtype).itemsize * np.prod(self.shape, dtype=np.int64))


def canonical(fields: Sequence[Field], arrays: Arrays) -> dict[str, Integers]:
    """The arrays in the order, type and memory layout of `fields`; values that would change are refused.

    Example:
        >>> canonical([Field("targets", "|u1", (2,))], {"targets": np.array([1, 7])})
        {'targets': array([1, 7], dtype=uint8)}
        >>> canonical([Field("targets", "|u1", (2,))], {"targets": np.array([-1, 1])})
        Traceback (most recent call last):
        ...
        ValueError: targets holds numbers from -1 to 1, which do not fit its type uint8.
    """
    missing = [field.name for field in fields if field.name not in arrays]
    if missing:
        raise ValueError(f"the arrays {', '.join(missing)} are missing; found: {', '.join(arrays) or 'none'}.")
    return {field.name: _as_field(field, arrays[field.name]) for field in fields}


def _as_field(field: Field, array: NDArray[np.generic]) -> Integers:
    if array.dtype.kind not in "iu":
        raise ValueError(f"{field.name} holds {array.dtype} values; it must hold the published integers, not scaled.")
    if array.shape != field.shape:
        raise ValueError(f"{field.name} has the shape {array.shape}; it must have {field.shape}.")
    dtype = np.dtype(field.dtype)
    if array.dtype != dtype and array.size:
        low, high, limits = int(array.min()), int(array.max()), np.iinfo(dtype)
        if low < limits.min or high > limits.max:
            raise ValueError(f"{field.name} holds numbers from {low} to {high}, which do not fit its type {dtype}.")
    return np.ascontiguousarray(array, dtype=dtype)


def digest(arrays: Arrays) -> str:
    """The SHA-256 of arrays: of the name, type, shape and bytes (little-endian, row by row) of each, in their order.

    Example:
        >>> digest({"targets": np.array([1, 7], dtype="u1")})[:16]
        '07aacb4a9a25937f'
    """
    sha = hashlib.sha256()
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        sha.update(f"{name} {little.dtype.str} {','.join(map(str, little.shape))}\n".encode())
        sha.update(little.data)
    return sha.hexdigest()
