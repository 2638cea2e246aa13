"""What a batch of runs tells of while it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from memgrad.experiments.chunk import Chunk


@final
@dataclass(frozen=True)
class Progressed:
    """Steps were taken: `k` in all."""

    k: int


@final
@dataclass(frozen=True, eq=False)
class Evaluated:
    """Metrics were evaluated after `k` steps: for each an array with one number a run, in the order of the batch."""

    k: int
    values: Mapping[str, NDArray[np.float64]]


@final
@dataclass(frozen=True, eq=False)
class Saved:
    """A checkpoint to be kept, at `k` steps."""

    k: int
    checkpoint: bytes


@final
@dataclass(frozen=True)
class Stopped:
    """Asked to stop, the batch has stopped at `k` steps, after a checkpoint."""

    k: int


@final
@dataclass(frozen=True, eq=False)
class Finished:
    """All steps were taken."""

    chunk: Chunk


@final
@dataclass(frozen=True)
class Failed:
    """The problem or the optimizer raised an error, which a second try would raise again."""

    message: str


@final
@dataclass(frozen=True)
class Lost:
    """Whoever trained the batch is gone: killed, out of memory, or its machine is down."""

    reason: str


Event = Progressed | Evaluated | Saved | Stopped | Finished | Failed | Lost
