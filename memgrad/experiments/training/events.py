"""The events of a run group while it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from memgrad.experiments.storing.chunk import Chunk


@final
@dataclass(frozen=True)
class Progressed:
    """Steps were taken: `k` in all."""

    k: int


@final
@dataclass(frozen=True, eq=False)
class Evaluated:
    """Metrics were evaluated after `k` steps: an array per metric, one number per run, in the order of the group."""

    k: int
    values: Mapping[str, NDArray[np.float64]]


@final
@dataclass(frozen=True, eq=False)
class Saved:
    """A checkpoint to be stored, after `k` steps."""

    k: int
    checkpoint: bytes


@final
@dataclass(frozen=True)
class Stopped:
    """The run group was asked to stop and did so after `k` steps, with a checkpoint."""

    k: int


@final
@dataclass(frozen=True, eq=False)
class Finished:
    """All steps were taken."""

    chunk: Chunk


@final
@dataclass(frozen=True)
class Failed:
    """The problem or the optimizer raised an error; another try would raise it again.

    If it was raised `in_training` rather than while the problem was loaded, other runs of the group may not raise it.
    """

    message: str
    in_training: bool = False


@final
@dataclass(frozen=True)
class Lost:
    """The worker died: it was killed, ran out of memory, or its machine is down."""

    reason: str


@final
@dataclass(frozen=True)
class Refused:
    """The worker's problem differs from the one the experiment was planned with: no run group can be trained."""

    message: str


Event = Progressed | Evaluated | Saved | Stopped | Finished | Failed | Lost | Refused
