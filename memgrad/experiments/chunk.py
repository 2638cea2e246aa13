"""What a batch of runs leaves behind: its rows, and where, when and how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from memgrad.experiments.runs import Run


@final
@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of some runs that were trained together.

    Attributes:
        runs: The runs.
        digest: The run of each row.
        step: The number of steps that were taken before it.
        metric: What was measured.
        value: The number.
        diverged: The runs, by digest, that left the finite numbers, and the step at which that was seen. They have no
            rows from then on.
        about: Versions, commit, machine, wall and CPU time: whatever is to be known, as plain data.
    """

    runs: tuple[Run, ...]
    digest: NDArray[Any]
    step: NDArray[np.int64]
    metric: NDArray[Any]
    value: NDArray[np.float64]
    diverged: Mapping[str, int]
    about: Mapping[str, Any]

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The rows, column by column."""
        return {"digest": self.digest, "step": self.step, "metric": self.metric, "value": self.value}


def chunk_of(
    runs: Sequence[Run],
    steps: Sequence[int],
    values: Mapping[str, NDArray[np.float64]],
    diverged: Mapping[str, int],
    about: Mapping[str, Any],
) -> Chunk:
    """A chunk from what was measured.

    Args:
        runs: The runs.
        steps: The steps at which they were evaluated.
        values: For each metric its values, (steps, runs); nan where there is none, such as a step before the first.
        diverged: The step at which a run left the finite numbers, by digest.
        about: Whatever is to be known.
    """
    digests = np.array([run.digest for run in runs])
    at = np.asarray(steps, dtype=np.int64)
    last = np.array([diverged.get(run.digest, np.iinfo(np.int64).max) for run in runs])
    columns: dict[str, list[NDArray[Any]]] = {"digest": [], "step": [], "metric": [], "value": []}
    for i, digest in enumerate(digests):
        for metric, table in values.items():
            kept = np.isfinite(table[:, i]) & (at < last[i])
            columns["digest"].append(np.full(kept.sum(), digest))
            columns["step"].append(at[kept])
            columns["metric"].append(np.full(kept.sum(), metric))
            columns["value"].append(table[kept, i])
    joined = {name: np.concatenate(parts) if parts else np.array([]) for name, parts in columns.items()}
    return Chunk(tuple(runs), **joined, diverged=dict(diverged), about=dict(about))
