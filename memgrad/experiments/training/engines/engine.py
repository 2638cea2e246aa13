"""What an engine is, and what engines share: checks of devices, settings of workers, handlers of signals."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from memgrad.experiments.training.events import Event
from memgrad.experiments.training.train import Assignment

Handler = Callable[[int, Any], None] | signal.Handlers

_KEPT_MEMORY = ((-3, 32 << 20), (-1, 1 << 30))
"""Parameters of glibc's `mallopt`, in bytes: up to which size a tensor comes from the heap (M_MMAP_THRESHOLD; some
versions refuse more), and how much free memory the heap keeps (M_TRIM_THRESHOLD)."""


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


def prepare_worker() -> None:
    """Make this process train on one thread and keep the memory that it frees."""
    torch.set_num_threads(1)
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Make this process keep the memory that it frees.

    By default glibc returns large tensors to the system when they are freed, and the next step waits until it gets
    the same pages back, filled with zeros: on the autoencoder, with minibatches of 16, a quarter of the time. Where
    the C library has no `mallopt`, or the user has set glibc's variables, memory is left as it is.
    """
    if any(name in os.environ for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for parameter, limit in _KEPT_MEMORY:
        mallopt(parameter, limit)


class Throttled:
    """A request to stop, checked by calling `asked` at most once every `seconds`; in between, the answer is False."""

    def __init__(self, asked: Callable[[], bool], seconds: float) -> None:
        self._asked, self._seconds, self._looked = asked, seconds, -math.inf

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._looked < self._seconds:
            return False
        self._looked = now
        return self._asked()


@contextmanager
def handler_kept(number: signal.Signals, meanwhile: Handler | None = None) -> Iterator[None]:
    """Restore the handler of a signal after the block, in which another may be used; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(number)
    if meanwhile is not None:
        signal.signal(number, meanwhile)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the duration of the block, in which processes are started."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)
