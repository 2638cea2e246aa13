"""One single-threaded process per core."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, final

from memgrad.experiments.choice import ProblemChoice
from memgrad.experiments.engines.engine import Task, train
from memgrad.experiments.events import Event, Failed, Finished, Lost, Stopped
from memgrad.problems import Problem

ENDS = (Finished, Stopped, Failed, Lost)
"""The events after which a worker is free."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection[Any, Any]
    key: str | None = None


@final
class LocalEngine:
    """Processes on this machine. One that dies is noticed, and another takes its place.

    Args:
        workers: How many; by default as many as there are cores for this process.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"the number of workers is at least 1, got {workers}.")
        self._slots = workers or usable_cores()
        self._workers: list[_Worker] = []

    @property
    def slots(self) -> int:
        """How many batches are trained at once."""
        return self._slots

    def start(self, task: Task) -> None:
        """Give a batch to a worker that is free, or to a new one."""
        worker = next((w for w in self._workers if w.key is None), None) or self._hire()
        worker.key = task.batch.key
        with suppress(OSError):  # it has died meanwhile, which `wait` will see
            worker.pipe.send(task)

    def wait(self, seconds: float) -> Sequence[tuple[str, Event]]:
        """The events of all workers; those of one that died end with `Lost`."""
        found: list[tuple[str, Event]] = []
        handles = {handle: w for w in self._workers for handle in (w.pipe, w.process.sentinel)}
        for worker in {id(handles[h]): handles[h] for h in wait(list(handles), seconds)}.values():  # type: ignore[index]
            found += self._listen(worker)
        return found

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
        with _without_interrupts(), _single_threaded():
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
        except (EOFError, OSError):  # its end of the pipe is closed: it is dying
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
    """What a worker does: take tasks until whoever gives them is gone."""
    import torch

    # Clusters send SIGTERM to all processes of a job: whoever gives the tasks hears it and asks to stop, and a worker
    # that nobody asks any more leaves by itself.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    torch.set_num_threads(1)
    loaded: tuple[ProblemChoice, str | None, Problem] | None = None
    try:
        while True:
            task = pipe.recv()
            if task is None:  # asked to stop when it had already
                continue
            try:
                if loaded is None or loaded[:2] != (task.choice, task.device):
                    loaded = None  # before the next: two data sets may not fit
                    loaded = (task.choice, task.device, task.choice.load(task.device))
            except Exception as error:
                pipe.send(Failed(str(error)))
                continue
            for event in train(task, loaded[2], _Asked(pipe)):
                pipe.send(event)
    except (EOFError, OSError):  # nobody is there to give tasks or to take events
        return


class _Asked:
    """Whether whoever gives the tasks has asked to stop; looks at most ten times a second."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        self._pipe, self._looked = pipe, time.monotonic()

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._looked < 0.1:
            return False
        self._looked = now
        return self._pipe.poll() and self._pipe.recv() is None


def _cause(exitcode: int | None) -> str:
    if exitcode is None or exitcode >= 0:
        return f"its process ended with exit code {exitcode}"
    known = {number.value: number.name for number in signal.Signals}
    name = known.get(-exitcode, f"signal {-exitcode}")
    return f"its process was ended by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started here do not hear Ctrl-C, which a terminal sends to all: they are asked to stop instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Processes started here compute on one thread each, from the moment their libraries load."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
