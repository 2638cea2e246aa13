"""What an engine is: it trains batches somewhere, and tells what becomes of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from memgrad.experiments.checkpoint import Checkpoint
from memgrad.experiments.choice import ProblemChoice
from memgrad.experiments.events import Event, Failed
from memgrad.experiments.plan import Batch
from memgrad.experiments.train import Training
from memgrad.problems import Problem

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True, eq=False)
class Task:
    """A batch to be trained.

    Attributes:
        batch: The batch.
        choice: The problem of its runs.
        device: Where to train, such as cuda; None for where the data are.
        checkpoint: Where to continue, if not at the start.
        save_every: Seconds between checkpoints.
    """

    batch: Batch
    choice: ProblemChoice
    device: str | None = None
    checkpoint: bytes | None = None
    save_every: float = 120.0


class Engine(Protocol):
    """Trains batches. It keeps nothing: checkpoints and rows come back as events, to be written by who started it."""

    @property
    def slots(self) -> int:
        """How many batches it trains at once."""

    def start(self, task: Task) -> None:
        """Begin with a batch. Called only while fewer than `slots` are on their way."""

    def wait(self, seconds: float) -> Sequence[tuple[str, Event]]:
        """The events since the last call, each with the key of its batch; waits for one at most so long."""

    def stop(self) -> None:
        """Ask all batches to stop with a checkpoint, as far as the engine can."""

    def close(self) -> None:
        """End everything at once."""


def train(task: Task, problem: Problem, stop: Callable[[], bool] | None = None) -> Iterator[Event]:
    """The events of a task on a problem that was loaded; an error in it becomes one of them."""
    try:
        training = _training(task, problem)
        yield from training.events(save_every=task.save_every, stop=stop)
    except Exception as error:
        yield Failed(f"{type(error).__name__}: {error}")


def _training(task: Task, problem: Problem) -> Training:
    if task.checkpoint is not None:
        try:
            return Training(problem, task.batch.runs, Checkpoint.from_bytes(task.checkpoint))
        except Exception:  # another version's, say: anything but to fail again every time
            logger.warning("The checkpoint %s does not fit its runs; they start again.", task.batch.key)
    return Training(problem, task.batch.runs)
