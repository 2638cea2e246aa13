"""A Ray cluster: one single-threaded Ray task per core, whose events are streamed back."""

from __future__ import annotations

import logging
import math
import os
import platform
import secrets
import signal
import socket
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, final

from memgrad.experiments.planning.problem_choice import OtherProblemError, refuse_other
from memgrad.experiments.training.engines.engine import Throttled, environment, handler_kept, prepare_worker
from memgrad.experiments.training.engines.local import ENDS, usable_cores
from memgrad.experiments.training.engines.parcel import Bytes, Parcel, pack, pack_code, unpack, unpack_code
from memgrad.experiments.training.events import Event, Failed, Lost, Refused
from memgrad.experiments.training.train import Assignment, train
from memgrad.extras import require

REACH = 10.0
"""Seconds within which a cluster must answer."""

ASK = 1.0
"""The shortest time, in seconds, after which a task asks again whether to stop."""

COUNT = 2.0
"""The shortest time, in seconds, after which the cores of a cluster are counted again."""

_NAMESPACE = "memgrad"

_QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": ".*"}
"""Ray prints the deaths of workers between our results; `Lost` reports them already."""

_PRIVATE = {
    "RAY_USAGE_STATS_ENABLED": "0",  # send no statistics
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # this binds to loopback, on Linux too; `_node_ip_address` alone does not
}
"""How a cluster of our own is started."""

_IMPATIENT = {"RAY_gcs_server_port_wait_time_s": "1"}
"""Despite its name, how often a head that does not answer is asked: once, which takes 40 seconds, not 20 times."""


