"""What an engine is: it trains run groups somewhere and reports their events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from memgrad.experiments.training.events import Event
from memgrad.experiments.training.train import Assignment


class Engine(Protocol):
    """Trains run groups. It stores nothing: checkpoints and rows are returned as events, for the caller to write."""

    @property
    def slots(self) -> int:
        """How many run groups it trains at once."""

    def start(self, assignment: Assignment) -> None:
        """Start training a run group. Called only while fewer than `slots` are in training."""

    def wait(self, seconds: float) -> Sequence[tuple[str, Event]]:
        """The events since the last call, each with the key of its run group; waits at most this long for one."""

    def stop(self) -> None:
        """Ask all run groups to stop with a checkpoint, as far as the engine can."""

    def close(self) -> None:
        """End everything at once."""


def check_device(device: str | None, *, here: bool) -> None:
    """Refuse a device that torch does not know, or, if training is `here`, one that this machine lacks."""
    if device is None:
        return
    try:
        known = torch.device(device)
    except (RuntimeError, ValueError) as error:
        why = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ValueError(
            f"the device must be one that torch knows, such as cpu, cuda or cuda:1, got {device!r} ({why})."
        ) from error
    try:
        if known.type == "cuda":  # counting, unlike trying, takes no memory of the device
            if here and (known.index or 0) >= (count := torch.cuda.device_count()):
                raise RuntimeError(f"torch sees {count} CUDA devices here")
        elif here or known.type == "meta":
            torch.zeros(1, device=known).cpu()
    except Exception as error:  # each kind of device has its own errors
        why = str(error).partition("\n")[0].partition(". ")[0].rstrip(".")
        raise ValueError(f"the device {device!r} cannot be used on this machine: {why}.") from error
