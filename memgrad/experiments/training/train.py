"""Train a run group from its start or a checkpoint to its end, and report events on the way."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memgrad.deprecation import renamed
from memgrad.experiments.planning.plan import RunGroup
from memgrad.experiments.planning.problem_choice import ProblemChoice
from memgrad.experiments.planning.runs import Run, average_in
from memgrad.experiments.storing.chunk import Chunk, chunk_of
from memgrad.experiments.storing.provenance import provenance
from memgrad.experiments.training.alone import Alone
from memgrad.experiments.training.averages import Averages
from memgrad.experiments.training.checkpoint import Checkpoint
from memgrad.experiments.training.events import Evaluated, Event, Failed, Finished, Progressed, Saved, Stopped
from memgrad.experiments.training.nested import UnsavableError
from memgrad.experiments.training.stack import Stack
from memgrad.problems import Problem
from memgrad.problems.problem import STEP_NORM
from memgrad.user_code import contained, described

logger = logging.getLogger(__name__)

CHECK_EVERY = 100
"""A run is checked for divergence every this many steps, and when it is evaluated."""

REPORT_EVERY = 0.25
"""The shortest time between reports of progress, in seconds."""

PICTURES = 10
"""Runs with seed 0 store their final reconstructions of this many test examples, the first ones, if they make any."""

PIXEL = "pixel_{}_{}"
"""The metric of a pixel of a picture, both counted from 0. It is always stored, since it costs next to nothing."""


@final
@dataclass(frozen=True, eq=False)
class Assignment:
    """What a worker is given: a run group, its problem, and where to start.

    Attributes:
        group: The run group.
        problem_choice: The problem of its runs.
        device: Where to train, such as cuda; None for where the data are.
        checkpoint: Where to resume; None to start from the beginning.
        save_every: Seconds between checkpoints.
        parts: The digests of the problem's data and initial parameters that the experiment was planned with; empty for
            a built-in problem.
    """

    group: RunGroup
    problem_choice: ProblemChoice
    device: str | None = None
    checkpoint: bytes | None = None
    save_every: float = 120.0
    parts: tuple[tuple[str, str], ...] = ()

    batch = renamed("batch", "group")
    choice = renamed("choice", "problem_choice")


def train(assignment: Assignment, problem: Problem, stop: Callable[[], bool] | None = None) -> Iterator[Event]:
    """Train a run group on a loaded problem; an error in it becomes an event."""
    try:
        with contained():
            training = _training(assignment, problem)
            yield from training.events(save_every=assignment.save_every, stop=stop)
    except Exception as error:
        yield Failed(described(error), in_training=True)


def _training(assignment: Assignment, problem: Problem) -> Training:
    if assignment.checkpoint is not None:
        try:
            return Training(problem, assignment.group.runs, Checkpoint.from_bytes(assignment.checkpoint))
        except Exception:  # from another version, for example: starting again beats failing every time
            logger.warning("The checkpoint %s does not fit its runs; they start again.", assignment.group.key)
    return Training(problem, assignment.group.runs)


@final
@dataclass
class Training:
    """A run group in training.

    Args:
        problem: The problem.
        runs: Runs on it that differ in method, step size and seed only; several must all have a method.
        checkpoint: Where to resume; None to start from the beginning.
    """

    problem: Problem
    runs: tuple[Run, ...]
    checkpoint: Checkpoint | None = None
    k: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._program = Stack(self.problem, self.runs) if len(self.runs) > 1 else Alone(self.problem, self.runs[0])
        self._averages = Averages(self.runs[0].metrics, self._program.parameters)
        self._evaluate_at = self.runs[0].evaluate_at
        self._metrics = self.runs[0].metrics
        self._times = {metric: frozenset(self.runs[0].evaluated_at(metric)) for metric in self._metrics}
        self._values: dict[str, list[NDArray[np.float64]]] = {metric: [] for metric in self._metrics}
        self._diverged: dict[str, int] = {}
        self._before: tuple[float, float] = (0.0, 0.0)
        self._previous: list[Tensor] | None = None
        self._unsavable = False
        if self.checkpoint is not None:
            saved = self.checkpoint
            self.k, self._diverged, self._before = saved.k, dict(saved.diverged), (saved.wall, saved.cpu)
            self._values = {metric: list(saved.values[metric]) for metric in self._metrics}
            self._program.load(dict(saved.state))
            self._averages.load(saved.state)
        self._started = time.perf_counter(), time.process_time()

    def events(self, *, save_every: float = math.inf, stop: Callable[[], bool] | None = None) -> Iterator[Event]:
        """Train to the end.

        Args:
            save_every: Seconds between checkpoints.
            stop: Called after every step; if true, training stops with a checkpoint.
        """
        times = set(self._evaluate_at)
        reported = saved = time.monotonic()
        if self.k == 0:
            yield self.evaluate()
        while self.k < self.runs[0].steps and len(self._diverged) < len(self.runs):
            evaluates = self.k + 1 in times
            measured = self.k + 1 in self._times.get(STEP_NORM, ())
            self._previous = [p.clone() for p in self._program.parameters.values()] if measured else None
            self.step()
            if evaluates:
                yield self.evaluate()
            elif self.k % CHECK_EVERY == 0:
                self._check_finite()
            now = time.monotonic()
            if stop is not None and stop():
                yield from self._saved()
                yield Stopped(self.k)
                return
            if now - saved > save_every:
                saved = now
                yield from self._saved()
            if now - reported > REPORT_EVERY:
                reported = now
                yield Progressed(self.k)
        yield Finished(self._chunk())

    def step(self) -> None:
        """Take the next step of all runs."""
        self._program.step(self.k)
        self._averages.update(self._program.parameters, self.k)
        self.k += 1

    def evaluate(self, metrics: Collection[str] | None = None) -> Evaluated:
        """Evaluate the metrics that are due, or those given, for all runs; and check which runs have diverged."""
        self._check_finite()
        due = [m for m in self._metrics if (self.k in self._times[m] if metrics is None else m in metrics)]
        asked = [metric for metric in due if metric != STEP_NORM and average_in(metric) is None]
        results: dict[str, Any] = self._program.evaluate(asked) if asked else {}
        for memory, metrics_of_it in self._averages.by_average(due).items():
            found = self._program.evaluate(list(metrics_of_it.values()), self._averages[memory])
            results |= {metric: found[plain] for metric, plain in metrics_of_it.items()}
        if STEP_NORM in due:
            results[STEP_NORM] = self._step_norm()
        values = {metric: self._in_group_order(results[metric]) for metric in due}
        for metric in self._metrics:
            self._values[metric].append(values[metric] if metric in values else np.full(len(self.runs), np.nan))
        for metric in ("loss", "validation_loss"):
            if metric in values:
                self._mark(~np.isfinite(values[metric]))
        return Evaluated(self.k, values)

    @property
    def nbytes(self) -> int:
        """The memory of the parameters of all runs."""
        return sum(p.nbytes for p in self._program.parameters.values())

    def _saved(self) -> Iterator[Event]:
        """A checkpoint, unless the optimizer keeps something that none can hold: training goes on without it."""
        try:
            state = self.save()
        except UnsavableError as error:
            if not self._unsavable:
                logger.warning("No checkpoint: %s. If it is stopped, this run starts again.", error)
            self._unsavable = True
        else:
            yield Saved(self.k, state)

    def save(self) -> bytes:
        """A checkpoint of the current state."""
        wall, cpu = self._spent()
        state = {**self._program.state(), **self._averages.state()}
        return Checkpoint(self.runs, self.k, state, self._tables(), self._diverged, wall, cpu).to_bytes()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _step_norm(self) -> Tensor:
        """The length of the last step of each run; nan at the start."""
        if self._previous is None:
            return torch.full((len(self.runs),), math.nan)
        now = self._program.parameters.values()
        squares = [(p - q).reshape(len(p), -1).square().sum(1) for p, q in zip(now, self._previous, strict=True)]
        return torch.stack(squares).sum(0).sqrt()

    def _check_finite(self) -> None:
        largest = torch.stack([p.reshape(len(p), -1).abs().amax(1) for p in self._program.parameters.values()])
        self._mark(~np.isfinite(self._in_group_order(largest.amax(0))))

    def _mark(self, diverged: NDArray[np.bool_]) -> None:
        for i in np.flatnonzero(diverged):
            self._diverged.setdefault(self.runs[i].digest, self.k)

    def _in_group_order(self, results: Tensor) -> NDArray[np.float64]:
        """One number per run in the order of the group, which may differ from the run order of a stack."""
        values = np.empty(len(self.runs))
        values[list(self._program.run_order)] = results.detach().double().cpu().numpy()
        return values

    def _tables(self) -> dict[str, NDArray[np.float64]]:
        return {metric: np.array(rows).reshape(-1, len(self.runs)) for metric, rows in self._values.items()}

    def _spent(self) -> tuple[float, float]:
        wall, cpu = self._started
        return self._before[0] + time.perf_counter() - wall, self._before[1] + time.process_time() - cpu

    def _pictures(self, seen: int) -> dict[str, NDArray[np.float64]]:
        """Reconstructions of some test examples by the trained models, one metric per pixel; nan if there is none."""
        problem, shown = self.problem, [i for i, run in enumerate(self.runs) if run.seed == 0]
        if problem.reconstruct is None or problem.test is None or self.k < self.runs[0].steps or not shown:
            return {}
        inputs, run_order = problem.test[0][:PICTURES], list(self._program.run_order)
        parameters = self._program.evaluated
        pictures: dict[str, NDArray[np.float64]] = {}
        for i in shown:
            own = {name: p[run_order.index(i)] for name, p in parameters.items()}
            pixels = problem.reconstructions(own, inputs).flatten(1).double().cpu().numpy()
            for place, value in np.ndenumerate(pixels):
                empty = np.full((seen, len(self.runs)), np.nan)
                pictures.setdefault(PIXEL.format(*place), empty)[-1, i] = value
        return pictures

    def _chunk(self) -> Chunk:
        wall, cpu = self._spent()
        tables = self._tables()
        seen = len(next(iter(tables.values())))
        tables |= self._pictures(seen)
        about = {**provenance(), "device": str(self.problem.device), "wall_seconds": wall, "cpu_seconds": cpu}
        return chunk_of(self.runs, self._evaluate_at[:seen], tables, self._diverged, about)
