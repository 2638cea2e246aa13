"""The complete state of a run group as bytes, without pickle: tensors as NumPy arrays, the rest as JSON."""

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

from memgrad.experiments.planning.runs import NUMERICS, Run
from memgrad.experiments.training.nested import packed, unpacked

_ABOUT = "about"
FORMAT = 3
"""The format of states. A checkpoint in a format that is neither this nor that of 0.2.0 is not read: its runs start
again."""

FLAT_FORMAT = 2
"""The format of memgrad 0.2.0: tensors by the names of their entries, and no values that hold others."""


@final
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run group after some of its steps.

    Attributes:
        runs: The runs.
        k: The number of steps taken.
        state: What the next steps depend on, by name: tensors, numbers, texts, and lists and dictionaries of them.
        values: The metrics evaluated so far, each (evaluations, runs).
        diverged: The runs that diverged, by digest, and the step at which this was detected.
        wall: Wall time so far, in seconds.
        cpu: CPU time so far, in seconds.
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
        tensors: list[Tensor] = []
        state = {name: packed(value, tensors) for name, value in self.state.items()}
        # As bytes, because NumPy lacks some of torch's precisions.
        arrays: dict[str, NDArray[Any]] = {
            f"tensors/{i}": tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            for i, tensor in enumerate(tensors)
        }
        arrays |= {f"values/{metric}": table for metric, table in self.values.items()}
        about = {
            "numerics": NUMERICS,
            "format": FORMAT,
            "runs": [run.to_dict() for run in self.runs],
            "k": self.k,
            "state": state,
            "tensors": [[str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for tensor in tensors],
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
        """The checkpoint in an archive; ValueError if it is not one, or from another version."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            about = json.loads(arrays.pop(_ABOUT).tobytes())
            if about["numerics"] != NUMERICS or about.get("format") not in (FORMAT, FLAT_FORMAT):
                raise ValueError("it is from another version of memgrad")
            state = _flat_state(about, arrays) if about["format"] == FLAT_FORMAT else _state(about, arrays)
            values = {name.removeprefix("values/"): a for name, a in arrays.items() if name.startswith("values/")}
            runs = tuple(Run.from_dict(run) for run in about["runs"])
            return cls(runs, about["k"], state, values, about["diverged"], about["wall"], about["cpu"])
        except Exception as error:  # zipfile, NumPy, its parsers and torch each detect some damage
            raise ValueError(f"not a checkpoint: {error}") from error

    @staticmethod
    def steps_in(data: bytes) -> int:
        """The number of steps a checkpoint has taken, without reading its tensors; 0 if it is not a checkpoint."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                return int(json.loads(archive[_ABOUT].tobytes())["k"])
        except Exception:  # as above; resuming from it reports what is wrong
            return 0


def _state(about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    tensors = [_tensor(arrays[f"tensors/{i}"], *kind) for i, kind in enumerate(about["tensors"])]
    return {name: unpacked(value, tensors) for name, value in about["state"].items()}


def _flat_state(about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    plain, dtypes = about["plain"], about["dtypes"]
    tensors = {name: _tensor(arrays[f"state/{name}"], dtype, plain[name]) for name, dtype in dtypes.items()}
    return {**plain, **tensors}


def _tensor(flat: NDArray[np.uint8], dtype: str, shape: list[int]) -> Tensor:
    kind: torch.dtype = getattr(torch, dtype)
    if flat.size == 0:  # no run of the stack needs this average; torch cannot view an empty tensor as another type
        return torch.empty(shape, dtype=kind)
    return torch.from_numpy(flat.copy()).view(kind).reshape(shape)
