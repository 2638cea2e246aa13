"""The whole state of a batch of runs as bytes, without pickle: tensors as NumPy arrays, the rest as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memgrad.experiments.runs import NUMERICS, Run

_ABOUT = "about"


@final
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a batch of runs has got to.

    Attributes:
        runs: The runs.
        k: How many steps were taken.
        state: What the next steps depend on: tensors and numbers by name.
        values: The metrics found so far, each (evaluations, runs).
        diverged: The runs that left the finite numbers, by digest, and when.
        wall: Seconds spent so far.
        cpu: Seconds of processor time spent so far.
    """

    runs: tuple[Run, ...]
    k: int
    state: Mapping[str, Any]
    values: Mapping[str, NDArray[np.float64]]
    diverged: Mapping[str, int]
    wall: float
    cpu: float

    def to_bytes(self) -> bytes:
        """The checkpoint as a NumPy archive."""
        arrays: dict[str, NDArray[Any]] = {}
        plain: dict[str, Any] = {}
        dtypes: dict[str, str] = {}
        for name, value in self.state.items():
            if isinstance(value, Tensor):
                dtypes[name] = str(value.dtype).removeprefix("torch.")
                # Bytes: NumPy lacks some of torch's precisions.
                flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
                arrays[f"state/{name}"] = flat
                plain[name] = list(value.shape)
            else:
                plain[name] = value
        for metric, table in self.values.items():
            arrays[f"values/{metric}"] = table
        about = {
            "numerics": NUMERICS,
            "runs": [run.as_dict() for run in self.runs],
            "k": self.k,
            "plain": plain,
            "dtypes": dtypes,
            "diverged": dict(self.diverged),
            "wall": self.wall,
            "cpu": self.cpu,
        }
        arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Checkpoint:
        """The checkpoint in an archive; a ValueError if it is not one, or not one of this version."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            about = json.loads(arrays.pop(_ABOUT).tobytes())
            if about["numerics"] != NUMERICS:
                raise ValueError("it is of another version of memgrad")
            state = {
                name: _tensor(arrays[f"state/{name}"], about["dtypes"][name], value)
                if name in about["dtypes"]
                else value
                for name, value in about["plain"].items()
            }
            values = {name.removeprefix("values/"): a for name, a in arrays.items() if name.startswith("values/")}
            runs = tuple(Run.from_dict(run) for run in about["runs"])
            return cls(runs, about["k"], state, values, about["diverged"], about["wall"], about["cpu"])
        except Exception as error:  # damaged archives are found out by zipfile, NumPy, its parsers, torch, ...
            raise ValueError(f"not a checkpoint: {error}") from error


def _tensor(flat: NDArray[np.uint8], dtype: str, shape: list[int]) -> Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    if flat.size == 0:  # a stack in which no run needs this average; torch views no empty tensor as another kind
        return torch.empty(shape, dtype=kind)
    return torch.from_numpy(flat.copy()).view(kind).reshape(shape)
