"""A Ray cluster: one task of one thread per core, whose events stream back to whoever started them."""

from __future__ import annotations

import logging
import math
import os
import platform
import secrets
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, final

from memgrad.experiments.choice import ProblemChoice
from memgrad.experiments.engines.engine import Task, train
from memgrad.experiments.engines.local import ENDS, usable_cores
from memgrad.experiments.engines.parcel import Bytes, Parcel, pack, pack_optimizers, unpack, unpack_optimizers
from memgrad.experiments.events import Event, Failed, Lost
from memgrad.extras import require

REACH = 10.0
"""Seconds within which a cluster has to answer."""

ASK = 1.0
"""At most so often, in seconds, a task asks whether it is to stop."""

COUNT = 2.0
"""At most so often, in seconds, the cores of a cluster are counted."""

_NAMESPACE = "memgrad"

_QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": ".*"}
"""Ray prints deaths of workers where our results go; `Lost` tells of them."""

_PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",  # tell nobody
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # this binds to loopback, on Linux too; `_node_ip_address` alone does not
}
"""How a cluster of our own is started."""

_IMPATIENT = {"RAY_gcs_server_port_wait_time_s": "1"}
"""How often, in spite of its name, a head is asked that does not answer: once, which takes 40 seconds, not 20 times."""


@final
class RayEngine:
    """Tasks on a Ray cluster. It retries nothing by itself: a task whose worker or machine is gone is `Lost`.

    Every machine of the cluster has memgrad installed, in the same version, and nothing else: problems and optimizers
    of the user's own travel there, and data sets are put into each machine's shared memory once. Rows and checkpoints
    come back as events; no file system is shared.

    Args:
        address: Of a cluster: `auto` for the one that this machine is part of, or host:port of its head. By default
            one is started on this machine, reachable from nowhere else, and stopped by `close`.
        workers: At most so many tasks at once; by default as many as the cluster has cores, also while machines come
            and go.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        require("--engine ray", extra="ray", modules=("ray",))
        if workers is not None and workers < 1:
            raise ValueError(f"the number of workers is at least 1, got {workers}.")
        self._ours = _connect(address, workers)
        self._workers = workers
        self._counted: tuple[float, int] = (-math.inf, 1)
        self._bell = uuid.uuid4().hex
        self._sent: tuple[ProblemChoice, Any, list[Any]] | None = None
        self._tasks: dict[str, Any] = {}

    @property
    def slots(self) -> int:
        """How many batches are trained at once."""
        import ray

        now = time.monotonic()
        if now - self._counted[0] > COUNT:
            resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray's
            cores = int(resources.get("CPU", 0))
            self._counted = now, max(1, min(cores, self._workers or cores))
        return self._counted[1]

    def start(self, task: Task) -> None:
        """Hand a batch to the cluster. The first of a problem loads it here and sends it on its way."""
        import ray

        parcel, arrays = self._send(task.choice)
        optimizers = pack_optimizers([run.recipe.optimizer for run in task.batch.runs])
        # Lost tasks go on from a checkpoint, which only whoever started them has: Ray must not start them again.
        on_ray: Any = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_work)
        on_gpu = (task.device or "cpu").startswith("cuda")
        self._tasks[task.batch.key] = on_ray.options(num_gpus=1 if on_gpu else 0).remote(
            task, parcel, optimizers, self._bell, *arrays
        )

    def wait(self, seconds: float) -> Sequence[tuple[str, Event]]:
        """At most one event of each task; the last of one whose worker or machine is gone is `Lost`."""
        import ray

        if not self._tasks:
            time.sleep(seconds)
            return []
        keys = {id(events): key for key, events in self._tasks.items()}
        under_way = list(self._tasks.values())
        ready = ray.wait(under_way, num_returns=len(under_way), timeout=0)[0] or ray.wait(under_way, timeout=seconds)[0]
        found = [(keys[id(events)], _next(events)) for events in ready]
        for key, event in found:
            if isinstance(event, ENDS):
                del self._tasks[key]
        return found

    def stop(self) -> None:
        """Ask all tasks to stop with a checkpoint; they hear it within a second or the step they are at."""
        from ray.experimental import internal_kv

        internal_kv._internal_kv_put(self._bell, b"stop", namespace=_NAMESPACE)

    def close(self) -> None:
        """Kill all tasks, and leave the cluster; one that was started here ends."""
        import ray
        from ray.experimental import internal_kv

        if not ray.is_initialized():
            return
        for events in self._tasks.values():
            with suppress(Exception):  # it may have ended, or the cluster be gone
                ray.cancel(events, force=True)
        self._tasks.clear()
        self._sent = None
        with suppress(Exception):
            internal_kv._internal_kv_del(self._bell, namespace=_NAMESPACE)
        if self._ours:
            ray.shutdown()

    def _send(self, choice: ProblemChoice) -> tuple[Any, list[Any]]:
        import ray

        if self._sent is None or self._sent[0] != choice:
            self._sent = None  # before the next: two data sets may not fit
            parcel, arrays = pack(choice)
            self._sent = choice, ray.put(parcel), [ray.put(array) for array in arrays]
        return self._sent[1:]


def _work(task: Task, parcel: Parcel, optimizers: bytes | None, bell: str, *arrays: Bytes) -> Iterator[Event]:
    """What a worker does."""
    import torch

    torch.set_num_threads(1)
    try:
        unpack_optimizers(optimizers)
        problem = unpack(parcel, arrays, task.device)
    except Exception as error:
        yield Failed(f"on {platform.node()}: {error}")
        return
    yield from train(task, problem, _Asked(bell))


class _Asked:
    """Whether whoever started the tasks has asked them to stop; looks at most once a second."""

    def __init__(self, bell: str) -> None:
        self._bell, self._looked = bell, -math.inf

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._looked < ASK:
            return False
        from ray.experimental import internal_kv

        self._looked = now
        try:
            return bool(internal_kv._internal_kv_exists(self._bell, namespace=_NAMESPACE))
        except Exception:  # the head does not answer now; it may later
            return False


def _next(events: Any) -> Event:
    """The next event of a task that has one."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        event: Event = ray.get(next(events))
    except StopIteration:
        return Lost("its task ended without a result")
    except RayTaskError as error:  # outside of what `train` answers: arguments that cannot be unpickled, and the like
        return Failed(f"on the cluster: {error.cause or error}".strip())
    except RayError as error:
        return Lost(_cause(error))
    return event


