"""One single-threaded process per core."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, final

from memgrad.experiments.planning.problem_choice import OtherProblemError, refuse_other
from memgrad.experiments.training.engines.engine import (
    Throttled,
    check_device,
    environment,
    handler_kept,
    prepare_worker,
)
from memgrad.experiments.training.events import Event, Failed, Finished, Lost, Refused, Stopped
from memgrad.experiments.training.train import Assignment, train
from memgrad.problems import Problem

ENDS = (Finished, Stopped, Failed, Lost, Refused)
"""The events after which a worker is free."""

LOOK = 0.1
"""The shortest time, in seconds, after which a worker looks again whether to stop."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Makes a new process use one thread, from the moment its libraries load."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection[Any, Any]
    key: str | None = None


@final
class LocalEngine:
    """One single-threaded process per core of this machine. A worker that dies is detected and replaced.

    Args:
        workers: The number of processes; by default the number of cores this process may use.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"the number of workers must be at least 1, got {workers}.")
        self._slots = workers or usable_cores()
        self._workers: list[_Worker] = []

    @property
    def slots(self) -> int:
        """How many run groups are trained at once."""
        return self._slots

    def start(self, assignment: Assignment) -> None:
        """Give a run group to a free worker, or to a new one."""
        check_device(assignment.device, here=True)
        worker = next((w for w in self._workers if w.key is None), None) or self._hire()
        worker.key = assignment.group.key
        with suppress(OSError):  # the worker has died, which `wait` will report
            worker.pipe.send(assignment)

    def wait(self, seconds: float) -> Sequence[tuple[str, Event]]:
        """The events of all workers; those of a worker that died end with `Lost`."""
        events: list[tuple[str, Event]] = []
        handles = {handle: w for w in self._workers for handle in (w.pipe, w.process.sentinel)}
        for worker in {id(handles[h]): handles[h] for h in wait(list(handles), seconds)}.values():  # type: ignore[index]
            events += self._listen(worker)
        return events

    def stop(self) -> None:
        """Ask all workers to stop with a checkpoint."""
        for worker in self._workers:
            if worker.key is not None:
                with suppress(OSError):
                    worker.pipe.send(None)

    def close(self) -> None:
        """Kill all workers."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()
        self._workers.clear()

    def _hire(self) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        # A terminal sends Ctrl-C to all processes; the engine asks its workers to stop instead.
        with handler_kept(signal.SIGINT, signal.SIG_IGN), environment(_ONE_THREAD):
            process.start()
        theirs.close()
        self._workers.append(worker := _Worker(process, ours))
        return worker

    def _listen(self, worker: _Worker) -> Iterator[tuple[str, Event]]:
        try:
            while worker.pipe.poll():
                event = worker.pipe.recv()
                if worker.key is None:
                    continue
                yield worker.key, event
                if isinstance(event, ENDS):
                    worker.key = None
        except (EOFError, OSError):  # its end of the pipe is closed: the worker is dying
            worker.process.join(5.0)
            worker.process.kill()
        if not worker.process.is_alive():
            self._workers.remove(worker)
            worker.process.join()
            if worker.key is not None:
                yield worker.key, Lost(_cause(worker.process.exitcode))
            worker.pipe.close()


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work(pipe: Connection[Any, Any]) -> None:
    """The loop of a worker process: train assignments until the engine exits."""
    # Clusters send SIGTERM to all processes of a job: the engine's process hears it and asks its workers to stop, and a
    # worker whose engine has exited ends by itself.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    prepare_worker()
    loaded: tuple[tuple[Any, ...], Problem] | None = None
    try:
        while True:
            assignment = pipe.recv()
            if assignment is None:  # asked to stop after it had finished
                continue
            try:
                # Its parts too: what a user's file reads may have changed since an earlier experiment.
                wanted = (assignment.problem_choice, assignment.device, assignment.parts)
                if loaded is None or loaded[0] != wanted:
                    loaded = None  # free it first: two data sets may not fit into memory
                    problem = assignment.problem_choice.load(assignment.device)
                    refuse_other(problem, assignment.parts)
                    loaded = (wanted, problem)
            except Exception as error:
                pipe.send(Refused(str(error)) if isinstance(error, OtherProblemError) else Failed(str(error)))
                continue
            for event in train(assignment, loaded[1], Throttled(lambda: pipe.poll() and pipe.recv() is None, LOOK)):
                pipe.send(event)
    except (EOFError, OSError):  # the engine has exited
        return


def _cause(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"its process ended with exit code {exitcode}"
    known = {number.value: number.name for number in signal.Signals}
    name = known.get(-exitcode, f"signal {-exitcode}")
    return f"its process was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
