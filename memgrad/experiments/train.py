"""Train a batch of runs from its start or a checkpoint to its end, and tell of it on the way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memgrad.experiments.alone import Alone
from memgrad.experiments.checkpoint import Checkpoint
from memgrad.experiments.chunk import Chunk, chunk_of
from memgrad.experiments.events import Evaluated, Event, Finished, Progressed, Saved, Stopped
from memgrad.experiments.provenance import provenance
from memgrad.experiments.runs import Run
from memgrad.experiments.stack import Stack
from memgrad.problems import Problem
from memgrad.problems.problem import STEP_NORM

CHECK = 100
"""Every so many steps, and when it is evaluated, a run is looked at: whether it is still among the finite numbers."""

TELL = 0.25
"""At most so often, in seconds, progress is told of."""

PICTURES = 10
"""Of so many test examples, the first ones, runs with the seed 0 leave the pictures they make in the end, if any."""

PIXEL = "pixel_{}_{}"
"""The metric of a pixel of a picture, both counted from 0. No experiment asks for it: it costs next to nothing."""


@final
@dataclass
class Training:
    """A batch of runs on its way.

    Args:
        problem: The problem.
        runs: Runs on it that differ in method, step size and seed only. More than one need optimizers with a rule.
        checkpoint: Where to continue, if not at the start.
    """

    problem: Problem
    runs: tuple[Run, ...]
    checkpoint: Checkpoint | None = None
    k: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._method = Stack(self.problem, self.runs) if len(self.runs) > 1 else Alone(self.problem, self.runs[0])
        self._evaluate_at = self.runs[0].evaluate_at
        self._metrics = self.runs[0].metrics
        self._times = {metric: frozenset(self.runs[0].evaluated_at(metric)) for metric in self._metrics}
        self._values: dict[str, list[NDArray[np.float64]]] = {metric: [] for metric in self._metrics}
        self._diverged: dict[str, int] = {}
        self._before: tuple[float, float] = (0.0, 0.0)
        self._previous: list[Tensor] | None = None
        if self.checkpoint is not None:
            saved = self.checkpoint
            self.k, self._diverged, self._before = saved.k, dict(saved.diverged), (saved.wall, saved.cpu)
            self._values = {metric: list(saved.values[metric]) for metric in self._metrics}
            self._method.load(dict(saved.state))
        self._started = time.perf_counter(), time.process_time()

    def events(self, *, save_every: float = math.inf, stop: Callable[[], bool] | None = None) -> Iterator[Event]:
        """Train to the end.

        Args:
            save_every: Seconds between checkpoints.
            stop: Asked at every step; when true, a checkpoint is made and training stops.
        """
        times = set(self._evaluate_at)
        told = saved = time.monotonic()
        if self.k == 0:
            yield self.evaluate()
        while self.k < self.runs[0].steps and len(self._diverged) < len(self.runs):
            evaluates = self.k + 1 in times
            self._previous = self._copied() if self.k + 1 in self._times.get(STEP_NORM, ()) else None
            self.step()
            if evaluates:
                yield self.evaluate()
            elif self.k % CHECK == 0:
                self._look()
            now = time.monotonic()
            if stop is not None and stop():
                yield Saved(self.k, self.save())
                yield Stopped(self.k)
                return
            if now - saved > save_every:
                saved = now
                yield Saved(self.k, self.save())
            if now - told > TELL:
                told = now
                yield Progressed(self.k)
        yield Finished(self._chunk())

    def step(self) -> None:
        """Take the next step of all runs."""
        self._method.step(self.k)
        self.k += 1

    def evaluate(self, metrics: Collection[str] | None = None) -> Evaluated:
        """Evaluate the metrics of all runs whose time it is, or those given; and look which runs have diverged."""
        self._look()
        due = [m for m in self._metrics if (self.k in self._times[m] if metrics is None else m in metrics)]
        asked = [metric for metric in due if metric != STEP_NORM]
        found: dict[str, Any] = self._method.evaluate(asked) if asked else {}
        if STEP_NORM in due:
            found[STEP_NORM] = self._step_norm()
        values = {metric: self._in_order(found[metric]) for metric in due}
        for metric in self._metrics:
            self._values[metric].append(values[metric] if metric in values else np.full(len(self.runs), np.nan))
        if "loss" in values:
            self._mark(~np.isfinite(values["loss"]))
        return Evaluated(self.k, values)

    @property
    def nbytes(self) -> int:
        """The memory that the parameters of all runs take."""
        return sum(p.nbytes for p in self._method.parameters.values())

    def save(self) -> bytes:
        """A checkpoint."""
        wall, cpu = self._spent()
        tables = {metric: self._table(metric) for metric in self._metrics}
        return Checkpoint(self.runs, self.k, self._method.state(), tables, self._diverged, wall, cpu).to_bytes()

    # --- inside ------------------------------------------------------------------------------------------------------

    def _copied(self) -> list[Tensor]:
        return [p.clone() for p in self._method.parameters.values()]

    def _step_norm(self) -> Tensor:
        """The length of the step that led here, of each run; not a number at the start."""
        if self._previous is None:
            return torch.full((len(self.runs),), math.nan)
        now = self._method.parameters.values()
        squares = [(p - q).reshape(len(p), -1).square().sum(1) for p, q in zip(now, self._previous, strict=True)]
        return torch.stack(squares).sum(0).sqrt()

    def _look(self) -> None:
        largest = torch.stack([p.reshape(len(p), -1).abs().amax(1) for p in self._method.parameters.values()])
        self._mark(~np.isfinite(self._in_order(largest.amax(0))))

    def _mark(self, gone: NDArray[np.bool_]) -> None:
        for i in np.flatnonzero(gone):
            self._diverged.setdefault(self.runs[i].digest, self.k)

    def _in_order(self, found: Tensor) -> NDArray[np.float64]:
        """Numbers of all runs in the order of the batch; the method may keep them in another."""
        values = np.empty(len(self.runs))
        values[list(self._method.order)] = found.detach().double().cpu().numpy()
        return values

    def _table(self, metric: str) -> NDArray[np.float64]:
        return np.array(self._values[metric]).reshape(-1, len(self.runs))

    def _spent(self) -> tuple[float, float]:
        wall, cpu = self._started
        return self._before[0] + time.perf_counter() - wall, self._before[1] + time.process_time() - cpu

    def _pictures(self, seen: int) -> dict[str, NDArray[np.float64]]:
        """What models make of some test examples in the end, a metric a pixel; nan where there is no picture."""
        problem, shown = self.problem, [i for i, run in enumerate(self.runs) if run.seed == 0]
        if problem.reconstruct is None or problem.test is None or self.k < self.runs[0].steps or not shown:
            return {}
        inputs, order = problem.test[0][:PICTURES], list(self._method.order)
        found: dict[str, NDArray[np.float64]] = {}
        for i in shown:
            own = {name: p[order.index(i)] for name, p in self._method.parameters.items()}
            pixels = problem.reconstructions(own, inputs).flatten(1).double().cpu().numpy()
            for place, value in np.ndenumerate(pixels):
                empty = np.full((seen, len(self.runs)), np.nan)
                found.setdefault(PIXEL.format(*place), empty)[-1, i] = value
        return found

    def _chunk(self) -> Chunk:
        wall, cpu = self._spent()
        tables = {metric: self._table(metric) for metric in self._metrics}
        seen = len(next(iter(tables.values())))
        tables |= self._pictures(seen)
        about = {**provenance(), "device": str(self.problem.device), "wall_seconds": wall, "cpu_seconds": cpu}
        return chunk_of(self.runs, self._evaluate_at[:seen], tables, self._diverged, about)