def _cause(error: Exception) -> str:
    from ray import exceptions

    if isinstance(error, exceptions.OutOfMemoryError):
        return "its machine ran out of memory, and Ray killed it"
    if isinstance(error, exceptions.WorkerCrashedError):
        return "its process was killed (out of memory?) or its machine is down"
    if isinstance(error, exceptions.NodeDiedError | exceptions.ObjectLostError | exceptions.LocalRayletDiedError):
        return "its machine is down"
    return f"Ray lost it: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


# --- clusters --------------------------------------------------------------------------------------------------------


def _connect(address: str | None, workers: int | None) -> bool:
    """Join a cluster, or start one. Whether that was needed: not where this process has joined one already."""
    if address is not None:
        _check(address)
    # Ray reads some of these when it is imported, the others when it starts processes.
    with _environment(_QUIET | (_PRIVATE if address is None else _IMPATIENT)), _handlers_kept():
        if address is None and "ray" not in sys.modules:
            _make_secret()
        import ray
        from ray.exceptions import RayError

        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if ray.is_initialized():
            joined = ray.get_runtime_context().gcs_address
            if address not in (None, "auto", joined):
                raise ValueError(
                    f"this process has joined the Ray cluster {joined!r} already, got the address {address!r}; call "
                    f"ray.shutdown() first, or give no address."
                )
            return False
        if address is not None:
            _reach(address)
        try:
            if address is None:
                ray.init("local", num_cpus=workers or usable_cores(), include_dashboard=False, **quiet)
            else:
                ray.init(address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, AssertionError, RayError) as error:
            raise ConnectionError(_refusal(address, error)) from error
    return True


def _refusal(address: str | None, error: Exception) -> str:
    why = " ".join(str(error).partition("Last connection error")[0].split()).rstrip(".") + "."
    if address is None:
        return f"Ray cannot be started on this machine: {why} --engine local needs no Ray."
    return (
        f"the Ray cluster {address!r} cannot be joined: {why} Start memgrad on a machine of the cluster, one where "
        f"`ray start` was called; without --address it starts a cluster on this machine."
    )


def _check(address: str) -> None:
    if address.startswith("ray://"):
        raise ValueError(
            f"--engine ray streams results, which Ray's client cannot, got the address {address!r}; start memgrad on a "
            f"machine of the cluster, there with --address auto, or by `ray job submit`."
        )
    host, _, port = address.rpartition(":")
    if address != "auto" and not (host and port.isdecimal()):
        raise ValueError(f"a Ray cluster has the address 'auto' or host:port, as in 10.0.0.1:6379, got {address!r}.")


def _reach(address: str) -> None:
    """Refuse an address where nobody answers, for which Ray would wait for minutes and then end the process."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH).close()
    except OSError as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address} ({error}); `ray start --head` on its first machine says where it is."
        ) from error


def _make_secret() -> None:
    """A token for the cluster of this process alone; Ray would leave one in the home folder, for all others too."""
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set what is not set, for a while."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray answers SIGTERM by ending the process; whoever drives an experiment answers it by checkpoints."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