@final
class RayEngine:
    """Trains on a Ray cluster. It retries nothing by itself: a run group whose worker or machine died is `Lost`.

    Every machine of the cluster needs the same version of memgrad and nothing else: the user's own problems and
    optimizers are sent there, and data sets are put into each machine's shared memory once. Rows and checkpoints
    return as events; no shared file system is needed.

    Args:
        address: The address of a cluster: `auto` for the one this machine is part of, or host:port of its head. By
            default a cluster is started on this machine, reachable from nowhere else, and stopped by `close`.
        workers: The maximum number of run groups trained at once; by default the number of cores of the cluster, also
            while machines come and go.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        require("--engine ray", extra="ray", modules=("ray",))
        if workers is not None and workers < 1:
            raise ValueError(f"the number of workers must be at least 1, got {workers}.")
        self._ours = _connect(address, workers)
        self._workers = workers
        self._counted: tuple[float, int] = (-math.inf, 1)
        self._bell = uuid.uuid4().hex
        self._sent: tuple[tuple[Any, ...], Any, list[Any]] | None = None
        self._tasks: dict[str, Any] = {}

    @property
    def slots(self) -> int:
        """How many run groups are trained at once."""
        import ray

        now = time.monotonic()
        if now - self._counted[0] > COUNT:
            resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray's
            cores = int(resources.get("CPU", 0))
            self._counted = now, max(1, min(cores, self._workers or cores))
        return self._counted[1]

    def start(self, assignment: Assignment) -> None:
        """Give a run group to the cluster. The first one of a problem loads the problem here and sends it."""
        import ray

        parcel, arrays = self._send(assignment)
        code = pack_code(run.recipe for run in assignment.group.runs)
        # Lost run groups resume from a checkpoint, which only the driver has: Ray must not retry them by itself.
        on_ray: Any = ray.remote(num_cpus=1, max_retries=0, num_returns="streaming")(_work)
        on_gpu = (assignment.device or "cpu").startswith("cuda")
        self._tasks[assignment.group.key] = on_ray.options(num_gpus=1 if on_gpu else 0).remote(
            assignment, parcel, code, self._bell, *arrays
        )

    def wait(self, seconds: float) -> Sequence[tuple[str, Event]]:
        """At most one event per run group; if its worker or machine died, the last one is `Lost`."""
        import ray

        if not self._tasks:
            time.sleep(seconds)
            return []
        keys = {id(events): key for key, events in self._tasks.items()}
        under_way = list(self._tasks.values())
        ready = ray.wait(under_way, num_returns=len(under_way), timeout=0)[0] or ray.wait(under_way, timeout=seconds)[0]
        received = [(keys[id(events)], _next(events)) for events in ready]
        for key, event in received:
            if isinstance(event, ENDS):
                del self._tasks[key]
        return received

    def stop(self) -> None:
        """Ask all tasks to stop with a checkpoint; they notice within a second or at the end of their current step."""
        from ray.experimental import internal_kv

        internal_kv._internal_kv_put(self._bell, b"stop", namespace=_NAMESPACE)

    def close(self) -> None:
        """Kill all tasks and leave the cluster; a cluster started here is shut down."""
        import ray
        from ray.experimental import internal_kv

        if not ray.is_initialized():
            return
        for events in self._tasks.values():
            with suppress(Exception):  # it may have ended, or the cluster may be gone
                ray.cancel(events, force=True)
        self._tasks.clear()
        self._sent = None
        with suppress(Exception):
            internal_kv._internal_kv_del(self._bell, namespace=_NAMESPACE)
        if self._ours:
            ray.shutdown()

    def _send(self, assignment: Assignment) -> tuple[Any, list[Any]]:
        import ray

        wanted = (assignment.problem_choice, assignment.parts)  # what a user's file reads may have changed
        if self._sent is None or self._sent[0] != wanted:
            self._sent = None  # free it first: two data sets may not fit into memory
            parcel, arrays = pack(assignment.problem_choice, assignment.parts)
            self._sent = wanted, ray.put(parcel), [ray.put(array) for array in arrays]
        return self._sent[1:]


def _work(assignment: Assignment, parcel: Parcel, code: bytes | None, bell: str, *arrays: Bytes) -> Iterator[Event]:
    """What a Ray task does."""
    prepare_worker()
    try:
        unpack_code(code)
        problem = unpack(parcel, arrays, assignment.device)
        if parcel.code is None:  # it was built here, not where the experiment was planned
            refuse_other(problem, assignment.parts)
    except OtherProblemError as error:
        yield Refused(f"on {platform.node()}: {error}")
        return
    except Exception as error:
        yield Failed(f"on {platform.node()}: {error}")
        return
    yield from train(assignment, problem, Throttled(lambda: _has_rung(bell), ASK))


def _has_rung(bell: str) -> bool:
    """Whether the driver has asked to stop."""
    from ray.experimental import internal_kv

    try:
        return bool(internal_kv._internal_kv_exists(bell, namespace=_NAMESPACE))
    except Exception:  # the head does not answer now, but it may later
        return False


def _next(events: Any) -> Event:
    """The next event of a task that has one."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    try:
        event: Event = ray.get(next(events))
    except StopIteration:
        return Lost("its task ended without a result")
    except RayTaskError as error:  # raised outside `train`: arguments that cannot be unpickled, and the like
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
    """Join a cluster, or start one. Returns whether that was necessary: false if this process has joined one before."""
    if address is not None:
        _check(address)
    # Ray reads some of these when it is imported, the others when it starts processes.
    variables = _QUIET | (_PRIVATE if address is None else _IMPATIENT)
    unset = {name: value for name, value in variables.items() if name not in os.environ}
    # With its own handler of SIGTERM, Ray would end the process, where the driver saves checkpoints.
    with environment(unset), handler_kept(signal.SIGTERM):
        if address is None and "ray" not in sys.modules:
            _make_secret()
        import ray
        from ray.exceptions import RayError

        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if ray.is_initialized():
            joined = ray.get_runtime_context().gcs_address
            if address not in (None, "auto", joined):
                raise ValueError(
                    f"this process has already joined the Ray cluster {joined!r}, got the address {address!r}; call "
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
    """Refuse an address where nothing answers: Ray would wait for minutes and then end the process."""
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
    """Make a token for this process's cluster alone; Ray would store one in the home folder, shared by all others."""
    if "RAY_AUTH_MODE" not in os.environ:
        os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})
